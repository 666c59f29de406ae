"""The ledger's store in a bucket of S3, by boto3."""

import base64
import hashlib
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from headway.ledger import store as stores
from headway.ledger.store import LARGEST, MissingStoreError, StoredObject, TakenError, UnreachableError, Written, bounded, whole
from headway.problem import Exit, UserError

Result = TypeVar("Result")

TIMEOUT_SECONDS = 10.0
"""Longest wait for one answer of S3; a slow ledger delays a rollout and never decides it."""

MOST_VERSIONS = 300_000
"""Of `LISTED_AT_ONCE` keys: some 150 MB of memory. A key of an event has one, and few more where somebody deleted it."""

REPLACED_KEPT = timedelta(hours=12)
"""How long nobody may delete a writing of what is replaced in place, where the bucket locks what is written: longer than any lease is
believed. Without it each renewal would be a version kept for as long as an event, for explicit retention alone overrides a bucket's default
(S3 user guide, "Locking objects with Object Lock").
"""

_BUSY = (429, 500, 502, 503, 504)
_LATER = ("RequestTimeout", "OperationAborted")
"""Codes of S3 below 500 that say nothing about the request itself."""


class _UnlockedError(Exception):
    """The bucket has no Object Lock, so nothing in it can be retained."""


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
                return bounded(key, answer["ContentLength"], answer["Body"].read)
            except self._client.exceptions.NoSuchKey:
                return None

        return _asked(act)

    def create(self, key: str, body: bytes) -> None:
        self._put(key, body, {"IfNoneMatch": "*"})

    def held(self, key: str) -> StoredObject | None:
        def act() -> StoredObject | None:
            try:
                answer = self._client.get_object(Bucket=self._bucket, Key=self._prefix + key)
                body = whole(key, min(answer["ContentLength"], LARGEST), answer["Body"].read)
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
        if len(versions) > stores.LISTED_AT_ONCE:  # the last of them may have writings on the next page
            break
    found = (
        Written(key.removeprefix(root), tuple(each), key not in deleted) for key, each in sorted(versions.items())[: stores.LISTED_AT_ONCE]
    )
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
