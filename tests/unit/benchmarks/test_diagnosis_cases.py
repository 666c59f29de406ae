"""The cases on which diagnoses are measured."""

from benchmarks.diagnosis.incidents import cases, set_aside
from benchmarks.diagnosis.played_service import observed
from headway.diagnosis.hypotheses import HYPOTHESES

CASES = cases()


def test_every_truth_is_a_cause_that_can_be_named() -> None:
    roots = {each.name for each in HYPOTHESES if each.root}
    assert {truth for _, truths in CASES for truth in truths} - {"?"} <= roots


def test_no_two_cases_have_one_name() -> None:
    names = [case.name for case, _ in CASES]
    assert len(names) == len(set(names))


def test_about_half_of_the_cases_are_set_aside_by_their_names() -> None:
    aside = sum(set_aside(case) for case, _ in CASES)
    assert len(CASES) >= 120
    assert 0.4 <= aside / len(CASES) <= 0.6


def test_a_play_is_the_same_again_with_its_seed_and_another_with_another() -> None:
    case = CASES[0][0]
    assert observed(case, 1).series == observed(case, 1).series
    assert observed(case, 1).series != observed(case, 2).series


def test_what_a_fault_does_behind_it_follows_from_the_play() -> None:
    """A slow model fills batches and queues though the case says neither."""
    slow = next(case for case, _ in CASES if case.name == "usual: model-slower")
    series = observed(slow, 1).series
    for measure in ("queue", "batch_size", "busy", "latency"):
        values = [value for _, value in series[measure][""]]
        assert sum(values[62:]) / len(values[62:]) > 1.2 * sum(values[:60]) / 60, measure
