"""Which loop of node health may act, and what it shows of itself."""

import urllib.error
import urllib.request
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.listening import showing
from headway.node_health.cluster import Done
from headway.node_health.decision import Readmit
from headway.node_health.facts import GpuNode, SlowReplica
from headway.node_health.leader_election import LeaderRecord, Turn
from headway.node_health.serving import Pulse
from headway.problem import UserError
from tests.exposition import samples


@dataclass
class Kept:
    """A record as the API server keeps one: a write over another version than the latest is refused."""

    now: float = 0.0
    record: LeaderRecord | None = None
    writes: int = 0
    away: bool = field(default=False)

    def read(self) -> LeaderRecord | None:
        if self.away:
            raise UserError("away", "", "")
        return self.record

    def write(self, holder: str, over: LeaderRecord | None) -> LeaderRecord | None:
        if self.read() != over:
            return None
        self.writes += 1
        self.record = LeaderRecord(holder=holder, version=str(self.writes))
        return self.record

    def turn(self, me: str) -> Turn:
        return Turn(self, me, lambda: self.now)


def test_the_second_loop_waits_until_the_lease_of_the_first_has_run_out() -> None:
    kept = Kept()
    first, second = kept.turn("a"), kept.turn("b")
    assert first.taken() and not second.taken()
    kept.now = 59.0
    assert not second.taken()
    kept.now = 60.0
    assert second.taken()
    assert not first.taken(), "whoever was replaced notices"


def test_a_holder_that_renews_is_never_replaced() -> None:
    kept = Kept()
    first, second = kept.turn("a"), kept.turn("b")
    for kept.now in range(0, 600, 15):
        assert first.taken()
        assert not second.taken()


def test_a_holder_that_ends_properly_is_followed_at_once() -> None:
    kept = Kept()
    first, second = kept.turn("a"), kept.turn("b")
    assert first.taken() and not second.taken()
    first.give_up()
    assert not first.lasts()
    assert second.taken()


def test_a_turn_ends_for_its_holder_before_it_ends_for_the_others() -> None:
    kept = Kept()
    turn = kept.turn("a")
    assert not turn.lasts()
    assert turn.taken()
    kept.now = 39.0
    assert turn.lasts()
    kept.now = 40.0
    assert not turn.lasts(), "or what it sends last could arrive in another's turn"


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["look", "act", "end"]), st.floats(0, 90)), max_size=60))
def test_no_two_loops_ever_believe_that_it_is_their_turn(steps: list[tuple[int, str, float]]) -> None:
    kept = Kept()
    turns = [kept.turn(name) for name in "abc"]
    for number, what, later in steps:
        kept.now += later
        if what == "look":
            turns[number].taken()
        elif what == "end":
            turns[number].give_up()
        assert sum(turn.lasts() for turn in turns) <= 1


def test_a_loop_that_waits_is_healthy_and_one_without_answers_is_not() -> None:
    now = 0.0
    pulse = Pulse(lambda: now, 120.0)
    now = 119.0
    assert pulse.well
    pulse.failed()
    now = 120.0
    assert not pulse.well
    pulse.looked(leads=False)
    assert pulse.well


def test_what_the_loop_did_and_what_was_refused_is_counted() -> None:
    now = 5.0
    pulse = Pulse(lambda: now, 120.0)
    node = GpuNode(name="n", pool="l4", offered={}, installed={})
    for refused in ("", "", "no"):
        pulse.acted(Done(action=Readmit(node=node), refused=refused))
    pulse.failed()
    slow = SlowReplica(pod="vision/defects-1", slower=1.31, siblings=3, evidence=4e5, needed=100)
    pulse.slow = {"n": slow, "watched": replace(slow, evidence=3.0)}
    pulse.looked(leads=True)
    now = 17.2504
    assert samples(pulse.text()) == {
        "headway_node_health_leads": 1,
        "headway_node_health_seconds_since_round": 12.25,
        "headway_node_health_failed_rounds_total": 1,
        "headway_node_health_actions_total action=readmit outcome=done": 2,
        "headway_node_health_actions_total action=readmit outcome=refused": 1,
        "headway_node_health_slower node=n replica=vision/defects-1": 1.31,
    }
    pulse.looked(leads=False)
    assert "headway_node_health_slower{" not in pulse.text()


def test_a_stuck_loop_fails_the_probe_that_has_it_started_anew() -> None:
    now = 0.0
    pulse = Pulse(lambda: now, 120.0)
    with showing(pulse, "127.0.0.1", 0) as port:
        assert urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz").read() == b"well\n"
        assert samples(urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read().decode())["headway_node_health_leads"] == 0
        now = 121.0
        with pytest.raises(urllib.error.HTTPError, match="503") as refused:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz")
        refused.value.close()
        with pytest.raises(UserError, match=f"127.0.0.1:{port} cannot be listened on"), showing(pulse, "127.0.0.1", port):
            pass
