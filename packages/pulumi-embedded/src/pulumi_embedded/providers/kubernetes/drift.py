"""The live object in the shape of the recorded inputs: what `read` answers, so that only true drift shows.

Pure. The API server adds defaults, reorders nothing but rewrites some values (`cpu: 1000m` becomes `1`), and controllers inject
elements into lists. So each recorded field takes its live value, unless both mean the same; what was never recorded is left out.
"""

import base64
import binascii
from collections.abc import Mapping
from typing import Any

from pulumi_embedded.engine.paths import Path
from pulumi_embedded.engine.provider import Properties
from pulumi_embedded.providers.kubernetes import quantities

_SERVER_SET = ("creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "generation", "managedFields", "resourceVersion")
_SERVER_METADATA = frozenset({*_SERVER_SET, "selfLink", "uid"})
_EMPTY: tuple[Any, ...] = (None, "", 0, False, [], {})
# The lists that several writers share, and the keys that tell their elements apart: what others have put in is not drift.
# https://kubernetes.io/docs/reference/using-api/server-side-apply/#merge-strategy ; all other lists belong to one writer as a whole.
_SHARED_LISTS = {
    "containers": ("name",),
    "env": ("name",),
    "hostAliases": ("ip",),
    "imagePullSecrets": ("name",),
    "initContainers": ("name",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "volumeDevices": ("devicePath",),
    "volumeMounts": ("mountPath",),
    "volumes": ("name",),
}
_ABSENT = object()


def shaped(recorded: Properties, live: Properties) -> Properties:
    """`recorded` with live values. Without anything recorded (an import): the whole object but for what the API server sets."""
    if not recorded:
        return importable(live)
    if recorded.get("kind") == "Secret" and isinstance(recorded.get("stringData"), dict):
        live = {**live, "stringData": _decoded(live.get("data"))}
    return _value(recorded, live, ())


def importable(live: Properties) -> Properties:
    """The object as its owner would have written it."""
    head = {key: value for key, value in live.get("metadata", {}).items() if key not in _SERVER_METADATA}
    return {**{key: value for key, value in live.items() if key != "status"}, "metadata": head}


def _value(recorded: Any, live: Any, at: Path) -> Any:
    if isinstance(recorded, dict) and isinstance(live, dict):
        kept: Properties = {}
        for key, value in recorded.items():
            if key in live:
                kept[key] = _value(value, live[key], (*at, key))
            elif _is_empty(value):
                # The API server leaves out what is empty.
                kept[key] = value
        return kept
    if isinstance(recorded, list) and isinstance(live, list):
        return _list(recorded, live, at)
    return recorded if _means_the_same(recorded, live, at) else live


def _list(recorded: list[Any], live: list[Any], at: Path) -> list[Any]:
    keys = _SHARED_LISTS.get(str(at[-1])) if at else None
    if keys and _keyed(recorded, keys) and _keyed(live, keys):
        by_key = {_identity(item, keys): item for item in live}
        found = [(item, by_key.get(_identity(item, keys), _ABSENT)) for item in recorded]
        return [_value(item, match, (*at, index)) for index, (item, match) in enumerate(found) if match is not _ABSENT]
    shared = [_value(item, live[index], (*at, index)) for index, item in enumerate(recorded[: len(live)])]
    return shared + [item for item in live[len(recorded) :] if not _is_default_toleration(item, at)]


def _keyed(items: list[Any], keys: tuple[str, ...]) -> bool:
    """Whether every element has the key, and no two the same."""
    if not all(isinstance(item, dict) and keys[0] in item for item in items):
        return False
    return len({_identity(item, keys) for item in items}) == len(items)


def _identity(item: Mapping[str, Any], keys: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(str(item.get(key, "")) for key in keys)


def _is_default_toleration(item: Any, at: Path) -> bool:
    # The admission plugin DefaultTolerationSeconds gives every pod two of them.
    return at[-1:] == ("tolerations",) and isinstance(item, dict) and str(item.get("key")).startswith("node.kubernetes.io/")


def _means_the_same(recorded: Any, live: Any, at: Path) -> bool:
    if isinstance(recorded, bool) != isinstance(live, bool):
        return False
    if recorded == live or (_is_empty(recorded) and _is_empty(live)):
        return True
    return quantities.holds_quantity(at) and quantities.equal(recorded, live)


def _is_empty(value: Any) -> bool:
    return any(value == empty and isinstance(value, bool) == isinstance(empty, bool) for empty in _EMPTY) or (
        isinstance(value, dict) and all(_is_empty(item) for item in value.values())
    )


def _decoded(data: Any) -> Properties:
    if not isinstance(data, dict):
        return {}
    decoded: Properties = {}
    for key, value in data.items():
        try:
            decoded[key] = base64.b64decode(value).decode()
        except (binascii.Error, UnicodeDecodeError):
            decoded[key] = value
    return decoded
