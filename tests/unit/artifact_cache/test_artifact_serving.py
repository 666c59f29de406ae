"""What the artifact cache shows of itself to Prometheus and to a kubelet."""

import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from headway.artifact_cache.callers import Callers
from headway.artifact_cache.loop import PART_BYTES, downloads
from headway.artifact_cache.serving import BUSY, FETCHED, FETCHES, REQUESTS, SERVED, CacheStatus, served
from headway.artifact_cache.store import ArtifactStore, RefusedError
from headway.artifact_cache.wanted import CachedFile
from tests.exposition import samples


def status(folder: Path) -> CacheStatus:
    return CacheStatus(ArtifactStore(folder, 1000, lambda: 0.0))


def test_every_outcome_is_counted_from_the_start(tmp_path: Path) -> None:
    watched = status(tmp_path)
    for what, outcome, amount in ((REQUESTS, SERVED, 3), (REQUESTS, BUSY, 1), (FETCHES, FETCHED, 2)):
        watched.counts.add(what, outcome, amount)
    watched.missing = 4
    assert samples(watched.text()) == {
        "headway_artifact_cache_requests_total outcome=busy": 1,
        "headway_artifact_cache_requests_total outcome=cut": 0,
        "headway_artifact_cache_requests_total outcome=missing": 0,
        "headway_artifact_cache_requests_total outcome=served": 3,
        "headway_artifact_cache_requests_total outcome=unauthorised": 0,
        "headway_artifact_cache_fetches_total outcome=failed": 0,
        "headway_artifact_cache_fetches_total outcome=fetched": 2,
        "headway_artifact_cache_fetches_total outcome=no_room": 0,
        "headway_artifact_cache_fetches_total outcome=refused": 0,
        "headway_artifact_cache_bytes": 0,
        "headway_artifact_cache_missing_files": 4,
    }


def test_a_cache_is_ready_once_it_knows_what_is_wanted(tmp_path: Path) -> None:
    watched = status(tmp_path)
    with served(watched, Callers(lambda _: None, lambda: 0.0), "127.0.0.1", 0, 0) as (_, shown):
        ready = f"http://127.0.0.1:{shown}/ready"
        with pytest.raises(urllib.error.HTTPError, match="503") as refused:
            urllib.request.urlopen(ready)
        refused.value.close()
        watched.well = True
        with urllib.request.urlopen(ready) as answer:
            assert answer.read() == b"well\n"


def test_a_cache_that_no_longer_hears_or_fetches_is_not_well(tmp_path: Path) -> None:
    watched, stop = status(tmp_path), threading.Event()
    worker = threading.Thread(target=stop.wait)
    worker.start()
    watched.workers = (worker,)
    with served(watched, Callers(lambda _: None, lambda: 0.0), "127.0.0.1", 0, 0) as (_, shown):
        health = f"http://127.0.0.1:{shown}/healthz"
        with urllib.request.urlopen(health) as answer:
            assert answer.read() == b"well\n"
        stop.set()
        worker.join()
        with pytest.raises(urllib.error.HTTPError, match="503") as refused:
            urllib.request.urlopen(health)
        refused.value.close()


def test_an_object_larger_than_its_release_says_is_given_up_on_the_way(tmp_path: Path) -> None:
    file = CachedFile(tenant="vision", sha256="a" * 64, bucket="models", key="vision/x", size=10 * PART_BYTES)
    came: list[int] = []

    class S3:
        def download_file(self, *place: str, **how: Any) -> None:
            for _ in range(1000):
                how["Callback"](PART_BYTES)
                came.append(PART_BYTES)

    with pytest.raises(RefusedError, match="more than the"):
        downloads(S3())(file, tmp_path / "x")
    assert sum(came) == file.size
