"""A contract's text with another `artifact` section; every other line stays as its team wrote it."""

import re
from typing import Any

import yaml

from headway.bounded_yaml import bounded_yaml
from headway.problem import UserError


def with_artifact(text: str, uri: str, version: str, files: list[str]) -> str:
    """`text` with what was uploaded; the registry's entry keeps its names and gets the version. `files` are the lines of
    the section's `files`. Raises UserError for a text without exactly one such section."""
    lines = text.splitlines()
    starts = [number for number, line in enumerate(lines) if line.startswith("artifact:")]
    read = _read(text)
    registry = read.get("registry") if isinstance(read, dict) else None
    if len(starts) != 1 or not isinstance(registry, dict):
        raise UserError(
            "The contract has no artifact section with a registry to write into.",
            "Nothing was uploaded.",
            "Write one as `headway new model` does, or leave out --write and copy what is printed.",
        )
    entry = yaml.safe_dump({**registry, "version": version}, default_flow_style=True, sort_keys=False, width=1000).strip()
    section = ["artifact:", f"  uri: {uri}", f'  version: "{version}"', f"  registry: {entry}", *(f"  {line}" for line in files)]
    return "\n".join([*lines[: starts[0]], *section, *lines[_end(lines, starts[0]) :]]) + "\n"


def _end(lines: list[str], start: int) -> int:
    """Behind the section's last line; what stands before the next key at the margin, such as its comment, is that one's."""
    following = next((n for n in range(start + 1, len(lines)) if re.match(r"[^\s#]", lines[n])), len(lines))
    return next(n + 1 for n in reversed(range(start, following)) if n == start or re.match(r"\s+\S", lines[n]))


def _read(text: str) -> Any:
    try:
        return (bounded_yaml(text) or {}).get("artifact")
    except (ValueError, AttributeError):
        return None
