"""Watched numbers: what is taken of a sample, what the ledger keeps of it, and what comes of the letters that it keeps."""

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.contract.drift import MOST_NUMBERS, NumberOf, Rhythm, WatchedNumber
from headway.contract.sampling import Sample
from headway.ledger.events import Event, canonical
from headway.problem import UserError
from headway.release.evaluation.drift import conformal_ranks, drift_begun, drift_observed
from headway.release.evaluation.watched import LETTERS, DriftStanding, NumberStanding, celled, cut, hour_of, number_of, watched

FINITE = st.floats(-1e9, 1e9)


def sample(response: Any, request: Any = None) -> Sample:
    return Sample(request_id="a", workload="r", time="2026-11-25T10:00:00Z", mirrored=False, status=200, request=request, response=response)


def taken(value: Any, take: str) -> float | None:
    return number_of(
        sample({"outputs": [{"data": value}]}), WatchedNumber(name="x", of="response", at="/outputs/0/data", take=NumberOf(take))
    )


@pytest.mark.parametrize(
    ("value", "take", "number"),
    [
        (3, "number", 3.0),
        ([3.5], "number", 3.5),
        (True, "number", 1.0),
        ("héllo", "length", 5.0),
        ([[1, 2], [3]], "length", 3.0),
        ([1, 2, 6], "mean", 3.0),
        ([[0.1, 0.7, 0.2]], "largest", 0.7),
        ([[0.1, 0.7, 0.2]], "place", 1.0),
    ],
)
def test_one_number_is_taken_of_a_part_of_a_body(value: Any, take: str, number: float):
    assert taken(value, take) == pytest.approx(number)


@pytest.mark.parametrize("usual", [[0.0, 4.0], [0.0], [-4.0], [3.99996], [1234567.8]])
@pytest.mark.parametrize("step", [-1000.0, -1.0, 1.0, 1000.0])
def test_what_was_never_met_lies_apart_from_the_value_that_most_have(usual: list[float], step: float):
    beyond = (max(usual) if step > 0 else min(usual)) + step * max(1.0, max(usual) / 1000)
    edges = cut(usual * 100)
    assert celled([beyond], edges) not in celled(usual, edges)


@pytest.mark.parametrize("largest", [1.79768e308, -1.79768e308])
def test_no_value_of_a_caller_makes_an_edge_that_no_ledger_holds(largest: float):
    assert canonical(cut([1.0] * 100 + [largest]))


@pytest.mark.parametrize(
    ("value", "take"),
    [
        ("text", "number"),
        ([1, 2], "number"),
        ([], "largest"),
        (["a"], "mean"),
        ([1e308] * 3, "mean"),
        (None, "place"),
        ([float("nan")], "largest"),
        ({}, "length"),
    ],
)
def test_what_has_no_such_number_is_left_out(value: Any, take: str):
    assert taken(value, take) is None


def test_a_sample_without_that_body_or_that_part_is_left_out():
    watched = WatchedNumber(name="x", of="request", at="/inputs/1", take=NumberOf.NUMBER)
    assert number_of(sample({"inputs": [1, 2]}), watched) is None
    assert number_of(sample(None, {"inputs": [1]}), watched) is None
    assert number_of(sample(None, {"inputs": [1, 2]}), watched) == 2.0


@given(st.lists(FINITE, min_size=1, max_size=200), st.lists(FINITE, max_size=50))
def test_letters_keep_the_order_of_values_and_nothing_else(values: list[float], later: list[float]):
    edges = cut(values)
    assert list(edges) == sorted(set(edges))
    assert len(edges) < len(LETTERS)
    cells = [LETTERS.index(letter) for letter in celled(sorted(later), edges)]
    assert cells == sorted(cells)


def test_cells_are_equal_in_the_middle_and_halve_towards_the_ends():
    values = list(np.random.default_rng(1).exponential(size=3200))
    counts = np.bincount([LETTERS.index(letter) for letter in celled(values, cut(values))], minlength=len(LETTERS))
    assert list(counts[:8]) == pytest.approx([0, 0, 3, 9, 12, 25, 50, 100], abs=2)
    assert list(counts[:-9:-1]) == pytest.approx(list(counts[:8]), abs=3)
    assert all(164 < count < 186 for count in counts[8:24])


def test_a_value_beyond_all_that_were_usual_outranks_them():
    values = list(np.random.default_rng(1).normal(size=1000))
    edges = cut(values[::4])
    usual, far = celled(values, edges), celled([30.0], edges)
    assert usual.count(far) <= 1


def standing_cut(values: int = 32) -> NumberStanding:
    return NumberStanding.cut_by(edges=range(1, values), cutting=[1] * values)


@given(st.lists(st.sampled_from(LETTERS), min_size=25, max_size=60), st.text(LETTERS, min_size=1, max_size=20))
def test_evidence_from_letters_is_that_of_conformal_ranks_of_their_cells(reference: list[str], later: str):
    standing = standing_cut().learned(3, "".join(reference)).after(3, later, Random(7))
    chance, counts, evidence = Random(7), np.zeros(32, dtype=int), drift_begun([1] * 32)
    np.add.at(counts, [LETTERS.index(letter) for letter in reference], 1)
    for letter in later:
        evidence = drift_observed(evidence, conformal_ranks(counts, LETTERS.index(letter), chance.random()))
        counts[LETTERS.index(letter)] += 1
    assert standing.evidence.value == pytest.approx(evidence.value)
    assert (standing.seen, standing.latest) == (len(later), later)


def test_a_value_is_compared_with_those_of_its_hour_only():
    quiet, busy = "0" * 60, "V" * 60
    learned = standing_cut().learned(3, quiet).learned(15, busy)
    assert learned.after(15, busy, Random(1)).evidence.value < 2
    assert learned.after(3, busy, Random(1)).evidence.value > 100


def test_without_enough_earlier_values_of_its_hour_a_value_only_joins_them():
    standing = standing_cut().learned(3, "0" * 30).after(4, "V" * 20, Random(1))
    assert standing.evidence.observations == 0
    assert standing.after(4, "V", Random(1)).evidence.observations == 1


@pytest.mark.parametrize(
    ("edges", "cutting"), [([], [3]), ([2, 1], [1, 1, 1]), ([1], [1]), ([1], [2, -1]), ([1], [0, 0]), (range(40), [1] * 41)]
)
def test_a_reference_that_nothing_could_have_cut_is_refused(edges, cutting):
    with pytest.raises(ValueError, match=r"edges|cutting"):
        NumberStanding.cut_by(edges, cutting)


@pytest.mark.parametrize("take", ["learned", "after"])
def test_a_letter_of_no_cell_is_refused(take):
    standing = standing_cut(4)
    with pytest.raises(ValueError, match="cells"):
        standing.learned(3, "4") if take == "learned" else standing.after(3, "4", Random(1))


@pytest.mark.parametrize(("rhythm", "hour"), [(Rhythm.NONE, 0), (Rhythm.DAY, 10), (Rhythm.WEEK, 2 * 24 + 10)])
def test_an_hour_is_one_of_its_rhythm(rhythm: Rhythm, hour: int):
    assert hour_of(1_764_151_200 - 86_400 * 0, rhythm) == hour  # Wednesday, 2025-11-26, 10:00 UTC


@pytest.mark.parametrize("more", [0, 1])
def test_a_reference_of_more_numbers_than_a_contract_watches_is_refused(more: int) -> None:
    names = [str(number) for number in range(MOST_NUMBERS + more)]
    cut_by = {"edges": {name: [0.0] for name in names}, "cutting": {name: [1, 1] for name in names}}
    body = {"release": "r", "watched": "w", "rhythm": "none", "seed": 1, "until": 1.0, "windows": [], **cut_by}
    event = Event(number=1, previous="", time="2026-11-21T10:00:00+00:00", actor="ci", kind="reference-taken", body=body)
    if more:
        with pytest.raises(UserError, match="does not know"):
            watched([event], DriftStanding(release="r", watched="w"))
    else:
        assert len(watched([event], DriftStanding(release="r", watched="w")).numbers) == MOST_NUMBERS
