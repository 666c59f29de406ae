"""Keeps a node's store at what releases on its pool name: hears, fetches, forgets, until it is told to stop.

What cannot be fetched must not hold up what can; every file is tried in its turn, and again later.
"""

import queue
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from headway.artifact_cache.cluster import ArtifactCluster
from headway.artifact_cache.serving import FAILED, FETCHED, FETCHES, NO_ROOM, REFUSED, CacheStatus
from headway.artifact_cache.store import NoRoomError, RefusedError
from headway.artifact_cache.wanted import CachedFile, ordered

AGAIN_SECONDS = 60.0
"""What could not be fetched is tried again after so long, or when a release changes."""
RETRY_SECONDS = 5.0
CONNECTIONS = 16
PART_BYTES = 8 * 2**20

Said = Callable[[str], None]
Configurations = Mapping[tuple[str, str], Mapping[str, Any]]


def downloads(client: Any) -> Callable[[CachedFile, Path], None]:
    """Brings objects by a client of S3, in parallel parts. What the client raises becomes OSError.

    An object that is larger than its release says is given up on the way, before it fills the node's room.
    """
    from boto3.exceptions import Boto3Error
    from boto3.s3.transfer import TransferConfig
    from botocore.exceptions import BotoCoreError, ClientError

    how = TransferConfig(max_concurrency=CONNECTIONS, multipart_chunksize=PART_BYTES, multipart_threshold=2 * PART_BYTES)

    def bring(file: CachedFile, target: Path) -> None:
        try:
            client.download_file(file.bucket, file.key, str(target), Config=how, Callback=_AtMost(file))
        except (Boto3Error, BotoCoreError, ClientError) as failure:
            raise OSError(str(failure)) from failure

    return bring


class _AtMost:
    """Told how many bytes came (fewer than none when a part is read again), from many threads."""

    def __init__(self, file: CachedFile) -> None:
        self._file, self._came, self._lock = file, 0, threading.Lock()

    def __call__(self, amount: int) -> None:
        with self._lock:
            self._came += amount
            if self._came > self._file.size:
                raise RefusedError(
                    f"s3://{self._file.bucket}/{self._file.key} has more than the {self._file.size} bytes that its release states"
                )


def hear(cluster: ArtifactCluster, pool: str, heard: "queue.SimpleQueue[Configurations]", stop: threading.Event, say: Said) -> None:
    """Put what the pool's releases are into the queue, at every change, until told to stop."""
    while not stop.is_set():
        try:
            cluster.follow(pool, heard.put)
        except OSError as failure:
            say(f"releases are not heard of: {failure}")
            stop.wait(RETRY_SECONDS)


def keep(
    watched: CacheStatus,
    bring: Callable[[CachedFile, Path], None],
    heard: "queue.SimpleQueue[Configurations]",
    stop: threading.Event,
    say: Said,
) -> None:
    """Have in the store what was heard last, until told to stop."""
    wanted: tuple[CachedFile, ...] = ()
    while not stop.is_set():
        newest = _newest(heard, AGAIN_SECONDS if watched.well else RETRY_SECONDS)
        if newest is not None:
            wanted, watched.well = ordered(newest.values()), True
        missing = watched.store.want(wanted)
        watched.missing = len(missing)
        for file in missing:
            if stop.is_set() or not heard.empty():
                break
            watched.missing -= _fetch(watched, file, bring, say)


def _newest(heard: "queue.SimpleQueue[Configurations]", seconds: float) -> Configurations | None:
    """The last of what is in the queue, waiting for one; None when nothing came."""
    try:
        newest = heard.get(timeout=seconds)
        while True:
            try:
                newest = heard.get_nowait()
            except queue.Empty:
                return newest
    except queue.Empty:
        return None


def _fetch(watched: CacheStatus, file: CachedFile, bring: Callable[[CachedFile, Path], None], say: Said) -> int:
    name = f"{file.tenant}: s3://{file.bucket}/{file.key}"
    try:
        watched.store.bring(file, bring)
    except NoRoomError as reason:
        watched.counts.add(FETCHES, NO_ROOM)
        say(f"{name} is left out: {reason}")
    except RefusedError as reason:
        watched.counts.add(FETCHES, REFUSED)
        say(f"refused: {reason}")
    except OSError as reason:
        watched.counts.add(FETCHES, FAILED)
        say(f"{name} cannot be fetched: {reason}")
    else:
        watched.counts.add(FETCHES, FETCHED)
        say(f"{name} is here: {file.size} bytes, sha256 {file.sha256}")
        return 1
    return 0
