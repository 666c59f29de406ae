"""Whom the roles of an environment's access layer let in, by its stack file."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headway.bounded_yaml import bounded_yaml


def trusted(file: Path) -> tuple[str, ...]:
    """ARNs of the principals that the access layer's file names, sorted; what else is wrong with it, a preview says."""
    try:
        section = bounded_yaml(file.read_bytes())["config"]["headway:access"]
    except (ValueError, LookupError, TypeError):
        return ()
    return tuple(sorted(set(_principals(section))))


def _principals(node: Any) -> Iterator[str]:
    if not isinstance(node, dict):
        return
    for key, value in node.items():
        if key == "principals" and isinstance(value, list):
            yield from (each for each in value if isinstance(each, str))
        else:
            yield from _principals(value)
