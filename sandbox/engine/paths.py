"""Property paths as Pulumi writes them: `a.b[0].c`, `a["x.y"]`, and `*` for every key or index at that place.

Owns reading a path and following it. Values are never changed in place: `carried` answers new maps that share what did not change.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

Path = tuple[str | int, ...]

WILDCARD = "*"
_PLAIN_KEY = re.compile(r"^[^.\[\]\"]+$")
_ABSENT = object()


class PathError(ValueError):
    """A path that cannot be read."""


def parse(text: str) -> Path:
    """Raises PathError for an unclosed bracket or quote, or an empty key."""
    parts: list[str | int] = []
    at = 0
    while at < len(text):
        if text[at] == "[":
            part, at = _bracket(text, at)
            parts.append(part)
        else:
            if text[at] == ".":
                at += 1
            end = at
            while end < len(text) and text[end] not in ".[":
                end += 1
            if end == at:
                raise PathError(f"property path {text!r} has an empty key at position {at}")
            parts.append(text[at:end])
            at = end
    if not parts:
        raise PathError("a property path cannot be empty")
    return tuple(parts)


def render(path: Iterable[str | int]) -> str:
    """The path as text; keys with dots, brackets or quotes are escaped, so that `parse` reads it back."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN_KEY.match(part):
            text += f".{part}" if text else part
        else:
            text += '["' + part.replace("\\", "\\\\").replace('"', '\\"') + '"]'
    return text


def covers(pattern: Path, path: Path) -> bool:
    """Whether a change at `path` is a change of what `pattern` names: one is a prefix of the other, `*` standing for any one part."""
    return all(one in (WILDCARD, other) or other == WILDCARD for one, other in zip(pattern, path, strict=False))


def carried(new: Any, old: Any, path: Path) -> Any:
    """`new` with what `old` holds at `path`, its absence too: the meaning of ignoreChanges."""
    if not path:
        return new if old is _ABSENT else old
    part, rest = path[0], path[1:]
    if part == WILDCARD:
        for key in _keys(new, old):
            new = carried(new, old, (key, *rest))
        return new
    was = _child(old, part)
    now = _child(new, part)
    if was is _ABSENT and (not rest or now is _ABSENT):
        return _without(new, part)
    if not rest:
        return _with(new, part, was)
    if now is _ABSENT:
        return _with(new, part, carried({}, was, rest)) if isinstance(was, dict) else new
    return _with(new, part, carried(now, None if was is _ABSENT else was, rest))


def value_at(value: Any, path: Path) -> tuple[bool, Any]:
    """Whether there is something at `path` (without wildcards), and what."""
    for part in path:
        value = _child(value, part)
        if value is _ABSENT:
            return False, None
    return True, value


def _bracket(text: str, at: int) -> tuple[str | int, int]:
    if text.startswith('["', at):
        key, at = "", at + 2
        while at < len(text) and text[at] != '"':
            at += text[at] == "\\"
            key += text[at : at + 1]
            at += 1
        if not text.startswith('"]', at):
            raise PathError(f"property path {text!r} has a quoted key without its closing quote and bracket")
        return key, at + 2
    end = text.find("]", at)
    inner = text[at + 1 : end]
    if end < 0 or not (inner.isdigit() or inner == WILDCARD):
        raise PathError(f"property path {text!r} has a bracket that holds neither an index, a quoted key nor *")
    return (WILDCARD if inner == WILDCARD else int(inner)), end + 1


def _keys(*values: Any) -> Iterator[str | int]:
    seen: dict[str | int, None] = {}
    for value in values:
        if isinstance(value, dict):
            seen.update(dict.fromkeys(value))
        elif isinstance(value, list):
            seen.update(dict.fromkeys(range(len(value))))
    return iter(seen)


def _child(value: Any, part: str | int) -> Any:
    if isinstance(value, dict):
        return value.get(part, _ABSENT)
    if isinstance(value, list):
        index = int(part) if isinstance(part, int) or part.isdigit() else -1
        return value[index] if 0 <= index < len(value) else _ABSENT
    return _ABSENT


def _with(value: Any, part: str | int, inner: Any) -> Any:
    if isinstance(value, dict):
        return {**value, part: inner}
    if isinstance(value, list) and (isinstance(part, int) or part.isdigit()) and int(part) < len(value):
        return [*value[: int(part)], inner, *value[int(part) + 1 :]]
    return value


def _without(value: Any, part: str | int) -> Any:
    if isinstance(value, dict) and part in value:
        return {key: inner for key, inner in value.items() if key != part}
    return value
