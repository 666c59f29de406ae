"""The world as it is: the tenant's stack by the Automation API, the route and the replicas in the cluster, evidence
from Prometheus.

Joins what others own; decides nothing. Names of an arm's objects are made by the program, which this must not import;
they are read from the live route, which names them all.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from headway.contract.health import Golden
from headway.environment.clock import ClockOffset
from headway.environment.port import OutOfReachError
from headway.environment.request_samples import RequestSamples, UnreadableSamplesError
from headway.ledger.traffic_split import ArmRole, TrafficSplit
from headway.release.driver.clocks import wrong
from headway.release.driver.golden_answers import GoldenAnswers, RunInPod, asked, failing, in_a_tick, judged
from headway.release.driver.labelled import compared
from headway.release.driver.live_service import LiveService
from headway.release.driver.mirrored import paired
from headway.release.driver.rollout_state import RolloutState
from headway.release.driver.service_under_release import DrainResult, LiveRoute, ProbeResult, RawCounters
from headway.release.evidence.drained import DrainEvidence, EarlierScrapes
from headway.release.evidence.reading import ArmNames, JudgedService, TickWindow, unanswered
from headway.release.plan import StepKind

if TYPE_CHECKING:
    from headway.environment.stacks import PackSource, StackResult, StackRunner

_OWN_PROBES = "its startup probe"
_SIMULATED = "nobody"
PROBE_SECONDS = 5.0
"""Longest that golden requests are asked at a time; the driver has other things to look at."""
LATELY_SECONDS = (900.0, 300.0)
"""How far back traffic is measured before a release begins."""


@dataclass
class DeployedService:
    """Implements `world.World` for one service."""

    runner: "StackRunner"
    stack: str
    packs: Sequence["PackSource"]
    cluster: LiveService
    evidence: DrainEvidence
    service: JudgedService
    run: RunInPod
    """Runs Python in a serving container."""
    samples: RequestSamples | None = None
    """Kept samples of requests; None where nothing is kept."""
    compared_by: Golden | None = None
    """How an answer to a copy is compared with the user's."""
    requests_hint: str = ""
    """What has requests where replicas are simulated; empty where none is."""
    _leaving: str | None = field(default=None, init=False)
    """Name of the Service of a version that should get nothing any more."""
    _seen: EarlierScrapes | None = field(default=None, init=False)
    """What the first look at a version that should get nothing found."""

    @property
    def settle_seconds(self) -> float:
        return self.evidence.settle_seconds

    def now(self) -> datetime:
        return datetime.now(UTC)

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def clocks_apart(self) -> str:
        sent = time.time()
        told = self.evidence.time()
        by_prometheus = wrong(ClockOffset.read(sent, time.time(), told, resolution=0.0), "Prometheus") if told is not None else ""
        return " and ".join(filter(None, (wrong(self.cluster.clock_offset(), "the API server"), by_prometheus)))

    # -- the stack -------------------------------------------------------------------------------------------------------------

    def preview(self, *, refresh: bool) -> "StackResult":
        return self.runner.preview(self.stack, self.packs, refresh=refresh)

    def up(self, *, refresh: bool) -> "StackResult":
        return self.runner.up(self.stack, self.packs, refresh=refresh)

    # -- the cluster -----------------------------------------------------------------------------------------------------------

    def route(self) -> LiveRoute:
        return self.cluster.route()

    def patch(self, split: TrafficSplit) -> None:
        self.cluster.patch(split)

    def vouch(self, until: datetime | None, safe: str, seen: str) -> None:
        self.cluster.vouch(until, safe, seen)

    def unready(self, split: TrafficSplit) -> Sequence[str]:
        return self.cluster.unready(split)

    def given_up(self, split: TrafficSplit) -> Sequence[str]:
        """What Kubernetes has given up, or what is asked again and again and answers wrongly. Raises OutOfReachError."""
        arms = self.cluster.starting(split)
        return self.cluster.given_up(split) or tuple(f"{who}: {why}" for who, pods in arms.items() if (why := failing(pods, self.run)))

    def probe(self, rollout: RolloutState, step: StepKind) -> ProbeResult:
        """Replicas prove themselves before they are ready: the startup probe sends warm-up and golden requests at the
        largest shape."""
        missing = self.cluster.unready(rollout.split)
        if missing:
            return ProbeResult(passed=False, reason="; ".join(missing), by=_OWN_PROBES)
        if self.cluster.simulated(rollout.release):
            return ProbeResult(passed=None, reason="the replicas are simulated", by=_SIMULATED)
        if step is StepKind.GOLDEN and rollout.body["policy"]["golden"]:
            return judged(asked(self.cluster.ready(rollout.release), self.run, PROBE_SECONDS), rollout.body["policy"]["mismatch"])
        return ProbeResult(passed=True, reason="every replica answered before it became ready", by=_OWN_PROBES)

    def answers(self, release: str) -> GoldenAnswers | None:
        """What replicas of `release` answer to their golden requests; None where they only pretend to run. Raises
        OutOfReachError."""
        return None if self.cluster.simulated(release) else asked(self.cluster.ready(release), self.run, PROBE_SECONDS)

    # -- evidence --------------------------------------------------------------------------------------------------------------

    def check(self, rollout: RolloutState) -> Sequence[str]:
        problems = self.evidence.preflight(self.service, self._arms(rollout), now=self.now().timestamp() - self.settle_seconds)
        blocking = tuple(problem.brief for problem in problems if problem.blocking)
        if blocking and self.requests_hint and self.cluster.simulated(rollout.stable):
            return (f"the stable version's replicas are simulated, so nothing can be compared. {self.requests_hint}",)
        return blocking

    def requests_a_second(self, arm: str, speed: float) -> float | None:
        """What users asked of the arm of this key lately, in the policy's time: over a quarter of an hour or its last five minutes, the
        more of both; None where nobody knows or nobody asked. Raises OutOfReachError."""
        host, before = self.cluster.route().hosts.get(arm), self.now().timestamp() - self.settle_seconds
        if host is None:
            return None
        raws = {seconds: self.evidence.history(self.service, ArmNames(stable=host), before, seconds / speed) for seconds in LATELY_SECONDS}
        counted = [sum(raw["arms"]["stable"]["requests"]) / seconds for seconds, raw in raws.items() if raw["answered"]]
        return max(counted, default=0.0) or None

    def history(self, rollout: RolloutState, seconds: float) -> RawCounters:
        before = self.now().timestamp() - self.settle_seconds
        return self.evidence.history(self.service, self._arms(rollout), before, seconds)

    def read(self, rollout: RolloutState, start: float, end: float) -> RawCounters:
        raw = self._counted(rollout, start, end)
        raw = {**raw, "room": room_ahead(rollout, raw), **self._copies(rollout, start, end)}
        if not rollout.body["policy"]["golden"]:
            return raw
        seconds = min(PROBE_SECONDS, (end - start) / 4)
        try:
            new = self.cluster.ready(rollout.release)
            most = in_a_tick(end - start)
            found = asked(new, self.run, seconds, most, rollout.ticks * most).document()
        except OutOfReachError as failure:
            return {**raw, "answers": {"pairs": 0, "mismatches": 0, "invalid": 0, "reason": str(failure)}}
        if rollout.body["policy"].get("trade_gain") is None:
            return {**raw, "answers": found}
        try:
            both = compared(new, self.cluster.ready(rollout.stable), rollout.compared, self.run, seconds / 2).document()
        except OutOfReachError as failure:
            both = {"labelled": 0, "not_compared": str(failure)}
        return {**raw, "answers": {**found, **both}}

    def _copies(self, rollout: RolloutState, start: float, end: float) -> dict[str, Any]:
        """Answers to copies beside those that users got, where the release is judged by them: of as long a time as the
        tick, but of late enough a one that every sample has been stored."""
        if rollout.body["policy"].get("mirrored") is None:
            return {}
        nothing = {"pairs": 0, "mismatches": 0}
        if self.samples is None or self.compared_by is None:
            return {"compared": {**nothing, "reason": "no samples of requests are kept"}}
        late = self.samples.late_seconds
        try:
            arms = self._arms(rollout)
            users = tuple(name for name in (arms.stable, arms.baseline) if name)
            comparison = paired(self.samples.read(start - late, end - late), users, arms.canary or "", self.compared_by)
        except (OutOfReachError, UnreadableSamplesError) as failure:
            return {"compared": {**nothing, "reason": str(failure)}}
        return {"compared": {**comparison.document(), "of": [start - late, end - late]}}

    def _counted(self, rollout: RolloutState, start: float, end: float) -> RawCounters:
        try:
            arms = self._arms(rollout)
        except OutOfReachError as failure:
            return unanswered(self.service, TickWindow(start, end), f"the API server does not answer ({failure})")
        judged = replace(self.service, edges=(rollout.learned or {}).get("edges") or {})
        return self.evidence.read(judged, arms, TickWindow(start, end))

    def drained(self, rollout: RolloutState) -> DrainResult:
        """Requests to the new version between two scrapes since the first look; copies, and what reached no replica,
        count too."""
        try:
            self._leaving = self._leaving or self._arms(rollout).canary
        except OutOfReachError as failure:
            return DrainResult(requests=None, reason=f"the API server does not answer ({failure})")
        if self._leaving is None:
            return DrainResult(requests=None, reason="the live route does not name the new version")
        measured, self._seen = self.evidence.drained(self.service, self._leaving, self._seen)
        return DrainResult(requests=measured.requests, reason=measured.reason)

    def _arms(self, rollout: RolloutState) -> ArmNames:
        """Names of the arms' Services, as the live route has them."""
        hosts = self.cluster.route().hosts
        names = {
            name: hosts.get(arm.key) for name in (ArmRole.STABLE, ArmRole.BASELINE, ArmRole.CANARY) if (arm := rollout.split.arm(name))
        }
        stable = names.get(ArmRole.STABLE)
        if stable is None:
            raise OutOfReachError("the live route does not name the stable version")
        return ArmNames(stable=stable, baseline=names.get(ArmRole.BASELINE), canary=names.get(ArmRole.CANARY))


def room_ahead(rollout: RolloutState, raw: Mapping[str, Any]) -> float | None:
    """GPU seconds that the new version would have in this window with the replicas of the next weight; None where
    nobody knows."""
    decision, new = rollout.decision or rollout.body["first"], rollout.split.arm(ArmRole.CANARY)
    if decision["phase"] != "releasing" or new is None or not new.replicas:
        return None
    known = [(raw["arms"].get(arm) or {}).get("available") for arm in ("canary", "mirrored")]
    now = sum(each for each in known if each is not None)
    ahead = (*rollout.plan.traffic[int(decision["stage"]) + 1 :], rollout.plan.one(StepKind.BAKE))
    return now / new.replicas * ahead[0].fleet.canary if now else None
