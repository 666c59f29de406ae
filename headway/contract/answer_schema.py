"""The part of JSON Schema by which golden answers may be judged: what the probe script evaluates, and nothing that it would pass over.

The trap: the script runs in the serving image on the standard library, so a keyword belongs here only when the script knows it; a test
compares the two.
"""

import re
from collections.abc import Iterator
from typing import Any, cast

from headway.problem import FieldPath

TYPES = frozenset(("array", "boolean", "integer", "null", "number", "object", "string"))
ANNOTATIONS = frozenset(("$id", "$schema", "description", "title"))
_COUNTS = frozenset(("maxItems", "maxLength", "minItems", "minLength"))
_BOUNDS = frozenset(("maximum", "minimum"))
SCHEMA_KEYWORDS = (
    ANNOTATIONS
    | _COUNTS
    | _BOUNDS
    | frozenset(("additionalProperties", "const", "enum", "items", "pattern", "properties", "required", "type"))
)


def unreadable(schema: Any, path: FieldPath = ()) -> Iterator[tuple[FieldPath, str]]:
    """(path, fact) of everything in `schema` that the script could not evaluate."""
    if not isinstance(schema, dict):
        yield path, "a schema is a mapping of keywords"
        return
    for keyword, value in sorted(cast(dict[str, Any], schema).items()):
        here = (*path, keyword)
        if keyword not in SCHEMA_KEYWORDS:
            yield here, f"the probes cannot evaluate {keyword}"
        elif keyword == "properties":
            if not isinstance(value, dict):
                yield here, "properties is a mapping of names to schemas"
                continue
            for name, below in sorted(cast(dict[str, Any], value).items()):
                yield from unreadable(below, (*here, name))
        elif keyword == "items" or (keyword == "additionalProperties" and not isinstance(value, bool)):
            yield from unreadable(value, here)
        elif not _legal(keyword, value):
            yield here, f"{keyword} has not the form that JSON Schema gives it"


def _legal(keyword: str, value: Any) -> bool:
    if keyword == "type":
        kinds = cast(list[Any], value) if isinstance(value, list) else [value]
        return bool(kinds) and all(isinstance(kind, str) and kind in TYPES for kind in kinds)
    if keyword in _COUNTS:
        return isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if keyword in _BOUNDS:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if keyword == "pattern":
        return isinstance(value, str) and _compiles(value)
    if keyword == "required":
        return isinstance(value, list) and all(isinstance(name, str) for name in cast(list[Any], value))
    return keyword != "enum" or (isinstance(value, list) and bool(cast(list[Any], value)))


def _compiles(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return False
    return True
