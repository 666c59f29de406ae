"""Means before and since, of minutes that resemble their neighbours, and where a series changed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.diagnosis.comparison import compared, mean
from headway.diagnosis.onset import Onset, onset


def _serial(random: np.random.Generator, blocks: int, likeness: float) -> list[float]:
    """An AR(1) series around 1 with a standard deviation of 0.1."""
    values, last = list[float](), float(random.normal())
    for _ in range(blocks):
        last = likeness * last + float(np.sqrt(1 - likeness**2) * random.normal())
        values.append(1 + 0.1 * last)
    return values


@pytest.mark.parametrize(("likeness", "most"), [(0.0, 0.06), (0.3, 0.11), (0.6, 0.20)])
def test_of_equal_halves_few_intervals_miss_zero(likeness: float, most: float) -> None:
    random = np.random.default_rng(7)
    missed = 0
    for _ in range(1000):
        found = compared(_serial(random, 30, likeness), _serial(random, 20, likeness))
        assert found is not None
        missed += not found.low <= 0 <= found.high
    assert missed / 1000 <= most


def test_neighbours_that_resemble_each_other_widen_the_interval() -> None:
    up_and_down, in_two_parts = [1.0, 2.0] * 10, [1.0] * 10 + [2.0] * 10
    alternating, parts = mean(up_and_down), mean(in_two_parts)
    assert alternating is not None and parts is not None
    assert parts.error > 2 * alternating.error


def test_of_two_blocks_nobody_knows_how_they_scatter() -> None:
    assert compared([1.0, 2.0], [3.0, 4.0, 5.0]) is None
    assert compared([1.0, 2.0, float("nan")], [3.0, 4.0, 5.0]) is None


def test_a_rise_must_be_proven_and_as_large_as_asked() -> None:
    found = compared([1.0, 1.1, 0.9, 1.0], [1.5, 1.6, 1.4, 1.5])
    assert found is not None
    assert found.rose(1.25) and not found.rose(2.0) and not found.rose(1.25, least=1.0) and not found.fell(1.1)


def test_a_fall_must_be_proven_and_as_large_as_asked() -> None:
    found = compared([1.5, 1.6, 1.4, 1.5], [1.0, 1.1, 0.9, 1.0])
    assert found is not None
    assert found.fell(1.25) and not found.fell(2.0) and not found.fell(1.25, least=1.0) and not found.rose(1.1)


def test_a_rise_from_nothing_is_as_many_times_as_one_likes() -> None:
    found = compared([0.0] * 5, [0.2] * 5)
    assert found is not None and found.rose(1000.0)


def _steps(*levels: float) -> list[tuple[float, float]]:
    return [(60.0 * number, value) for number, value in enumerate(levels)]


def test_the_onset_is_the_last_sample_of_before() -> None:
    assert onset(_steps(1, 1, 1, 1, 5, 5, 5, 5)) == Onset(time=180.0, calm=0.0)


def test_what_grows_and_grows_began_where_it_left_its_level() -> None:
    growing = _steps(*[1.0, 1.1, 0.9] * 10, *(3.0 * 1.5**step for step in range(6)))
    assert onset(growing) == Onset(time=29 * 60.0, calm=0.0)
    found = compared([each for _, each in growing[:30]], [each for _, each in growing[30:]])
    assert found is not None and found.rose(2.0)


def test_a_minute_that_was_odd_moves_no_onset() -> None:
    assert onset(_steps(1, 9, 1, 1, 1, 1, 5, 5, 5, 5, 5, 5)) == Onset(time=300.0, calm=0.0)


@pytest.mark.parametrize(
    "levels",
    [(1, 1, 1, 1, 1, 1), (5, 5, 5, 5, 1, 1, 1, 1), (1, 1, 5, 5, 1, 1), (1, 5), ()],
    ids=["level", "better", "over", "short", "empty"],
)
def test_what_did_not_become_worse_has_no_onset(levels: tuple[float, ...]) -> None:
    assert onset(_steps(*levels)) is None


@pytest.mark.parametrize(("likeness", "length", "most"), [(0.0, 60, 2), (0.0, 360, 8), (0.5, 60, 14), (0.5, 360, 10)])
def test_noise_has_no_onset(likeness: float, length: int, most: int) -> None:
    random = np.random.default_rng(3)
    found = [onset(_steps(*_serial(random, length, likeness))) for _ in range(200)]
    assert sum(each is not None for each in found) <= most


@given(
    seed=st.integers(0, 2**32 - 1),
    earlier=st.lists(st.tuples(st.integers(4, 30), st.floats(2.5, 9.0), st.integers(8, 60)), max_size=3),
    level=st.floats(2.5, 4.0),
    length=st.integers(4, 40),
)
def test_incidents_that_are_over_neither_hide_the_next_nor_count_as_calm(
    seed: int, earlier: list[tuple[int, float, int]], level: float, length: int
) -> None:
    random = np.random.default_rng(seed)
    levels = [1.0] * 30
    for hurt, worse, calm in earlier:
        levels += [worse] * hurt + [1.0] * calm
    began = len(levels)
    calm = began - (earlier[-1][2] if earlier else 30)
    values = np.array([*levels, *[level] * length]) * (1 + 0.05 * random.normal(size=began + length))
    found = onset(_steps(*values.tolist()))
    assert found is not None
    assert abs(found.time / 60 - (began - 1)) <= 1
    assert found.calm / 60 >= calm - 1


@pytest.mark.parametrize("calm", [[0.0] * 66, [0.08] * 33 + [0.1] * 33], ids=["one level", "two levels"])
def test_the_end_of_an_incident_is_no_calm_of_the_next(calm: list[float]) -> None:
    found = onset(_steps(*[0.0] * 14, *[1.0] * 20, 0.4, *calm, 0.4, 0.9, 0.6, 0.4, 1.0, 0.9))
    assert found is not None and (found.time / 60, found.calm / 60) == (100, 37)
