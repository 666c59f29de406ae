"""Replicas that start: by the times in their pods' statuses."""

from datetime import UTC, datetime
from typing import Any

from headway.diagnosis.facts import StateKind
from headway.diagnosis.starting import ARTIFACT, FETCH, starting
from tests.unit.service_status.test_pending import pod

AT = datetime(2026, 11, 29, 1, 0, tzinfo=UTC).timestamp()


def at(minute: int, second: int = 0) -> str:
    return f"2026-11-29T00:{minute:02d}:{second:02d}Z"


def fetched(name: str, state: dict[str, Any], *, ready: str = "", artifact: str = "sha256:a", **more: Any) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": "True" if ready else "False", "lastTransitionTime": ready or at(1)}]
    found: dict[str, Any] = pod(name, on="n", conditions=conditions, initContainerStatuses=[{"name": FETCH, "state": state, **more}])
    found["metadata"]["annotations"] = {ARTIFACT: artifact}
    return found


def done(name: str, seconds: int, ready: str = at(12), **more: Any) -> dict[str, Any]:
    """From minute 10 on."""
    state = {"terminated": {"exitCode": 0, "startedAt": at(10), "finishedAt": at(10 + seconds // 60, seconds % 60)}}
    return fetched(name, state, ready=ready, **more)


def runs(name: str, since: str, **more: Any) -> dict[str, Any]:
    return fetched(name, {"running": {"startedAt": since}}, **more)


def told(*pods: dict[str, Any]) -> list[tuple[StateKind, str]]:
    return [(each.kind, each.subject) for each in starting(pods, at=AT)]


def test_files_that_come_much_slower_than_those_of_siblings_are_told() -> None:
    (found,) = starting([done("a", 40), done("b", 50), runs("c", at(56))], at=AT)
    assert (found.kind, found.subject) == (StateKind.FETCH_SLOW, "c")
    assert found.words == "its files have taken 240 s, those of 2 earlier at most 50 s"


def test_files_that_take_as_long_as_those_of_siblings_are_not_slow() -> None:
    assert told(done("a", 200), runs("c", at(56))) == []
    assert told(done("a", 1), runs("c", at(59, 30))) == []


def test_files_of_another_artifact_may_take_longer() -> None:
    assert told(done("a", 40), runs("c", at(50), artifact="sha256:b")) == []


def test_a_replica_alone_has_nobody_to_be_compared_with() -> None:
    assert told(runs("c", at(20))) == []


def test_a_replica_that_serves_was_slow_to_no_further_harm() -> None:
    slow = {"terminated": {"exitCode": 0, "startedAt": at(20), "finishedAt": at(40)}}
    assert told(done("a", 40), fetched("c", slow, ready=at(41))) == []


def test_files_that_failed_to_come_are_not_slow() -> None:
    assert told(done("a", 40), runs("c", at(50), restartCount=2)) == []


def test_a_replica_is_young_for_five_minutes_after_it_became_ready() -> None:
    assert told(done("a", 40, ready=at(56))) == [(StateKind.YOUNG, "a")]
    assert told(done("a", 40, ready=at(54))) == []
