"""A service in memory for tests of the driver: a route, a stack, replicas, requests, and a clock that only the driver
moves.

Requests follow the live route, so a driver that thinks it moved traffic and did not gets no evidence. It counts what is
done to it.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from headway.contract.model import Model
from headway.contract.reading.loader import load_tenant
from headway.contract.released import release_id
from headway.contract.units import Duration, Share
from headway.environment.port import OutOfReachError
from headway.ledger.chain import Ledger
from headway.ledger.serving import latest
from headway.ledger.store import LedgerStore
from headway.ledger.traffic_split import ArmRole, TrafficSplit
from headway.ledger.witness import LedgerWitness
from headway.release.driver.adoption import adopt
from headway.release.driver.driver import ReleaseDriver
from headway.release.driver.labelled import LabelledComparison
from headway.release.driver.leased_run import LeasedRun
from headway.release.driver.rollback_diagnosis import DiagnoseRollback
from headway.release.driver.rollout_state import RolloutState, ServiceState, fold
from headway.release.driver.service_under_release import DrainResult, LiveRoute, ProbeResult, RawCounters
from headway.release.driver.start import GoldenTrial, StartOptions, begin
from headway.release.gate import Counts, Tick
from headway.release.plan import PoolCapacity, StepKind
from tests.unit.release_ticks import CLASSES, EDGES, SHARES, SLOW, counts

CHAIN = "vision/defects"
START = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)
GOOD, BAD = SHARES, SLOW


def quickly_baked() -> Model:
    """The sample contract of CHAIN with a bake of five minutes."""
    (found,) = load_tenant(Path(__file__).parents[2] / "tenants" / "vision").contracts
    model = next(model for model in found.models if model.name == "defects")
    return model.model_copy(update={"rollout": model.rollout.model_copy(update={"bake": Duration.parse("5m")})})


class Reading:
    """Raw counters of these tests: what `release_ticks.counts` makes, as JSON."""

    def edges(self, raw: Mapping[str, Any]) -> Mapping[str, Sequence[float]]:
        return {"latency": EDGES}

    def classes(self, raw: Mapping[str, Any]) -> Sequence[str]:
        return CLASSES

    def learnt(self, raw: Mapping[str, Any]) -> Counts:
        return _counts(raw["stable"])

    def tick(self, raw: Mapping[str, Any], *, frozen: bool) -> Tick:
        arms: dict[str, Any] = {name: _counts(raw[name]) for name in ("stable", "baseline", "canary", "mirrored")}
        answers: Mapping[str, int] = raw.get("answers", {})
        named = ("pairs", "mismatches", "labelled", "only_canary_right", "only_stable_right")
        compared: dict[str, Any] = {name: answers.get(name, 0) for name in named}
        copies: Mapping[str, int] = raw.get("compared", {})
        copied: dict[str, Any] = {f"mirrored_{name}": copies.get(name, 0) for name in ("pairs", "mismatches")}
        return Tick(**arms, **compared, **copied, answered=raw["answered"], ready=raw["ready"], freeze=frozen)


def _counts(document: Mapping[str, Any]) -> Counts:
    return Counts(buckets=np.asarray(document["buckets"]), errors=np.asarray(document["errors"]))


@dataclass
class Result:
    """As much of a StackResult as the driver reads."""

    ok: bool = True
    changed: int = 0
    stack: str = "sandbox-vision"
    operation: str = "preview"
    violations: tuple[Any, ...] = ()
    errors: tuple[str, ...] = ()
    busy: bool = False
    seconds: float = 0.0

    @property
    def changes(self) -> dict[str, int]:
        return {"update": self.changed} if self.changed else {}


@dataclass(frozen=True)
class RouteInForce:
    """What the proxies do from a moment on."""

    since: float
    routed: Mapping[str, int]
    copies: int
    led: tuple[str, str] | None
    users: float


@dataclass
class Memory:
    """The world. `shares` are the new version's latencies; hooks make it fail."""

    store: LedgerStore
    shares: Any = field(default_factory=lambda: GOOD)
    errors: float = 0.001
    requests: float = 6000.0
    """A minute."""
    clock: datetime = START
    stack: TrafficSplit | None = None
    """What the stack was last brought to."""
    routed: dict[str, int] = field(default_factory=dict)
    mirrored: str | None = None
    copies: int = 0
    led: tuple[str, str] | None = None
    """An experiment whose users the route leads, and to which arm."""
    share_of_users: float = 0.0
    """What the gateway's filter marks."""
    done: list[str] = field(default_factory=list)
    refuse: Callable[[str], Any] = lambda _: None
    """Called with what is done, before it is done; may raise, or answer a Result to give instead."""
    answered: bool = True
    missing: Sequence[str] = ()
    hopeless: Sequence[str] = ()
    seconds_of_update: float = 10.0
    seconds_to_proxies: float = 0.0
    """How long after the API server the proxies have a route."""
    in_force: list[RouteInForce] = field(default_factory=list)
    vouched: datetime | None = None
    probes: Mapping[StepKind, ProbeResult] = field(default_factory=dict)
    findings: Sequence[str] = ()
    wrong: float = 0.0
    """Share of golden answers that differ while it has traffic."""
    labelled: Mapping[str, tuple[bool, bool]] = field(default_factory=dict)
    """Whether the new and the stable version get a request right; half a dozen are asked in a tick."""
    lag: Callable[["RolloutState", float], float] = lambda _rollout, asked: asked
    """What share of requests the new version really gets, of the one that the route says."""
    copied: tuple[int, int] = (0, 0)
    """Answers to copies that are compared in a tick, and how many of them differ."""
    apart: str = ""
    """How wrong the runner's clock is."""
    hidden: bool = False
    """Whether requests to the new version can be seen while draining."""

    @property
    def settle_seconds(self) -> float:
        return 5.0

    def now(self) -> datetime:
        return self.clock

    def clocks_apart(self) -> str:
        return self.apart

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.clock += timedelta(seconds=seconds)

    def _wanted(self) -> TrafficSplit:
        found = latest(self.store, CHAIN, "sandbox")
        assert found is not None
        return found

    def preview(self, *, refresh: bool) -> Any:
        given = self.refuse("preview")
        return given or Result(changed=int(self.stack != self._wanted() or (refresh and not self.route().carries(self._wanted()))))

    def up(self, *, refresh: bool) -> Any:
        given = self.refuse("up")
        self.clock += timedelta(seconds=self.seconds_of_update)
        if given:
            return given
        wanted = self._wanted()
        self.done.append(
            "up "
            + " ".join(f"{arm.role}={arm.weight.whole_percent}" for arm in wanted.arms)
            + (f" copies={wanted.mirror.share.whole_percent}" if wanted.mirror else "")
            + (f" users={wanted.user_split.share.whole_percent}" if wanted.user_split else "")
        )
        self.share_of_users = wanted.user_split.share.fraction if wanted.user_split else 0.0
        self.stack = wanted
        self._carry(wanted)
        return Result(changed=1, operation="up")

    def _carry(self, split: TrafficSplit) -> None:
        self.routed = split.percentages
        self._copy(split)
        self.led = split.led
        self._reaches_proxies()

    def _reaches_proxies(self) -> None:
        since = self.clock.timestamp() + self.seconds_to_proxies if self.in_force else 0.0
        self.in_force.append(RouteInForce(since, dict(self.routed), self.copies, self.led, self.share_of_users))

    def _copy(self, split: TrafficSplit) -> None:
        self.mirrored = split.mirror.release if split.mirror else None
        self.copies = split.mirror.share.whole_percent if split.mirror else 0

    def route(self) -> LiveRoute:
        self.refuse("route")
        hosts = {key: key for key in self.routed}
        more: dict[str, Any] = {"mirrored": self.mirrored, "copies": Share.percent(self.copies), "led": self.led}
        return LiveRoute(
            weights={key: Share.percent(weight) for key, weight in self.routed.items()}, hosts=hosts, **more, watched_until=self.vouched
        )

    def patch(self, split: TrafficSplit) -> None:
        self.refuse("patch")
        if not self.route().carries(split):
            self.done.append("patch")
        kept = {key: split.percentages.get(key, 0) for key in self.routed}
        if sum(kept.values()) != 100:
            raise OutOfReachError("the live route does not name every arm that should get requests")
        self.routed = kept
        self._copy(split)
        self.led = self.led if split.led else None
        self._reaches_proxies()

    def vouch(self, until: datetime | None, safe: str, seen: str) -> None:
        self.refuse("vouch")
        self.vouched = until

    def unready(self, split: TrafficSplit) -> Sequence[str]:
        self.refuse("unready")
        return self.missing

    def given_up(self, split: TrafficSplit) -> Sequence[str]:
        return self.hopeless

    def probe(self, rollout: RolloutState, step: StepKind) -> ProbeResult:
        return self.probes.get(step, ProbeResult(passed=True, reason="3 of 3 answers", by="test"))

    def check(self, rollout: RolloutState) -> Sequence[str]:
        return self.findings

    def history(self, rollout: RolloutState, seconds: float) -> RawCounters:
        stable = _document(counts(9000.0))
        return {"stable": stable, "arms": {"stable": _as_mesh(stable)}, "edges": {"latency": list(EDGES)}}

    def read(self, rollout: RolloutState, start: float, end: float) -> RawCounters:
        """Requests of the tick by what the proxies did at each moment of it; the same window always holds the same."""
        rng = np.random.default_rng(int(start * 1000) % 2**32)
        share: dict[str, float] = dict.fromkeys(("stable", "baseline", "canary"), 0.0)
        copies = 0.0
        for part, route in self._during(start, end):
            for arm in rollout.split.arms:
                users = route.users if route.led else 0.0
                share[arm.role] += part * (1 - users) * route.routed.get(arm.key, 0) / 100
                if route.led and route.led[1] == arm.key:
                    share[arm.role] += part * users
            copies += part * route.copies
        share["stable"] += 1 - sum(share.values())  # the old arms had what is no arm of this split
        really = self.lag(rollout, share[ArmRole.CANARY])
        share["stable"], share[ArmRole.CANARY] = max(0.0, share["stable"] + share[ArmRole.CANARY] - really), really
        n = self.requests * (end - start) / 60.0
        raw = {arm: _document(counts(n * share[arm], errors=0.001, rng=rng)) for arm in ("stable", "baseline")}
        raw["canary"] = _document(counts(n * share[ArmRole.CANARY], self.shares, self.errors, rng))
        raw["mirrored"] = _document(counts(n * share["stable"] * copies / 100, self.shares, self.errors, rng))
        raw["arms"] = {arm: _as_mesh(raw[arm]) for arm in (*share, "mirrored")}
        raw["edges"] = {"latency": list(EDGES)}
        if rollout.body["policy"]["mirrored"] is not None and copies:
            raw["compared"] = {"pairs": self.copied[0], "mismatches": self.copied[1]}
        if rollout.body["policy"]["golden"]:
            raw["answers"] = {"pairs": 25, "mismatches": int(rng.binomial(25, self.wrong))}
            asked = sorted(set(self.labelled) - rollout.compared)[:6]
            pairs = [self.labelled[name] for name in asked]
            one, other = pairs.count((True, False)), pairs.count((False, True))
            raw["answers"] |= LabelledComparison(
                names=tuple(asked), pairs=len(pairs), only_new_right=one, only_stable_right=other
            ).document()
        return json.loads(json.dumps({**raw, "answered": self.answered, "ready": True}))

    def _during(self, start: float, end: float) -> list[tuple[float, RouteInForce]]:
        """The routes that the proxies had in a window, each with its part of it."""
        ends = [*(route.since for route in self.in_force[1:]), float("inf")]
        parts = [(min(end, until) - max(start, route.since), route) for route, until in zip(self.in_force, ends, strict=True)]
        return [(seconds / (end - start), route) for seconds, route in parts if seconds > 0]

    def drained(self, rollout: RolloutState) -> DrainResult:
        if self.hidden:
            return DrainResult(requests=None, reason="Prometheus does not answer")
        arm = rollout.split.arm(ArmRole.CANARY)
        left = self.routed.get(arm.key, 0) if arm else 0
        return DrainResult(requests=float(left + self.copies + (self.led is not None)))


def _document(arm: Counts) -> dict[str, Any]:
    return {"buckets": np.asarray(arm.buckets).tolist(), "errors": np.asarray(arm.errors).tolist()}


def _as_mesh(arm: Mapping[str, Any]) -> dict[str, Any]:
    """The arm as a reading of the mesh has it."""
    requests = [float(np.sum(row)) for row in arm["buckets"]]
    return {"requests": requests, "errors": arm["errors"], "buckets": {"latency": arm["buckets"]}}


ROOM = PoolCapacity(replicas=2, free=8)
UNASKED = GoldenTrial(compared=False, reason="these replicas are a test's")


@dataclass
class Scene:
    """A service whose old version serves, and a new contract."""

    store: LedgerStore
    old: Model
    new: Model
    world: Memory
    actors: int = 0
    witness: LedgerWitness | None = None

    @classmethod
    def of(cls, store: LedgerStore, old: Model, **rollout: Any) -> "Scene":
        policy = {"strategy": "canary", "mirror": {"share": "100%"}, "bake": "5m", "step_at_least": "3m", **rollout}
        policy = {key: value for key, value in policy.items() if value is not None}
        artifact = {**old.model_dump(mode="json")["artifact"], "version": "2026.12.1"}
        new = Model.model_validate({**old.model_dump(mode="json"), "artifact": artifact, "rollout": policy})
        scene = cls(store, old, new, Memory(store))
        setattr(store, "clock", lambda: scene.world.clock)  # noqa: B010  a store's clock is its own; here it goes with the world's
        adopt(scene.ledger(), store, old.model_dump(mode="json"), release_id(old))
        scene.world.stack = latest(store, CHAIN, "sandbox")
        scene.world.routed = {release_id(old): 100}
        scene.world._reaches_proxies()
        return scene

    @property
    def stable(self) -> str:
        return release_id(self.old)

    @property
    def release(self) -> str:
        return release_id(self.new)

    def ledger(self, actor: str = "ci") -> Ledger:
        return Ledger(self.store, CHAIN, "sandbox", actor, self.world.now, self.witness)

    def begin(self, answers: GoldenTrial = UNASKED, **start: Any) -> None:
        begin(self.ledger(), self.store, self.new, ROOM, StartOptions(**start), answers)

    def driver(
        self, holder: str = "one", *, regate: str | None = None, diagnose: DiagnoseRollback | None = None, **more: Any
    ) -> ReleaseDriver:
        leased_run = LeasedRun(self.ledger(holder), self.world, Reading(), holder, **more)
        return ReleaseDriver(leased_run, regate=regate, diagnose=diagnose)

    def service(self) -> ServiceState:
        return fold(self.ledger().read())

    def run(self, **more: Any) -> RolloutState:
        self.begin()
        return self.driver(**more).run()

    def kinds(self) -> list[str]:
        return [event.kind for event in self.ledger().read() if not event.kind.startswith("lease")]


__all__ = ["BAD", "CHAIN", "GOOD", "Memory", "OutOfReachError", "ProbeResult", "Reading", "Result", "Scene"]
