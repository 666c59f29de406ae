"""What the artifact cache shows of itself to Prometheus and to a kubelet."""

import urllib.error
import urllib.request
from pathlib import Path

import pytest

from headway.artifact_cache.callers import Callers
from headway.artifact_cache.serving import BUSY, FETCHED, FETCHES, REQUESTS, SERVED, CacheStatus, served
from headway.artifact_cache.store import ArtifactStore
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
