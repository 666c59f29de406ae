"""Contracts out of the vocabulary itself: random values for any field, by its type, and random contracts that are sound
as a whole.

A value is drawn from what a field's type, bounds and examples say, so that a new field is drawn from without anybody
thinking of it. Whole contracts are found by replacing one section of a sound one at a time and keeping what stays
sound.
"""

import copy
import random
import re
from collections.abc import Callable
from enum import Enum
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo

from headway.contract.part import Part
from headway.contract.reading.fields import alternatives, is_part
from headway.contract.units import Quantity

TEXTS = ("defects", "a", "größer", "x" * 40, "two words", "a-1", "vision")
NUMBERS = (0.0, 0.5, 1.0, 0.001, 3.0, 1e6)
SPELLINGS: dict[str, tuple[str, ...]] = {
    "Bytes": ("0B", "1Ki", "2Mi", "64Mi", "512Mi", "1Gi", "2Gi", "4Gi", "9Gi", "20Gi", "72Gi", "1Ti"),
    "Duration": ("1ms", "50ms", "250ms", "1s", "5s", "10s", "30s", "1m", "2m", "10m", "1h", "12h", "3d", "14d", "30d"),
    "Share": ("0%", "0.1%", "1%", "5%", "50%", "80%", "95%", "99%", "99.9%", "100%"),
    "Rate": ("1/s", "5/s", "100/s", "2000/s"),
    "MilliCpu": ("500m", "1", "3", "8", "12"),
    "Throughput": ("125Mi/s", "600Mi/s"),
    "Money": ("1 USD", "5000 USD"),
}


def part(kind: type[Part], chance: random.Random) -> dict[str, Any]:
    """A value for every required field of `kind`, and for some of the others."""
    return {name: field(info, chance) for name, info in kind.model_fields.items() if info.is_required() or chance.random() < 0.3}


def field(info: FieldInfo, chance: random.Random) -> Any:
    if info.examples and chance.random() < 0.8:
        return chance.choice(info.examples)
    return drawn(info.annotation, info.metadata, chance)


def drawn(annotation: Any, metadata: list[Any], chance: random.Random) -> Any:
    """A value of `annotation`, within the bounds that its metadata states where they can be read."""
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *more = get_args(annotation)
        infos = [each for each in more if isinstance(each, FieldInfo)]
        examples = [example for info in infos for example in info.examples or ()]
        if examples and chance.random() < 0.8:
            return chance.choice(examples)
        return drawn(inner, [*metadata, *more, *(each for info in infos for each in info.metadata)], chance)
    if origin is Literal:
        value = chance.choice(get_args(annotation))
        return value.value if isinstance(value, Enum) else value
    members = alternatives(annotation)
    if len(members) > 1 or NoneType in get_args(annotation):
        return None if NoneType in get_args(annotation) and chance.random() < 0.3 else drawn(chance.choice(members), metadata, chance)
    if is_part(annotation):
        return part(annotation, chance)
    if origin is tuple:
        least, most = bound(metadata, "min_length", 0), bound(metadata, "max_length", 3)
        return [drawn(get_args(annotation)[0], [], chance) for _ in range(chance.randint(least, max(least, min(most, least + 2))))]
    if origin is dict:
        key, value = get_args(annotation)
        return {str(drawn(key, [], chance)): drawn(value, [], chance) for _ in range(chance.randint(0, 2))}
    if isinstance(annotation, type):
        return scalar(annotation, metadata, chance)
    return chance.choice((1, "a", True, [1.5, 2], {"a": 1}))  # a JSON value: anything goes


def scalar(kind: type, metadata: list[Any], chance: random.Random) -> Any:
    if issubclass(kind, Enum):
        return chance.choice([each.value for each in kind])
    if issubclass(kind, Quantity):
        return chance.choice(SPELLINGS[kind.__name__])
    if kind is bool:
        return chance.random() < 0.5
    if kind is int:
        low, high = bound(metadata, "ge", 0), bound(metadata, "le", 100)
        return chance.choice((low, high, min(high, low + 1), chance.randint(low, max(low, min(high, low + 64)))))
    if kind is float:
        return chance.choice(NUMBERS)
    if kind is str:
        patterns = [re.compile(each) for each in (getattr(meta, "pattern", None) for meta in metadata) if each]
        return chance.choice([text for text in TEXTS if all(each.search(text) for each in patterns)] or TEXTS)
    return {}


def bound(metadata: list[Any], name: str, default: int) -> int:
    return next((int(value) for value in (getattr(each, name, None) for each in metadata) if value is not None), default)


def varied(
    base: dict[str, Any], kind: type[Part], chance: random.Random, sound: Callable[[dict[str, Any]], bool], tries: int
) -> dict[str, Any]:
    """A sound contract far from `base`, which is sound: one place after another is drawn anew, and kept where the
    whole stays sound.
    """
    found = copy.deepcopy(base)
    for _ in range(tries):
        candidate = copy.deepcopy(found)
        for _ in range(chance.choice((1, 1, 2, 3))):
            _redraw(candidate, kind, chance)
        if candidate != found and sound(candidate):
            found = candidate
    return found


def _redraw(data: dict[str, Any], kind: type[Part], chance: random.Random) -> None:
    """One field of `data`, or of a part within it, drawn anew or left out."""
    name = chance.choice(sorted(kind.model_fields))
    info = kind.model_fields[name]
    inside = data.get(name)
    parts: list[type[Part]] = [member for member in alternatives(info.annotation) if is_part(member)]
    if isinstance(inside, dict) and parts and chance.random() < 0.8:
        fitting = [each for each in parts if set(inside) <= set(each.model_fields)]
        if fitting:
            return _redraw(inside, fitting[0], chance)
    if name in data and not info.is_required() and chance.random() < 0.3:
        del data[name]
    elif name not in ("contract", "name"):
        data[name] = field(info, chance)
    return None
