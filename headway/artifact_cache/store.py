"""The folder that holds files by tenant and digest, within its room. Owns what is on the disk, and what must go when
there is no room.

A file has its name once its digest is proven and not before. What no release names any more, or has no right to room
beside others', is kept until its room is needed; the longest unused goes first. A file may be deleted while it is read; whoever has opened it reads it to its
end.
"""

import hashlib
import re
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from headway.artifact_cache.wanted import CachedFile

_TENANT = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_PARTIAL = ".partial"

Bring = Callable[[CachedFile, Path], None]
"""Writes an object to a path. Raises OSError when it cannot be had."""


class NoRoomError(Exception):
    """What releases name does not fit."""


class RefusedError(Exception):
    """An object is not what its release says."""


@dataclass
class _Kept:
    size: int
    used: float


class ArtifactStore:
    """`room` in bytes; `clock` in seconds that only grow. One thread brings, any number opens."""

    def __init__(self, folder: Path, room: int, clock: Callable[[], float]) -> None:
        self._folder, self._room, self._clock = folder, room, clock
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, str], _Kept] = {}
        self._wanted: frozenset[tuple[str, str]] = frozenset()
        self._placed: frozenset[tuple[str, str]] = frozenset()
        """Of what is wanted, what has a right to the room."""
        folder.mkdir(parents=True, exist_ok=True)
        for path in sorted(folder.glob("*/*")):
            if path.name.endswith(_PARTIAL) or not _DIGEST.fullmatch(path.name):
                path.unlink()
            else:
                self._kept[path.parent.name, path.name] = _Kept(path.stat().st_size, clock())

    @property
    def bytes(self) -> int:
        with self._lock:
            return sum(each.size for each in self._kept.values())

    def want(self, files: Iterable[CachedFile]) -> tuple[CachedFile, ...]:
        """Say what releases name now, what has the first right to room first; answers what is missing, in order."""
        found, placed, left = tuple(files), list[tuple[str, str]](), self._room
        for file in found:
            if file.size <= left:
                placed.append((file.tenant, file.sha256))
                left -= file.size
        with self._lock:
            self._wanted, self._placed = frozenset((file.tenant, file.sha256) for file in found), frozenset(placed)
            return tuple(file for file in found if (file.tenant, file.sha256) not in self._kept)

    def bring(self, file: CachedFile, bring: Bring) -> None:
        """Have a file, proven. Raises NoRoomError, RefusedError, and what `bring` raises; then nothing of it is left."""
        if not _TENANT.fullmatch(file.tenant) or not _DIGEST.fullmatch(file.sha256):
            raise RefusedError(f"{file.tenant}/{file.sha256} is no name of a file here")
        self._make_room(file)
        target = self._path(file.tenant, file.sha256)
        target.parent.mkdir(exist_ok=True)
        partial = target.with_name(target.name + _PARTIAL)
        try:
            bring(file, partial)
            size, digest = partial.stat().st_size, _digest(partial)
            if (size, digest) != (file.size, file.sha256):
                raise RefusedError(
                    f"s3://{file.bucket}/{file.key} has {size} bytes and SHA-256 {digest}; its release states {file.size} and {file.sha256}"
                )
            with self._lock:
                partial.replace(target)
                self._kept[file.tenant, file.sha256] = _Kept(size, self._clock())
        finally:
            partial.unlink(missing_ok=True)

    def open(self, tenant: str, sha256: str) -> tuple[BinaryIO, int] | None:
        """A file that the tenant's releases name, and its size; None for any other, whether it is there or not."""
        with self._lock:
            kept = self._kept.get((tenant, sha256))
            if kept is None or (tenant, sha256) not in self._wanted:
                return None
            kept.used = self._clock()
            with suppress(FileNotFoundError):
                return self._path(tenant, sha256).open("rb"), kept.size
            del self._kept[tenant, sha256]
            return None

    def _make_room(self, file: CachedFile) -> None:
        with self._lock:
            key, taken = (file.tenant, file.sha256), sum(each.size for each in self._kept.values())
            if key in self._wanted - self._placed:
                raise NoRoomError(f"{file.tenant}: what has a right to room leaves no {file.size} bytes of {self._room}")
            others = sorted((each.used, key) for key, each in self._kept.items() if key not in self._placed)
            for _, key in others:
                if taken + file.size <= self._room:
                    break
                self._path(*key).unlink(missing_ok=True)
                taken -= self._kept.pop(key).size
            if taken + file.size > self._room:
                raise NoRoomError(f"{file.tenant}: {file.size} bytes more do not fit into {self._room}")

    def _path(self, tenant: str, sha256: str) -> Path:
        return self._folder / tenant / sha256


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
