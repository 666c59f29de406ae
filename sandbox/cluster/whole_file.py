"""Files that others read at any time: the text of before or the new one, never a part of it."""

from pathlib import Path


def replace(path: Path, text: str) -> None:
    """Write `path` whole or not at all; its folder exists."""
    new = path.with_name(f".{path.name}.new")
    new.write_text(text, encoding="utf-8")
    new.replace(path)
