"""Property paths as Pulumi writes them: `a.b[0].c`, `a["x.y"]`, and `*` for every key or index at that place.

Owns reading a path and following it. Values are never changed in place: `carried` answers new maps that share what did not change.
"""

import re
from collections.abc import Iterable
from typing import Any

from pulumi_embedded.engine.provider import UNKNOWN
from pulumi_embedded.engine.values import is_secret, secret

Path = tuple[str | int, ...]

WILDCARD = "*"
_PLAIN_KEY = re.compile(r"^[^.\[\]\"]+$")
_ABSENT = object()
_MISSING = "one of its elements is missing"


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
    """Whether `path` is what `pattern` names or lies within it; `*` stands for any one part."""
    return len(path) >= len(pattern) and all(one in (WILDCARD, other) for one, other in zip(pattern, path, strict=False))


def carried(new: Any, old: Any, path: Path) -> Any:
    """`new` with what `old` holds at `path`, its absence too: the meaning of ignoreChanges (`PropertyPath.Reset` in pulumi/pulumi,
    sdk/go/common/resource). No place is made on the way and no list grows or shrinks.

    Raises PathError where that would be needed, as the engine does: one of the two has the place and the other has not.
    """
    if is_secret(new):
        return {**new, "value": carried(new["value"], old["value"] if is_secret(old) else old, path)}
    if is_secret(old):
        return carried(new, _hidden(old["value"], path), path)
    part, rest = path[0], path[1:]
    if new == UNKNOWN:
        return new
    if part == WILDCARD:
        return _carried_each(new, old, rest)
    kind = list if isinstance(part, int) else dict
    if isinstance(new, kind) is not isinstance(old, kind) and (rest or kind is list):
        raise PathError(_MISSING)
    was = _child(old, part) if isinstance(old, kind) else _ABSENT
    now = _child(new, part) if isinstance(new, kind) else _ABSENT
    if was is _ABSENT and now is _ABSENT and (not rest or kind is dict or not isinstance(new, list)):
        return new
    if kind is list and (was is _ABSENT or now is _ABSENT):
        raise PathError(_MISSING)
    if not rest:
        return _carried_leaf(new, part, was)
    if now is _ABSENT:
        raise PathError(_MISSING)
    return _with(new, part, carried(now, None if was is _ABSENT else was, rest))


def _carried_leaf(new: Any, part: str | int, was: Any) -> Any:
    if was is _ABSENT:
        return _without(new, part)
    if not isinstance(new, (dict, list)):
        raise PathError(_MISSING)
    return _with(new, part, was)


def _carried_each(new: Any, old: Any, rest: Path) -> Any:
    """The meaning of `*`, as the last part of a path and on the way."""
    if isinstance(new, list) and isinstance(old, list):
        if len(new) != len(old):
            raise PathError("the lists that it goes through differ in length")
        return [carried(now, was, rest) if rest else was for now, was in zip(new, old, strict=True)]
    if isinstance(new, dict) and isinstance(old, dict):
        if not rest:
            return dict(old)
        if not old.keys() <= new.keys():
            raise PathError(_MISSING)
        return {key: carried(now, old[key], rest) if key in old else now for key, now in new.items()}
    if rest or not isinstance(new, (dict, list)):
        raise PathError(_MISSING)
    return new


def _hidden(value: Any, path: Path) -> Any:
    """What stood in a secret, with the leaf at `path` secret on its own: it must not come to light in a value that is none."""
    if not path:
        return value if is_secret(value) else secret(value)
    if isinstance(value, dict):
        return {key: _hidden(inner, path[1:]) if path[0] in (WILDCARD, key) else inner for key, inner in value.items()}
    if isinstance(value, list):
        return [_hidden(inner, path[1:]) if path[0] in (WILDCARD, index) else inner for index, inner in enumerate(value)]
    return value


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
