"""The cases on which diagnoses are measured."""

import pytest

from benchmarks.diagnosis.incidents import cases, set_aside
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


@pytest.mark.parametrize("which", [0, -1], ids=["triton", "vllm"])
def test_a_play_is_the_same_again_with_its_seed_and_another_with_another(which: int) -> None:
    case = CASES[which][0]
    assert case.played(1).series == case.played(1).series
    assert case.played(1).series != case.played(2).series


def test_what_a_fault_does_behind_it_follows_from_the_play() -> None:
    """A slow model fills batches and queues though the case says neither."""
    slow = next(case for case, _ in CASES if case.name == "usual: model-slower")
    series = slow.played(1).series
    for measure in ("queue", "batch_size", "busy", "latency"):
        values = [value for _, value in series[measure][""]]
        assert sum(values[62:]) / len(values[62:]) > 1.2 * sum(values[:60]) / 60, measure


def test_sequences_wait_for_a_place_and_are_thrown_out_of_a_full_cache() -> None:
    played = {case.name: case.played(1).series for case, _ in CASES if case.name.startswith("streamed: ")}

    def since(name: str, measure: str) -> float:
        values = [value for _, value in played[f"streamed: {name}"][measure][""]][62:]
        return sum(values) / len(values)

    assert since("concurrency-lowered", "queue") > 0.1 > since("nothing is wrong 0", "queue")
    assert since("concurrency-lowered", "preemptions") == 0
    assert since("cache-full", "preemptions") > 0.1 > since("nothing is wrong 0", "preemptions")
    assert since("longer-answers", "decode") > 1.5 * since("nothing is wrong 0", "decode")
