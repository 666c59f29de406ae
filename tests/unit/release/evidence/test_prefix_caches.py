"""First tokens are compared where prefix caches are about as warm, and are no evidence where they are not."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.release.evidence.prefix_cache import MOST_UNLIKE, alike, compared
from headway.release.report.token_figures import TokenSums, remark

SHARES = st.floats(min_value=0.0, max_value=1.0)


def arm() -> dict[str, Any]:
    buckets = {"first_token": [[5, 3]], "next_token": [[8, 0]]}
    return {"requests": [8], "buckets": buckets, "replicas": {"p": buckets}}


ARMS = {"stable": arm(), "baseline": arm(), "canary": arm()}


def said(**cached: float) -> dict[str, dict[str, float]]:
    """By arm, tokens of a hundred that the cache had."""
    return {part: {"cached": of, "looked_up": 100.0} for part, of in cached.items()}


@pytest.mark.parametrize(
    ("servers", "kept"),
    [
        (said(stable=60, canary=60), True),
        (said(stable=60, canary=10), False),
        (said(stable=10, canary=60), False),
        (said(stable=60, baseline=12, canary=10), True),
        (said(stable=10, baseline=60, canary=10), False),
        (said(stable=60), True),
        (said(canary=0), True),
        ({}, True),
        ({"stable": {"cached": 0.0, "looked_up": 0.0}, "canary": {"cached": 0.0, "looked_up": 9.0}}, True),
    ],
)
def test_a_cache_is_as_warm_as_the_controls_or_first_tokens_say_nothing(servers: dict[str, dict[str, float]], kept: bool) -> None:
    arms, told = compared(ARMS, servers)
    assert arms["stable"] == ARMS["stable"]
    if kept:
        assert (arms, told) == (ARMS, {})
    else:
        assert arms["canary"]["buckets"] == {"first_token": [[0, 0]], "next_token": [[8, 0]]} == arms["canary"]["replicas"]["p"]
        assert told["canary"] == pytest.approx(servers["canary"]["cached"] / 100)


def test_versions_that_are_compared_by_whole_answers_are_left_as_they_are() -> None:
    whole = {"canary": {"requests": [8], "buckets": {"latency": [[8, 0]]}}}
    assert compared(whole, said(stable=60, canary=10)) == (whole, {})


@given(SHARES, SHARES)
def test_neither_version_is_the_measure_of_the_other(one: float, other: float) -> None:
    assert bool(alike(one, other)) == bool(alike(other, one))


@given(SHARES)
def test_equal_caches_are_alike_and_what_nobody_knows_is_no_reason_to_wait(one: float) -> None:
    assert alike(one, one) and alike(one, math.nan) and alike(math.nan, one)


@given(SHARES.filter(lambda share: share > 0.01))
def test_what_is_compared_computes_at_most_so_much_more(one: float) -> None:
    assert not alike(one, one * MOST_UNLIKE * 1.01) and alike(one, one * MOST_UNLIKE * 0.99)


def test_a_report_says_that_first_tokens_are_not_compared_and_why() -> None:
    cold, warm = (TokenSums(sums={"cached": cached, "looked_up": 1000.0, "answers": 50.0, "answer": 500.0}) for cached in (120.0, 600.0))
    assert remark(cold, warm) == (
        "The new version's prefix cache had 12.0 % of the prompts' tokens and the stable version's 60.0 %; in minutes in which they are so far "
        "apart first tokens are not compared."
    )
    assert remark(warm, warm) == ""
