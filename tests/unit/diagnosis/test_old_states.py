"""What has long been so is not the cause of what is new; and what is over is told as such."""

from dataclasses import replace

import pytest

from headway.diagnosis.facts import State, StateKind
from headway.diagnosis.figures import clock
from headway.diagnosis.hypothesis import Symptom
from headway.diagnosis.observed import Observed
from headway.diagnosis.reasoning import DiagnosisVerdict, diagnoses
from tests.unit.diagnosis.played import AT, ONSET, played, says
from tests.unit.diagnosis.test_diagnosis import CASES
from tests.unit.diagnosis.test_node_causes import CASES as NODE_CASES
from tests.unit.diagnosis.test_way_causes import CASES as WAY_CASES

TOLD = {cause: each for cause, each in {**CASES, **NODE_CASES, **WAY_CASES}.items() if each.states}
"""Causes of which objects tell."""
MINUTE, DAY = 60.0, 86_400.0
FAILING = {"errors": 0.3, "unreached": 0.3}


def ago(kind: StateKind, seconds: float, subject: str = "defects-r0123456789-5b6bb57495-aaaaa") -> State:
    return replace(says(kind, subject=subject), since=ONSET - seconds)


def found(observed: Observed) -> list[tuple[Symptom | None, str]]:
    return [(each.symptom, each.cause) for each in diagnoses(observed)]


@pytest.mark.parametrize("cause", TOLD)
def test_no_cause_is_masked_by_whatever_was_so_hours_before(cause: str) -> None:
    calm = TOLD[cause]
    old = tuple(ago(kind, 180 * MINUTE) for kind in StateKind)
    assert {*found(calm)} <= {*found(replace(calm, states=(*calm.states, *old)))}


@pytest.mark.parametrize("old", [StateKind.EVICTED, StateKind.MEMORY_KILLED, StateKind.DISK_FULL, StateKind.DRIVER_UNFIT])
def test_what_ended_long_before_did_not_end_what_hangs_now(old: StateKind) -> None:
    first, *_ = found(played(FAILING, states=(ago(old, 30 * MINUTE), says(StateKind.PROBE_KILLED))))
    assert first == (Symptom.FAILING, "server-hangs")


def test_what_was_evicted_long_after_requests_began_to_fail_did_not_begin_that() -> None:
    hangs, later = says(StateKind.PROBE_KILLED), ago(StateKind.EVICTED, -15 * MINUTE)
    assert found(played(FAILING, states=(later, hangs)))[0] == (Symptom.FAILING, "server-hangs")


def test_what_ended_again_long_after_may_have_begun_it() -> None:
    again = replace(ago(StateKind.MEMORY_KILLED, -15 * MINUTE), repeats=True)
    assert found(played(FAILING, states=(again,))) == [(Symptom.FAILING, "out-of-memory")]
    assert found(played(FAILING, states=(replace(again, repeats=False),)))[0] == (Symptom.FAILING, "")


def test_what_ended_again_after_the_moment_looked_at_hurt_nobody_then() -> None:
    later = replace(says(StateKind.MEMORY_KILLED), since=AT + 120 * MINUTE, repeats=True)
    assert [each.verdict for each in diagnoses(played(states=(later,)))] == [DiagnosisVerdict.NOTHING]
    assert found(played(states=(later, says(StateKind.IMAGE_MISSING)))) == [(Symptom.MISSING, "image-missing")]
    assert found(played(FAILING, states=(later,))) == [(Symptom.FAILING, "out-of-memory")]


@pytest.mark.parametrize("old", [StateKind.NODE_NOT_READY, StateKind.NODE_SET_APART])
def test_a_node_that_was_lost_days_ago_is_not_why_a_replica_is_missing_now(old: StateKind) -> None:
    first, second = found(played(states=(says(StateKind.IMAGE_MISSING), ago(old, 3 * DAY, "node-2"))))
    assert first == (Symptom.MISSING, "image-missing")
    assert second[0] is Symptom.SET_APART


@pytest.mark.parametrize("old", [StateKind.NODE_NOT_READY, StateKind.NODE_SET_APART])
def test_a_node_that_was_lost_days_ago_is_not_why_replicas_fell_now(old: StateKind) -> None:
    calm = played({"replicas": 1.0, "queue": 0.060})
    assert found(replace(calm, states=(ago(old, 3 * DAY, "node-2"),)))[0] == (Symptom.SLOW, "")
    assert found(replace(calm, states=(ago(old, 2 * MINUTE, "node-2"),)))[0][1] in ("node-not-ready", "node-in-quarantine")


def test_a_lost_node_alone_makes_no_replica_missing() -> None:
    assert [symptom for symptom, _ in found(played(states=(ago(StateKind.NODE_NOT_READY, DAY, "node-2"),)))] == [Symptom.SET_APART]


def test_a_replica_that_waits_now_for_a_node_long_in_quarantine_is_missing() -> None:
    waits = says(StateKind.QUARANTINED)
    assert found(played(states=(waits, ago(StateKind.NODE_SET_APART, 3 * DAY, "node-2"))))[0] == (Symptom.MISSING, "node-in-quarantine")


def test_replicas_that_are_missing_since_two_times_have_two_causes() -> None:
    waits = (ago(StateKind.GPUS_TAKEN, 120 * MINUTE), says(StateKind.IMAGE_MISSING, subject="defects-r0123456789-5b6bb57495-bbbbb"))
    newest, oldest = diagnoses(played(states=waits))
    assert (newest.cause, newest.onset) == ("image-missing", ONSET)
    assert (oldest.cause, oldest.onset) == ("gpus-taken", ONSET - 120 * MINUTE)


def test_one_cause_at_two_times_is_told_once() -> None:
    (one,) = diagnoses(played(states=(says(StateKind.MEMORY_KILLED), ago(StateKind.MEMORY_KILLED, 40 * MINUTE))))
    assert (one.cause, one.also) == ("out-of-memory", ())


def test_what_ended_and_is_ready_again_is_told_as_past_with_its_last_time() -> None:
    ended = replace(says(StateKind.MEMORY_KILLED), over=True)
    (past,) = diagnoses(played(states=(ended,)))
    assert past.over
    (present,) = diagnoses(played(states=(ended, replace(ended, subject="another", over=False))))
    assert past.links[0].says == f"containers ended and were started again, the last one at {clock(ONSET, AT)}"
    assert present.links[0].says == "containers end and are started again"


def test_what_ended_at_a_time_that_nobody_knows_has_no_time() -> None:
    (past,) = diagnoses(played(states=(replace(says(StateKind.EVICTED), since=None, over=True),)))
    assert past.links[0].says == "containers ended and were started again"


def test_a_server_that_failed_to_load_and_is_ready_now_makes_no_replica_missing() -> None:
    failed = replace(says(StateKind.LOAD_FAILED), over=True)
    (past,) = diagnoses(played(states=(failed,)))
    assert (past.cause, past.symptom, past.also, past.over) == ("load-failure", Symptom.ENDING, (), True)
    (present,) = diagnoses(played(states=(replace(failed, over=False),)))
    assert (present.symptom, present.over) == (Symptom.MISSING, False)
