"""Where ledger objects lie: S3 (`s3_store.py`), or a folder with the same guarantee. Two promises matter: a key is written once, by one
writer; and what may be replaced, a lease, is replaced only by who saw its newest writing.

The trap: a store that ignores a condition answers success to both of two writers. `store_proof.prove` finds that out
before anything relies on it.
"""

import fcntl
import hashlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from headway.bounded_json import LARGEST_JSON
from headway.problem import Exit, UserError
from headway.whole_file import drafted, sync_folder

LARGEST = 16 << 20
"""Bytes of an object; a released contract has some 10,000."""

LISTED_AT_ONCE = 100_000
"""Keys, with what is remembered of them; a chain may have more, which are listed after these."""


class TakenError(Exception):
    """The key exists already: somebody else wrote it first. Carries the key."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class UnreachableError(Exception):
    """The store did not answer, or not in time. Whether a write arrived is unknown: read the key to find out."""


class MissingStoreError(Exception):
    """There is no such bucket: the environment was never deployed, and no release was ever registered in it."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object that is replaced in place."""

    body: bytes
    tag: str
    """Which writing of it this is."""
    age: float
    """Seconds since that writing, by the store's clock; never more than really passed."""


@dataclass(frozen=True, slots=True)
class Written:
    """What a store remembers of a key: its writings, oldest first, and whether the newest of them is there still."""

    key: str
    versions: tuple[str, ...] = ("",)
    there: bool = True

    @property
    def once(self) -> bool:
        return self.there and len(self.versions) == 1


class LedgerStore(Protocol):
    """Objects by key. Keys are `/`-separated and safe as file names."""

    def get(self, key: str, version: str = "") -> bytes | None:
        """The object, or that writing of it, or None. Raises UnreachableError, UserError for one that is larger than
        LARGEST."""
        ...

    def written(self, prefix: str, after: str = "") -> tuple[Written, ...]:
        """The first LISTED_AT_ONCE keys, or more, that begin with `prefix` and sort after `after`, sorted: also those that were
        deleted, where the store remembers them. Raises UnreachableError."""
        ...

    def create(self, key: str, body: bytes) -> None:
        """Write once. Raises TakenError when the key exists, UnreachableError when the outcome is unknown."""
        ...

    def list(self, prefix: str, after: str = "") -> tuple[str, ...]:
        """Keys that begin with `prefix` and sort after `after`, sorted. Raises UnreachableError."""
        ...

    def held(self, key: str) -> StoredObject | None:
        """What is replaced in place, or None. Raises UnreachableError."""
        ...

    def replace(self, key: str, body: bytes, tag: str | None) -> str:
        """Write where the writing `tag` is still the newest, or where there is none (None); answers the new tag.

        Raises TakenError when it is another by now, UnreachableError when the outcome is unknown.
        """
        ...


class FolderStore:
    """A folder of one machine. `link` fails when the name exists, which makes creation exclusive even between
    processes; whoever replaces holds a lock. `clock`: seconds."""

    def __init__(self, root: Path, clock: Callable[[], float] = time.time) -> None:
        self._root, self._clock = root, clock

    def get(self, key: str, version: str = "") -> bytes | None:
        try:
            with (self._root / key).open("rb") as file:
                return bounded(key, os.fstat(file.fileno()).st_size, file.read)
        except (FileNotFoundError, IsADirectoryError):
            return None

    def create(self, key: str, body: bytes) -> None:
        path = self._root / key
        draft = drafted(path, body)
        try:
            try:
                os.link(draft, path)
            except FileExistsError:
                raise TakenError(key) from None
            sync_folder(path.parent)
        finally:
            draft.unlink(missing_ok=True)

    def held(self, key: str) -> StoredObject | None:
        try:
            with (self._root / key).open("rb") as file:
                body, written = file.read(), os.fstat(file.fileno()).st_mtime
        except FileNotFoundError:
            return None
        return StoredObject(body, digest_of(body), max(0.0, self._clock() - written))

    def replace(self, key: str, body: bytes, tag: str | None) -> str:
        path = self._root / key
        draft = drafted(path, body)
        now = self._clock()
        os.utime(draft, (now, now))
        try:
            with path.with_name(f".{path.name}.lock").open("ab") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                there = self.held(key)
                if (there.tag if there else None) != tag:
                    raise TakenError(key)
                draft.rename(path)
                sync_folder(path.parent)
        finally:
            draft.unlink(missing_ok=True)
        return digest_of(body)

    def list(self, prefix: str, after: str = "") -> tuple[str, ...]:
        found: list[str] = []
        for folder, _, names in os.walk(self._root / prefix.rpartition("/")[0], onerror=_unread):
            at = Path(folder).relative_to(self._root).as_posix()
            keys = (name if at == "." else f"{at}/{name}" for name in names if not name.startswith("."))
            found.extend(key for key in keys if key.startswith(prefix) and key > after and (self._root / key).is_file())
        return tuple(sorted(found))

    def written(self, prefix: str, after: str = "") -> tuple[Written, ...]:
        return tuple(Written(key) for key in self.list(prefix, after))


def _unread(failure: OSError) -> None:
    """A folder that is not there holds nothing; what one holds that cannot be read is not known."""
    if not isinstance(failure, FileNotFoundError | NotADirectoryError):
        raise UnreachableError(str(failure)) from None


def bounded(key: str, size: int, read: Callable[[int], bytes]) -> bytes:
    """An object's content; of an event, no more than shows that it is none. Raises UserError before reading one that would fill the memory of
    whoever plans, UnreachableError where the connection breaks off."""
    if "/events/" in key:
        return whole(key, min(size, LARGEST_JSON + 1), read)
    if size > LARGEST:
        raise UserError(
            f"{key} has {size} bytes: no object of the release ledger is larger than {LARGEST}.",
            "It is not read, and nothing is decided without it.",
            "Find out who wrote it; restore the object from its versions.",
            Exit.REFUSED,
        )
    return whole(key, size, read)


def whole(key: str, size: int, read: Callable[[int], bytes]) -> bytes:
    """So many bytes. A body of S3 that is read up to a size ends early without an error (botocore 1.44.5, response.py, StreamingBody.read)."""
    found = read(size) if size else b""
    if len(found) < size:
        raise UnreachableError(f"the connection broke off after {len(found)} of {size} bytes of {key}")
    return found


def create_or_agree(store: LedgerStore, key: str, content: bytes) -> bool:
    """Write once, or find the same there already; False where the key holds something else."""
    try:
        store.create(key, content)
    except TakenError:
        return store.get(key) == content
    return True


def digest_of(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()
