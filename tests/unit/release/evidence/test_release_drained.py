"""When a version that was taken back is seen to get nothing: two scrapes later than the first look, and no clock believed."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.release.evidence.drained import EarlierScrapes, newest, requests_since
from headway.release.evidence.samples import Series, TimedValue

ARM = "defects-r2"
POD = {"job": "pods", "instance": "10.0.0.7:15090", "pod": "defects-r2-6d5f9c7b8-abcde", "namespace": "vision"}
GATEWAY = {"job": "gateway", "instance": "10.0.9.1:15090"}
FIRST = EarlierScrapes(endpoint="http://prometheus", scrapes={("pods", POD["instance"]): 10.0})


def one(labels: Mapping[str, str], samples: Sequence[TimedValue], **more: str) -> Series:
    return Series({**labels, **more}, samples)


def up(*times: float, value: float = 1.0, of: Mapping[str, str] = POD) -> Series:
    return one(of, [(time, value) for time in times])


def looked(*counters: Series, scrapes: Sequence[Series], alive: Sequence[Series] | None = None) -> float | None:
    return requests_since(ARM, counters, scrapes, scrapes if alive is None else alive, FIRST).requests


def test_two_scrapes_that_count_the_same_after_the_first_look_are_zero() -> None:
    assert looked(one(POD, [(9, 5), (10, 6), (11, 7), (12, 7)]), scrapes=[up(9, 10, 11, 12)]) == 0.0


def test_one_new_scrape_says_nothing_even_if_it_counts_what_the_old_one_did() -> None:
    assert looked(one(POD, [(9, 5), (10, 7), (11, 7)]), scrapes=[up(9, 10, 11)]) is None


@pytest.mark.parametrize(
    ("counter", "requests"),
    [
        (one(POD, [(10, 7), (11, 7), (12, 9)]), 2.0),
        (one(POD, [(12, 3)], response_code="503"), 3.0),
        (one(POD, [(10, 7), (11, 7), (12, 2)]), 2.0),
        (one(POD, [(10, 7), (11, 9)]), 0.0),
    ],
    ids=["a rise", "a series that is born", "a counter that began anew", "a series that ended before"],
)
def test_what_was_counted_between_the_two_is_told(counter: Series, requests: float) -> None:
    assert looked(counter, scrapes=[up(10, 11, 12)]) == requests


def test_a_replica_that_cannot_be_scraped_is_no_zero() -> None:
    still_counted = one(POD, [(10, 7), (11, 7), (12, 7)])
    assert looked(still_counted, scrapes=[one(POD, [(10, 1), (11, 1), (12, 0)])]) is None
    assert looked(still_counted, scrapes=[one(POD, [(10, 1), (11, 0), (12, 1)])], alive=[up(12)]) is None


def test_a_replica_that_is_gone_gets_nothing_and_holds_nobody_up() -> None:
    other = {**POD, "instance": "10.0.0.8:15090"}
    gone = one(other, [(9, 50), (10, 60)])
    found = looked(one(POD, [(11, 7), (12, 7)]), gone, scrapes=[up(11, 12), up(9, 10, of=other)], alive=[up(12)])
    assert found == 0.0


def test_a_replica_that_never_counted_a_request_is_waited_for_like_the_others() -> None:
    silent = {**POD, "instance": "10.0.0.8:15090", "pod": "defects-r2-6d5f9c7b8-fghij"}
    counted = one(POD, [(11, 7), (12, 7)])
    assert looked(counted, scrapes=[up(11, 12), up(12, of=silent)]) is None
    assert looked(counted, scrapes=[up(11, 12), up(12, 13, of=silent)]) == 0.0


def test_users_who_reached_no_replica_were_sent_to_it_all_the_same() -> None:
    quiet = one(POD, [(11, 7), (12, 7)])
    assert looked(quiet, one(GATEWAY, [(11, 3), (12, 4)]), scrapes=[up(11, 12), up(11, 12, of=GATEWAY)]) == 1.0


def test_where_nobody_counts_its_requests_nothing_is_known() -> None:
    assert looked(scrapes=[up(11, 12, of=GATEWAY)]) is None


@given(
    rises=st.lists(st.integers(0, 3), min_size=3, max_size=12),
    first=st.integers(0, 9),
    shift=st.floats(-1e6, 1e6, allow_nan=False),
)
def test_zero_means_two_new_scrapes_with_equal_counts_whatever_a_clock_says(rises: list[int], first: int, shift: float) -> None:
    """Scrapes of a clock that is wrong by anything; the first look found `first` of them."""
    times = [shift + number for number in range(len(rises))]
    values = [float(sum(rises[: number + 1])) for number in range(len(rises))]
    seen = EarlierScrapes(endpoint="x", scrapes=newest([up(*times[:first])]))
    scrapes = [up(*times)]
    found = requests_since(ARM, [one(POD, list(zip(times, values, strict=True)))], scrapes, scrapes, seen).requests
    enough = len(rises) - first >= 2
    assert found == (float(rises[-1]) if enough else None)
