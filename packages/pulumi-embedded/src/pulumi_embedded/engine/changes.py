"""The structural difference of two property maps, where no provider says better: components, providers, drift, unknown configuration."""

from collections.abc import Iterator, Mapping
from typing import Any

from pulumi_embedded.engine.paths import render
from pulumi_embedded.engine.provider import DiffKind
from pulumi_embedded.engine.values import SIGNATURE


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, DiffKind]:
    """Property path -> kind, sorted by path. Both maps are plain: a secret wrapper would be compared as a value."""
    return {render(path): kind for path, kind in sorted(_walk((), old, new), key=lambda item: render(item[0]))}


def _walk(path: tuple[str | int, ...], old: Any, new: Any) -> Iterator[tuple[tuple[str | int, ...], DiffKind]]:
    if old == new:
        return
    if isinstance(old, Mapping) and isinstance(new, Mapping) and SIGNATURE not in old and SIGNATURE not in new:
        for key in sorted({*old, *new}):
            if key not in old:
                yield (*path, key), "add"
            elif key not in new:
                yield (*path, key), "delete"
            else:
                yield from _walk((*path, key), old[key], new[key])
    elif isinstance(old, list) and isinstance(new, list):
        for index, (was, now) in enumerate(zip(old, new, strict=False)):
            yield from _walk((*path, index), was, now)
        for index in range(len(old), len(new)):
            yield (*path, index), "add"
        for index in range(len(new), len(old)):
            yield (*path, index), "delete"
    else:
        yield path, "update"
