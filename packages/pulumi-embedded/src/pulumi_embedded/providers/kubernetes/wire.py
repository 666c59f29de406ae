"""Between Pulumi's spelling of an object and the API server's.

Owns what is left out on the way (nulls, managed fields) and the names that the SDK cannot spell: `x_kubernetes_...` and `_ref` in a
CustomResourceDefinition's schema stand for `x-kubernetes-...` and `$ref`. The trap: a key that leaves `stringData` of a Secret would stay
in its `data` for ever under server-side apply, so it is sent as `data` from the start.
"""

import base64
from collections.abc import Callable
from typing import Any

from pulumi_embedded.engine.provider import Properties
from pulumi_embedded.providers.kubernetes.kinds import ObjectKind
from pulumi_embedded.providers.kubernetes.names import FIELD_MANAGER, INITIAL_API_VERSION

_DEFINITION = ("apiextensions.k8s.io", "CustomResourceDefinition")
_SPELLED = {"_ref": "$ref", "_schema": "$schema"}
_SPELLED_BACK = {served: spelled for spelled, served in _SPELLED.items()}


def manifest(kind: ObjectKind, inputs: Properties) -> Properties:
    """What is applied."""
    body = _without_nulls(_renamed(inputs, _served_key) if _is_definition(kind) else inputs)
    return _with_encoded_data(body) if (kind.group, kind.kind) == ("", "Secret") else body


def live(kind: ObjectKind, served: Properties) -> Properties:
    """A live object as Pulumi spells it, without the managed fields: they are half of its size, and only the API server reads them."""
    head = {key: value for key, value in served.get("metadata", {}).items() if key != "managedFields"}
    shown = {**served, "apiVersion": kind.api_version, "kind": kind.kind, "metadata": head}
    return _renamed(shown, _spelled_key) if _is_definition(kind) else shown


def outputs(kind: ObjectKind, served: Properties, manager: str) -> Properties:
    """What a resource records of its live object."""
    return {**live(kind, served), FIELD_MANAGER: manager, INITIAL_API_VERSION: kind.api_version}


def _with_encoded_data(secret: Properties) -> Properties:
    text = secret.get("stringData")
    if not isinstance(text, dict) or not all(isinstance(value, str) for value in text.values()):
        # The API server says by its path what is wrong with it.
        return secret
    encoded = {key: base64.b64encode(value.encode()).decode() for key, value in text.items()}
    return {**{key: value for key, value in secret.items() if key != "stringData"}, "data": {**secret.get("data", {}), **encoded}}


def _is_definition(kind: ObjectKind) -> bool:
    return (kind.group, kind.kind) == _DEFINITION


def _served_key(key: str) -> str:
    return key.replace("_", "-") if key.startswith("x_kubernetes_") else _SPELLED.get(key, key)


def _spelled_key(key: str) -> str:
    return key.replace("-", "_") if key.startswith("x-kubernetes-") else _SPELLED_BACK.get(key, key)


def _renamed(value: Any, rename: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        return {rename(key): _renamed(item, rename) for key, item in value.items()}
    if isinstance(value, list):
        return [_renamed(item, rename) for item in value]
    return value


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value
