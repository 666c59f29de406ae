"""Configuration of one provider resource: what the real provider takes, and which of it this one honours.

The trap: the SDK sends every setting of a provider resource as a string, booleans and objects as JSON text.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from pulumi_embedded.engine.provider import UNKNOWN, CheckFailure, Properties, ProviderError

_HONOURED = frozenset(
    {"context", "deleteUnreachable", "enableConfigMapMutable", "enablePatchForce", "enableSecretMutable", "kubeconfig", "namespace"}
    | {"upsertExistingObjects"}
)
# They change nothing that exists here: no deprecation warnings, no Helm hooks, no client-side throttling, no second identity of a cluster.
_WITHOUT_EFFECT = frozenset(
    {"clusterIdentifier", "helmReleaseSettings", "kubeClientSettings", "suppressDeprecationWarnings", "suppressHelmHookWarnings", "version"}
)
_REFUSED = {
    "alwaysRender": "rendering to files is not modelled; leave it out",
    "cluster": "choose the cluster by context",
    "renderYamlToDirectory": "rendering to files is not modelled; leave it out",
    "skipUpdateUnreachable": "an update that was not made is never reported as made; leave it out",
    "strictMode": "the default provider reaches the local cluster only; leave it out",
}
_BOOLEANS = ("deleteUnreachable", "enableConfigMapMutable", "enablePatchForce", "enableSecretMutable", "upsertExistingObjects")


@dataclass(frozen=True, kw_only=True)
class ProviderSettings:
    """`kubeconfig` is parsed, and empty while the default one is not there; the booleans have the real provider's meaning."""

    kubeconfig: Mapping[str, Any]
    context: str = ""
    namespace: str = ""
    """For objects that name none: the provider's, else the context's. Empty means `default`."""
    delete_unreachable: bool = False
    patch_force: bool = False
    upsert: bool = False


def check(inputs: Properties) -> tuple[CheckFailure, ...]:
    """What in the inputs this provider cannot do, by name."""
    failures = [
        CheckFailure(key, f"is not supported by the embedded kubernetes provider, which would ignore it; {remedy}")
        for key, remedy in _REFUSED.items()
        if inputs.get(key) not in (None, "", False, "false", UNKNOWN)
    ]
    unknown = sorted({*inputs} - _HONOURED - _WITHOUT_EFFECT - {*_REFUSED, "enableServerSideApply"})
    known = ", ".join(sorted(_HONOURED))
    failures += [CheckFailure(key, f"is no setting of this provider; it has: {known}") for key in unknown if not key.startswith("__")]
    if str(inputs.get("enableServerSideApply", True)).lower() == "false":
        failures.append(CheckFailure("enableServerSideApply", "is false, but only server-side apply is modelled; leave it out"))
    for key in _BOOLEANS:
        if str(inputs.get(key, False)).lower() not in ("true", "false", UNKNOWN, "none"):
            failures.append(CheckFailure(key, f"is {inputs[key]!r}; it is true or false"))
    return tuple(sorted(failures, key=lambda failure: failure.property))


def parse(inputs: Properties, default_kubeconfig: Path) -> ProviderSettings:
    """The settings of known inputs. Raises ProviderError for a kubeconfig that cannot be read."""
    kubeconfig = _kubeconfig(inputs.get("kubeconfig"), default_kubeconfig)
    context = str(inputs.get("context") or "")
    return ProviderSettings(
        kubeconfig=kubeconfig,
        context=context,
        namespace=str(inputs.get("namespace") or "") or _context_namespace(kubeconfig, context),
        delete_unreachable=_flag(inputs, "deleteUnreachable"),
        patch_force=_flag(inputs, "enablePatchForce"),
        upsert=_flag(inputs, "upsertExistingObjects"),
    )


def active_server(inputs: Properties) -> Any:
    """The cluster that a kubeconfig given by content points to; None where that cannot be told."""
    given = inputs.get("kubeconfig")
    if given == UNKNOWN or not isinstance(given, str | dict):
        return None
    try:
        config = given if isinstance(given, dict) else yaml.load(given, yaml.CSafeLoader)
    except yaml.YAMLError:
        return None
    if not isinstance(config, dict):
        return None
    name = inputs.get("context") or config.get("current-context")
    cluster = _named(config.get("contexts"), name, "context").get("cluster")
    return _named(config.get("clusters"), cluster, "cluster") or None


def _flag(inputs: Properties, key: str) -> bool:
    return str(inputs.get(key, False)).lower() == "true"


def _kubeconfig(given: Any, default: Path) -> Mapping[str, Any]:
    if not given and not default.exists():
        return {}
    text = json.dumps(given) if isinstance(given, dict) else str(given or default)
    if "\n" not in text and not text.lstrip().startswith("{"):
        path = Path(text).expanduser()
        try:
            text = path.read_text()
        except OSError as error:
            raise ProviderError(
                f"kubeconfig: {path} cannot be read ({error.strerror}), so no cluster can be reached; "
                "start the one of this machine, or give the provider a kubeconfig"
            ) from error
    try:
        parsed = yaml.load(text, yaml.CSafeLoader)
    except yaml.YAMLError as error:
        raise ProviderError("kubeconfig: is no YAML, so no cluster can be reached; correct it (its text is not shown here)") from error
    if not isinstance(parsed, dict):
        raise ProviderError("kubeconfig: holds no clusters, users and contexts, so no cluster can be reached; give a whole kubeconfig")
    return parsed


def _context_namespace(kubeconfig: Mapping[str, Any], context: str) -> str:
    return str(_named(kubeconfig.get("contexts"), context or kubeconfig.get("current-context"), "context").get("namespace") or "")


def _named(entries: Any, name: Any, key: str) -> Mapping[str, Any]:
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get("name") == name and isinstance(entry.get(key), dict):
            return entry[key]
    return {}
