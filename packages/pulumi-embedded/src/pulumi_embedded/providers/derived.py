"""What was derived from the installed SDK and service models, kept on disk so that later processes need not import either.

Owns one folder per (versions of the sources, source text of the modules that derive) and in it one file per thing derived: the digest
of a JSON text, then the text. The folder is in the user's cache, which no project owns: it holds nothing but what anyone would derive
again. Several processes may write at once, since each file appears whole. Trap: a module that decides what is derived must stand in
`_DERIVING`, or old files go on being believed.
"""

import json
import os
import tempfile
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, TypeVar

CACHE_VARIABLE = "PULUMI_EMBEDDED_CACHE"
"""Names the folder in which derived things are kept; without it, `pulumi-embedded` in the user's cache folder."""

_SOURCES = ("pulumi", "pulumi-aws", "pulumi-eks", "botocore")
_DERIVING = ("derived.py", "schema.py", "sdk.py", "aws/limits.py", "aws/offerings.py")

T = TypeVar("T")


def derived(name: str, derive: Callable[[], Any], read: Callable[[Any], T]) -> T:
    """`read` of the JSON document `name`, derived and kept where it is not there yet.

    A damaged file is derived anew. A folder that cannot be written costs time only. Errors of `derive` pass.
    """
    path = _folder(_root()) / f"{_digest(name.encode())[:32]}.json"
    if (text := _intact(path)) is None:
        text = json.dumps(derive(), separators=(",", ":")).encode()
        with suppress(OSError):
            _write(path, text)
    return read(json.loads(text))


def keep_in(folder: Path) -> None:
    """Keep what is derived in `folder` from now on, in this process."""
    global _chosen  # noqa: PLW0603 - one cache for a process, as its modules are
    _chosen = folder


_chosen: Path | None = None


def _root() -> Path:
    named = os.environ.get(CACHE_VARIABLE)
    if named or _chosen:
        return Path(named) if named else Path(_chosen or "")
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "pulumi-embedded"


def _digest(text: bytes) -> str:
    return sha256(text).hexdigest()


def _intact(path: Path) -> bytes | None:
    try:
        digest, _, text = path.read_bytes().partition(b"\n")
    except OSError:
        return None
    return text if digest == _digest(text).encode() else None


@cache
def _folder(root: Path) -> Path:
    """Named by everything that decides what is derived."""
    digest = sha256()
    for source in _SOURCES:
        digest.update(f"{source} {version(source)}\n".encode())
    for module in _DERIVING:
        digest.update((Path(__file__).parent / module).read_bytes())
    return root / "schemas" / digest.hexdigest()[:16]


def _write(path: Path, text: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(_digest(text).encode() + b"\n" + text)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
