"""What users felt a while ago and feel no more: it is still why a promise burns, or why somebody is paged for it."""

from dataclasses import replace

import pytest

from headway.diagnosis.facts import StateKind
from headway.diagnosis.hypothesis import Symptom
from headway.diagnosis.observed import Observed
from headway.diagnosis.reasoning import DiagnosisVerdict, diagnoses
from headway.diagnosis.wording import why_unknown
from tests.unit.diagnosis.played import AT, BEGAN, STEPS, played, says


def over(**levels: float) -> Observed:
    """A promise that burns for what was so for four minutes, and is well again."""
    whole = played()
    for name, level in {"burn": 100.0, **levels}.items():
        end = STEPS if name == "burn" else STEPS - 4
        line = [(moment, level if STEPS - 8 <= step < end else value) for step, (moment, value) in enumerate(whole.of(name))]
        whole = replace(whole, series={**whole.series, name: {"": tuple(line)}})
    return whole


@pytest.mark.parametrize(
    ("levels", "cause", "says"),
    [
        ({"errors": 0.4, "failures": 0.4}, "model-fails", "requests failed until 22:09:20 UTC"),
        ({"latency": 0.090}, "way-longer", "answers took longer until 22:09:20 UTC"),
    ],
)
def test_what_hurt_a_moment_ago_is_why_a_promise_still_burns(levels: dict[str, float], cause: str, says: str) -> None:
    (found,) = diagnoses(over(**levels))
    assert (found.cause, found.links[0].says) == (cause, says)


def paged(observed: Observed) -> Observed:
    """Somebody is paged for a budget, and still is when nothing burns it any more."""
    line = tuple((moment, 1.0 if step > BEGAN else 0.0) for step, (moment, _) in enumerate(observed.of("paged")))
    return replace(observed, series={**observed.series, "paged": {"": line}})


@pytest.mark.parametrize("ago", [10, 16])
def test_what_hurt_before_a_page_that_still_fires_is_why(ago: int) -> None:
    """A page of six hours and thirty minutes outlasts what it is for by up to half an hour."""
    whole = played()
    for name, level in {"burn": 100.0, "errors": 0.4, "failures": 0.4}.items():
        line = [(moment, level if STEPS - ago - 5 <= step < STEPS - ago else value) for step, (moment, value) in enumerate(whole.of(name))]
        whole = replace(whole, series={**whole.series, name: {"": tuple(line)}})
    (found,) = diagnoses(paged(whole))
    assert (found.cause, found.over) == ("model-fails", True)
    assert found.links[0].says.startswith("requests failed until ")


def test_of_a_page_that_outlasts_what_it_is_for_nothing_false_is_said() -> None:
    (found,) = diagnoses(paged(played()))
    assert (found.verdict, found.symptom, found.over) == (DiagnosisVerdict.UNKNOWN, Symptom.BROKEN, True)
    assert found.links[0].says == "a promise was broken faster than it may be"
    assert found.links[0].evidence == ("0.2 times as fast as it may, and only its page still fires",)
    assert why_unknown(found).startswith("it is over")


def test_a_cause_of_which_one_harm_is_past_and_one_is_not_is_not_over() -> None:
    killed = replace(says(StateKind.MEMORY_KILLED), since=AT - 100)
    whole = over(errors=0.4, unreached=0.4)
    (found,) = diagnoses(replace(whole, states=(killed,)))
    assert (found.cause, found.symptom, found.also) == ("out-of-memory", Symptom.ENDING, (Symptom.FAILING,))
    assert not found.over and found.links[0].says == "containers end and are started again"
