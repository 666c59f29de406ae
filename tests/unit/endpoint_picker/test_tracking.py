"""What a picker knows of its pool, from prompt to prompt."""

from hypothesis import given
from hypothesis import strategies as st

from headway.endpoint_picker.tracking import Tracked

A, B = "10.0.0.1:8000", "10.0.0.2:8000"


def pool(block: int = 16, **capacities: int) -> Tracked:
    found = Tracked(block)
    found.endpoints({A: capacities.get("a", 10_000), B: capacities.get("b", 10_000)})
    return found


def test_a_conversation_goes_on_where_it_began() -> None:
    tracked = pool()
    first = tracked.send(0, "first", 64, "abcd")
    tracked.answering(0.1, "first")
    tracked.ended(0.2, "first")
    assert tracked.send(5, "other", 64, "wxyz") != first
    tracked.ended(5.5, "other")
    assert tracked.send(6, "second", 96, "abcdef") == first


def test_prompts_that_begin_alike_at_once_are_spread() -> None:
    tracked = pool()
    assert {tracked.send(0, number, 800, [*range(40), *(f"own {number} {each}" for each in range(10))]) for number in range(4)} == {A, B}


def test_a_queue_is_believed_to_shorten_while_it_is_computed() -> None:
    tracked = pool()
    tracked.send(0, "long", 8000, ())
    assert tracked.send(0.01, "short", 4000, ()) == B
    tracked.answering(0.1, "short")
    tracked.send(0.1, "on B", 6000, ())
    assert tracked.send(0.39, "next", 100, ()) == A, "of 8,000 tokens 200 are left"


def test_an_endpoint_that_is_gone_is_not_picked_and_its_requests_end() -> None:
    tracked = pool()
    for number in range(4):
        tracked.send(0, number, 100, ())
    tracked.endpoints({A: 10_000})
    for number in range(4):
        tracked.answering(1, number)
        tracked.ended(2, number)
    assert tracked.send(3, "next", 100, ()) == A


def test_an_endpoint_that_comes_back_holds_nothing() -> None:
    tracked = pool()
    first = tracked.send(0, "first", 64, "abcd")
    tracked.ended(1, "first")
    tracked.endpoints({})
    assert tracked.send(2, "none", 64, "abcd") is None
    tracked.endpoints({A: 10_000, B: 10_000})
    assert {tracked.send(3, each, 64, each * 4) for each in "pq"} == {A, B}, first


def test_only_the_endpoints_that_are_asked_for_are_picked() -> None:
    tracked = pool()
    assert [tracked.send(0, number, 5000, (), among=[B]) for number in range(3)] == [B, B, B]
    assert tracked.send(0, "none", 10, (), among=["10.0.0.3:8000"]) is None


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["send", "answering", "ended"]), st.text("abc", max_size=5)), max_size=60))
def test_when_every_request_has_ended_nothing_is_counted(steps: list[tuple[int, str, str]]) -> None:
    tracked, sent = pool(), set[int]()
    for now, (request, what, keys) in enumerate(steps):
        if what == "send" and request not in sent:
            tracked.send(now, request, 16 * len(keys) + 1, keys)
            sent.add(request)
        elif what == "answering":
            tracked.answering(now, request)
        elif what == "ended":
            tracked.ended(now, request)
            sent.discard(request)
    for request in sent:
        tracked.ended(len(steps), request)
    assert tracked.idle()
