"""One parser as the fuzzer knows it: what it is given, and by which errors it may refuse it. Whatever else comes of an input is a fault."""

import functools
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CORPUS = Path(__file__).parent / "corpus"
"""A folder for each parser, with every input that once failed."""
SECONDS = 5
MEBIBYTES = 500


@dataclass(frozen=True, kw_only=True)
class FuzzedParser:
    """`rooms` are the modules whose reading it tries. `refuses`: the documented errors; none for what never refuses."""

    name: str
    rooms: tuple[str, ...]
    read: Callable[[bytes], object]
    refuses: tuple[type[Exception], ...] = ()
    seeds: tuple[bytes, ...]

    def accepts(self, data: bytes) -> bool:
        """Whether `data` is taken; False where it is refused as documented. Lets every other error through."""
        try:
            self.read(data)
        except self.refuses:
            return False
        return True

    @property
    def failed_once(self) -> tuple[Path, ...]:
        return tuple(sorted((CORPUS / self.name).glob("*")))


def texts(*values: Any) -> tuple[bytes, ...]:
    """Seeds: bytes and texts as they are, anything else as JSON."""
    return tuple(each if isinstance(each, bytes) else (each if isinstance(each, str) else json.dumps(each)).encode() for each in values)


def document(data: bytes) -> Any:
    """What the API server, or a client of ours, has already read as JSON: an object, nested no deeper than it takes. None for another."""
    from headway.bounded_json import bounded_json

    try:
        found = bounded_json(data)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


@functools.cache
def _spool() -> Any:
    return tempfile.TemporaryDirectory(prefix="headway-fuzz-")


def file_of(data: bytes, name: str) -> Path:
    """A file with that content, for readers that want one; the next input takes its place."""
    file = Path(_spool().name) / name
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(data)
    return file
