"""The release driver on a world in memory: what it does, in which order, and that one outcome comes of every
disturbance."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from headway.cli.release_drive import code
from headway.contract.model import Model
from headway.contract.reading.loader import load_tenant
from headway.environment.stacks import Violation
from headway.ledger.chain import Ledger, LostError
from headway.ledger.events import Event
from headway.ledger.reading import verify
from headway.ledger.store import LedgerStore, UnreachableError
from headway.problem import Exit, UserError
from headway.release.driver import driver as driving
from headway.release.driver import judge as judging
from headway.release.driver import start as starting
from headway.release.driver.event_kinds import EventKind, OperatorRequest, ReleaseOutcome
from headway.release.driver.requests import ask
from headway.release.driver.rollout_state import RolloutState
from headway.release.driver.start import GoldenTrial, StartOptions, begin
from headway.release.driver.verify import recomputed
from headway.release.messages import said
from headway.release.messages import verdict as verdict_of
from headway.release.plan import StepKind
from headway.release.report import page
from tests.unit.release_kill import Shelf, killed_at, promoting, walk
from tests.unit.release_ticks import slowed
from tests.unit.release_world import BAD, CHAIN, ROOM, UNASKED, Memory, OutOfReachError, ProbeResult, Reading, Result, Scene

TENANTS = Path(__file__).parents[4] / "tenants"


@pytest.fixture(scope="module")
def contract() -> Model:
    (found,) = load_tenant(TENANTS / "vision").contracts
    return next(model for model in found.models if model.name == "defects")


@pytest.fixture
def scene(contract: Model) -> Scene:
    return Scene.of(Shelf(), contract)


@pytest.fixture
def short(contract: Model) -> Scene:
    """A release with one step on the way."""
    return Scene.of(Shelf(), contract, mirror=None, weights=["10%"])


@pytest.fixture
def quick(contract: Model) -> Callable[[], Scene]:
    """A release that is over after a few ticks: no copies, one weight, errors that fail at once."""

    def made() -> Scene:
        scene = Scene.of(Shelf(), contract, mirror=None, weights=["10%"])
        scene.world.errors = 0.6
        return scene

    return made


@pytest.fixture
def promoted(request: pytest.FixtureRequest, contract: Model) -> Callable[[], Scene]:
    """A release that a person promotes after two ticks."""

    def made() -> Scene:
        scene = Scene.of(Shelf(), contract, mirror=None, **getattr(request, "param", {"weights": ["10%"]}))
        promoting(scene, 2)
        return scene

    return made


def weights(scene: Scene) -> list[int]:
    """The new version's weights as the route carried them."""
    found = [int(part.removeprefix("canary=")) for line in scene.world.done for part in line.split() if part.startswith("canary=")]
    return list(dict.fromkeys(found))


def test_a_healthy_release_climbs_every_weight_and_ends_as_the_only_one(scene: Scene) -> None:
    ended = scene.run()
    assert ended.outcome is ReleaseOutcome.PROMOTED
    assert weights(scene) == [0, 1, 5, 10, 25, 50, 95, 100]
    assert scene.world.routed == {scene.release: 100}
    assert scene.service().stable == scene.release
    assert verify(scene.store, CHAIN, "sandbox") == ()


def test_a_release_whose_time_is_over_is_out_of_time_and_not_rolled_back(contract: Model) -> None:
    scene = Scene.of(Shelf(), contract, at_most="30m", step_at_least="20m")
    ended = scene.run()
    assert (ended.outcome, code(ended)) == (ReleaseOutcome.OUT_OF_TIME, Exit.ROLLED_BACK)
    assert verdict_of(ended).startswith("Out of time. The rollout has taken longer than its policy allows. Nothing was shown")
    assert scene.world.routed == {scene.stable: 100}
    assert verify(scene.store, CHAIN, "sandbox") == ()


def test_a_slower_release_goes_back_before_any_user_meets_it(scene: Scene) -> None:
    scene.world.shares = BAD
    ended = scene.run()
    assert ended.outcome is ReleaseOutcome.ROLLED_BACK
    assert weights(scene) == [0]
    assert scene.world.routed == {scene.stable: 100}
    assert ended.failing is not None and "slower than the policy tolerates" in ended.failing.reason


def test_traffic_goes_back_before_the_stack_is_touched(quick: Callable[[], Scene]) -> None:
    scene = quick()
    scene.run()
    assert scene.world.done[-2:] == ["patch", "up stable=100"]
    assert [kind for kind in scene.kinds() if kind in ("shifted", "drained", "applied", "ended")][-4:] == [
        "shifted",
        "drained",
        "applied",
        "ended",
    ]


def test_replicas_are_ready_before_traffic_moves_to_them(scene: Scene) -> None:
    scene.run()
    at = scene.world.done.index("up stable=0 baseline=50 canary=50")
    assert scene.world.done[at + 1] == "up stable=0 canary=50 baseline=50", "more replicas, at the weights of before"
    assert scene.world.done[at + 2] == "up stable=5 canary=95"


def test_the_old_version_has_no_requests_left_when_it_goes(scene: Scene) -> None:
    scene.run()
    assert scene.world.done[-3:] == ["up stable=5 canary=95", "up stable=0 canary=100", "up stable=100"]


def test_with_nobody_held_back_the_bake_gives_the_new_version_everything(contract: Model) -> None:
    scene = Scene.of(Shelf(), contract, held_back="0%")
    assert scene.run().outcome is ReleaseOutcome.PROMOTED
    assert weights(scene)[-1] == 100
    assert scene.service().all[-1].body["policy"]["held_back"] == 0.0


def test_a_version_that_fails_from_its_first_baking_minute_goes_back(contract: Model) -> None:
    """A quarter of its requests: no catastrophe, and no other version should be promoted either."""
    scene = Scene.of(Shelf(), contract, mirror=None, weights=["10%"], bake="30m")
    scene.begin()

    def breaks(event: Any, _: Any) -> None:
        scene.world.errors = 0.25 if scene.world.routed == {scene.stable: 5, scene.release: 95} else 0.001

    ended = scene.driver(told=breaks).run()
    assert ended.outcome is ReleaseOutcome.ROLLED_BACK
    assert ended.decision is not None and ended.decision["reason"] == "FAILED_ERRORS"
    assert scene.world.routed == {scene.stable: 100}
    assert recomputed(scene.ledger().read(), Reading()).flaws == ()


def test_a_release_that_breaks_while_it_bakes_goes_back(contract: Model) -> None:
    scene = Scene.of(Shelf(), contract, mirror=None, weights=["10%"], bake="1h")
    scene.begin()
    driver = scene.driver(told=lambda event, _: breaks(scene, event.kind))
    breaking = [0]

    def breaks(scene: Scene, kind: str) -> None:
        if scene.world.routed == {scene.stable: 5, scene.release: 95} and kind == EventKind.OBSERVED:
            breaking[0] += 1
            scene.world.errors = 0.6 if breaking[0] > 2 else 0.001

    assert driver.run().outcome is ReleaseOutcome.ROLLED_BACK
    assert scene.world.routed == {scene.stable: 100}


def test_decisions_recomputed_from_the_ledger_are_those_that_were_recorded(scene: Scene) -> None:
    scene.world.shares = BAD
    scene.run()
    found = recomputed(scene.ledger().read(), Reading())
    assert (found.flaws, found.foreign, found.undecided) == ((), (), 0)
    assert found.decided == scene.kinds().count("observed") > 3


def test_a_decision_that_the_counts_do_not_support_is_found(scene: Scene) -> None:
    scene.run()
    events = list(scene.ledger().read())
    at = next(i for i, event in enumerate(events) if event.kind == EventKind.OBSERVED)
    decision = {**events[at].body["decision"], "verdict": "PASS"}
    events[at] = type(events[at])(
        number=events[at].number,
        previous=events[at].previous,
        time=events[at].time,
        actor=events[at].actor,
        kind=events[at].kind,
        body={**events[at].body, "decision": decision},
    )
    assert recomputed(events, Reading()).flaws == (f"event {events[at].number} records verdict PASS, and its counts give CONTINUE",)


def test_what_another_gate_decided_is_counted_and_named_and_never_called_proven(short: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as older:
        older.setattr(starting, "gate_version", lambda: "older")
        older.setattr(driving, "gate_version", lambda: "older")
        older.setattr(judging, "gate_version", lambda: "older")
        short.run()
    found = recomputed(short.ledger().read(), Reading())
    assert (found.decided, found.flaws) == (0, ())
    assert found.undecided == short.kinds().count("observed")
    assert "were made by gate older" in found.foreign[0]


def begun_by_another_gate(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two ticks at a weight, and then an upgrade of Headway."""
    with monkeypatch.context() as older:
        for module in (starting, driving, judging):
            older.setattr(module, "gate_version", lambda: "older")
        scene.begin()
        interrupted(scene, lambda: scene.kinds().count("observed") == 2)


def test_a_release_is_not_resumed_by_another_gate_than_it_began_with(short: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    begun_by_another_gate(short, monkeypatch)
    before = list(short.world.done)
    with pytest.raises(UserError, match="is decided by gate older") as refused:
        short.driver("two").run()
    assert refused.value.exit is Exit.REFUSED
    assert "--regate" in refused.value.remedy and "rollback" in refused.value.remedy
    assert short.world.done == before
    assert short.service().lease is None


def test_it_may_still_be_taken_back(short: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    begun_by_another_gate(short, monkeypatch)
    ask(short.ledger("person"), OperatorRequest.ROLLBACK, "upgraded")
    assert short.driver("two").run().outcome is ReleaseOutcome.ROLLED_BACK


def test_a_person_may_let_another_gate_decide_the_rest_of_a_release(short: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    begun_by_another_gate(short, monkeypatch)
    assert short.driver("two", regate="the fix is in the new one").run().outcome is ReleaseOutcome.PROMOTED
    (body,) = [event.body for event in short.ledger().read() if event.kind == EventKind.REGATED]
    assert (body["before"], body["reason"]) == ("older", "the fix is in the new one")
    found = recomputed(short.ledger().read(), Reading())
    assert (found.undecided, found.flaws) == (2, ())
    assert found.decided == short.kinds().count("observed") - 2


# -- killed, twice, blind --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [1, 2, 3])
def test_a_killed_runner_is_taken_over_with_the_same_end_and_no_step_twice(quick: Callable[[], Scene], start: int) -> None:
    for at, undisturbed, killed in walk(quick, every=3, start=start):
        assert killed == undisturbed, f"killed at boundary {at}"


EXPERIMENT = {"strategy": "ab", "split": {"share": "20%", "duration": "1h", "user_claim": "sub", "experiment": "tone"}}


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("promoted", [{"weights": ["10%"]}, EXPERIMENT], ids=["canary", "experiment"], indirect=True)
def test_wherever_a_runner_is_killed_the_next_promotes_and_repeats_no_step(promoted: Callable[[], Scene]) -> None:
    boundaries = 0
    for at, undisturbed, killed in walk(promoted):
        boundaries = at
        assert undisturbed.outcome == "promoted"
        assert killed == undisturbed, f"killed at boundary {at}"
    assert boundaries > 100


def test_a_second_runner_is_kept_out_while_the_first_one_lives(scene: Scene) -> None:
    scene.begin()
    scene.ledger("one").acquire("one", timedelta(minutes=2))
    with pytest.raises(UserError, match="driven by one until") as refused:
        scene.driver("two").run()
    assert refused.value.exit is Exit.BUSY
    assert scene.world.done == []


def test_a_runner_whose_lease_ran_out_stops_when_another_one_acts(quick: Callable[[], Scene]) -> None:
    scene = quick()
    scene.begin()
    first = scene.driver("one")
    second: list[RolloutState] = []
    slow = [True]

    def paused(what: str) -> Any:
        if what == "up" and slow[0]:
            slow[0] = False
            scene.world.clock += timedelta(minutes=3)
            second.append(scene.driver("two").run())

    scene.world.refuse = paused
    first.run()
    assert second[0].outcome is ReleaseOutcome.ROLLED_BACK
    assert scene.kinds().count("ended") == 1
    assert verify(scene.store, CHAIN, "sandbox") == ()


def test_a_release_that_nobody_watched_for_too_long_is_rolled_back(scene: Scene) -> None:
    scene.begin()
    interrupted(scene, lambda: scene.world.routed.get(scene.release, 0) >= 5)
    scene.world.clock += timedelta(hours=1)
    ended = scene.driver("two", gone=lambda _: True).run()
    assert ended.outcome is ReleaseOutcome.ROLLED_BACK
    assert ended.failing is not None and "nobody watched it" in ended.failing.reason


def test_a_runner_that_comes_back_in_time_goes_on(scene: Scene) -> None:
    scene.begin()
    interrupted(scene, lambda: scene.world.routed.get(scene.release, 0) >= 5)
    scene.world.clock += timedelta(minutes=5)
    assert scene.driver("two", gone=lambda _: True).run().outcome is ReleaseOutcome.PROMOTED


@pytest.mark.parametrize("kind", ["lease", "started", "intended", "observed"])
def test_an_interrupted_runner_frees_its_lease_for_the_next_one(quick: Callable[[], Scene], kind: str) -> None:
    scene = quick()
    scene.begin()

    def stop(event: Event, _: Any) -> None:
        if event.kind == kind:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        scene.driver("one", told=stop).run()
    assert scene.service().lease is None
    assert scene.driver("two").run().outcome is ReleaseOutcome.ROLLED_BACK


def interrupted(scene: Scene, when: Callable[[], bool]) -> None:
    def stop(_event: Any, _service: Any) -> None:
        if when():
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        scene.driver("one", told=stop).run()


def test_prometheus_out_of_reach_neither_promotes_nor_rolls_back(scene: Scene) -> None:
    scene.begin()
    blind = [0]

    def look(event: Any, _service: Any) -> None:
        if event.kind == EventKind.OBSERVED:
            blind[0] += 1
            scene.world.answered = not 8 <= blind[0] < 14

    ended = scene.driver(told=look).run()
    unanswered = [e.body["decision"] for e in scene.ledger().read() if e.kind == EventKind.OBSERVED and not e.body["raw"]["answered"]]
    assert ended.outcome is ReleaseOutcome.PROMOTED
    assert [decision["verdict"] for decision in unanswered] == ["NO_DATA"] * 6


def test_an_api_server_that_restarts_is_waited_for(scene: Scene) -> None:
    away = {"route": 3, "unready": 2, "patch": 2}

    def unreachable(what: str) -> None:
        if away.get(what, 0) > 0 and scene.world.routed.get(scene.release):
            away[what] -= 1
            raise OutOfReachError("connection refused")

    scene.world.refuse = unreachable
    assert scene.run().outcome is ReleaseOutcome.PROMOTED
    assert away["route"] == 0


class Shaky(Shelf):
    """A ledger that does not answer now and then, before or after a write arrives."""

    count = 0

    def create(self, key: str, body: bytes) -> None:
        self.count += 1
        if self.count % 5 == 0:
            raise UnreachableError("ReadTimeoutError")
        super().create(key, body)
        if self.count % 7 == 0:
            raise UnreachableError("ReadTimeoutError")


def test_a_ledger_that_answers_badly_delays_and_never_decides(contract: Model) -> None:
    calm, shaky = Scene.of(Shelf(), contract, mirror=None), Scene.of(Shaky(), contract, mirror=None)
    assert calm.run().outcome is shaky.run().outcome is ReleaseOutcome.PROMOTED
    assert shaky.world.done == calm.world.done
    assert verify(shaky.store, CHAIN, "sandbox") == ()


class Gone(Shelf):
    """A ledger that goes out of reach, and comes back."""

    away = False

    def get(self, key: str, version: str = "") -> bytes | None:
        if self.away:
            raise UnreachableError("ConnectTimeoutError")
        return super().get(key, version)

    def list(self, prefix: str, after: str = "") -> tuple[str, ...]:
        if self.away:
            raise UnreachableError("ConnectTimeoutError")
        return super().list(prefix, after)

    create_kept = Shelf.create

    def create(self, key: str, body: bytes) -> None:
        if self.away:
            raise UnreachableError("ConnectTimeoutError")
        super().create(key, body)


def test_traffic_goes_back_while_the_ledger_is_out_of_reach_for_too_long(contract: Model) -> None:
    store = Gone()
    scene = Scene.of(store, contract, mirror=None)
    limit = timedelta(minutes=10)

    class Cut(Memory):
        lost_at: Any = None

        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            if self.lost_at is None and self.routed.get(scene.release, 0) >= 5:
                self.lost_at, store.away = self.clock, True
            if self.lost_at and self.clock - self.lost_at > limit + timedelta(minutes=2):
                assert self.routed[scene.release] == 0, "traffic stayed on a version that nobody could judge"
                store.away = False

    scene.world.__class__ = Cut
    ended = scene.run()
    assert ended.outcome is ReleaseOutcome.ROLLED_BACK
    assert ended.failing is not None and "the ledger was out of reach" in ended.failing.reason


def test_a_runner_without_the_ledger_leaves_a_release_to_one_that_watches(contract: Model) -> None:
    store = Gone()
    scene = Scene.of(store, contract, mirror=None)

    class Watched(Memory):
        lost_at: Any = None

        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            if self.lost_at is None and self.routed.get(scene.release, 0) >= 5:
                self.lost_at, store.away = self.clock, True
            if self.lost_at and store.away:
                self.vouched = self.clock + timedelta(minutes=10)
                assert self.routed[scene.release] >= 5
                store.away = self.clock - self.lost_at < timedelta(minutes=30)

    scene.world.__class__ = Watched
    assert scene.run().outcome is ReleaseOutcome.PROMOTED


# -- people ----------------------------------------------------------------------------------------------------------------------


def asking(scene: Scene, *wishes: tuple[int, OperatorRequest]) -> Callable[..., None]:
    """Someone who asks for things after so many ticks."""
    left = list(wishes)

    def told(_event: Any, service: Any) -> None:
        if left and service.running and service.running.ticks >= left[0][0]:
            _, request = left.pop(0)
            ask(scene.ledger("person"), request, f"because of {request}")

    return told


def test_a_frozen_release_stays_where_it_is_and_goes_on_when_resumed(scene: Scene) -> None:
    scene.begin()
    ended = scene.driver(told=asking(scene, (8, OperatorRequest.FREEZE), (30, OperatorRequest.RESUME))).run()
    held = [e.body for e in scene.ledger().read() if e.kind == EventKind.OBSERVED and e.body["frozen"]]
    assert ended.outcome is ReleaseOutcome.PROMOTED
    assert len({body["decision"]["weight"] for body in held}) == 1
    assert len(held) >= 20


def test_a_frozen_release_that_breaks_still_goes_back(scene: Scene) -> None:
    scene.begin()
    frozen = asking(scene, (8, OperatorRequest.FREEZE))

    def told(event: Any, service: Any) -> None:
        frozen(event, service)
        if service.running and service.running.frozen:
            scene.world.errors = 0.6

    assert scene.driver(told=told).run().outcome is ReleaseOutcome.ROLLED_BACK


def test_a_promotion_by_a_person_is_carried_out_and_its_reason_kept(promoted: Callable[[], Scene]) -> None:
    scene = promoted()
    ended = scene.run()
    assert ended.outcome is ReleaseOutcome.PROMOTED
    assert ended.promote == "shown to the customer at noon"
    assert weights(scene) == [0, 10, 95, 100]


def test_a_rollback_by_a_person_does_not_wait_for_the_tick(scene: Scene) -> None:
    scene.begin()
    ended = scene.driver(told=asking(scene, (9, OperatorRequest.ROLLBACK))).run()
    assert ended.outcome is ReleaseOutcome.ROLLED_BACK
    assert ended.ticks == 9


# -- refusals and failures -------------------------------------------------------------------------------------------------------


def test_what_a_policy_refuses_is_never_deployed(scene: Scene) -> None:
    violation = Violation(pack="tenant", policy="gpu-within-quota", level="mandatory", message="9 GPUs of 8", resource="urn")
    scene.world.refuse = lambda what: Result(ok=False, violations=(violation,)) if what == "preview" else None
    ended = scene.run()
    assert ended.outcome is ReleaseOutcome.REFUSED
    assert scene.world.done == []
    assert ended.failing is not None and "gpu-within-quota: 9 GPUs of 8" in ended.failing.reason
    assert scene.service().split is not None and scene.service().split.percentages == {scene.stable: 100}


def test_a_policy_that_refuses_the_last_step_sends_all_traffic_back(scene: Scene) -> None:
    violation = Violation(pack="tenant", policy="gpu-within-quota", level="mandatory", message="12 GPUs of 10", resource="urn")
    refused = Result(ok=False, violations=(violation,))
    scene.world.refuse = lambda what: refused if what == "preview" and scene.world.routed.get(scene.release) == 50 and wanted() else None

    def wanted() -> bool:
        rollout = scene.service().running
        return rollout is not None and rollout.failing is None and rollout.phase == "baking"

    assert scene.run().outcome is ReleaseOutcome.ROLLED_BACK
    assert scene.world.routed == {scene.stable: 100}


def test_an_update_that_fails_is_tried_again(scene: Scene) -> None:
    failures = [2]

    def fails(what: str) -> Any:
        if what == "up" and failures[0]:
            failures[0] -= 1
            return Result(ok=False, operation="up", errors=("connection reset",))
        return None

    scene.world.refuse = fails
    assert scene.run().outcome is ReleaseOutcome.PROMOTED


def test_an_update_that_keeps_failing_gives_the_release_up(scene: Scene) -> None:
    scene.world.refuse = lambda what: Result(ok=False, operation="up", errors=("quota",)) if what == "up" else None
    ended = scene.run()
    assert ended.outcome is ReleaseOutcome.REFUSED
    assert scene.world.routed == {scene.stable: 100}


def test_a_stack_that_cannot_be_updated_keeps_no_traffic_on_a_bad_release(quick: Callable[[], Scene]) -> None:
    scene = quick()

    def fails(what: str) -> Any:
        exposed = any(event.kind == EventKind.SHIFTED for event in scene.ledger().read())
        return Result(ok=False, operation="up", errors=("lock",)) if what == "up" and exposed else None

    scene.world.refuse = fails
    ended = scene.run()
    assert ended.outcome is ReleaseOutcome.ROLLED_BACK
    assert ended.ended is not None and ended.ended["reconciled"] is False
    assert scene.world.routed[scene.stable] == 100


def test_another_persons_update_is_waited_for(scene: Scene) -> None:
    busy = [20]

    def held(what: str) -> Any:
        if what == "preview" and busy[0]:
            busy[0] -= 1
            return Result(ok=False, busy=True, errors=("the stack is currently locked",))
        return None

    scene.world.refuse = held
    assert scene.run().outcome is ReleaseOutcome.PROMOTED


def test_replicas_that_never_get_ready_end_the_release_before_it_gets_traffic(scene: Scene) -> None:
    scene.world.missing = ("canary: 0 of 1 replicas ready (Insufficient nvidia.com/gpu)",)
    ended = scene.run()
    assert ended.outcome is ReleaseOutcome.ROLLED_BACK
    assert weights(scene) == [0]
    assert ended.failing is not None and "Insufficient nvidia.com/gpu" in ended.failing.reason


def test_wrong_golden_answers_end_the_release_before_it_gets_traffic(scene: Scene) -> None:
    scene.world.probes = {StepKind.GOLDEN: ProbeResult(passed=False, reason="scratch: top class is 2, not 4", by="test")}
    ended = scene.run()
    assert weights(scene) == [0]
    assert ended.failing is not None and ended.failing.kind == "golden"


COMPARED = GoldenTrial(compared=True, reason="25 of 25", pairs=25)


def test_answers_that_turn_wrong_under_traffic_send_it_back(scene: Scene) -> None:
    scene.begin(answers=COMPARED)
    scene.world.wrong = 0.1
    ended = scene.driver().run()
    assert ended.outcome is ReleaseOutcome.ROLLED_BACK
    assert ended.failing is not None and "answers" in ended.failing.reason.lower()


def test_right_answers_are_part_of_the_proof(short: Scene) -> None:
    short.begin(answers=COMPARED)
    assert short.driver().run().outcome is ReleaseOutcome.PROMOTED
    proofs = [e.body["decision"]["signals"]["correctness"]["verdict"] for e in short.ledger().read() if e.kind == EventKind.OBSERVED]
    assert "PASS" in proofs


def test_a_model_that_differs_from_itself_is_allowed_twice_as_much(short: Scene) -> None:
    short.begin(answers=GoldenTrial(compared=True, reason="", pairs=50, mismatches=2))
    assert short.ledger().read()[-1].body["policy"]["mismatch"] == 0.08


def test_golden_requests_that_nobody_asked_are_no_pass(short: Scene) -> None:
    short.world.probes = {StepKind.GOLDEN: ProbeResult(passed=None, reason="the replicas are simulated", by="nobody")}
    assert short.run().outcome is ReleaseOutcome.PROMOTED
    (body,) = [e.body for e in short.ledger().read() if e.kind == EventKind.PROBED and e.body["step"] == "golden"]
    assert body["passed"] is None
    assert "not asked" in str(said(next(e for e in short.ledger().read() if e.kind == EventKind.PROBED and e.body["step"] == "golden")))


# -- a better model that is slower ----------------------------------------------------------------------------------------------


def better_and_slower(contract: Model, trade: dict[str, str] | None, right: int = 30) -> Scene:
    """A fifth slower; of 40 labelled requests the stable version gets ten right, and the new one those and `right`
    more."""
    scene = Scene.of(Shelf(), contract, mirror={"share": "100%"}, weights=["10%"], trade=trade)
    scene.world.shares = slowed(1.2)
    scene.world.labelled = {f"case-{number:02}": (number < 10 + right, number < 10) for number in range(40)}
    scene.begin(answers=COMPARED)
    return scene


@pytest.mark.parametrize(
    ("trade", "right", "outcome"),
    [
        ({"gain": "2%", "latency": "35%"}, 30, ReleaseOutcome.PROMOTED),
        (None, 30, ReleaseOutcome.ROLLED_BACK),
        ({"gain": "2%", "latency": "35%"}, 3, ReleaseOutcome.ROLLED_BACK),
    ],
    ids=["better, with a trade", "better, without one", "hardly better"],
)
def test_a_slower_release_is_promoted_only_for_better_answers_under_a_trade(
    contract: Model, trade: dict[str, str] | None, right: int, outcome: ReleaseOutcome
) -> None:
    scene = better_and_slower(contract, trade, right)
    ended = scene.driver().run()
    assert ended.outcome is outcome
    assert outcome is ReleaseOutcome.PROMOTED or (ended.failing and "slower than the policy tolerates" in ended.failing.reason)
    told = [said(event) or "" for event in scene.ledger().read() if event.kind == EventKind.OBSERVED]
    assert ("as slow as its contract's trade says" in told[-1]) is (outcome is ReleaseOutcome.PROMOTED), (
        "people are told why it may be slower"
    )
    shown = page.html(CHAIN, "sandbox", ended, scene.ledger().read())
    assert ("latency tail +35%, once it answers labelled requests right more often, by more than 2 points" in shown) is (trade is not None)
    assert (f"40 compared; only the new version was right in {right}, only the stable version in 0" in shown) is (trade is not None)


def test_the_report_says_when_a_trade_could_not_be_tried(contract: Model) -> None:
    scene = better_and_slower(contract, {"gain": "2%", "latency": "35%"})
    scene.world.labelled = {}
    ended = scene.driver().run()
    text = page.html(CHAIN, "sandbox", ended, scene.ledger().read())
    assert "lets a better version be slower, but no labelled request was compared: neither version gave an answer" in text


def test_labelled_requests_count_once_in_a_release_whoever_drives_it(contract: Model) -> None:
    scene = better_and_slower(contract, {"gain": "2%", "latency": "35%"})
    interrupted(scene, lambda: scene.kinds().count("observed") == 3)
    assert scene.driver("two", gone=lambda _: True).run().outcome is ReleaseOutcome.PROMOTED
    events = scene.ledger().read()
    names = [name for event in events if event.kind == EventKind.OBSERVED for name in event.body["raw"]["answers"]["compared"]]
    assert sorted(names) == sorted(scene.world.labelled), "each once, though two runners drove it"
    found = recomputed(events, Reading())
    assert (found.flaws, found.undecided) == ((), 0)
    without = [event if event.kind != EventKind.OBSERVED else unlabelled(event) for event in events]
    assert recomputed(without, Reading()).flaws, "the decisions rest on the labelled answers"


def unlabelled(event: Event) -> Event:
    raw = {**event.body["raw"], "answers": {**event.body["raw"]["answers"], "only_canary_right": 0}}
    return replace(event, body={**event.body, "raw": raw})


def test_replicas_that_cannot_be_asked_are_asked_again_until_their_time_is_over(scene: Scene) -> None:
    class Deaf(Memory):
        def probe(self, rollout: RolloutState, step: StepKind) -> ProbeResult:
            if step is StepKind.GOLDEN:
                raise OutOfReachError("exec: no end within 35 s")
            return super().probe(rollout, step)

    scene.world.__class__ = Deaf
    ended = scene.run()
    assert ended.outcome is ReleaseOutcome.ROLLED_BACK
    assert weights(scene) == [0]
    assert ended.failing is not None and "could not be asked for 900 s: exec: no end" in ended.failing.reason


NOT_READ = {"arms": {}, "edges": {}, "reason": "the answer was not complete within 5 s"}
"""What the metrics say of the past where one query was too slow."""


def test_a_past_that_is_not_read_at_first_is_asked_for_again(quick: Callable[[], Scene], monkeypatch: pytest.MonkeyPatch) -> None:
    scene = quick()
    readings, read = [NOT_READ, NOT_READ], scene.world.history
    monkeypatch.setattr(scene.world, "history", lambda *of: readings.pop() if readings else read(*of))
    assert scene.run().outcome is ReleaseOutcome.ROLLED_BACK
    assert scene.kinds().count(EventKind.LEARNED) == 1


def test_a_past_that_cannot_be_read_ends_a_release_before_it_begins(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scene.world, "history", lambda *_: NOT_READ)
    ended = scene.run()
    assert ended.failing is not None and "(the answer was not complete within 5 s)" in ended.failing.reason
    assert ended.outcome is ReleaseOutcome.REFUSED and EventKind.LEARNED not in scene.kinds()
    assert scene.world.done == []


def test_a_ledger_in_which_an_unread_past_was_kept_goes_on(quick: Callable[[], Scene]) -> None:
    scene = quick()
    scene.begin()
    ledger = scene.ledger()
    ledger.read()
    ledger.append(EventKind.CHECKED, {"sound": True, "findings": []})
    ledger.append(EventKind.LEARNED, {"raw": NOT_READ})
    assert scene.driver().run().outcome is ReleaseOutcome.ROLLED_BACK
    assert scene.kinds().count(EventKind.LEARNED) == 2


def test_a_release_without_evidence_is_refused_before_anything_is_deployed(scene: Scene) -> None:
    scene.world.findings = ("no series istio_requests_total for defects",)
    assert scene.run().outcome is ReleaseOutcome.REFUSED
    assert scene.world.done == []


def test_ticks_are_no_evidence_until_requests_follow_the_weight(short: Scene) -> None:
    short.world.lag = lambda rollout, asked: asked if rollout.ticks >= 4 or asked == 1 else 0.3 * asked
    assert short.run().outcome == ReleaseOutcome.PROMOTED
    observed = [event.body for event in short.ledger().read() if event.kind == EventKind.OBSERVED]
    early, late = observed[:4], observed[4:8]
    assert [body["seen"]["asked"] for body in observed[:8]] == [0.1] * 8
    assert all(body["seen"]["share"] < 0.05 and not body["decision"]["counted"] for body in early)
    assert early[-1]["decision"]["reason"] == "SHARE_SETTLING"
    assert all(body["seen"]["share"] == pytest.approx(0.1, abs=0.03) and body["decision"]["counted"] for body in late)


def test_while_requests_do_not_follow_the_weight_it_neither_grows_nor_goes_back(short: Scene) -> None:
    class EnoughError(Exception):
        pass

    def lag(rollout: RolloutState, asked: float) -> float:
        if rollout.ticks == 60:
            raise EnoughError
        return 0.3 * asked

    short.world.lag = lag
    short.begin()
    with pytest.raises(EnoughError):
        short.driver().run()
    assert weights(short) == [0, 10]
    assert short.service().running is not None


@pytest.mark.parametrize("a_second", [5, 7, 10, 15])
@pytest.mark.parametrize("seconds", [(110.0, 10.0), (55.0, 100.0)], ids=["slow update", "slow proxies"])
def test_weights_that_arrive_late_take_no_version_back(contract: Model, a_second: int, seconds: tuple[float, float]) -> None:
    """An update of two minutes, or proxies that learn of it two ticks later; counts follow the route within the tick."""
    scene = Scene.of(Shelf(), contract, mirror=None, weights=["5%", "25%"])
    scene.world.requests = 60.0 * a_second
    scene.world.seconds_of_update, scene.world.seconds_to_proxies = seconds
    assert scene.run().outcome is ReleaseOutcome.PROMOTED


def test_no_tick_holds_requests_of_two_weights(scene: Scene) -> None:
    scene.world.seconds_of_update = 50.0
    scene.run()
    changed, ticks = 0.0, 0
    for event in scene.ledger().read():
        if event.kind == EventKind.APPLIED:
            changed = datetime.fromisoformat(event.time).timestamp()
        elif event.kind == EventKind.OBSERVED:
            ticks += 1
            assert event.body["window"]["start"] >= changed
    assert ticks > 20


def test_a_route_that_somebody_changed_is_set_right(scene: Scene) -> None:
    changed = [False]

    def meddle(event: Any, _service: Any) -> None:
        if event.kind == EventKind.OBSERVED and scene.world.routed.get(scene.release) == 10 and not changed[0]:
            changed[0] = True
            scene.world.routed = {**scene.world.routed, scene.release: 90, scene.stable: 0}

    scene.begin()
    assert scene.driver(told=meddle).run().outcome is ReleaseOutcome.PROMOTED
    assert scene.kinds().count("drifted") == 1


def test_a_rollback_that_cannot_be_measured_says_so_and_goes_on(quick: Callable[[], Scene]) -> None:
    scene = quick()
    scene.world.hidden = True
    ended = scene.run()
    (drained,) = [event.body for event in scene.ledger().read() if event.kind == EventKind.DRAINED]
    assert ended.outcome is ReleaseOutcome.ROLLED_BACK
    assert drained["measured"] is False and drained["reason"] == "Prometheus does not answer"


def test_users_are_vouched_for_while_a_release_is_unproven_and_no_longer(scene: Scene) -> None:
    scene.begin()
    promised: list[Any] = []

    def look(event: Any, _service: Any) -> None:
        if event.kind == EventKind.APPLIED and scene.world.routed.get(scene.release):
            promised.append(scene.world.vouched)

    scene.driver(told=look).run()
    assert promised and all(promised[:-1])
    assert scene.world.vouched is None


# -- beginning -------------------------------------------------------------------------------------------------------------------


def test_a_second_release_waits_for_the_first(scene: Scene) -> None:
    scene.begin()
    with pytest.raises(UserError, match="is under way"):
        scene.begin()


def test_the_contract_that_serves_is_nothing_to_release(scene: Scene) -> None:
    with pytest.raises(UserError, match="which serves already"):
        begin(scene.ledger(), scene.store, scene.old, ROOM, StartOptions(), UNASKED)


@pytest.mark.parametrize(
    ("policy", "refusal"),
    [
        ({"strategy": "canary", "weights": ["2.5%", "10%"]}, "whole percent only"),
    ],
)
def test_what_cannot_be_carried_out_is_refused_by_name(contract: Model, policy: dict[str, Any], refusal: str) -> None:
    scene = Scene.of(Shelf(), contract, mirror=None)
    new = Model.model_validate({**scene.new.model_dump(mode="json"), "rollout": policy})
    with pytest.raises(UserError, match=refusal):
        begin(scene.ledger(), scene.store, new, ROOM, StartOptions(), UNASKED)


@pytest.mark.parametrize("strategy", ["blue_green", "rolling"])
def test_other_strategies_are_driven_by_the_same_steps(contract: Model, strategy: str) -> None:
    scene = Scene.of(Shelf(), contract, strategy=strategy, mirror=None)
    assert scene.run().outcome is ReleaseOutcome.PROMOTED
    assert scene.world.routed == {scene.release: 100}


def test_a_next_release_is_compared_with_the_one_that_was_promoted(scene: Scene) -> None:
    scene.run()
    before = scene.release
    artifact = {**scene.new.model_dump(mode="json")["artifact"], "version": "2026.12.2"}
    scene.new = Model.model_validate({**scene.new.model_dump(mode="json"), "artifact": artifact})
    ended = scene.run()
    assert ended.stable == before
    assert len(scene.service().past) == 2


def test_two_that_begin_at_once_do_not_both_begin(scene: Scene) -> None:
    one: Ledger = scene.ledger("one")
    one.read()
    scene.begin()
    with pytest.raises(LostError):
        one.append(EventKind.STARTED, {})


def test_an_undisturbed_run_meets_enough_boundaries_to_be_worth_walking(quick: Callable[[], Scene]) -> None:
    assert killed_at(quick(), None)[1] > 60


def test_a_store_is_a_store(scene: Scene) -> None:
    store: LedgerStore = scene.store
    assert store.list(f"{CHAIN}/releases/")
