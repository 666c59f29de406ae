"""What callers may do to a service, and what only looks as if they did."""

from typing import Any

import pytest

from headway.diagnosis.hypothesis import Symptom
from headway.diagnosis.observed import Observed
from headway.diagnosis.reasoning import Diagnosis, DiagnosisVerdict, diagnoses
from tests.unit.diagnosis.played import ONSET, STEP, played, release

STORM = {"requests": 150.0, "errors": 0.4, "failures": 0.4, "queue": 0.030}
"""Two of five requests fail, and callers ask again for them."""
NEW = ("malformed_by_pod", {"defects-r0123456789-a": (0.0, 0.4), "defects-r9876543210-b": (0.0, 0.0)})
OLD = ("malformed_by_pod", {"defects-r0123456789-a": (0.0, 0.4), "defects-r9876543210-b": (0.0, 0.4)})


def later(observed: Observed, seconds: float, *measures: str) -> Observed:
    """The same, but that these measures rose so much later."""
    series = dict(observed.series)
    for name in measures:
        whole = series[name][""]
        before = [value for moment, value in whole if moment <= ONSET]
        series[name] = {"": tuple((m, before[i % len(before)] if ONSET < m <= ONSET + seconds else v) for i, (m, v) in enumerate(whole))}
    return Observed(**{**observed.__dict__, "series": series})


def causes(observed: Observed) -> list[str]:
    return [each.cause for each in diagnoses(observed)]


def only(observed: Observed) -> Diagnosis:
    (found,) = diagnoses(observed)
    return found


def test_requests_that_rise_after_failures_are_a_consequence() -> None:
    found = only(later(played(STORM), 4 * STEP, "requests", "queue", "latency", "served", "at_replica"))
    assert (found.cause, Symptom.SLOW in (found.symptom, *found.also)) == ("model-fails", True)


def test_callers_who_say_that_they_ask_again_are_believed_at_once() -> None:
    found = only(played(STORM | {"repeated": 0.35}))
    assert found.cause == "model-fails"


def test_a_storm_whose_trigger_is_gone_is_named_itself() -> None:
    slow = {"requests": 180.0, "queue": 0.200, "left": 0.45, "repeated": 0.4}
    found = only(played(slow))
    assert found.cause == "callers-repeat"
    assert "ask again" in " ".join(found.links[-1].evidence)


def test_a_slow_model_whose_callers_ask_again_is_still_the_cause() -> None:
    slow = {"compute": 0.080, "busy": 0.9, "left": 0.3, "requests": 140.0, "repeated": 0.25}
    assert causes(played(slow)) == ["model-slower"]


def test_what_rises_in_one_minute_with_failures_could_be_either() -> None:
    found = only(played({"requests": 170.0, "queue": 0.030, "left": 0.4}))
    assert found.cause == "more-requests"
    doubt = next(each for each in found.could_be if each.name == "callers-repeat")
    assert "nobody can tell which first" in doubt.said


def test_more_requests_of_which_more_are_answered_well_are_no_repetitions() -> None:
    found = only(later(played({"requests": 250.0, "queue": 0.030, "left": 0.1}), 4 * STEP, "requests", "queue", "latency"))
    assert (found.cause, [each for each in found.could_be if each.name == "callers-repeat"]) == ("more-requests", [])


def test_failures_that_follow_more_requests_are_not_repeated_by_them() -> None:
    found = only(later(played({"requests": 170.0, "queue": 0.030, "left": 0.4}), 4 * STEP, "left"))
    assert (found.cause, "callers-repeat" in {each.name for each in found.ruled_out}) == ("more-requests", True)


@pytest.mark.parametrize("innocent", [(), (release(30.0),)])
def test_a_client_that_sends_what_cannot_be_read_is_found(innocent: tuple[Any, ...]) -> None:
    bad = played({"malformed": 0.4}, apart=dict([OLD]), changes=innocent)
    assert causes(bad) == ["malformed-requests"]


def test_a_version_that_alone_refuses_what_the_one_before_takes_is_the_cause() -> None:
    assert causes(played({"malformed": 0.4}, apart=dict([NEW]), changes=(release(30.0),))) == ["new-version"]


def test_larger_requests_are_not_blamed_where_their_size_stayed() -> None:
    found = only(played({"compute": 0.060}))
    assert {each.name: each.said for each in found.ruled_out}["larger-requests"].startswith("bytes of a request")


def test_requests_that_fail_while_as_many_come_as_before_are_no_storm() -> None:
    found = only(played({"errors": 0.2, "failures": 0.2}))
    assert (found.verdict, found.cause) == (DiagnosisVerdict.CAUSE, "model-fails")
