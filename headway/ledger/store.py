"""Where ledger objects lie: S3, or a folder with the same guarantee. Two promises matter: a key is written once, by one
writer; and what may be replaced, a lease, is replaced only by who saw its newest writing.

The trap: a store that ignores a condition answers success to both of two writers. `store_proof.prove` finds that out
before anything relies on it.
"""

import base64
import fcntl
import hashlib
import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Protocol, TypeVar

from headway.bounded_json import LARGEST_JSON
from headway.problem import Exit, UserError
from headway.whole_file import drafted, sync_folder

Result = TypeVar("Result")

TIMEOUT_SECONDS = 10.0
"""Longest wait for one answer of S3; a slow ledger delays a rollout and never decides it."""

LARGEST = 16 << 20
"""Bytes of an object; a released contract has some 10,000."""

LISTED_AT_ONCE = 100_000
"""Keys, with what is remembered of them; a chain may have more, which are listed after these."""
MOST_VERSIONS = 300_000
"""Of so many keys: some 150 MB of memory. A key of an event has one, and few more where somebody deleted it."""

REPLACED_KEPT = timedelta(hours=12)
"""How long nobody may delete a writing of what is replaced in place, where the bucket locks what is written: longer than any lease is
believed. Without it each renewal would be a version kept for as long as an event, for explicit retention alone overrides a bucket's default
(S3 user guide, "Locking objects with Object Lock").
"""

_BUSY = (429, 500, 502, 503, 504)
_LATER = ("RequestTimeout", "OperationAborted")
"""Codes of S3 below 500 that say nothing about the request itself."""


class TakenError(Exception):
    """The key exists already: somebody else wrote it first. Carries the key."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class UnreachableError(Exception):
    """The store did not answer, or not in time. Whether a write arrived is unknown: read the key to find out."""


class MissingStoreError(Exception):
    """There is no such bucket: the environment was never deployed, and no release was ever registered in it."""


class _UnlockedError(Exception):
    """The bucket has no Object Lock, so nothing in it can be retained."""


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
                return _bounded(key, os.fstat(file.fileno()).st_size, file.read)
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


def _bounded(key: str, size: int, read: Callable[[int], bytes]) -> bytes:
    """An object's content; of an event, no more than shows that it is none. Raises UserError before reading one that would fill the memory of
    whoever plans, UnreachableError where the connection breaks off."""
    if "/events/" in key:
        return _whole(key, min(size, LARGEST_JSON + 1), read)
    if size > LARGEST:
        raise UserError(
            f"{key} has {size} bytes: no object of the release ledger is larger than {LARGEST}.",
            "It is not read, and nothing is decided without it.",
            "Find out who wrote it; restore the object from its versions.",
            Exit.REFUSED,
        )
    return _whole(key, size, read)


def _whole(key: str, size: int, read: Callable[[int], bytes]) -> bytes:
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


class S3Store:
    """A bucket. Creation is `PutObject` with `If-None-Match: *` and a SHA-256 that S3 checks; under object lock it must be
    told that there is one, too (S3 API reference, PutObject, `ChecksumAlgorithm`). `clock`: seconds."""

    def __init__(self, client: Any, bucket: str, prefix: str = "", clock: Callable[[], float] = time.time) -> None:
        self._client, self._bucket, self._prefix, self._clock = client, bucket, prefix, clock
        self._locks = True
        """Whether the bucket may lock what is written into it; one without Object Lock refuses to be told how long."""

    def get(self, key: str, version: str = "") -> bytes | None:
        which = {"VersionId": version} if version else {}

        def act() -> bytes | None:
            try:
                answer = self._client.get_object(Bucket=self._bucket, Key=self._prefix + key, **which)
                return _bounded(key, answer["ContentLength"], answer["Body"].read)
            except self._client.exceptions.NoSuchKey:
                return None

        return _asked(act)

    def create(self, key: str, body: bytes) -> None:
        self._put(key, body, {"IfNoneMatch": "*"})

    def held(self, key: str) -> StoredObject | None:
        def act() -> StoredObject | None:
            try:
                answer = self._client.get_object(Bucket=self._bucket, Key=self._prefix + key)
                body = _whole(key, min(answer["ContentLength"], LARGEST), answer["Body"].read)
                return StoredObject(body, answer["ETag"], _age(answer))
            except self._client.exceptions.NoSuchKey:
                return None

        return _asked(act)

    def replace(self, key: str, body: bytes, tag: str | None) -> str:
        condition = {"IfNoneMatch": "*"} if tag is None else {"IfMatch": tag}
        if self._locks:
            until = datetime.fromtimestamp(self._clock(), UTC) + REPLACED_KEPT
            try:
                return self._put(key, body, {**condition, "ObjectLockMode": "GOVERNANCE", "ObjectLockRetainUntilDate": until})
            except _UnlockedError:
                self._locks = False
        return self._put(key, body, condition)

    def _put(self, key: str, body: bytes, condition: Mapping[str, Any]) -> str:
        from botocore.exceptions import ClientError

        digest = base64.b64encode(hashlib.sha256(body).digest()).decode()

        def conditional() -> str:
            try:
                place = {"Bucket": self._bucket, "Key": self._prefix + key}
                answer = self._client.put_object(**place, Body=body, ChecksumAlgorithm="SHA256", ChecksumSHA256=digest, **condition)
            except ClientError as refusal:
                # What a condition names and is gone is answered with 404 (S3 user guide, conditional writes).
                if _status(refusal) == 412 or refusal.response.get("Error", {}).get("Code") == "NoSuchKey":
                    raise TakenError(key) from None
                if _status(refusal) == 409:  # another conditional write to this key is under way (ibid.)
                    raise UnreachableError(f"a concurrent write to {key}") from None
                if _unlocked(refusal):
                    raise _UnlockedError from None
                raise
            return answer["ETag"]

        return _asked(conditional)

    def list(self, prefix: str, after: str = "") -> tuple[str, ...]:
        later = {"StartAfter": self._prefix + after} if after else {}

        def act() -> tuple[str, ...]:
            pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=self._prefix + prefix, **later)
            return tuple(sorted(o["Key"].removeprefix(self._prefix) for page in pages for o in page.get("Contents", [])))

        return _asked(act)

    def written(self, prefix: str, after: str = "") -> tuple[Written, ...]:
        later = {"KeyMarker": self._prefix + after} if after else {}

        def act() -> tuple[Written, ...]:
            pages = self._client.get_paginator("list_object_versions").paginate(Bucket=self._bucket, Prefix=self._prefix + prefix, **later)
            return _remembered(self._prefix, prefix, after, pages)

        return _asked(act)


def _remembered(root: str, prefix: str, after: str, pages: Iterable[Mapping[str, Any]]) -> tuple[Written, ...]:
    """Versions of a key are listed newest first (S3 API reference, ListObjectVersions)."""
    versions: dict[str, list[str]] = {}
    deleted: set[str] = set()
    count = 0
    for page in pages:
        count += len(page.get("Versions", [])) + len(page.get("DeleteMarkers", []))
        if count > MOST_VERSIONS:
            raise UserError(
                f"Below {prefix} there are more than {MOST_VERSIONS} writings.",
                "They are not read, and nothing is decided on them; what serves goes on.",
                "Find out who wrote them; let an operator delete those that do not belong there.",
                Exit.REFUSED,
            )
        for one in page.get("Versions", []):
            versions.setdefault(one["Key"], []).insert(0, one["VersionId"])
        deleted.update(one["Key"] for one in page.get("DeleteMarkers", []) if one["IsLatest"])
        if len(versions) > LISTED_AT_ONCE:  # the last of them may have writings on the next page
            break
    found = (Written(key.removeprefix(root), tuple(each), key not in deleted) for key, each in sorted(versions.items())[:LISTED_AT_ONCE])
    return tuple(one for one in found if one.key > after)


def _age(answer: Mapping[str, Any]) -> float:
    """Seconds since S3 wrote an object, by its own clock, which tells whole seconds."""
    said = answer["ResponseMetadata"]["HTTPHeaders"].get("date")
    now = parsedate_to_datetime(said) if said else datetime.now(UTC)
    return max(0.0, (now - answer["LastModified"]).total_seconds() - 1.0)


def client(*, endpoint: str | None = None, region: str | None = None) -> Any:
    """A client of S3 by boto3's own credentials, with timeouts and no blind retries of writes. `endpoint` is for S3-compatible
    stores. Raises UserError where there are no usable credentials."""
    import boto3
    from botocore.config import Config

    config = Config(connect_timeout=TIMEOUT_SECONDS, read_timeout=TIMEOUT_SECONDS, retries={"total_max_attempts": 1, "mode": "standard"})

    def made() -> Any:
        session: Any = boto3.Session()
        return session.client("s3", endpoint_url=endpoint, region_name=region, config=config)

    return _asked(made)


def _status(refusal: Any) -> int:
    return int(refusal.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _unlocked(refusal: Any) -> bool:
    """Whether S3 refuses a retention because the bucket has no Object Lock: `InvalidRequest`, "Bucket is missing Object Lock
    Configuration"."""
    error = refusal.response.get("Error", {})
    return error.get("Code") == "InvalidRequest" and "missingobjectlock" in error.get("Message", "").replace(" ", "").lower()


def _asked(act: Callable[[], Result]) -> Result:
    """Run one request; what the network or the server's health did becomes UnreachableError, what asking again would
    not mend UserError."""
    from botocore import exceptions
    from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

    hopeless = (
        exceptions.NoCredentialsError,
        exceptions.PartialCredentialsError,
        exceptions.NoRegionError,
        exceptions.ParamValidationError,
        exceptions.ProfileNotFound,
        exceptions.SSOError,
    )
    try:
        return act()
    except hopeless as failure:
        raise _refused(str(failure)) from None
    except (HTTPClientError, BotoCoreError) as failure:
        raise UnreachableError(type(failure).__name__) from None
    except ClientError as refusal:
        if refusal.response.get("Error", {}).get("Code") == "NoSuchBucket":
            raise MissingStoreError from None
        error = refusal.response.get("Error", {})
        if _status(refusal) in _BUSY or error.get("Code") in _LATER:
            raise UnreachableError(f"HTTP {_status(refusal)}") from None
        raise _refused(f"{error.get('Code', _status(refusal))}: {error.get('Message', '')}".rstrip(": ")) from None


def _refused(why: str) -> UserError:
    return UserError(
        f"The release ledger refuses this identity or this request ({why}).",
        "Nothing can be written down, so nothing is done; the release guard takes care of a release under way.",
        "Check credentials, region and the bucket's address: the runner needs to list, get and put its objects and their versions, and to"
        " say how long leases are kept (`headway access` prints the policy); the bucket's policy is that of this version's cluster layer."
        " Then run it again.",
        Exit.REFUSED,
    )
