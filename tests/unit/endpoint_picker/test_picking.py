"""Where a prompt goes: tables by hand, and what holds for every pool."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.endpoint_picker.picking import MOVED, OVERFLOW, RUNNING, EngineState, cost, pick, worth

ENGINES = st.builds(
    EngineState,
    address=st.sampled_from([f"10.0.0.{each}:8000" for each in range(9)]),
    missing=st.floats(0, 1e6),
    queued=st.floats(0, 1e6),
    running=st.integers(0, 300),
    held=st.integers(0, 500_000),
    capacity=st.none() | st.integers(1, 500_000),
    turn=st.integers(0, 50),
)
POOLS = st.lists(ENGINES, min_size=1, max_size=8, unique_by=lambda engine: engine.address)


@pytest.mark.parametrize(
    ("why", "a", "b", "chosen"),
    [
        ("the shorter queue", EngineState("a", queued=900), EngineState("b", queued=800), "b"),
        ("the cache, while its wait is shorter than what it saves", EngineState("a", queued=900), EngineState("b", missing=1000), "a"),
        ("the other one, once the wait is longer", EngineState("a", queued=1100), EngineState("b", missing=1000), "b"),
        ("fewer answers in progress", EngineState("a", running=3), EngineState("b", running=2), "b"),
        ("the one with room in its cache", EngineState("a", held=900, capacity=1000), EngineState("b", queued=1000, capacity=1000), "b"),
        ("of equals the one that waited longest", EngineState("a", turn=7), EngineState("b", turn=3), "b"),
        ("of new ones the first by name", EngineState("b"), EngineState("a"), "a"),
    ],
)
def test_a_prompt_goes_where_it_costs_least(why: str, a: EngineState, b: EngineState, chosen: str) -> None:
    found = pick(500, [a, b])
    assert found.address == chosen, why


def test_each_part_of_a_cost_is_in_tokens_of_prefill() -> None:
    engine = EngineState("a", missing=10, queued=100, running=2, held=900, capacity=1000)
    assert cost(150, engine) == 100 + 10 + 2 * RUNNING + 50 * OVERFLOW


def test_a_conversation_is_dear_to_move_and_an_opening_cheap() -> None:
    assert [worth(sharers) for sharers in (0, 1, 3)] == [MOVED, 0.5, 0.25]


@given(POOLS, st.integers(1, 100_000))
def test_no_endpoint_is_cheaper_than_the_picked_one(pool: list[EngineState], prompt: int) -> None:
    chosen = pick(prompt, pool)
    assert chosen in pool
    assert all(cost(prompt, chosen) <= cost(prompt, each) for each in pool)


@given(POOLS, st.integers(1, 100_000), st.randoms(use_true_random=False))
def test_the_order_of_endpoints_says_nothing(pool: list[EngineState], prompt: int, order: object) -> None:
    mixed = list(pool)
    order.shuffle(mixed)  # pyright: ignore[reportAttributeAccessIssue]
    assert pick(prompt, mixed) == pick(prompt, pool)
