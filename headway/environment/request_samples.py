"""Samples of requests as they were kept: in production, gzipped objects by minute in the telemetry bucket.

A sample reaches the bucket by way of a collector, some time after its request. A reader asks for a time that is over
for longer than `late_seconds`, so that the same time is never read twice.
"""

import gzip
import io
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Protocol

from headway.contract.sampling import Sample, samples

MOST_BYTES = 64 * 2**20
"""Of lines that one reading takes in; the rest of a busy minute is not compared."""
_MINUTE = timedelta(minutes=1)


class UnreadableSamplesError(Exception):
    """Samples could not be read; nothing can be concluded. The message says why."""


class RequestSamples(Protocol):
    """Where a model's samples are."""

    @property
    def late_seconds(self) -> float:
        """How long after its request a sample may still arrive."""
        ...

    def read(self, start: float, end: float) -> list[Sample]:
        """Samples of requests that came later than `start`, up to and including `end` (Unix seconds). Raises
        UnreadableSamplesError."""
        ...


class SampleBucket:
    """What collectors stored below `prefix` by the minute of storing, as `%Y/%m/%d/%H/%M/` in UTC."""

    late_seconds = 120.0

    def __init__(self, client: Any, bucket: str, prefix: str) -> None:
        self._client, self._bucket, self._prefix = client, bucket, prefix

    def read(self, start: float, end: float) -> list[Sample]:
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            return list(within(self._lines(start, end), start, end))
        except ClientError as refusal:
            raise UnreadableSamplesError(f"{self._bucket} refuses: {refusal.response.get('Error', {}).get('Code', 'no reason')}") from None
        except BotoCoreError as failure:
            raise UnreadableSamplesError(f"{self._bucket} does not answer ({type(failure).__name__})") from None

    def _lines(self, start: float, end: float) -> Iterator[str]:
        left = MOST_BYTES
        minute = datetime.fromtimestamp(start, UTC).replace(second=0, microsecond=0)
        while minute.timestamp() <= end + self.late_seconds:
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=f"{self._prefix}{minute:%Y/%m/%d/%H/%M}/"
            )
            for key in sorted(each["Key"] for page in pages for each in page.get("Contents", ())):
                text = self._object(key, left)
                left -= len(text)
                if left <= 0:
                    return
                yield from text.decode("utf-8", "replace").splitlines()
            minute += _MINUTE

    def _object(self, key: str, most: int) -> bytes:
        """An object's text, cut off at `most` bytes: what is packed may be any size."""
        body = self._client.get_object(Bucket=self._bucket, Key=key)["Body"].read(MOST_BYTES)
        try:
            return gzip.GzipFile(fileobj=io.BytesIO(body)).read(most) if body[:2] == b"\x1f\x8b" else body[:most]
        except (OSError, EOFError, zlib.error) as failure:
            raise UnreadableSamplesError(f"{key} cannot be unpacked ({failure})") from None


def within(lines: Iterator[str] | list[str], start: float, end: float) -> Iterator[Sample]:
    """Samples of requests that came later than `start`, up to and including `end`."""
    for sample in samples(lines):
        try:
            moment = datetime.fromisoformat(sample.time).timestamp()
        except ValueError:
            continue
        if start < moment <= end:
            yield sample
