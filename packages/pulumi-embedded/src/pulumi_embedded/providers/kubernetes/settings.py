"""Configuration of one provider resource: what the real provider takes, and which of it this one honours.

The trap: the SDK sends every setting of a provider resource as a string, booleans and objects as JSON text.
"""

import json
import os
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
FORCE_VARIABLE = "PULUMI_K8S_ENABLE_PATCH_FORCE"
UPSERT_VARIABLE = "PULUMI_K8S_UPSERT_EXISTING_OBJECTS"
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


def parse(inputs: Properties, default_kubeconfig: Path, environment: Mapping[str, str] = os.environ) -> ProviderSettings:
    """The settings of known inputs. Raises ProviderError for a kubeconfig that cannot be read.

    A variable counts where the program does not say (pulumi-kubernetes, provider/pkg/gen/schema.go).
    """
    kubeconfig = _logged_in(_kubeconfig(inputs.get("kubeconfig"), default_kubeconfig), default_kubeconfig)
    context = str(inputs.get("context") or "")
    return ProviderSettings(
        kubeconfig=kubeconfig,
        context=context,
        namespace=str(inputs.get("namespace") or "") or _context_namespace(kubeconfig, context),
        delete_unreachable=_flag(inputs, "deleteUnreachable"),
        patch_force=_flag({"enablePatchForce": environment.get(FORCE_VARIABLE, "false")} | inputs, "enablePatchForce"),
        upsert=_flag({"upsertExistingObjects": environment.get(UPSERT_VARIABLE, "false")} | inputs, "upsertExistingObjects"),
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


def _logged_in(given: Mapping[str, Any], default: Path) -> Mapping[str, Any]:
    """`given`, whose login by `aws eks get-token` becomes that of the default kubeconfig: this machine has no AWS to sign a token, and
    its one cluster no authenticator that would take one. Raises ProviderError for a cluster that is not the default's.
    """
    users = [entry for entry in given.get("users") or () if isinstance(entry, dict) and _asks_eks(entry.get("user"))]
    if not users:
        return given
    own = _kubeconfig(None, default)
    ours = _of_context(own)
    kept = {id(entry) for entry in users}
    reached = set[str]()
    for entry in given.get("contexts") or ():
        context = entry.get("context") or {}
        if context.get("user") not in {user["name"] for user in users}:
            continue
        reached.add(str(context.get("cluster")))
        if _authority(_named(given.get("clusters"), context.get("cluster"), "cluster")) != _authority(ours["cluster"]):
            raise ProviderError(
                f"kubeconfig: the cluster {context.get('cluster')} is not the one of this machine, and `aws eks get-token` is only stood in "
                "for there; hand over what the cluster that is deployed here says of itself"
            )
    return {
        **given,
        # Where it listens is known to this machine: its port may be another one after a start.
        "clusters": [{**entry, "cluster": ours["cluster"]} if entry.get("name") in reached else entry for entry in given["clusters"]],
        "users": [{**entry, "user": ours["user"]} if id(entry) in kept else entry for entry in given["users"]],
    }


def _asks_eks(user: Any) -> bool:
    """Whether a user logs in by `aws eks get-token --cluster-name NAME`. ProviderError for one that names no cluster."""
    login = user.get("exec") if isinstance(user, dict) else None
    if not isinstance(login, dict) or login.get("command") != "aws":
        return False
    words = [str(word) for word in login.get("args") or ()]
    if not {"eks", "get-token"} <= {*words}:
        return False
    if "--cluster-name" not in words[:-1] or not words[words.index("--cluster-name") + 1]:
        raise ProviderError("kubeconfig: aws: error: the following arguments are required: --cluster-name")
    return True


def _of_context(kubeconfig: Mapping[str, Any]) -> Mapping[str, Any]:
    chosen = _named(kubeconfig.get("contexts"), kubeconfig.get("current-context"), "context")
    return {
        "cluster": dict(_named(kubeconfig.get("clusters"), chosen.get("cluster"), "cluster")),
        "user": dict(_named(kubeconfig.get("users"), chosen.get("user"), "user")),
    }


def _authority(cluster: Mapping[str, Any]) -> Any:
    """What makes two clusters one: nobody else has a key that it signed. Without one, the server's address."""
    return cluster.get("certificate-authority-data") or cluster.get("server")


def _context_namespace(kubeconfig: Mapping[str, Any], context: str) -> str:
    return str(_named(kubeconfig.get("contexts"), context or kubeconfig.get("current-context"), "context").get("namespace") or "")


def _named(entries: Any, name: Any, key: str) -> Mapping[str, Any]:
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get("name") == name and isinstance(entry.get(key), dict):
            return entry[key]
    return {}
