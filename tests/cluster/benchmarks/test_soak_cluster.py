"""A short soak on real servers, so that its driver does not rot; the long ones are `make soak`."""

from pathlib import Path

import pytest

from benchmarks.soak.run import soak
from benchmarks.soak.schedule import SoakEvent

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

EVENTS = tuple(
    SoakEvent(at=float(at), kind=kind, about=about)
    for at, kind, about in (
        (5, "something_is_written", {}),
        (10, "release_begins", {"version": 2}),
        (20, "two_releases_at_once", {"versions": [1, 3]}),
        (60, "pod_dies", {}),
        (90, "node_is_faulty", {"reason": "NvidiaXID48Error"}),
        (120, "odd_object", {"which": "privileged-pod"}),
        (150, "runner_is_killed", {"who": 0, "meetings": 5}),
        (170, "runner_comes", {"who": 1, "ahead": 0.0}),
        (240, "ledger_is_away", {"seconds": 40}),
        (300, "part_is_killed", {"part": "kube-apiserver", "seconds": 20}),
        (360, "answers_are_lost", {"writes": 2}),
        (420, "part_hangs", {"part": "etcd", "real_seconds": 0.5}),
        (480, "quota_is_cut", {}),
        (500, "finalizer_is_stuck", {}),
        (560, "certificates_are_rotated", {}),
        (620, "somebody_asks", {"wish": "rollback"}),
    )
)


def test_a_quarter_of_an_hour_of_accidents_breaks_no_invariant(tmp_path: Path) -> None:
    found = soak(tmp_path, EVENTS)
    assert found.broken == (), found.table()
    assert sum(found.releases.values()) == 1, found.table()
    assert found.done["two_releases_at_once: 0 begun"] == 1
    assert found.done["odd_object: 403"] + found.done.get("odd_object: 422", 0) == 1
    assert found.done["runner_is_killed: killed"] == 1
