"""Watched numbers: what is taken of a sample, what the ledger keeps of it, and what comes of the letters that it keeps."""

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.contract.drift import NumberOf, Rhythm, WatchedNumber
from headway.contract.sampling import Sample
from headway.release.evaluation.drift import conformal_p, drift_begun, drift_observed
from headway.release.evaluation.watched import LETTERS, NumberStanding, celled, cut, hour_of, number_of

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


@pytest.mark.parametrize(
    ("value", "take"),
    [
        ("text", "number"),
        ([1, 2], "number"),
        ([], "largest"),
        (["a"], "mean"),
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


def test_cells_hold_about_equally_many_of_the_values_that_cut_them():
    values = list(np.random.default_rng(1).exponential(size=3200))
    counts = np.bincount([LETTERS.index(letter) for letter in celled(values, cut(values))])
    assert len(counts) == len(LETTERS)
    assert 90 < counts.min() <= counts.max() < 110


@given(st.lists(st.sampled_from(LETTERS), min_size=25, max_size=60), st.text(LETTERS, min_size=1, max_size=20))
def test_evidence_from_letters_is_that_of_conformal_p_values_of_their_cells(reference: list[str], later: str):
    standing = NumberStanding(edges=()).learned(3, "".join(reference)).after(3, later, Random(7))
    chance, cells, evidence = Random(7), [LETTERS.index(letter) for letter in reference], drift_begun()
    for letter in later:
        evidence = drift_observed(evidence, conformal_p(LETTERS.index(letter), cells, chance.random()))
        cells.append(LETTERS.index(letter))
    assert standing.evidence.value == pytest.approx(evidence.value)
    assert (standing.seen, standing.latest) == (len(later), later)


def test_a_value_is_compared_with_those_of_its_hour_only():
    quiet, busy = "0" * 30, "V" * 30
    learned = NumberStanding(edges=()).learned(3, quiet).learned(15, busy)
    assert learned.after(15, busy, Random(1)).evidence.value < 2
    assert learned.after(3, busy, Random(1)).evidence.value > 100


def test_without_enough_earlier_values_of_its_hour_a_value_only_joins_them():
    standing = NumberStanding(edges=()).learned(3, "0" * 30).after(4, "V" * 20, Random(1))
    assert standing.evidence.observations == 0
    assert standing.after(4, "V", Random(1)).evidence.observations == 1


@pytest.mark.parametrize(("rhythm", "hour"), [(Rhythm.NONE, 0), (Rhythm.DAY, 10), (Rhythm.WEEK, 2 * 24 + 10)])
def test_an_hour_is_one_of_its_rhythm(rhythm: Rhythm, hour: int):
    assert hour_of(1_764_151_200 - 86_400 * 0, rhythm) == hour  # Wednesday, 2025-11-26, 10:00 UTC
