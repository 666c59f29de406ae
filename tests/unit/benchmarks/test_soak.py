"""The soak's schedule, its invariants and the shrinking of what fails. What it finds on real servers is another tier's."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.soak.carrier import Carrier
from benchmarks.soak.invariants import ALLOWANCE_SECONDS, DISK, MEMORY, ArmSeen, ChainSeen, RouteSeen, SoakSeen, broken
from benchmarks.soak.schedule import HOUR, KINDS, LEAST_AN_HOUR, SoakEvent, read_script, scheduled, script
from benchmarks.soak.shrinking import shrunk

seeds = st.integers(0, 2**32)


@given(seed=seeds, hours=st.integers(1, 30))
def test_each_hour_has_at_least_two_hundred_events_in_order(seed: int, hours: int) -> None:
    events = scheduled(seed, hours)
    counted = [sum(hour * HOUR <= event.at <= (hour + 1) * HOUR for event in events) for hour in range(hours)]
    assert min(counted) >= LEAST_AN_HOUR == 200
    assert all(one.at <= other.at for one, other in itertools.pairwise(events))


@given(seed=seeds)
def test_a_seed_says_everything_about_its_events(seed: int) -> None:
    assert scheduled(seed, 1) == scheduled(seed, 1)
    assert scheduled(seed, 1) != scheduled(seed + 1, 1)
    assert scheduled(seed, 1) == scheduled(seed, 2)[: len(scheduled(seed, 1))], "a longer soak begins as a shorter one"


@given(seed=seeds)
def test_a_script_is_replayed_as_it_was_written(seed: int) -> None:
    events = scheduled(seed, 0.5)
    assert read_script(script(events)) == events


@pytest.mark.parametrize("line", ["{", "[]", '{"at": "x", "kind": "pod_dies", "about": {}}', '{"at": 1, "kind": "flood", "about": {}}'])
def test_what_is_no_script_is_refused_with_its_line(line: str) -> None:
    with pytest.raises(ValueError, match="line 2"):
        read_script(f"{SoakEvent(at=1.0, kind='pod_dies', about={}).line()}\n{line}\n")


def test_whatever_is_scheduled_can_be_carried_out() -> None:
    assert [kind for kind in KINDS if not callable(getattr(Carrier, kind, None))] == []
    day = {event.kind for event in scheduled(1, 24)}
    assert day == KINDS.keys(), "a day has each kind of event"


@given(size=st.integers(1, 60), guilty=st.sets(st.integers(0, 59), min_size=1, max_size=3))
def test_a_script_that_fails_shrinks_to_what_makes_it_fail(size: int, guilty: set[int]) -> None:
    guilty = {each % size for each in guilty}
    assert set(shrunk(range(size), lambda some: guilty <= set(some), 10_000)) == guilty


@given(size=st.integers(1, 60), replays=st.integers(0, 8))
def test_shrinking_replays_no_more_often_than_it_may(size: int, replays: int) -> None:
    asked: list[int] = []
    found = shrunk(range(size), lambda some: asked.append(len(some)) or size - 1 in some, replays)
    assert len(asked) <= replays
    assert size - 1 in found


BROKEN = {
    "chain: event 3": SoakSeen(chain=ChainSeen(flaws=("event 3 is missing",))),
    "chain: an event": SoakSeen(chain=ChainSeen(changed=True)),
    "lost: event 4": SoakSeen(chain=ChainSeen(lost=(4,))),
    "twice: 3 releases": SoakSeen(chain=ChainSeen(started=3, ended=1)),
    "twice: 1 releases": SoakSeen(chain=ChainSeen(started=1, ended=2)),
    "twice: a release": SoakSeen(chain=ChainSeen(started=2, ended=2, endings=(5, 5))),
    "unwatched: as it is, r2": SoakSeen(route=RouteSeen(left=frozenset({"r1", "r2"}), proven=frozenset({"r1"}))),
    "unwatched: by the stack, r2": SoakSeen(route=RouteSeen(planned=frozenset({"r2"}), proven=frozenset({"r1"}))),
    "unwatched: an unproven": SoakSeen(route=RouteSeen(overdue=1.0)),
    "route:": SoakSeen(route=RouteSeen(quiet=True, carried=False)),
    "unserved: r1": SoakSeen(arms={"r1": ArmSeen(without=ALLOWANCE_SECONDS + 1)}),
    "ownership:": SoakSeen(strangers=("Deployment odd",)),
    "lost: Service a": SoakSeen(missing=("Service a",)),
    "lost: note-1": SoakSeen(forgotten=("note-1",)),
    "unwatched: node n": SoakSeen(faulty={"n": 61.0}),
    "memory: soak": SoakSeen(memory={"soak": MEMORY["soak"] + 1}),
    "disk:": SoakSeen(disk=DISK + 1),
    "stuck:": SoakSeen(stuck="a runner"),
    "unexpected:": SoakSeen(unexpected=("a pod",)),
}


@pytest.mark.parametrize("said", BROKEN)
def test_each_invariant_is_told_when_it_does_not_hold(said: str) -> None:
    (found,) = broken(BROKEN[said])
    assert found.startswith(said)


def test_nothing_is_told_of_what_holds() -> None:
    route = RouteSeen(left=frozenset({"r1"}), planned=frozenset({"r1"}), proven=frozenset({"r1", "r2"}), quiet=True, overdue=-20.0)
    arms = {"r1": ArmSeen(without=ALLOWANCE_SECONDS + 1, told="exceeded quota"), "r2": ArmSeen(without=1.0)}
    seen = SoakSeen(chain=ChainSeen(started=2, ended=1, endings=(1,)), route=route, arms=arms, memory=MEMORY, disk=DISK, faulty={"n": 60.0})
    assert broken(seen) == ()
