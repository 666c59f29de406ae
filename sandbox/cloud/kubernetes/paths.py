"""Property paths as Pulumi writes them: `spec.containers[0].image`, `metadata.annotations["pulumi.com/skipAwait"]`.

A path is a tuple of keys and indices; `*` stands for any one of either.
"""

import re
from typing import Any

Path = tuple[str | int, ...]

_PLAIN = re.compile(r"[A-Za-z_$][A-Za-z0-9_$-]*")
_SERVED = re.compile(r"""\.?([^.\[\]=]+)|\[((?:\w+=(?:"[^"]*"|[^,\]"]+),?)+)\]|\[(\d+)\]""")
_KEY = re.compile(r"""(\w+)=("[^"]*"|[^,\]"]+)""")
_TOKEN = re.compile(r"""\.?([^.\[\]"]+)|\[(\d+|\*)\]|\["((?:[^"\\]|\\.)*)"\]""")


def text(path: Path) -> str:
    """The path in Pulumi's spelling."""
    written = ""
    for step in path:
        if isinstance(step, int):
            written += f"[{step}]"
        elif _PLAIN.fullmatch(step):
            written += f".{step}" if written else step
        else:
            quoted = step.replace("\\", "\\\\").replace('"', '\\"')
            written += f'["{quoted}"]'
    return written


def parse(written: str) -> Path:
    """The path behind Pulumi's or the API server's spelling (a leading dot is allowed). Raises ValueError for what is neither."""
    path: list[str | int] = []
    at = 0
    while at < len(written):
        found = _TOKEN.match(written, at)
        if not found:
            raise ValueError(f"{written!r} is no property path at character {at}")
        plain, index, quoted = found.groups()
        if plain is not None:
            path.append(plain)
        elif index is not None:
            path.append("*" if index == "*" else int(index))
        else:
            path.append(re.sub(r"\\(.)", r"\1", quoted))
        at = found.end()
    return tuple(path)


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
    """Whether `path` is at or below `pattern`."""
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
        return {k: without(v, rest) if rest else v for k, v in value.items() if k != head or rest} if head in value else value
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
