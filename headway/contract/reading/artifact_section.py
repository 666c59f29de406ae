"""A contract's text with another `artifact` section; every other line stays as its team wrote it."""

import re
from typing import Any

import yaml

from headway.problem import UserError

_SECTION = re.compile(r"^artifact:.*\n(?:(?:[ \t#].*)?\n)*(?=\S|\Z)", re.MULTILINE)


def with_artifact(text: str, uri: str, version: str, files: list[str]) -> str:
    """`text` with what was uploaded; the registry's entry keeps its names and gets the version. `files` are the lines of
    the section's `files`. Raises UserError for a text without exactly one such section."""
    found = _SECTION.findall(text)
    read = _read(text)
    registry = read.get("registry") if isinstance(read, dict) else None
    if len(found) != 1 or not isinstance(registry, dict):
        raise UserError(
            "The contract has no artifact section with a registry to write into.",
            "Nothing was uploaded.",
            "Write one as `headway new model` does, or leave out --write and copy what is printed.",
        )
    entry = yaml.safe_dump({**registry, "version": version}, default_flow_style=True, sort_keys=False, width=1000).strip()
    lines = ["artifact:", f"  uri: {uri}", f'  version: "{version}"', f"  registry: {entry}", *(f"  {line}" for line in files)]
    end = found[0][len(found[0].rstrip("\n")) + 1 :]
    return text.replace(found[0], "\n".join(lines) + "\n" + end)


def _read(text: str) -> Any:
    try:
        return (yaml.safe_load(text) or {}).get("artifact")
    except (yaml.YAMLError, AttributeError):
        return None
