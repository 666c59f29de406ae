"""Simulated engines keep to what they hold, and routers to what they say."""

from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.engine_pools.__main__ import H100, above
from benchmarks.engine_pools.engine import BLOCK, Job, Pace, SimulatedEngine
from benchmarks.engine_pools.prompts import BURSTS, SHARINGS, Prompt, at_load, burst, shared, work
from benchmarks.engine_pools.replay import Answered, replay
from benchmarks.engine_pools.routers import ROUTERS

PACE = Pace(weights=0.01, sequence=0, launch=0, token=1e-3, attended=0, context=0, capacity=320, budget=64)


def job(number: int, prompt: int, output: int, keys: str = "", arrived: float = 0.0) -> Job:
    fresh = count(1000 * (number + 1))
    whole = [ord(key) for key in keys]
    return Job(number, prompt, output, [*whole, *(next(fresh) for _ in range((prompt + output) // BLOCK - len(whole)))], arrived)


def test_a_prompt_is_computed_in_parts_and_its_answer_token_by_token() -> None:
    engine, one = SimulatedEngine(PACE), job(0, 100, 3)
    engine.take(one)
    engine.advance(10)
    assert (one.first, one.ended) == (pytest.approx(0.064 + 0.036), pytest.approx(0.1 + 2 * 0.01))


def test_what_an_engine_holds_is_not_computed_again() -> None:
    engine = SimulatedEngine(PACE)
    for number, arrived in ((0, 0.0), (1, 5.0)):
        engine.take(one := job(number, 64, 1, "abc", arrived))
        engine.advance(arrived + 5)
    assert one.first == pytest.approx(5.0 + 0.016)
    assert engine.found == 48


def test_a_prompt_without_a_place_waits_until_another_has_ended() -> None:
    engine, one, other = SimulatedEngine(PACE), job(0, 200, 20), job(1, 200, 1)
    engine.take(one)
    engine.take(other)
    engine.advance(100)
    assert one.ended and other.first and other.first > one.ended


def test_an_answer_without_a_place_sends_the_newest_request_back() -> None:
    engine, one, other = SimulatedEngine(PACE), job(0, 150, 100), job(1, 150, 100)
    engine.take(one)
    engine.take(other)
    engine.advance(100)
    assert engine.preempted == 1
    assert one.ended and other.ended and other.ended > one.ended


@settings(max_examples=30)
@given(
    st.lists(st.tuples(st.integers(1, 200), st.integers(1, 60), st.sampled_from(["", "a", "ab", "abc", "xy"])), min_size=1, max_size=25),
    st.sampled_from(sorted(ROUTERS)),
)
def test_every_prompt_is_answered_whoever_sends_it(rows: list[tuple[int, int, str]], router: str) -> None:
    prompts = [
        Prompt(number / 10, max(tokens, 16 * len(keys) + 1), output, tuple(job(number, max(tokens, 16 * len(keys) + 1), output, keys).keys))
        for number, (tokens, output, keys) in enumerate(rows)
    ]
    found = replay(prompts, PACE, 3, ROUTERS[router])
    assert all(0 < each.first <= each.whole for each in found.answers)
    assert 0 <= found.hit < 1


@pytest.mark.parametrize("sharing", SHARINGS, ids=lambda sharing: sharing.name)
def test_prompts_have_in_common_what_is_asked_for(sharing: object) -> None:
    rows = [(float(at), 800, 100) for at in range(300)]
    prompts = shared(rows, sharing, 1)  # pyright: ignore[reportArgumentType]
    seen, known = set[int](), list[int]()
    for each in prompts:
        known.append(sum(key in seen for key in each.keys))
        seen |= set(each.keys)
    assert [len(each.keys) for each in prompts] == [900 // BLOCK] * 300
    assert (max(known) > 0) == (sharing is not SHARINGS[0])


def test_a_load_is_the_share_of_the_engines_that_the_work_takes() -> None:
    rows = at_load([(float(at), 1000, 50) for at in range(101)], H100, 4, 0.5)
    assert 101 * work(H100, 1000, 50) / (rows[-1][0] * 4) == pytest.approx(0.5)


@pytest.mark.parametrize("kind", BURSTS)
def test_bursts_are_ten_times_as_many(kind: str) -> None:
    prompts = burst(kind, 120, 5, 3)
    within = sum(each.arrived % 30 < 3 for each in prompts)
    assert within / 12 == pytest.approx(10 * (len(prompts) - within) / 108, rel=0.3)


def test_ours_is_held_against_the_best_of_the_others_in_every_slice() -> None:
    def answered(first: float) -> list[Answered]:
        return [Answered(float(at), at % 7, first, first, 0) for at in range(4000)]

    found = above({"Headway": answered(1.1), "round robin": answered(1.0), "sglang-router": answered(2.0), "vllm-router": answered(3.0)})
    assert found == pytest.approx([0.1] * 7)
