"""What the driver adds to counters: the room ahead, the share that was seen."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headway.contract.reading.loader import load_tenant
from headway.environment.port import OutOfReachError
from headway.environment.production import Production
from headway.ledger.traffic_split import ArmRole
from headway.problem import Problem
from headway.release import messages
from headway.release.driver.deployed_service import DeployedService, room_ahead
from headway.release.driver.driver import seen_share
from headway.release.driver.rollout_state import RolloutState, fold
from headway.release.driver.service_under_release import LiveRoute
from headway.release.evidence import reading
from sandbox.environment import Sandbox
from tests.unit.release_kill import Shelf
from tests.unit.release_world import Scene


@pytest.fixture(scope="module")
def climbing() -> dict[int, RolloutState]:
    """A release at each weight, by the weight; its copies at 0."""
    (found,) = load_tenant(Path(__file__).parents[4] / "tenants" / "vision").contracts
    scene = Scene.of(Shelf(), next(m for m in found.models if m.name == "defects"), weights=["25%", "50%"])
    scene.run()
    seen: dict[int, RolloutState] = {}
    service = fold(())
    for event in scene.ledger().read():
        service = fold((event,), service)
        if event.kind == "observed" and service.running and service.running.decision:
            arm = service.running.split.arm(ArmRole.CANARY)
            if service.running.decision["phase"] == "releasing" and arm and service.running.settled:
                seen[arm.weight.whole_percent] = service.running
    return seen


def arms(**available: float | None) -> dict[str, Any]:
    return {"arms": {name: {"available": value} for name, value in available.items()}}


def test_the_room_ahead_is_that_of_the_next_weights_replicas(climbing: dict[int, RolloutState]) -> None:
    now, later = climbing[50].split.arm(ArmRole.CANARY), climbing[50].plan.one
    assert now is not None and now.replicas == 1
    bake = next(step for step in climbing[50].plan.steps if step.kind == "bake")
    assert later is not None and bake.fleet.canary == 2
    assert room_ahead(climbing[50], arms(canary=60.0, mirrored=None)) == 120.0


def test_nobody_knows_the_room_ahead_where_nobody_measures_gpus(climbing: dict[int, RolloutState]) -> None:
    assert room_ahead(climbing[50], arms(canary=None)) is None
    assert room_ahead(climbing[50], {"arms": {}}) is None


def test_the_gate_is_told_of_the_room_ahead() -> None:
    raw = reading.unanswered(reading.JudgedService(tenant="vision", model="defects"), reading.TickWindow(0, 60), "")
    assert float(reading.tick({**raw, "room": 120.0}).capacity) == 120.0  # type: ignore[arg-type]
    assert str(reading.tick(raw).capacity) == "nan"


def test_the_share_that_was_seen_counts_users_and_no_copies() -> None:
    counted = {"stable": [60, 20], "baseline": [10, 0], "canary": [5, 5], "mirrored": [900, 0]}
    assert seen_share({"arms": {name: {"requests": of} for name, of in counted.items()}}) == 0.1
    assert seen_share({"arms": {}}) is None


class Pods:
    """A cluster with one replica of each version, and no route to read."""

    def ready(self, release: str) -> list[dict[str, Any]]:
        return [{"metadata": {"name": release}}]

    def route(self) -> Any:
        raise OutOfReachError("not asked here")


def looked(rollout: RolloutState, down: str = "") -> tuple[dict[str, Any], list[str]]:
    """The answers that a tick records, and which replicas were asked; `scratch` is right by the new version alone,
    `dent` was compared."""
    asked: list[str] = []

    def run(pod: Mapping[str, Any], arguments: Sequence[str], seconds: float) -> str:
        asked.append(pod["metadata"]["name"])
        if asked[-1] == down:
            raise OutOfReachError("exec: exit 137")
        if asked[-1] == rollout.stable:
            return json.dumps(["scratch", "wrong"])
        return json.dumps(["scratch" if '["dent"]' in arguments else "dent", "right", {}])

    more: Any = {"runner": None, "stack": "", "packs": (), "cluster": Pods(), "evidence": None}
    here = DeployedService(**more, service=reading.JudgedService(tenant="vision", model="defects"), run=run)
    return dict(here.read(rollout, 0.0, 60.0)["answers"]), asked


def judged_by(rollout: RolloutState, **policy: Any) -> RolloutState:
    return replace(rollout, body={**rollout.body, "policy": policy}, compared=frozenset({"dent"}))


def test_with_a_trade_a_tick_compares_both_versions_on_new_requests_only(climbing: dict[int, RolloutState]) -> None:
    rollout = judged_by(climbing[25], golden=True, trade_gain=0.02)
    answers, asked = looked(rollout)
    assert asked == [rollout.release, rollout.release, rollout.stable]
    assert (answers["pairs"], answers["compared"]) == (1, ["scratch"])
    raw = reading.unanswered(reading.JudgedService(tenant="vision", model="defects"), reading.TickWindow(0, 60), "")
    tick = reading.tick({**raw, "answers": answers})
    assert (tick.pairs, tick.labelled, tick.only_canary_right, tick.only_stable_right) == (1, 1, 1, 0)


def test_without_a_trade_the_stable_version_is_left_alone(climbing: dict[int, RolloutState]) -> None:
    rollout = judged_by(climbing[25], golden=True, trade_gain=None)
    answers, asked = looked(rollout)
    assert asked == [rollout.release] and "labelled" not in answers


def test_a_stable_version_that_cannot_be_asked_costs_no_golden_answer(climbing: dict[int, RolloutState]) -> None:
    rollout = judged_by(climbing[25], golden=True, trade_gain=0.02)
    answers, _ = looked(rollout, down=rollout.stable)
    assert (answers["pairs"], answers["labelled"], answers["not_compared"]) == (1, 0, "exec: exit 137")


def test_a_release_is_read_by_the_histograms_that_it_began_with(climbing: dict[int, RolloutState]) -> None:
    """Which are those of tokens, or of whole answers, by what the stable version showed before."""
    begun_with = {"first_token": [0.1, 0.2], "next_token": [0.01, 0.02]}
    asked: list[reading.JudgedService] = []

    class Evidence:
        def read(self, service: reading.JudgedService, arms: reading.ArmNames, window: reading.TickWindow) -> reading.RawReading:
            asked.append(service)
            return reading.unanswered(service, window, "")

    class Cluster(Pods):
        def route(self) -> Any:
            return LiveRoute(weights={}, hosts={arm.key: f"defects-{arm.release}" for arm in climbing[25].split.arms})

    more: Any = {"runner": None, "stack": "", "packs": (), "cluster": Cluster(), "evidence": Evidence(), "run": None}
    here = DeployedService(**more, service=reading.JudgedService(tenant="vision", model="defects"))
    here.read(replace(judged_by(climbing[25], golden=False), learned={"edges": begun_with}), 0.0, 60.0)
    assert [dict(service.edges) for service in asked] == [begun_with]


class Unmeasured:
    """Evidence that shows no request of the stable version."""

    settle_seconds = 0.0

    def preflight(self, *_: Any, **__: Any) -> list[Problem]:
        return [Problem(fact="istio_requests_total shows no request", consequence="Nothing to compare", remedy="Check the proxies")]


def refused(rollout: RolloutState, *, simulated: bool, hint: str = "") -> Sequence[str]:
    class Cluster(Pods):
        def simulated(self, release: str) -> bool:
            assert release == rollout.stable
            return simulated

        def route(self) -> LiveRoute:
            return LiveRoute(weights={}, hosts={key: key for key in rollout.split.weights})

    more: Any = {"runner": None, "stack": "", "packs": (), "cluster": Cluster(), "evidence": Unmeasured(), "run": None}
    return DeployedService(**more, service=reading.JudgedService(tenant="vision", model="defects"), requests_hint=hint).check(rollout)


def test_replicas_that_are_simulated_are_said_to_have_no_requests_and_what_has(climbing: dict[int, RolloutState]) -> None:
    (said,) = refused(climbing[25], simulated=True, hint=Sandbox.requests_hint)
    assert said.startswith("the stable version's replicas are simulated, so nothing can be compared.")
    assert "`make demo-traffic` serves real ones (docs/guide/own-release.md)" in said


def test_replicas_that_run_are_told_what_the_evidence_lacks(climbing: dict[int, RolloutState]) -> None:
    assert refused(climbing[25], simulated=False, hint="x")[0].startswith("istio_requests_total shows no request")
    assert Production.requests_hint == ""


def test_the_name_of_a_metric_keeps_its_letters_at_the_beginning_of_a_sentence() -> None:
    assert messages.sentence("istio_requests_total shows no request") == "istio_requests_total shows no request."
    assert messages.sentence("nobody watched it") == "Nobody watched it."


class Counted:
    """Evidence of so many requests in the last quarter of an hour and in its last five minutes."""

    settle_seconds = 5.0

    def __init__(self, quarter: int | None, five: int | None, speed: float = 1.0) -> None:
        self.requests = {900.0 / speed: quarter, 300.0 / speed: five}

    def history(self, service: Any, arms: Any, before: float, seconds: float) -> dict[str, Any]:
        found = self.requests[seconds]
        return {"answered": found is not None, "arms": {arms.stable: {"requests": [found, 0]}} if found is not None else {}}


def traffic(evidence: Counted, speed: float = 1.0, hosts: Mapping[str, str] | None = None) -> float | None:
    class Cluster(Pods):
        def route(self) -> LiveRoute:
            return LiveRoute(weights={}, hosts={"r1": "stable"} if hosts is None else hosts)

    more: Any = {"runner": None, "stack": "", "packs": (), "cluster": Cluster(), "evidence": evidence, "run": None}
    return DeployedService(**more, service=reading.JudgedService(tenant="vision", model="defects")).requests_a_second("r1", speed)


@pytest.mark.parametrize(
    ("quarter", "five", "rate"), [(90, 30, 0.1), (90, 90, 0.3), (900, 0, 1.0), (0, 0, None), (None, None, None), (None, 30, 0.1)]
)
def test_traffic_is_the_more_of_a_quarter_of_an_hour_and_five_minutes(quarter: int | None, five: int | None, rate: float | None) -> None:
    assert traffic(Counted(quarter, five)) == (pytest.approx(rate) if rate else None)


def test_traffic_is_counted_in_the_policys_time() -> None:
    assert traffic(Counted(900, 300, speed=15.0), speed=15.0) == pytest.approx(1.0)


def test_of_a_version_that_no_route_names_no_traffic_is_known() -> None:
    assert traffic(Counted(90, 30), hosts={}) is None
