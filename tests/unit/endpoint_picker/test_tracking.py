"""What a picker knows of its pool, from prompt to prompt."""

from hypothesis import given
from hypothesis import strategies as st

from headway.endpoint_picker.tracking import EngineFacts, Tracked

A, B = "10.0.0.1:8000", "10.0.0.2:8000"


def pool(block: int = 16, **capacities: int) -> Tracked:
    found = Tracked(block)
    found.endpoints({A: EngineFacts(capacity=capacities.get("a", 10_000)), B: EngineFacts(capacity=capacities.get("b", 10_000))})
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
    assert {tracked.send(0, number, 800, [*range(40), *(f"own {number} {each}" for each in range(10))]) for number in range(4)} == {
        (A,),
        (B,),
    }


def test_a_queue_is_believed_to_shorten_while_it_is_computed() -> None:
    tracked = pool()
    tracked.send(0, "long", 8000, ())
    assert tracked.send(0.01, "short", 4000, ()) == (B,)
    tracked.answering(0.1, "short")
    tracked.send(0.1, "on B", 6000, ())
    assert tracked.send(0.39, "next", 100, ()) == (A,), "of 8,000 tokens 200 are left"


def test_an_endpoint_that_is_gone_is_not_picked_and_its_requests_end() -> None:
    tracked = pool()
    for number in range(4):
        tracked.send(0, number, 100, ())
    tracked.endpoints({A: EngineFacts(capacity=10_000)})
    for number in range(4):
        tracked.answering(1, number)
        tracked.ended(2, number)
    assert tracked.send(3, "next", 100, ()) == (A,)


def test_an_endpoint_that_comes_back_holds_nothing() -> None:
    tracked = pool()
    first = tracked.send(0, "first", 64, "abcd")
    tracked.ended(1, "first")
    tracked.endpoints({})
    assert tracked.send(2, "none", 64, "abcd") == ()
    tracked.endpoints({A: EngineFacts(capacity=10_000), B: EngineFacts(capacity=10_000)})
    assert {tracked.send(3, each, 64, each * 4) for each in "pq"} == {(A,), (B,)}, first


def test_only_the_endpoints_that_are_asked_for_are_picked() -> None:
    tracked = pool()
    assert [tracked.send(0, number, 5000, (), among=[B]) for number in range(3)] == [(B,)] * 3
    assert tracked.send(0, "none", 10, (), among=["10.0.0.3:8000"]) == ()


def two_pools() -> Tracked:
    found = Tracked(16)
    found.endpoints({A: EngineFacts("r1"), B: EngineFacts("r2"), "10.0.0.3:8000": EngineFacts("r2")})
    return found


def test_of_every_pool_one_endpoint_is_picked_until_one_has_served() -> None:
    tracked = two_pools()
    picked = tracked.send(0, "first", 64, "abcd")
    assert picked[0] == A
    assert picked[1] in {B, "10.0.0.3:8000"}
    assert tracked.served(1, "first", picked[1])
    assert tracked.counts() == (3, 1)
    tracked.ended(2, "first")
    assert tracked.idle()
    assert tracked.send(3, "second", 96, "abcdef")[1] == picked[1], "only who served holds the prompt"


def test_what_was_served_elsewhere_counts_nowhere() -> None:
    tracked = two_pools()
    tracked.send(0, "first", 8000, ())
    assert not tracked.served(1, "first", "10.0.0.9:8000")
    assert tracked.served(1, "unknown", A)
    tracked.answering(1, "first")
    tracked.ended(2, "first")
    assert tracked.idle()


def test_requests_that_others_sent_count_as_load() -> None:
    tracked = pool()
    tracked.reported(A, 5)
    tracked.reported("10.0.0.9:8000", 5)
    assert [tracked.send(0, number, 10, ()) for number in range(3)] == [(B,)] * 3


def test_an_endpoint_that_says_its_size_holds_what_it_held_unless_begun_anew() -> None:
    tracked = Tracked(16)
    tracked.endpoints({A: EngineFacts(life="1"), B: EngineFacts(life="1")})
    first = tracked.send(0, "first", 64, "abcd")[0]
    tracked.ended(1, "first")
    tracked.endpoints({A: EngineFacts(capacity=10_000, life="1"), B: EngineFacts(capacity=10_000, life="1")})
    assert tracked.send(2, "second", 64, "abcd") == (first,)
    tracked.ended(3, "second")
    tracked.endpoints({A: EngineFacts(capacity=10_000, life="2"), B: EngineFacts(capacity=10_000, life="2")})
    assert {tracked.send(4, each, 64, "abcd")[0] for each in "pq"} == {A, B}


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
