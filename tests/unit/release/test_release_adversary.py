"""Two runners, the guard, the planner, people, and somebody who writes where the ledger lies: whatever they do, in
whichever order, no traffic stays on a version that the chain does not prove and that nobody watches.

Runners stop at each meeting with ledger or cluster, and may be killed there, or go on long after another one took
over. The adversary has every right on the objects of the bucket, and does not append a sound event: that is what a runner's
rights are (docs/security.md). Removing versions, it writes the whole chain anew from before what the witness names.
"""

import os
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule, run_state_machine_as_test

from headway.contract.model import Model
from headway.contract.reading.loader import load_tenant
from headway.contract.released import release_id
from headway.contract.rollout import LONGEST_UNWATCHED
from headway.ledger import bundle
from headway.ledger import lease as leases
from headway.ledger.chain import Ledger, LostError
from headway.ledger.events import UNBOUND, Event, digest, genesis, key, parse
from headway.ledger.lease import LeaseRecord
from headway.ledger.reading import proof
from headway.ledger.serving import latest
from headway.ledger.store import UnreachableError
from headway.ledger.traffic_split import TrafficSplit
from headway.problem import UserError
from headway.release.driver.adoption import adopt
from headway.release.driver.driver import ReleaseDriver
from headway.release.driver.event_kinds import EventKind, OperatorRequest
from headway.release.driver.leased_run import LeasedRun
from headway.release.driver.rollout_state import ServiceState, fold
from headway.release.driver.start import StartOptions, begin
from tests.unit.release.town import Ledgered, Seat, Town, Turn, exposed, look, rendered
from tests.unit.release_world import CHAIN, ROOM, UNASKED, Reading

ENVIRONMENT = "sandbox"
FOREVER = LONGEST_UNWATCHED + timedelta(minutes=1)
POLICY = {"strategy": "canary", "weights": ["50%"], "step_at_least": "1m", "bake": "5m", "unwatched_at_most": "1m"}

MOMENTS = (0, 7, 12, 13, 14, 15, 16, 18, 33, 36, 38, 40, 42, 44, 46, 47, 48)
"""Numbers of events after which something is half done."""

numbers = st.integers(1, 60)
slots = st.integers(0, 1)
kinds = st.sampled_from([EventKind.INTENDED, EventKind.ENDED, EventKind.ASKED, EventKind.STARTED, EventKind.ADOPTED])
BODIES: dict[str, dict[str, Any]] = {
    EventKind.ENDED: {"outcome": "promoted", "reason": "so"},
    EventKind.ASKED: {"wish": OperatorRequest.PROMOTE.value, "reason": "so"},
}


@cache
def versions() -> tuple[Model, ...]:
    """The one that serves, a good one and one that fails requests."""
    (found,) = load_tenant(Path(__file__).parents[3] / "tenants" / "vision").contracts
    old = next(model for model in found.models if model.name == "defects").model_dump(mode="json")
    named = [{**old["artifact"], "version": version} for version in ("2026.12.0", "2026.12.1", "2026.12.2")]
    return tuple(Model.model_validate({**old, "artifact": artifact, "rollout": POLICY}) for artifact in named)


@dataclass
class Runner:
    """One that drives."""

    seat: Seat
    turn: Turn
    ledger: Ledger


class Besieged(RuleBasedStateMachine):
    @initialize(version=st.integers(1, 2), events=st.sampled_from(MOMENTS))
    def begins(self, version: int, events: int) -> None:
        """In the middle of a release."""
        self.runners: list[Runner | None] = [None, None]
        self.guards: list[Turn] = []
        self.store = Ledgered()
        self.town = Town(self.store)
        self.town.requests = 60_000.0
        self.store.clock = lambda: self.town.clock
        self.away = {"ledger": self.town.clock, "cluster": self.town.clock, "witness": self.town.clock}
        self.store.away = lambda: self.town.clock < self.away["ledger"]
        self.town.api.away = lambda: self.town.clock < self.away["cluster"]
        self.town.witness.away = lambda: self.town.clock < self.away["witness"]
        self.rewritten = False
        self.lose = 0
        self.store.loses = self.loses
        self.town.bad = frozenset({release_id(versions()[2])})
        self.leases: list[bytes] = []
        self.kept: dict[str, bytes] = {}
        self.known: tuple[Event, ...] = ()
        serving = versions()[0]
        adopt(self.ledger("stack"), self.store, serving.model_dump(mode="json"), release_id(serving))
        split = latest(self.store, CHAIN, ENVIRONMENT)
        assert split is not None
        self.town.begins(split)
        self.proven()
        self.a_release_begins(version)
        self.a_runner_comes(0, 0.0)
        self.a_runner_goes_on_until_events_are_written(0, events)

    def loses(self) -> bool:
        self.lose -= self.lose > 0
        return self.lose > 0

    def teardown(self) -> None:
        for runner in self.runners:
            if runner:
                runner.turn.dies()
        for guard in self.guards:
            guard.dies()

    def ledger(self, actor: str, store: Ledgered | None = None, now: Any = None) -> Ledger:
        return Ledger(store or self.store, CHAIN, ENVIRONMENT, actor, now or (lambda: self.town.clock), self.town.witness)

    # -- people and runners ----------------------------------------------------------------------------------------------------

    @rule(version=st.integers(0, 2))
    def a_release_begins(self, version: int) -> None:
        with suppress(UserError, LostError, UnreachableError):
            begin(self.ledger("ci"), self.store, versions()[version], ROOM, StartOptions(), UNASKED)

    @rule(wish=st.sampled_from(OperatorRequest))
    def somebody_asks(self, wish: OperatorRequest) -> None:
        with suppress(UserError, LostError, UnreachableError):
            ledger = self.ledger("person")
            ledger.read()
            ledger.append(EventKind.ASKED, {"wish": wish.value, "reason": "noon"})

    @rule(who=slots, ahead=st.sampled_from([0.0, 0.0, 4.0, -4.0, 900.0]))
    def a_runner_comes(self, who: int, ahead: float) -> None:
        before = self.runners[who]
        if before and not before.turn.over:
            return
        seat = Seat(self.town, ahead)
        ledger = self.ledger(f"runner {who}", self.store.seen_by(seat.waits), seat.now)
        run: Any = seat
        driver = ReleaseDriver(LeasedRun(ledger, run, Reading(), f"runner {who}"))
        turn = seat.turn = Turn(driver.run)
        self.runners[who] = Runner(seat, turn, ledger)

    @rule(who=slots, steps=st.integers(1, 12))
    def a_runner_takes_some_steps(self, who: int, steps: int) -> None:
        runner, meetings = self.runners[who], count(1)
        if runner:
            runner.turn.goes_on(lambda: next(meetings) >= steps)

    @rule(who=slots, events=st.integers(1, 8))
    def a_runner_goes_on_until_events_are_written(self, who: int, events: int) -> None:
        runner, before, meetings = self.runners[who], len(self.store.versions), count(1)
        if runner:
            runner.turn.goes_on(lambda: len(self.store.versions) >= before + events or next(meetings) > 3000)

    @rule(who=slots, events=st.sampled_from(MOMENTS))
    def another_one_takes_over(self, who: int, events: int) -> None:
        """While the first one stands still, for longer than its lease lasts."""
        self.town.goes_to(self.town.clock + timedelta(seconds=61))
        self.a_runner_comes(who, 0.0)
        self.a_runner_goes_on_until_events_are_written(who, events)

    @rule(who=slots, version=st.integers(0, 2), events=st.sampled_from(MOMENTS))
    def the_next_release_is_carried_out(self, who: int, version: int, events: int) -> None:
        self.a_release_begins(version)
        self.another_one_takes_over(who, events)

    @rule(who=slots)
    def a_runner_is_killed(self, who: int) -> None:
        runner = self.runners[who]
        if runner:
            runner.turn.dies()
            self.runners[who] = None

    @rule(who=slots, seconds=st.sampled_from([-3600.0, -30.0, 3.0, 30.0, 3600.0]))
    def a_runners_clock_jumps(self, who: int, seconds: float) -> None:
        runner = self.runners[who]
        if runner:
            runner.seat.jumps(seconds)

    @rule()
    def somebody_updates_the_stack(self) -> None:
        self.town.update("person")

    # -- the world -------------------------------------------------------------------------------------------------------------

    @rule(seconds=st.sampled_from([1, 20, 61, 130, 1000]))
    def time_passes(self, seconds: int) -> None:
        self.town.goes_to(self.town.clock + timedelta(seconds=seconds))

    @rule(what=st.sampled_from(["ledger", "cluster"]), seconds=st.sampled_from([2, 40, 130]))
    def something_is_out_of_reach(self, what: str, seconds: int) -> None:
        self.away[what] = self.town.clock + timedelta(seconds=seconds)

    @precondition(lambda self: not self.rewritten)
    @rule(seconds=st.sampled_from([2, 40, 130]))
    def the_witness_is_out_of_reach(self, seconds: int) -> None:
        self.away["witness"] = self.town.clock + timedelta(seconds=seconds)

    @rule(writes=st.integers(1, 3))
    def answers_are_lost(self, writes: int) -> None:
        self.lose = writes

    @precondition(lambda self: len(self.guards) < 2)
    @rule(steps=st.integers(1, 4))
    def a_replica_of_the_guard_stalls(self, steps: int) -> None:
        made: list[Turn] = []
        api, now = self.town.api.seen_by(lambda: made[0].waits()), self.town.clock
        made.append(Turn(lambda: look(api, now)))
        for _ in range(steps):
            made[0].goes_on()
        self.guards.append(made[0])

    @precondition(lambda self: self.guards)
    @rule()
    def a_replica_of_the_guard_goes_on(self) -> None:
        guard = self.guards.pop(0)
        while not guard.over:
            guard.goes_on()

    # -- the adversary ---------------------------------------------------------------------------------------------------------

    def forged(self, number: int, previous: str, kind: str, version: int) -> bytes:
        name = release_id(versions()[version])
        body = BODIES.get(kind) or {"division": TrafficSplit.only(name, digest(name.encode())).document()}
        return Event(number=number, previous=previous, time="2026-11-21T12:00:00.000Z", actor="mallory", kind=kind, body=body).stored()

    @rule(at=numbers, after=st.integers(-2, 60), kind=kinds, version=st.integers(0, 2))
    def mallory_forges(self, at: int, after: int, kind: str, version: int) -> None:
        """Under any number, after any event but the last one."""
        at, after = min(at, len(self.known) + 2), min(after, at - 2)
        starts = {0: UNBOUND, -1: genesis(CHAIN, ENVIRONMENT), -2: genesis("assist/chat", ENVIRONMENT)}
        previous = self.known[after - 1].hash if 0 < after < len(self.known) else starts.get(after, "f" * 64)
        self.store.objects.pop(key(CHAIN, at), None)
        self.put(key(CHAIN, at), self.forged(at, previous, kind, version))

    def put(self, name: str, content: bytes) -> None:
        self.store.objects[name] = content
        self.store.versions.setdefault(name, []).append(content)

    @rule(number=numbers, to=numbers)
    def mallory_replays(self, number: int, to: int) -> None:
        if number <= len(self.known) and to != number:
            self.put(key(CHAIN, min(to, len(self.known) + 2)), self.known[number - 1].stored())

    @rule(back=st.integers(0, 5), count=st.integers(1, 60))
    def mallory_deletes(self, back: int, count: int) -> None:
        last = len(self.known) - back
        for number in range(last, max(0, last - count), -1):
            self.store.objects.pop(key(CHAIN, number), None)

    @rule(name=st.sampled_from(["0", "zzz", "9/a"]), content=st.sampled_from([b"", b"[]", b"{"]))
    def mallory_leaves_rubbish(self, name: str, content: bytes) -> None:
        self.put(f"{CHAIN}/events/{name}", content)

    @rule(number=st.integers(1, 2), version=st.integers(0, 2))
    def mallory_bundles(self, number: int, version: int) -> None:
        previous, made = genesis(CHAIN, ENVIRONMENT), list[Event]()
        for each in range(1, bundle.EVENTS * number + 1):
            content = self.forged(each, previous, EventKind.INTENDED, version)
            previous = digest(content)
            made.append(Event(number=each, previous=previous, time="", actor="", kind="x", body={}))
        content = bundle.bundled(one.stored() for one in made[(number - 1) * bundle.EVENTS : number * bundle.EVENTS])
        assert content is not None
        self.put(bundle.key(CHAIN, number), content)

    @rule(version=st.integers(0, 2), content=st.sampled_from([b"", b"{}", b'{"contract":{},"id":"r"}']))
    def mallory_changes_a_release(self, version: int, content: bytes) -> None:
        names = self.store.list(f"{CHAIN}/releases/")
        self.kept |= {name: self.store.versions[name][0] for name in names}
        self.put(names[version % len(names)], content)

    @rule(
        who=st.sampled_from(["runner 0", "runner 1", "mallory"]),
        later=st.integers(-1, 2),
        seconds=st.sampled_from([1.0, 60.0, 3600.0, 1e9]),
    )
    def mallory_writes_the_lease(self, who: str, later: int, seconds: float) -> None:
        taken = [event.number for event in self.known if event.kind == EventKind.LEASE]
        number = (taken[-1] if taken else 0) + later if later < 2 else len(self.known) + 1
        self.lease(LeaseRecord(who, number, seconds, "", 7).stored())

    def lease(self, content: bytes) -> None:
        self.store.objects[leases.key(CHAIN)], self.store.when[leases.key(CHAIN)] = content, self.town.clock

    @rule()
    def mallory_keeps_the_lease(self) -> None:
        if leases.key(CHAIN) in self.store.objects:
            self.leases.append(self.store.objects[leases.key(CHAIN)])

    @rule(which=st.integers(0, 3))
    def mallory_replays_a_lease(self, which: int) -> None:
        if self.leases:
            self.lease(self.leases[which % len(self.leases)])

    @rule()
    def mallory_deletes_the_lease(self) -> None:
        self.store.objects.pop(leases.key(CHAIN), None)

    @precondition(lambda self: not self.rewritten and self.witnessed() > 0 and not self.town.witness.away())
    @rule(kept=numbers, count=st.integers(0, 60), version=st.integers(0, 2))
    def mallory_rewrites_the_whole_chain(self, kept: int, count: int, version: int) -> None:
        """With every right: no version is left, and each event follows the one before."""
        kept = min(kept, self.witnessed() - 1, len(self.known))  # what lies beside the chain may hide its newest events from us
        self.rewritten = True
        events = [event.stored() for event in self.known[:kept]]
        for number in range(kept + 1, kept + count + 1):
            previous = digest(events[-1]) if events else genesis(CHAIN, ENVIRONMENT)
            kind = EventKind.INTENDED if self.under_way(events) else EventKind.ADOPTED
            events.append(self.forged(number, previous, kind, version))
        self.hold(events)
        if not self.store.away():
            assert not proof(self.store, CHAIN, ENVIRONMENT).flaws

    @precondition(lambda self: self.rewritten)
    @rule()
    def the_ledger_is_restored_from_its_copy(self) -> None:
        self.hold([event.stored() for event in self.known])
        self.rewritten = False

    def witnessed(self) -> int:
        """Of which event the witness knows."""
        return int(self.town.witness.words.get(CHAIN, "0:").partition(":")[0])

    def under_way(self, events: list[bytes]) -> bool:
        running = fold(map(parse, events)).running
        return running is not None

    def hold(self, events: list[bytes]) -> None:
        """The bucket has these events, and never had others."""
        for name in [name for name in self.store.versions if name.startswith(f"{CHAIN}/events/")]:
            self.store.objects.pop(name, None)
            del self.store.versions[name]
        for number, content in enumerate(events, 1):
            self.put(key(CHAIN, number), content)

    @rule()
    def an_administrator_removes_what_is_none(self) -> None:
        proven = {key(CHAIN, event.number): event.stored() for event in self.known}
        for name in list(self.store.objects):
            if name.startswith(f"{CHAIN}/events/") and self.store.objects[name] != proven.get(name):
                del self.store.objects[name]
        self.store.objects |= self.kept

    # -- what must hold --------------------------------------------------------------------------------------------------------

    def proven(self) -> ServiceState:
        """The chain as it was last proven: what follows and was once there stays."""
        if self.rewritten:
            return fold(self.continued())
        away, self.away["ledger"] = self.away["ledger"], self.town.clock
        found = proof(self.store, CHAIN, ENVIRONMENT)
        self.away["ledger"] = away
        if not found.flaws:
            assert found.events[: len(self.known)] == self.known, "an event was taken back"
            self.known = found.events
        return fold(self.known)

    def continued(self) -> tuple[Event, ...]:
        """With what a runner that knows the true chain has written since."""
        while later := [one for one in self.store.versions.get(key(CHAIN, len(self.known) + 1), ()) if self.follows(one)]:
            self.known = (*self.known, parse(later[0]))
        return self.known

    def follows(self, content: bytes) -> bool:
        with suppress(ValueError):
            return parse(content).previous == self.known[-1].hash
        return False

    @invariant()
    def a_rewritten_chain_is_believed_by_nobody(self) -> None:
        if not self.rewritten:
            return
        away, self.away["ledger"] = self.away["ledger"], self.town.clock
        with pytest.raises(UserError):
            latest(self.store, CHAIN, ENVIRONMENT, self.town.witness)
        with pytest.raises(UserError):
            self.ledger("reader").read()
        self.away["ledger"] = away

    @invariant()
    def nothing_unproven_is_unwatched(self) -> None:
        """Were every runner to die now, the guard would leave no traffic on it; not even if somebody then updated the
        stack."""
        service = self.proven()
        safe = proved(service)
        assert service.split is not None
        for planned in (False, True):
            api = self.town.api.copied()
            if planned:
                api._apply({"metadata": {}, "spec": rendered(service.split)})
            look(api, self.town.clock + FOREVER)
            assert exposed(api.live) <= safe, ("by the stack" if planned else "as it is", exposed(api.live), self.known[-3:])


def proved(service: ServiceState) -> set[str]:
    """Releases that may have traffic though nobody watches."""
    running = service.running
    if running is None:
        return {str(service.stable)}
    passed = running.failing is None and running.phase in ("baking", "done")
    return {running.stable} | ({running.release} if passed else set())


SIEGES = int(os.environ.get("HEADWAY_SIEGES", "30"))
"""Long sequences; 600 take some ten minutes."""
SIEGE = settings(max_examples=15, stateful_step_count=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def test_no_sequence_leaves_traffic_unproven_and_unwatched() -> None:
    run_state_machine_as_test(Besieged, settings=SIEGE)


@pytest.mark.slow
@pytest.mark.timeout(60 * max(10, SIEGES))
def test_no_long_sequence_leaves_traffic_unproven_and_unwatched() -> None:
    run_state_machine_as_test(Besieged, settings=settings(SIEGE, max_examples=SIEGES, stateful_step_count=60))
