"""What changes inside an object, as lines: property paths with old and new values. Secrets are masked, long values shortened.

A provider says which paths differ; where it names a whole structure, or nothing (components), the values themselves are compared, so
that a person sees the leaf that changed and not the tree around it.
"""

import difflib
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final, Literal

import yaml

from pulumi_embedded.engine.model import Op, Resource, StepEvent
from pulumi_embedded.engine.paths import Path, PathError, parse, render, value_at
from pulumi_embedded.engine.style import shortened
from pulumi_embedded.engine.values import ARCHIVE, ASSET, MASK, REFERENCE, SECRET, SIGNATURE, UNKNOWN, Properties, masked

Kind = Literal["add", "delete", "update"]

VALUE_WIDTH: Final = 64
TEXT_LINES: Final = 12
_ABSENT: Final = object()
_SYMBOLS: Final = {"add": "+", "delete": "-", "update": "~"}


@dataclass(frozen=True)
class PropertyChange:
    path: str
    kind: Kind
    old: Any
    new: Any
    replaces: bool = False


def changes(step: StepEvent) -> list[PropertyChange]:
    """Every property that differs, by path; empty for creations, deletions and unchanged objects."""
    if step.old is None or step.new is None or step.op in (Op.SAME, Op.DELETE, Op.DELETE_REPLACED):
        return []
    found: dict[str, PropertyChange] = {}
    for text, kind in sorted(step.details.items()):
        path = _parsed(text)
        old = _ABSENT if kind.startswith("add") else _value(step.old, path)
        new = _ABSENT if kind.startswith("delete") else _value(step.new, path)
        forced = kind.endswith("-replace") or text in step.replaces
        for change in list(_compared(path, old, new)) or [PropertyChange(text, "update", None, None)]:
            found[change.path] = replace(change, replaces=forced)
    if not found:
        found = {change.path: change for change in _compared((), step.old.inputs, step.new.inputs)}
    if not found and step.op is Op.REFRESH:
        found = {change.path: change for change in _compared((), step.old.outputs, step.new.outputs)}
    return [found[path] for path in sorted(found)]


def lines(step: StepEvent, *, limit: int | None) -> list[str]:
    """The changes of `step`, at most `limit` of them, and how many more there are."""
    found = changes(step)
    shown = found if limit is None else found[:limit]
    result = [line for change in shown for line in _line(change)]
    if len(shown) < len(found):
        result.append(f"… {len(found) - len(shown)} more; --diff shows all")
    return result


def between(old: Properties, new: Properties) -> list[str]:
    """Every leaf at which two sets of properties differ."""
    return [line for change in _compared((), old, new) for line in _line(change)]


def whole(properties: Properties, op: Op) -> list[str]:
    """Every property of an object that is created or deleted, as indented YAML."""
    symbol = "-" if op in (Op.DELETE, Op.DELETE_REPLACED) else "+"
    text = yaml.safe_dump(_readable(properties), sort_keys=True, default_flow_style=False, allow_unicode=True, width=10_000)
    rows = text.splitlines() if properties else []
    return [f"{symbol} {shortened(row, VALUE_WIDTH * 2)}" for row in rows]


def printed(value: Any) -> str:
    """A value in one short line."""
    shown = _readable(value)
    if isinstance(shown, str) and shown in (MASK, "[unknown]"):
        return shown
    return shortened(json.dumps(shown, ensure_ascii=False, sort_keys=True), VALUE_WIDTH)


def _line(change: PropertyChange) -> Iterator[str]:
    symbol = _SYMBOLS[change.kind]
    forced = "  (forces replacement)" if change.replaces else ""
    head = f"{symbol} {change.path}:"
    if change.old is None and change.new is None:
        yield f"{symbol} {change.path}{forced}"  # the provider saw it where neither side records it
        return
    old, new = masked(change.old), masked(change.new)
    if isinstance(old, str) and isinstance(new, str) and "\n" in old + new:
        yield f"{head}{forced}"
        yield from _text_lines(old, new)
    elif change.kind == "add":
        yield f"{head} {printed(change.new)}{forced}"
    elif change.kind == "delete":
        yield f"{head} {printed(change.old)}{forced}"
    else:
        yield f"{head} {printed(change.old)} => {printed(change.new)}{forced}"


def _text_lines(old: str, new: str) -> Iterator[str]:
    differing = [row for row in difflib.ndiff(old.splitlines(), new.splitlines()) if row[:1] in "+-"]
    for row in differing[:TEXT_LINES]:
        yield "    " + shortened(row, VALUE_WIDTH * 2)
    if len(differing) > TEXT_LINES:
        yield f"    … {len(differing) - TEXT_LINES} more lines"


def _compared(path: Path, old: Any, new: Any) -> Iterator[PropertyChange]:
    """The leaves at which two values differ. A secret is a leaf: its inside is nobody's business."""
    if old is _ABSENT and new is _ABSENT:
        return
    if old is _ABSENT:
        yield PropertyChange(render(path), "add", None, new)
    elif new is _ABSENT:
        yield PropertyChange(render(path), "delete", old, None)
    elif _is_map(old) and _is_map(new):
        for key in sorted({*old, *new}):
            yield from _compared((*path, key), old.get(key, _ABSENT), new.get(key, _ABSENT))
    elif isinstance(old, list) and isinstance(new, list):
        for index in range(max(len(old), len(new))):
            yield from _compared((*path, index), _at(old, index), _at(new, index))
    elif old != new:
        yield PropertyChange(render(path), "update", old, new)


def _is_map(value: Any) -> bool:
    return isinstance(value, dict) and SIGNATURE not in value


def _at(values: list[Any], index: int) -> Any:
    return values[index] if index < len(values) else _ABSENT


def _parsed(text: str) -> Path:
    try:
        return parse(text)
    except PathError:
        return (text,)


def _value(resource: Resource, path: Path) -> Any:
    for properties in (resource.inputs, resource.outputs):
        found, value = value_at(properties, path)
        if found:
            return value
    return _ABSENT


def _readable(value: Any) -> Any:
    if isinstance(value, dict):
        match value.get(SIGNATURE):
            case None:
                return {str(key): _readable(inner) for key, inner in value.items()}
            case signature if signature == SECRET:
                return MASK
            case signature if signature in (ASSET, ARCHIVE):
                what = "asset" if signature == ASSET else "archive"
                return f"{what}({value.get('path') or value.get('uri') or 'text'}{', ' + value['hash'][:8] if value.get('hash') else ''})"
            case signature if signature == REFERENCE:
                return f"<{str(value.get('urn', '')).rsplit('::', 1)[-1]}>"
            case _:
                return "{…}"
    if isinstance(value, list):
        return [_readable(inner) for inner in value]
    return "[unknown]" if value == UNKNOWN else value
