"""What AWS's own service models say about a value: enumerations, lengths, ranges and patterns, found by name.

A resource's inputs are laid over the request of the AWS operation that creates it (`cidrBlock` finds `CidrBlock`, `subnetIds` finds
`SubnetIds`, an object finds the only element of a list). Where the provider's names differ from the API's, the kind's `api` table says
where to look. Trap: a pattern that Python cannot compile is no check; `Limits.unchecked` lists those and the inputs without counterpart.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any

from pulumi_embedded.engine.provider import UNKNOWN, CheckFailure
from pulumi_embedded.providers.conform import closest, describe, join
from pulumi_embedded.providers.derived import derived
from pulumi_embedded.providers.schema import Fields, Shape


@dataclass(frozen=True)
class Limit:
    """The bounds of one value. Lengths count characters or elements, `smallest` and `largest` bound numbers."""

    source: str
    enum: tuple[str, ...] = ()
    pattern: str = ""
    shortest: int | None = None
    longest: int | None = None
    smallest: float | None = None
    largest: float | None = None
    wire: str = ""
    """`boolean` or `integer` where the provider takes a string for what the API types so."""


@dataclass(frozen=True)
class ShapeLimits:
    """A tree over the inputs of one type."""

    limit: Limit | None = None
    members: Mapping[str, "ShapeLimits"] = field(default_factory=dict)
    element: "ShapeLimits | None" = None
    keys: Limit | None = None
    """Of a map's keys."""
    unchecked: tuple[str, ...] = ()
    """Leaf inputs below this one that no service model bounds, by path."""


NOTHING = ShapeLimits()


def is_a(shape: Any, *forms: str) -> bool:
    """Whether a botocore shape (they are untyped; None stands for none) is a `structure`, `list`, `map`, ..."""
    return shape is not None and shape.type_name in forms


@cache
def service(name: str) -> Any:
    """botocore's ServiceModel of one service; untyped, because its properties are."""
    from botocore.loaders import Loader
    from botocore.model import ServiceModel

    return ServiceModel(Loader().load_service_model(name, "service-2"), name)


def limits_of(inputs: Fields, operation: str, api: Mapping[str, str]) -> ShapeLimits:
    """Lay `inputs` over `operation` (`service.Operation` and optionally `.Member...`).

    `api` maps an input's path (without indices) to where its API twin is: a path below the operation's request, or
    `service.Operation:path` elsewhere; the empty string says that there is none.
    """
    name = f"limits {inputs.cls} {operation} {json.dumps(dict(api), sort_keys=True)}"
    return derived(name, lambda: asdict(_object(inputs, _find(operation), "", operation, api)), _read)


def _read(document: Any) -> ShapeLimits:
    element = document["element"]
    return ShapeLimits(
        _read_limit(document["limit"]),
        {key: _read(below) for key, below in document["members"].items()},
        _read(element) if element else None,
        _read_limit(document["keys"]),
        tuple(document["unchecked"]),
    )


def _read_limit(document: Any) -> Limit | None:
    given: Mapping[str, Any] | None = document and {**document, "enum": tuple(document["enum"])}
    return Limit(**given) if given else None


def violations(value: Mapping[str, Any], limits: ShapeLimits) -> list[CheckFailure]:
    """Every value outside its bounds, with its path and what is legal."""
    return list(_violations(value, limits, ""))


def _find(operation: str, below: str = "") -> Any:
    name, verb, *members = operation.split(".")
    shape: Any = service(name).operation_model(verb).input_shape
    for member in [*members, *(below.split(".") if below else ())]:
        shape = _member(shape, member)
    return shape


def _member(shape: Any, name: str) -> Any:
    while is_a(shape, "list"):
        shape = shape.member
    if not is_a(shape, "structure"):
        return None
    found = member_name(shape, name)
    return shape.members[found] if found else None


def member_name(shape: Any, name: str) -> str:
    """The member of an API structure that an input of this name means, whatever their spelling; empty if there is none."""
    by_name = {_plain(key): key for key in shape.members}
    word = _plain(name)
    for candidate in (word, word.removesuffix("s"), f"{word}s", word.removesuffix("ies") + "y", word.removesuffix("es")):
        if candidate in by_name:
            return by_name[candidate]
    return ""


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")


def _object(fields: Fields, api_shape: Any, path: str, operation: str, api: Mapping[str, str]) -> ShapeLimits:
    members: dict[str, ShapeLimits] = {}
    unchecked: list[str] = []
    for key, shape in fields.members.items():
        here = f"{path}.{key}" if path else key
        if here in api:
            target = api[here]
            elsewhere, _, below = target.rpartition(":")
            twin = None if not target else _find(elsewhere or operation, below)
        else:
            twin = _member(api_shape, key)
        members[key] = _value(shape, twin, here, operation, api)
        unchecked += members[key].unchecked
    return ShapeLimits(members=members, unchecked=tuple(unchecked))


def _value(shape: Shape, api_shape: Any, path: str, operation: str, api: Mapping[str, str]) -> ShapeLimits:
    if shape.form == "object" and not shape.choices and shape.fields is not None:
        if _is_deep(path):
            return NOTHING
        return _object(shape.fields, api_shape, path, operation, api)
    if shape.form == "list" and shape.element is not None:
        inner = api_shape.member if is_a(api_shape, "list") else api_shape
        element = _value(shape.element, inner, path, operation, api)
        return ShapeLimits(_limit(api_shape, shape) if is_a(api_shape, "list") else None, element=element, unchecked=element.unchecked)
    if shape.form == "map" and shape.element is not None:
        inner, keys = (api_shape.value, _limit(api_shape.key, shape.element)) if is_a(api_shape, "map") else (None, None)
        return ShapeLimits(element=_value(shape.element, inner, path, operation, api), keys=keys)
    while is_a(api_shape, "list"):
        api_shape = api_shape.member
    limit = _limit(api_shape, shape)
    return ShapeLimits(limit, unchecked=(path,) if limit is None and shape.form != "boolean" else ())


def _is_deep(path: str) -> bool:
    """Budget filters nest into themselves by hand-unrolled classes; nobody writes that deep."""
    return path.count(".") >= 6


def _limit(api_shape: Any, shape: Shape) -> Limit | None:
    if api_shape is None or is_a(api_shape, "structure", "map"):
        return None
    known: Mapping[str, Any] = api_shape.metadata
    low, high = _number(known.get("min")), _number(known.get("max"))
    name = api_shape.type_name
    source = api_shape.name
    if name == "string":
        pattern = _compiles(str(known.get("pattern", "")))
        enum = tuple(known.get("enum", ()))
        if not (enum or pattern or low or high):
            return None
        return Limit(source, enum, pattern, None if enum else _whole(low), None if enum else _whole(high))
    if name == "list":
        return Limit(source, shortest=_whole(low), longest=_whole(high)) if low or high else None
    if name in ("integer", "long", "double", "float"):
        wire = "integer" if shape.form == "string" else ""
        return Limit(source, smallest=low, largest=high, wire=wire) if wire or low is not None or high is not None else None
    return Limit(source, wire="boolean") if name == "boolean" and shape.form == "string" else None


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


def _compiles(pattern: str) -> str:
    try:
        re.compile(pattern)
    except re.error:
        return ""
    return pattern


def _violations(value: Any, limits: ShapeLimits, path: str) -> Iterator[CheckFailure]:
    if value is None or value == UNKNOWN:
        return
    if limits.limit is not None and (reason := _reason(value, limits.limit)):
        yield CheckFailure(path, reason)
    if isinstance(value, dict):
        for key, item in value.items():
            if limits.keys is not None and (reason := _text_reason(key, limits.keys, f"AWS's service model ({limits.keys.source})")):
                yield CheckFailure(join(path, key), f"its key {reason}")
            below = limits.members.get(key, limits.element if not limits.members else None)
            if below is not None:
                yield from _violations(item, below, join(path, key))
    elif isinstance(value, list) and limits.element is not None:
        for index, item in enumerate(value):
            yield from _violations(item, limits.element, f"{path}[{index}]")


def _reason(value: Any, limit: Limit) -> str:
    by = f"AWS's service model ({limit.source})"
    if isinstance(value, str):
        return _text_reason(value, limit, by)
    if isinstance(value, list):
        return _length_reason(len(value), "elements", limit, by)
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return _range_reason(value, limit, by)
    return ""


def _text_reason(value: str, limit: Limit, by: str) -> str:
    if limit.wire == "boolean":
        return "" if value in ("", "true", "false") else f'must be the string "true" or "false", not {describe(value)}'
    if limit.wire == "integer":
        return _range_reason(int(value), limit, by) if re.fullmatch(r"-?\d+", value) else f"must be a whole number, not {describe(value)}"
    if limit.enum and value not in limit.enum:
        legal = ", ".join(limit.enum) if len(limit.enum) <= 40 else f"one of {len(limit.enum)} values{closest(value, limit.enum)}"
        return f"{describe(value)} is not legal; {by} allows {legal}"
    if reason := _length_reason(len(value), "characters", limit, by):
        return reason
    if limit.pattern and not re.fullmatch(limit.pattern, value):
        return f"{describe(value)} does not match {limit.pattern}, which {by} asks for"
    return ""


def _length_reason(length: int, unit: str, limit: Limit, by: str) -> str:
    if limit.shortest is not None and length < limit.shortest:
        return f"has {length} {unit}; {by} asks for at least {limit.shortest}"
    if limit.longest is not None and length > limit.longest:
        return f"has {length} {unit}; {by} allows at most {limit.longest}"
    return ""


def _range_reason(value: float, limit: Limit, by: str) -> str:
    if limit.smallest is not None and value < limit.smallest:
        return f"{value} is too small; {by} asks for at least {limit.smallest:g}"
    if limit.largest is not None and value > limit.largest:
        return f"{value} is too large; {by} allows at most {limit.largest:g}"
    return ""
