"""Evidence for a whole life: never more than its budget of false alarms, and not late when something is wrong."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from headway.release.evaluation.drift import BETS, CellBets, Ranks, conformal_ranks, drift_begun, drift_factors, drift_observed
from headway.release.evaluation.lifelong import begun, observed, observed_all, stake, together
from headway.release.evaluation.loss import BETS as LOSS_BETS
from headway.release.evaluation.loss import loss_factors
from headway.release.evaluation.watched import CUTS, cut

SHARES = st.floats(0.0, 0.5)


def test_all_stakes_of_a_life_together_are_no_more_than_what_there_is():
    until = 200_000
    rest = stake(until) * (until + 100) * math.log(until + 100)  # the integral of such stakes from there on
    assert 0.98 < sum(map(stake, range(1, until))) + rest < 1.0


@given(st.lists(st.floats(0.0, 3.0), min_size=1, max_size=30))
def test_wealth_is_neither_made_nor_lost_by_bets_that_win_nothing(factors):
    evidence = begun(3)
    for _ in factors:
        evidence = observed(evidence, np.ones(3))
    assert evidence.value == pytest.approx(1.0)
    for factor in factors:
        evidence = observed(evidence, np.full(3, factor))
    assert evidence.value >= 0
    assert evidence.observations == 2 * len(factors)


@given(st.lists(st.booleans(), max_size=60), st.lists(st.booleans(), max_size=60))
def test_a_round_of_observations_is_worth_as_much_as_each_by_itself(before, after):
    one = begun(LOSS_BETS)
    for lost in (*before, *after):
        one = observed(one, loss_factors(float(lost), 0.03))
    many = begun(LOSS_BETS)
    for lost in (before, after):
        many = observed_all(many, loss_factors(np.asarray(lost, dtype=float), 0.03))
    assert many.observations == one.observations
    assert many.cash == pytest.approx(one.cash)
    assert many.wealth == pytest.approx(one.wealth)


@given(wrong=SHARES, accepted=st.floats(0.001, 0.9))
def test_a_loss_that_is_accepted_wins_nothing_in_the_mean(wrong, accepted):
    mean = wrong * loss_factors(1, accepted) + (1 - wrong) * loss_factors(0, accepted)
    assert (mean <= 1 + 1e-9).all() if wrong <= accepted else (mean > 1).all()


@given(loss=st.floats(0, 1), accepted=st.floats(0.001, 0.999))
def test_no_answer_can_cost_a_bet_all_that_it_has(loss, accepted):
    assert (loss_factors(loss, accepted) > 0).all()


def test_a_wrong_answer_is_worth_the_likelihood_ratio():
    assert loss_factors(1, 0.02)[0] == pytest.approx((0.02 + 0.98 * 0.03) / 0.02)
    assert loss_factors(0, 0.02)[0] == pytest.approx((1 - 0.02 - 0.98 * 0.03) / 0.98)


@pytest.mark.parametrize(("loss", "accepted"), [(1.5, 0.1), (-0.1, 0.1), (0, 1.0), (0, 0.0)])
def test_a_loss_that_no_bet_allows_for_is_refused(loss, accepted):
    with pytest.raises(ValueError, match="No bet allows for it"):
        loss_factors(loss, accepted)


def test_bets_on_p_values_win_nothing_in_the_mean_while_these_are_uniform():
    quantiles = np.linspace(-7, 7, 14_001)
    likely = np.exp(-(quantiles**2) / 2) / np.sqrt(2 * np.pi) / 1000
    means = (drift_factors(ndtr(quantiles)) * likely[:, None]).sum(axis=0)
    assert len(means) == BETS
    assert (means <= 1 + 1e-9).all()
    assert (means > 0.99).all()


def learning_of(seen):
    evidence = drift_begun([1, 1])
    for p in seen:
        evidence = drift_observed(evidence, Ranks(np.asarray(p), np.asarray([0.5, 0.5])))
    return evidence


@settings(max_examples=30)
@given(st.lists(st.floats(0, 0.999), max_size=700))
def test_what_a_learner_has_seen_never_lets_its_next_bet_win_in_the_mean(seen):
    evidence = learning_of(seen)
    after = [drift_observed(evidence, Ranks(np.asarray(p), np.asarray([0.5, 0.5]))).learned for p in (np.arange(100) + 0.5) / 100]
    assert np.mean([each.value for each in after]) == pytest.approx(float(evidence.learned.value))
    assert all((each.wealth >= 0).all() for each in after)


def test_money_of_learners_that_bet_no_more_is_kept():
    evidence = learning_of((number % 8 + 0.5) / 8 for number in range(1500))
    assert 0 < float(evidence.learned.kept) < 1
    assert evidence.learned.cash > 0
    assert float(evidence.learned.value) <= 1.0


@given(st.lists(st.integers(0, 400), min_size=2, max_size=32).filter(any))
def test_a_bet_on_a_cell_wins_nothing_in_the_mean_while_ranks_are_uniform(counts):
    bets = CellBets.of(counts)
    assert bets.steps * bets.more + (1 - bets.steps) * bets.less == pytest.approx(np.ones((3, len(counts))))
    assert bets.factors(np.full(len(counts), 1e-5)) == pytest.approx(bets.more.mean(axis=0))
    assert bets.factors(np.ones(len(counts))) == pytest.approx(bets.less.mean(axis=0))


@given(st.lists(st.integers(0, 5), min_size=2, max_size=6), st.data())
def test_a_rank_among_equals_is_every_rank_of_theirs_equally_often(counts, data):
    cell = data.draw(st.integers(0, len(counts) - 1))
    low, high = (conformal_ranks(counts, cell, tie) for tie in (0.0, 1.0))
    assert low.p == sum(counts[cell + 1 :]) / (sum(counts) + 1)
    assert high.p == pytest.approx((sum(counts[cell:]) + 1) / (sum(counts) + 1))
    for other, count in enumerate(counts):
        ends = (0, count + 1) if other == cell else (count, sum(counts) + 1)
        assert (low.of_cells[other], high.of_cells[other]) == pytest.approx([end / (sum(counts) + 1) for end in ends])


def ranks_of(value, earlier, tie):
    return conformal_ranks(np.bincount(earlier, minlength=5), value, tie)


def test_ranks_of_an_exchangeable_stream_are_uniform_and_independent():
    values = list(itertools.permutations(range(5)))
    ranks = {tuple(math.ceil(float(ranks_of(v[i], v[:i], 0.5).p) * (i + 1)) for i in (2, 3, 4)) for v in values}
    assert len(ranks) == 3 * 4 * 5, "each combination of ranks occurs, as of independent ones"


def drifting(onset, change, seed=1, streams=40, length=400, reference=200, shape=lambda values: values):
    """Number of values after the onset at which each stream was accused; not-a-number where it was not; minus where it was before."""
    rng = np.random.default_rng(seed)
    values = rng.standard_normal((streams, reference + length))
    values = shape(values)
    values[:, reference + onset :] = change(values[:, reference + onset :])
    edges = [cut(stream[:reference:CUTS]) for stream in values]
    cells = np.stack([np.searchsorted(each, stream, side="right") for each, stream in zip(edges, values, strict=True)])
    learned, accused = np.arange(reference), np.full(streams, np.nan)
    cutting, counts = (
        np.stack([np.bincount(one, minlength=32) for one in cells[:, learned[of]]]) for of in (learned % CUTS == 0, learned % CUTS > 0)
    )
    evidence = drift_begun(cutting)
    for place in range(reference, reference + length):
        evidence = drift_observed(evidence, conformal_ranks(counts, cells[:, place], rng.random(streams)))
        np.add.at(counts, (np.arange(streams), cells[:, place]), 1)
        accused = np.where(evidence.proven() & np.isnan(accused), place - reference - onset + 1, accused)
    return accused


@pytest.mark.parametrize(
    ("change", "within"),
    [
        (lambda values: values + 1.5, 40),
        (lambda values: values - 1.5, 40),
        (lambda values: 3 * values, 60),
        (lambda values: values / 5, 80),
        (lambda values: np.sign(values) * (0.95 + 0.3 * (np.abs(values) - 0.8)), 120),
    ],
    ids=["larger", "smaller", "more extreme", "less extreme", "of two kinds, as large and as spread as before"],
)
def test_a_change_of_values_is_found_whatever_its_kind_and_time(change, within):
    accused = drifting(200, change)
    assert (accused > 0).all()
    assert np.median(accused) < within


def test_one_class_of_ten_that_is_answered_three_times_as_often_is_found():
    rng = np.random.default_rng(4)
    more = rng.random((40, 400)) < 2 / 9

    def classes(values):
        return np.floor(10 * ndtr(values))

    def oftener(values):
        return np.where(more, 3, values)

    accused = drifting(100, oftener, length=500, reference=1000, shape=classes)
    assert 0 < np.nanmedian(accused) < 130
    assert np.isnan(accused).mean() < 0.1


@pytest.mark.parametrize(
    "shape",
    [lambda values: values, np.round, lambda values: np.sign(values) * np.exp(3 * np.abs(values))],
    ids=["normal", "few values, many ties", "heavy tails"],
)
def test_a_stream_that_does_not_change_is_left_alone_whatever_its_values(shape):
    assert np.isnan(drifting(400, lambda values: values, streams=300, shape=shape)).mean() >= 0.99


def test_a_version_that_begins_to_lose_is_accused_and_one_that_does_not_is_not():
    rng = np.random.default_rng(2)
    sound, worse = begun(LOSS_BETS), begun(LOSS_BETS)
    accused = None
    for number in range(3000):
        sound = observed(sound, loss_factors(int(rng.random() < 0.02), 0.02))
        worse = observed(worse, loss_factors(int(rng.random() < (0.02 if number < 1500 else 0.2)), 0.02))
        accused = number if accused is None and worse.proven() else accused
    assert not sound.proven()
    assert accused is not None
    assert 1500 < accused < 1600


def test_several_streams_share_one_budget():
    evidence = observed(begun(1), np.asarray([50.0]))
    assert together((evidence, begun(1))) == pytest.approx((float(evidence.value) + 1) / 2)
