"""What a picker knows of its pools, from prompt to prompt."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.endpoint_picker import tracking
from headway.endpoint_picker.process import PickerPage
from headway.endpoint_picker.server import PickerState
from headway.endpoint_picker.tracking import FIRST_RATE, EngineFacts, Tracked

A, B = "10.0.0.1:8000", "10.0.0.2:8000"


def pool(block: int = 16, **capacities: int) -> Tracked:
    found = Tracked(block)
    found.endpoints({A: EngineFacts(capacity=capacities.get("a", 10_000)), B: EngineFacts(capacity=capacities.get("b", 10_000))})
    return found


def test_a_conversation_goes_on_where_it_began() -> None:
    tracked = pool()
    first = tracked.send(0, "first", "", 64, "abcd")
    tracked.ended(0.2, "first")
    assert tracked.send(5, "other", "", 64, "wxyz") != first
    tracked.ended(5.5, "other")
    assert tracked.send(6, "second", "", 96, "abcdef") == first


def test_prompts_that_begin_alike_at_once_are_spread() -> None:
    tracked = pool()
    prompts = {number: [*range(40), *(f"own {number} {each}" for each in range(10))] for number in range(4)}
    assert {tracked.send(0, number, "", 800, keys) for number, keys in prompts.items()} == {A, B}


def test_a_queue_is_believed_to_shorten_while_it_is_computed() -> None:
    tracked = pool()
    tracked.send(0, "long", "", int(FIRST_RATE / 2), ())
    assert tracked.send(0.01, "short", "", int(FIRST_RATE / 4), ()) == B
    tracked.send(0.25, "on B", "", int(FIRST_RATE / 3), ())
    assert tracked.send(0.49, "next", "", 100, ()) == A, "of the long one next to nothing is left"


def test_a_pool_computes_as_fast_as_its_engines_show_and_no_other_does() -> None:
    tracked = Tracked(16)
    tracked.endpoints({A: EngineFacts("r1"), B: EngineFacts("r1"), "10.0.0.3:8000": EngineFacts("r2"), "10.0.0.4:8000": EngineFacts("r2")})
    tracked.reported(A, None, 1000.0, 10.0)
    for name in ("r1", "r2"):
        first = tracked.send(0, f"long {name}", name, 2000, ())
        tracked.send(0.01, f"short {name}", name, 400, ())
        assert (tracked.send(3, f"next {name}", name, 10, ()) == first) is (name == "r2"), "at 100 tokens a second it is still busy"


def test_an_engine_that_has_nothing_left_waits_for_nothing() -> None:
    tracked = pool()
    tracked.reported(A, None, 1.0, 10.0)
    first = tracked.send(0, "long", "", 5000, ())
    tracked.ended(1, "long")
    tracked.send(1, "other", "", 10, ())
    assert tracked.send(1, "next", "", 10, ()) == first


def test_an_endpoint_that_is_gone_is_not_picked_and_its_requests_end() -> None:
    tracked = pool()
    for number in range(4):
        tracked.send(0, number, "", 100, ())
    tracked.endpoints({A: EngineFacts(capacity=10_000)})
    for number in range(4):
        tracked.ended(2, number)
    tracked.reported(B, 5, 10.0, 1.0)
    assert tracked.send(3, "next", "", 100, ()) == A


def test_an_endpoint_that_comes_back_holds_nothing() -> None:
    tracked = pool()
    tracked.send(0, "first", "", 64, "abcd")
    tracked.ended(1, "first")
    tracked.endpoints({})
    assert tracked.send(2, "none", "", 64, "abcd") is None
    tracked.endpoints({A: EngineFacts(capacity=10_000), B: EngineFacts(capacity=10_000)})
    assert {tracked.send(3, each, "", 64, each * 4) for each in "pq"} == {A, B}


def test_an_endpoint_is_picked_of_the_version_that_is_asked_for() -> None:
    tracked = Tracked(16)
    tracked.endpoints({A: EngineFacts("r1"), B: EngineFacts("r2")})
    assert [tracked.send(0, number, "r2", 5000, ()) for number in range(3)] == [B] * 3
    assert tracked.send(0, "none", "r3", 10, ()) is None
    assert tracked.counts() == (2, 3)


def test_requests_that_others_sent_count_as_load() -> None:
    tracked = pool()
    tracked.reported(A, 5)
    tracked.reported("10.0.0.9:8000", 5)
    assert [tracked.send(0, number, "", 10, ()) for number in range(3)] == [B] * 3


def test_an_endpoint_that_says_its_size_holds_what_it_held_unless_begun_anew() -> None:
    tracked = Tracked(16)
    tracked.endpoints({A: EngineFacts(life="1"), B: EngineFacts(life="1")})
    first = tracked.send(0, "first", "", 64, "abcd")
    tracked.ended(1, "first")
    tracked.endpoints({A: EngineFacts(capacity=10_000, life="1"), B: EngineFacts(capacity=10_000, life="1")})
    assert tracked.send(2, "second", "", 64, "abcd") == first
    tracked.ended(3, "second")
    tracked.endpoints({A: EngineFacts(capacity=10_000, life="2"), B: EngineFacts(capacity=10_000, life="2")})
    assert {tracked.send(4, each, "", 64, "abcd") for each in "pq"} == {A, B}


def two_tenants() -> Tracked:
    """`liar` says that its only engine holds more than any; `fair` has two of the usual size."""
    found = Tracked(1)
    found.endpoints(
        {A: EngineFacts("e.liar", 1 << 40), B: EngineFacts("e.fair", 4), "10.0.0.3:8000": EngineFacts("e.fair", 1 << 40)},
    )
    return found


def test_an_engine_that_says_it_holds_everything_fills_its_tenants_part_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracking, "MOST_HELD", 40)
    tracked = two_tenants()
    for number in range(50):
        tracked.send(number, number, "e.liar", 4, [f"{number} {each}" for each in range(4)])
        tracked.ended(number, number)
    for number in range(20):
        tracked.send(number, number, "e.fair", 4, [f"{number} {each}" for each in range(4)])
    assert tracked.held() == {A: 20, B: 4, "10.0.0.3:8000": 10}


def sent(tracked: Tracked, pool: str, requests: int) -> int:
    """How many of so many prompts of four blocks each, which stay open, are remembered."""
    before = tracked.forgone
    for number in range(requests):
        assert tracked.send(0, (pool, number), pool, 4, [f"{pool} {number} {each}" for each in range(4)])
    return requests - (tracked.forgone - before)


def test_a_tenant_has_all_the_room_that_nobody_else_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracking, "MOST_ASKED", 20)
    tracked = two_tenants()
    assert sent(tracked, "e.liar", 9) == 5
    assert "headway_endpoint_picker_forgone_total 4.0" in PickerPage(PickerState(lambda: 0.0, tracked)).text()


def test_callers_who_keep_requests_open_fill_their_tenants_part_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracking, "MOST_ASKED", 20)
    tracked = two_tenants()
    sent(tracked, "e.liar", 9)
    assert sent(tracked, "e.fair", 9) == 2, "its own part"
    for number in range(9):
        tracked.ended(1, ("e.liar", number))
    assert tracked.send(2, "later", "e.liar", 4, "wxyz") == A
    assert tracked.held()[A] == 24


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["send", "ended", "gone"]), st.text("abc", max_size=5)), max_size=60))
def test_when_every_request_has_ended_nothing_is_counted(steps: list[tuple[int, str, str]]) -> None:
    tracked, sent = pool(), set[int]()
    for now, (request, what, keys) in enumerate(steps):
        if what == "send" and request not in sent:
            tracked.send(now, request, "", 16 * len(keys) + 1, keys)
            sent.add(request)
        elif what == "ended":
            tracked.ended(now, request)
            sent.discard(request)
        elif what == "gone":
            tracked.endpoints({A: EngineFacts(capacity=10_000)})
    for request in sent:
        tracked.ended(len(steps), request)
    assert tracked.idle()
