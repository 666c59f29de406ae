"""A file that is there as a whole or not at all: written as a draft beside its place, then named."""

import os
import secrets
from pathlib import Path


def drafted(path: Path, body: bytes) -> Path:
    """The content on disk, under a hidden name beside `path`. Raises OSError, and leaves nothing then."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with draft.open("xb") as file:
            file.write(body)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    return draft


def replaced(path: Path, body: bytes) -> None:
    """The content in place of what was there: readers find the one or the other. Raises OSError."""
    draft = drafted(path, body)
    try:
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """A name is durable only when its folder is."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
