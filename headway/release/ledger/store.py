"""Where ledger objects lie: S3, or a folder with the same guarantee. One promise matters: a key is written once, by one writer.

The trap: a store that ignores the condition answers success to both of two writers. `prove` finds that out before anything relies on it.
"""

import base64
import hashlib
import os
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar

from headway.errors import Exit, UserError

Answer = TypeVar("Answer")

TIMEOUT_SECONDS = 10.0
"""Longest wait for one answer of S3; a slow ledger delays a rollout and never decides it."""


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


class Store(Protocol):
    """Objects by key. Keys are `/`-separated and safe as file names."""

    def get(self, key: str) -> bytes | None:
        """The object, or None. Raises UnreachableError."""
        ...

    def create(self, key: str, body: bytes) -> None:
        """Write once. Raises TakenError when the key exists, UnreachableError when the outcome is unknown."""
        ...

    def list(self, prefix: str) -> tuple[str, ...]:
        """Keys that begin with `prefix`, sorted. Raises UnreachableError."""
        ...


class Folder:
    """A folder of one machine. `link` fails when the name exists, which makes creation exclusive even between processes."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def get(self, key: str) -> bytes | None:
        try:
            return (self._root / key).read_bytes()
        except FileNotFoundError:
            return None

    def create(self, key: str, body: bytes) -> None:
        path = self._root / key
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        try:
            with draft.open("xb") as file:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(draft, path)
            except FileExistsError:
                raise TakenError(key) from None
            _sync_folder(path.parent)
        finally:
            draft.unlink(missing_ok=True)

    def list(self, prefix: str) -> tuple[str, ...]:
        start = self._root / prefix.rpartition("/")[0]
        found = (p for p in start.rglob("*") if p.is_file() and not p.name.startswith("."))
        return tuple(sorted(key for p in found if (key := p.relative_to(self._root).as_posix()).startswith(prefix)))


def _sync_folder(path: Path) -> None:
    """A name is durable only when its folder is."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class S3:
    """A bucket. Creation is `PutObject` with `If-None-Match: *` and a SHA-256 that S3 checks (S3 API reference, PutObject)."""

    def __init__(self, client: Any, bucket: str, prefix: str = "") -> None:
        self._client, self._bucket, self._prefix = client, bucket, prefix

    def get(self, key: str) -> bytes | None:
        def act() -> bytes | None:
            try:
                answer = self._client.get_object(Bucket=self._bucket, Key=self._prefix + key)
                return answer["Body"].read()
            except self._client.exceptions.NoSuchKey:
                return None

        return _asked(act)

    def create(self, key: str, body: bytes) -> None:
        digest = base64.b64encode(hashlib.sha256(body).digest()).decode()

        def act() -> None:
            self._client.put_object(Bucket=self._bucket, Key=self._prefix + key, Body=body, IfNoneMatch="*", ChecksumSHA256=digest)

        from botocore.exceptions import ClientError

        def conditional() -> None:
            try:
                act()
            except ClientError as refusal:
                if _status(refusal) == 412:
                    raise TakenError(key) from None
                if _status(refusal) == 409:  # another conditional write to this key is under way (S3 user guide, conditional writes)
                    raise UnreachableError(f"a concurrent write to {key}") from None
                raise

        _asked(conditional)

    def list(self, prefix: str) -> tuple[str, ...]:
        def act() -> tuple[str, ...]:
            pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=self._prefix + prefix)
            return tuple(sorted(o["Key"].removeprefix(self._prefix) for page in pages for o in page.get("Contents", [])))

        return _asked(act)


def connect(bucket: str, prefix: str = "", *, endpoint: str | None = None, region: str | None = None) -> S3:
    """A bucket by boto3's own credentials. `endpoint` is for S3-compatible stores. Raises UserError where there are no usable ones."""
    return S3(client(endpoint=endpoint, region=region), bucket, prefix)


def client(*, endpoint: str | None = None, region: str | None = None) -> Any:
    """A client of S3 with timeouts and no blind retries of writes. Raises UserError where there are no usable credentials."""
    import boto3
    from botocore.config import Config

    config = Config(connect_timeout=TIMEOUT_SECONDS, read_timeout=TIMEOUT_SECONDS, retries={"total_max_attempts": 1, "mode": "standard"})

    def made() -> Any:
        session: Any = boto3.Session()
        return session.client("s3", endpoint_url=endpoint, region_name=region, config=config)

    return _asked(made)


def prove(store: Store, token: Callable[[], str] = lambda: secrets.token_hex(8)) -> None:
    """Make sure that the store enforces conditional writes. Raises UserError when it lets a second writer through."""
    key = f"probe/{token()}"
    store.create(key, b"first")
    try:
        store.create(key, b"second")
    except TakenError:
        return
    raise UserError(
        "The ledger's store let a second writer overwrite an object: it does not enforce conditional writes.",
        "Two runners could both believe that they own a rollout, and the audit trail could be rewritten; nothing was started.",
        "Use S3, or a store that honours If-None-Match: * on PutObject.",
    )


def _status(refusal: Any) -> int:
    return int(refusal.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))


def _asked(act: Callable[[], Answer]) -> Answer:
    """Run one request; what the network or the server's health did becomes UnreachableError, what asking again would not mend UserError."""
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
        "Nothing can be written down, so nothing is done; a release under way is left to the dead man's limit.",
        "Check credentials, region and the bucket's address: the runner needs to list, get and put its objects. Then run it again.",
        Exit.REFUSED,
    )
