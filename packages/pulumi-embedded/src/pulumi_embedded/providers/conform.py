"""Does a property map fit what the SDK declares? Every failure at once, each with its path and what is legal.

Trap: an unknown value fits anything, so a preview can pass what the following update refuses.
"""

import difflib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pulumi_embedded.engine.provider import UNKNOWN, CheckFailure
from pulumi_embedded.engine.values import ARCHIVE, ASSET, REFERENCE, signature_of
from pulumi_embedded.providers.schema import Fields, Shape

_WORDS = {
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "list": "a list",
    "map": "a map",
    "object": "an object",
    "asset": "an asset or archive",
    "resource": "a resource",
}


def nonconformities(value: Mapping[str, Any], fields: Fields, owner: str) -> list[CheckFailure]:
    """What in `value` the class behind `fields` does not declare, lacks or types otherwise; `owner` names it in the texts."""
    return list(_object(value, fields, "", owner))


def closest(word: str, candidates: Iterable[str]) -> str:
    """` (did you mean x?)`, or nothing where no candidate is near."""
    match = difflib.get_close_matches(word, list(candidates), n=1, cutoff=0.6)
    return f" (did you mean {match[0]}?)" if match else ""


def join(path: str, key: str) -> str:
    """`path` extended by a member, in Pulumi's property path notation."""
    if not key.replace("_", "a").isalnum():
        return f'{path}["{key}"]'
    return f"{path}.{key}" if path else key


def _object(value: Mapping[str, Any], fields: Fields, path: str, owner: str) -> Iterator[CheckFailure]:
    legal = fields.members
    for key, item in value.items():
        if key.startswith("__") or item is None:
            continue
        if key not in legal:
            reason = f"{owner} has no input of this name{closest(key, legal)}; legal are {', '.join(sorted(legal))}"
            yield CheckFailure(join(path, key), reason)
        else:
            yield from _value(item, legal[key], join(path, key), owner)
    for key in sorted(fields.required):
        if value.get(key) is None:
            yield CheckFailure(join(path, key), f"is required by {owner} and missing")


def _value(value: Any, shape: Shape, path: str, owner: str) -> Iterator[CheckFailure]:
    if value is None or value == UNKNOWN or shape.form == "any":
        return
    if shape.choices:
        answers = [list(_value(value, choice, path, owner)) for choice in shape.choices]
        if all(answers):
            # The failures of the alternative of the same form tell most: a map was meant as the object.
            yield from next((a for a, c in zip(answers, shape.choices, strict=True) if _is_form(value, c)), answers[0])
        return
    if not _is_form(value, shape):
        yield CheckFailure(path, f"must be {_WORDS[shape.form]}, not {describe(value)}")
        return
    if shape.form == "object" and shape.fields is not None:
        yield from _object(value, shape.fields, path, f"{owner} {path}")
    elif shape.form == "list" and shape.element is not None:
        for index, item in enumerate(value):
            yield from _value(item, shape.element, f"{path}[{index}]", owner)
    elif shape.form == "map" and shape.element is not None:
        for key, item in value.items():
            yield from _value(item, shape.element, join(path, key), owner)


def _is_form(value: Any, shape: Shape) -> bool:
    match shape.form:
        case "string":
            return isinstance(value, str)
        case "boolean":
            return isinstance(value, bool)
        case "integer":
            return not isinstance(value, bool) and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))
        case "number":
            return not isinstance(value, bool) and isinstance(value, (int, float))
        case "list":
            return isinstance(value, list)
        case "asset":
            return signature_of(value) in (ASSET, ARCHIVE)
        case "resource":
            return signature_of(value) == REFERENCE
        case "map" | "object":
            return isinstance(value, dict) and signature_of(value) is None
        case "any":
            return True


def describe(value: Any) -> str:
    """A value as it may be shown: its kind, and itself where it is short and scalar."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return f"the number {value}"
    if isinstance(value, str):
        return f'the string "{value}"' if len(value) <= 80 else f"a string of {len(value)} characters"
    return "a list" if isinstance(value, list) else "a map" if isinstance(value, dict) else type(value).__name__
