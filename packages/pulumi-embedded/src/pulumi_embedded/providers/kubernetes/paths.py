"""Fields of an object by path: the API server's spelling of one, and what is taken out of or put into a manifest.

Reading and writing Pulumi's spelling belongs to the engine (`pulumi_embedded.engine.paths`); `*` stands for any one key or index.
"""

import re
from typing import Any

from pulumi_embedded.engine.paths import Path

_SERVED = re.compile(r"""\.?([^.\[\]=]+)|\[((?:\w+=(?:"[^"]*"|[^,\]"]+),?)+)\]|\[(\d+)\]""")
_KEY = re.compile(r"""(\w+)=("[^"]*"|[^,\]"]+)""")


def located(written: str, manifest: Any) -> Path:
    """The path of a field as the API server names it, elements of lists by their keys: `.spec.containers[name="web"].image`.

    Elements that `manifest` does not have become `*`.
    """
    path: list[str | int] = []
    value = manifest
    for plain, keys, index in _SERVED.findall(written):
        step: str | int = plain or "*"
        if keys and isinstance(value, list):
            wanted = {key: word.strip('"') for key, word in _KEY.findall(keys)}
            step = next((at for at, item in enumerate(value) if _has(item, wanted)), "*")
        elif index:
            step = int(index)
        path.append(step)
        value = get(value, (step,))
    return tuple(path)


def _has(item: Any, wanted: dict[str, str]) -> bool:
    return isinstance(item, dict) and all(str(item.get(key)) == word for key, word in wanted.items())


def covers(pattern: Path, path: Path) -> bool:
    """Whether `path` is at or below `pattern`: what is said of the pattern holds for the path."""
    return len(pattern) <= len(path) and all(want in ("*", have) for want, have in zip(pattern, path, strict=False))


def get(value: Any, path: Path) -> Any:
    """The value at the path, or None."""
    for step in path:
        if isinstance(value, dict) and isinstance(step, str):
            value = value.get(step)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def without(value: Any, path: Path) -> Any:
    """A copy that lacks what is at the path."""
    if not path:
        return value
    head, rest = path[0], path[1:]
    if isinstance(value, dict):
        return {key: without(item, rest) if key == head else item for key, item in value.items() if key != head or rest}
    if isinstance(value, list):
        keep = [(i, item) for i, item in enumerate(value) if rest or head not in (i, "*")]
        return [without(item, rest) if head in (i, "*") else item for i, item in keep]
    return value


def replaced(value: Any, path: Path, new: Any) -> Any:
    """A copy with `new` at the path, objects on the way made as needed; lists are entered, never grown."""
    if not path:
        return new
    head, rest = path[0], path[1:]
    if isinstance(value, list):
        return [replaced(item, rest, new) if head in (i, "*") else item for i, item in enumerate(value)]
    if isinstance(head, str):
        mapping: dict[str, Any] = value if isinstance(value, dict) else {}
        return {**mapping, head: replaced(mapping.get(head), rest, new)}
    return value
