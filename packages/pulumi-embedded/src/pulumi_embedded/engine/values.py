"""Property values: between the wire (google.protobuf.Struct) and plain JSON in which secrets keep the SDK's signature dictionaries.

Owns the signatures, the conversions and what can be asked of a value. Nothing here changes a value in place, and a function that
finds nothing to do answers the value it was given: copies of property maps are most of an engine's memory.

The trap: numbers on the wire are doubles. Integral ones come back as `int`, or state and diffs would fill with `3.0`.
"""

import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeGuard

from google.protobuf import struct_pb2

from pulumi_embedded.engine.provider import UNKNOWN, Properties

__all__ = [
    "ARCHIVE",
    "ASSET",
    "OUTPUT",
    "REFERENCE",
    "SECRET",
    "SIGNATURE",
    "UNKNOWN",
    "Properties",
    "contains",
    "copied",
    "from_struct",
    "from_value",
    "has_secret",
    "has_unknown",
    "is_secret",
    "map_secrets",
    "marked_like",
    "masked",
    "plain",
    "reference",
    "secret",
    "signature_of",
    "to_struct",
    "to_value",
    "with_secret_keys",
]

# Public constants of Pulumi's protocol: sdk/go/common/resource/sig/sig.go
SIGNATURE: Final = "4dabf18193072939515e22adb298388d"
SECRET: Final = "1b47061264138c4ac30d75fd1eb44270"  # noqa: S105 a type tag, not a password
ASSET: Final = "c44067f5952c0a294b673a41bacd8c17"
ARCHIVE: Final = "0def7320c3a5731c473e5ecbe6d01bc7"
REFERENCE: Final = "5cf8f73096256a8f31e491e813e4eb8e"
OUTPUT: Final = "d0e6a833031e9bbcd3f4e8bde6ca49a4"

MASK: Final = "[secret]"


def signature_of(value: Any) -> str | None:
    """What a signature dictionary stands for; None for every other value."""
    return value.get(SIGNATURE) if isinstance(value, dict) else None


def secret(value: Any) -> Properties:
    """`value` as a secret; a secret stays what it is."""
    return value if is_secret(value) else {SIGNATURE: SECRET, "value": value}


def is_secret(value: Any) -> TypeGuard[Properties]:
    return isinstance(value, dict) and value.get(SIGNATURE) == SECRET


def reference(urn: str, id: str, version: str = "") -> Properties:
    """A resource reference; an empty id is an unknown one."""
    return {SIGNATURE: REFERENCE, "urn": urn, "id": id or UNKNOWN, "packageVersion": version}


def map_secrets(value: Any, transform: Callable[[Properties], Any]) -> Any:
    """Replace every outermost secret dictionary (whatever it holds: `value`, `ciphertext` or `plaintext`) by what `transform` answers."""
    if not has_secret(value):
        return value
    if isinstance(value, dict):
        if value.get(SIGNATURE) == SECRET:
            return transform(value)
        return {key: map_secrets(inner, transform) for key, inner in value.items()}
    return [map_secrets(inner, transform) for inner in value]


def plain(value: Any) -> Any:
    """`value` without secret wrappers, deeply: what a provider or a policy is given. Never show or store the result."""
    return map_secrets(value, lambda found: plain(found["value"]))


def masked(value: Any) -> Any:
    """`value` with every secret as `[secret]`: what people, logs and events may see."""
    return map_secrets(value, lambda _: MASK)


def copied(value: Any) -> Any:
    """A deep copy, for those who complete a map in place."""
    if isinstance(value, dict):
        return {key: copied(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [copied(inner) for inner in value]
    return value


def has_secret(value: Any) -> bool:
    return contains(value, (SECRET,))


def contains(value: Any, signatures: tuple[str, ...]) -> bool:
    """Whether there is a dictionary with one of the signatures anywhere in it. Asked many times of everything: kept fast."""
    kind = type(value)
    if kind is dict:
        if SIGNATURE in value and value[SIGNATURE] in signatures:
            return True
        value = value.values()
    elif kind is not list:
        return False
    for inner in value:
        kind = type(inner)
        if (kind is dict or kind is list) and contains(inner, signatures):
            return True
    return False


def has_unknown(value: Any) -> bool:
    kind = type(value)
    if kind is dict:
        value = value.values()
    elif kind is not list:
        return value == UNKNOWN
    for inner in value:
        kind = type(inner)
        if kind is dict or kind is list:
            if has_unknown(inner):
                return True
        elif inner == UNKNOWN:
            return True
    return False


def marked_like(value: Any, source: Any) -> Any:
    """`value` with the secretness of `source`, field by field: what a provider answers repeats what it was given.

    Where the shapes differ so that fields cannot be told apart, everything there becomes secret.
    """
    if not has_secret(source):
        return value
    if is_secret(source):
        return secret(value)
    if isinstance(value, dict) and isinstance(source, dict) and SIGNATURE not in source:
        return {key: marked_like(inner, source[key]) if key in source else inner for key, inner in value.items()}
    if isinstance(value, list) and isinstance(source, list) and len(value) == len(source):
        return [marked_like(inner, other) for inner, other in zip(value, source, strict=True)]
    return secret(value)


def with_secret_keys(value: Properties, keys: Iterable[str]) -> Properties:
    """`value` with its top-level `keys` secret: additionalSecretOutputs."""
    present = [key for key in keys if key in value]
    return {**value, **{key: secret(value[key]) for key in present}} if present else value


def from_struct(struct: struct_pb2.Struct) -> Properties:
    """A property map from the wire. Output values are reduced to what they hold: a secret, an unknown or the value itself."""
    intern = sys.intern
    return {intern(key): from_value(inner) for key, inner in struct.fields.items()}


def from_value(value: struct_pb2.Value) -> Any:
    kind = value.WhichOneof("kind")
    if kind == "string_value":
        return value.string_value
    if kind == "struct_value":
        result = from_struct(value.struct_value)
        return _reduced(result) if result.get(SIGNATURE) == OUTPUT else result
    if kind == "number_value":
        number = value.number_value
        return int(number) if number.is_integer() else number
    if kind == "bool_value":
        return value.bool_value
    if kind == "list_value":
        return [from_value(inner) for inner in value.list_value.values]
    return None


def to_struct(properties: Mapping[str, Any]) -> struct_pb2.Struct:
    struct = struct_pb2.Struct()
    fields = struct.fields
    for key, value in properties.items():
        _write(fields[key], value)
    return struct


def to_value(value: Any) -> struct_pb2.Value:
    result = struct_pb2.Value()
    _write(result, value)
    return result


def _write(target: struct_pb2.Value, value: Any) -> None:
    if isinstance(value, str):
        target.string_value = value
    elif value is None:
        target.null_value = struct_pb2.NULL_VALUE
    elif isinstance(value, bool):
        target.bool_value = value
    elif isinstance(value, int | float):
        target.number_value = value
    elif isinstance(value, Mapping):
        struct = target.struct_value
        struct.SetInParent()
        fields = struct.fields
        for key, inner in value.items():
            _write(fields[key], inner)
    elif isinstance(value, list | tuple):
        items = target.list_value
        items.SetInParent()
        add = items.values.add
        for inner in value:
            _write(add(), inner)
    else:
        raise TypeError(f"a property value is JSON; {type(value).__name__} is not")


def _reduced(output: Properties) -> Any:
    held = output.get("value", UNKNOWN)
    return secret(held) if output.get("secret") else held
