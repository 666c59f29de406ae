"""Which users an experiment picks: the published function, evenly, independently of other experiments, and never back and forth."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.contract.assignment import BUCKETS, VECTORS, bucket, buckets_of

USERS = [f"user-{number}" for number in range(4_000)]
EXPERIMENTS = [f"experiment-{number}" for number in range(5)]
BY_EXPERIMENT = {experiment: [bucket(experiment, user) for user in USERS] for experiment in EXPERIMENTS}
SIGMAS = 5
"""A fair function leaves this in one of two million looks."""


@pytest.mark.parametrize(("experiment", "user", "expected"), VECTORS)
def test_a_users_bucket_matches_the_published_vectors(experiment: str, user: str, expected: int) -> None:
    assert bucket(experiment, user) == expected


@pytest.mark.parametrize("percent", [1, 10, 20, 50])
@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_the_new_version_gets_its_share_of_users(experiment: str, percent: int) -> None:
    inside = sum(found < buckets_of(percent) for found in BY_EXPERIMENT[experiment])
    share = percent / 100
    assert abs(inside - share * len(USERS)) < SIGMAS * math.sqrt(len(USERS) * share * (1 - share))


def test_two_experiments_do_not_pick_the_same_users() -> None:
    for one, other in pairwise(EXPERIMENTS):
        both = sum(a < BUCKETS // 2 and b < BUCKETS // 2 for a, b in zip(BY_EXPERIMENT[one], BY_EXPERIMENT[other], strict=True))
        assert abs(both - len(USERS) / 4) < SIGMAS * math.sqrt(len(USERS) * 0.25 * 0.75)


@given(experiment=st.text(max_size=40), user=st.text(max_size=60), low=st.integers(1, 99), high=st.integers(1, 99))
def test_whoever_has_the_new_version_keeps_it_when_the_share_grows(experiment: str, user: str, low: int, high: int) -> None:
    low, high = sorted((low, high))
    found = bucket(experiment, user)
    assert 0 <= found < BUCKETS
    assert found >= buckets_of(low) or found < buckets_of(high)


def test_the_whole_share_is_all_buckets_and_none_is_none() -> None:
    assert (buckets_of(0), buckets_of(1), buckets_of(100)) == (0, 100, BUCKETS)
