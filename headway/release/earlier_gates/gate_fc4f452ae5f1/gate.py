"""The gate: counts of one tick in, a decision out, for one rollout or for many at once.

Each tick goes through four steps: `read_tick` says what the tick holds, `_judge` adds it to the evidence, `_decide` moves the ladder of
weights, `_explain` names the reason. Of several reasons the first in the table `reasons.REASONS` is named.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.release.earlier_gates.gate_fc4f452ae5f1.comparison import ComparedArms, Comparison, worst_evidence
from headway.release.earlier_gates.gate_fc4f452ae5f1.decision import Decision, Phase, SignalResult, Verdict, verdicts
from headway.release.earlier_gates.gate_fc4f452ae5f1.evidence import LARGEST_GAIN, Stakes, of_a_tick, ticks_in
from headway.release.earlier_gates.gate_fc4f452ae5f1.health import ReachTest, unreached
from headway.release.earlier_gates.gate_fc4f452ae5f1.level import Saturation
from headway.release.earlier_gates.gate_fc4f452ae5f1.observation import BASELINE_SLACK, ArmShape, Observation, read_tick
from headway.release.earlier_gates.gate_fc4f452ae5f1.policy import FULL_WEIGHT, GatePolicy
from headway.release.earlier_gates.gate_fc4f452ae5f1.reasons import Reason, first_reason, rolls_back
from headway.release.earlier_gates.gate_fc4f452ae5f1.stages import BakeFindings, Ladder, Move
from headway.release.earlier_gates.gate_fc4f452ae5f1.tick import ArmCounts, Bools, Counts, Floats, Ints, Tick, read_arm

_MINUTES_UNTIL_ROUTED = 2
"""Minutes that a new weight may take to reach the proxies, before a canary without requests is named."""


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What the evidence says after a tick, by rollout."""

    signals: dict[str, SignalResult]
    failures: Mapping[Reason, Bools]
    """Where each reason to roll back holds."""
    wrong_share: Bools
    """The canary's share of requests has been wrong for a while."""
    unreached: Bools
    """The canary has had no requests for a while."""
    started: Bools
    """The canary has been ready."""
    in_grace: Bools
    clocked: Bools
    """The tick could have been evidence, so that the clock of its step goes on."""
    counted: Bools
    """The tick was evidence."""
    answers_missing: Bools
    """All is proven, but too few answers were compared or found alike."""
    saturating: Bools
    """All is proven, but the canary would be too busy at the next weight."""
    slower_at_one_edge: Floats
    """Evidence that a peak of the histogram may explain; it takes nothing back, and keeps traffic from growing as all evidence does."""
    only_holds: Floats
    """The most evidence that something else than the version may explain: a peak, one node in trouble, requests that fail together."""
    one_node: Bools
    """All that is held against it may be one node in trouble."""
    alone: Bools
    """At most one replica answered, as far as anyone knows."""
    number_too_high: Bools
    """Time in queue or cost is, which alone takes nothing back."""
    memory_rising: Bools
    """Nothing proves a leak, and nothing rules one out."""
    tail_above: Bools
    """The far tail stands above what is tolerated, before full traffic."""
    passed: Bools
    """Nothing that is judged keeps traffic from growing."""


class Gate(Comparison):
    """Sequential comparison of a canary with its control, and the ladder of weights.

    `edges`: upper edges of the latency histogram, ascending, in any unit, the same in all arms; or several histograms by name, which
    share the budget of false rollbacks. `classes`: kinds of requests that are compared only with their own kind. `shape`: `()` for one
    rollout, `(n,)` for a batch; a rollout in a batch gets the very bits it gets alone. Raises ValueError for what cannot be compared.
    """

    def __init__(
        self,
        policy: GatePolicy,
        edges: Sequence[float] | Mapping[str, Sequence[float]],
        classes: Sequence[str] = ("all",),
        *,
        shape: tuple[int, ...] = (),
        tick_seconds: float = 60.0,
    ) -> None:
        if shape != () and (len(shape) != 1 or shape[0] < 1):
            raise ValueError(f"shape {shape}. There is no such batch. Give () for one rollout, or (n,)")
        if isinstance(classes, str) or not classes or len(set(classes)) < len(classes):
            raise ValueError(f"classes {classes!r}. Requests could not be told apart. Give a list of one name or more, each once")
        if not tick_seconds > 0 or len(edges) == 0:
            raise ValueError(f"tick_seconds {tick_seconds}, edges {edges}. Nothing could be judged. Give a length, and a histogram's edges")
        histograms = edges if isinstance(edges, Mapping) else {"latency": edges}
        rollouts, minutes = shape[0] if shape else 1, tick_seconds / 60
        super().__init__(policy, histograms, len(classes), rollouts, minutes)
        self.shape = shape
        self._arm_shape = ArmShape(
            buckets={name: len(ends) + 1 for name, ends in histograms.items()}, classes=len(classes), rollouts=rollouts
        )
        self.reach, self._reach_bound = ReachTest(rollouts), 1 / policy.alpha["reach"]
        self.saturation = Saturation(rollouts, minutes)
        self.ladder = Ladder(policy, rollouts, minutes)
        self.stakes = Stakes(len(policy.stages), policy.planned_ticks, policy.bake_ticks, rollouts)
        self.arms_here = np.zeros((2, rollouts))
        """Requests of baseline and canary at this weight."""
        self._next_weights = np.asarray([*(stage.weight for stage in policy.stages[1:]), FULL_WEIGHT])

    def learn(self, stable: Counts) -> None:
        """What the stable version did before the rollout: counts of a tick, or the sum of many. About 15 minutes are a good start."""
        of = self._arm_shape
        arm = read_arm(stable, of.buckets, of.classes, of.rollouts, "stable")
        self.remember_history(arm.buckets)
        self.errors.remember_history(arm)

    def observe(self, tick: Tick) -> Decision:
        """Take in one tick and decide. The weights of the answer hold from the next tick on."""
        seen = read_tick(tick, self._arm_shape, self.policy, self.ladder)
        judgement = self._judge(seen)
        move = self._decide(seen, judgement)
        remembered = ~seen.blind & ~seen.over
        self.remember(seen.stable.only(remembered), seen.baseline.only(remembered))
        return self._explain(seen, judgement, move)

    def _judge(self, seen: Observation) -> Judgement:
        """Add the tick to the evidence; answers what it says now."""
        ladder, judged = self.ladder, seen.judged
        ladder.tick(ready=seen.ready, blind=seen.blind)
        wrong_share, silent = self._watch_share(seen), self._watch_reach(seen)
        started, in_grace = ladder.ready > 0, ladder.in_grace()
        watched = ~seen.over & ~ladder.parked & ~seen.blind & ~seen.idle
        clocked = watched & started & ~in_grace & self.share.settled & ~wrong_share
        control, alike = self._control(seen, clocked)
        counted = clocked & (judged.total() > 0) & (control.total() > 0) & seen.controlled
        stake = self.stakes.next(counted, ladder.count(clocked, counted), seen.baking)
        same_version = seen.stable.plus(seen.baseline)
        by_history = clocked & seen.baking & (self.policy.held_back == 0) & (judged.total() > 0)
        self.compare(ComparedArms(judged, control, same_version, alike, by_history), stake, ladder)
        self.compare_answers(seen.answers, ~seen.over)
        self.gpu_memory.observe(np.where(~seen.over, seen.memory, np.nan), seen.control_memory)
        self.saturation.observe(judged.busy, judged.total(), counted)
        self.catastrophe.observe(judged, same_version, ~seen.blind & ~seen.over)
        self.restarting.observe(seen.restarts, seen.answered & ~seen.over)
        signals = self.signals(ladder, clocked, seen.blind | wrong_share)
        proven, answers_pass = self.regression_ruled_out(signals), self.answers_pass(ladder)
        memory_rising = self.gpu_memory.suspect() & ~seen.over
        tail_above = proven & self.tail_above(ladder)
        saturating = proven & answers_pass & seen.releasing & (self._use_at_next_weight(seen) > Saturation.LIMIT)
        return Judgement(
            signals=signals,
            failures=self._failures(seen, signals),
            wrong_share=wrong_share,
            unreached=silent,
            started=started,
            in_grace=in_grace,
            clocked=clocked,
            counted=counted,
            answers_missing=proven & ~answers_pass,
            saturating=saturating,
            memory_rising=memory_rising,
            tail_above=tail_above,
            number_too_high=self.number_too_high(signals),
            slower_at_one_edge=(at_one_edge := self.slower_at_one_edge(seen.baking)),
            only_holds=np.maximum(np.maximum(at_one_edge, as_seen := self.slower_as_seen(seen.baking)), self.errors.seen_evidence()),
            one_node=(as_seen >= signals["latency"].bound) & (signals["latency"].evidence < signals["latency"].bound),
            alone=judged.replicas() < 2,
            passed=proven & answers_pass & ~saturating & ~memory_rising & ~tail_above,
        )

    def _decide(self, seen: Observation, judgement: Judgement) -> Move:
        """Roll back what failed, and move the ladder of the others."""
        ladder = self.ladder
        failed = rolls_back(judgement.failures, self._n)
        ladder.roll_back(failed)
        move = ladder.decide(
            passed=judgement.passed & judgement.clocked,
            worst=np.maximum(worst_evidence(judgement.signals), judgement.only_holds),
            usable=~seen.blind & ~judgement.wrong_share & ~seen.over & ~seen.idle & (seen.releasing | ~judgement.memory_rising),
            frozen=seen.frozen,
            bake=BakeFindings(
                self.recently_bad() | judgement.memory_rising, np.full(self._n, self.policy.held_back > 0), seen.judged.total()
            ),
        )
        ladder.roll_back(move.failed)
        self._restart(move.changed & ~(failed | move.failed))
        return move

    def _explain(self, seen: Observation, judgement: Judgement, move: Move) -> Decision:
        """The decision, with the first reason of the table that holds."""
        still_open = judgement.clocked & ~self.ladder.inconclusive & seen.releasing
        # What is let go without proof is held by nothing any more.
        held = ~move.reasons[Reason.BAKED_UNPROVEN]
        holds: dict[Reason, Bools] = {
            Reason.UNANSWERED: ~seen.answered,
            Reason.CANARY_NOT_SCRAPED: seen.canary_missing,
            Reason.CONTROL_NOT_SCRAPED: seen.blind,
            Reason.WRONG_SHARE: judgement.wrong_share,
            Reason.IDLE: seen.idle,
            Reason.NOT_READY: seen.releasing & ~judgement.started,
            Reason.GRACE: seen.releasing & judgement.in_grace,
            Reason.UNREACHED: judgement.unreached,
            Reason.SHARE_SETTLING: seen.releasing & ~judgement.clocked & ~self.ladder.inconclusive,
            Reason.MEMORY_RISING: judgement.memory_rising & (judgement.clocked | (self.ladder.phase == Phase.BAKING)),
            Reason.ONE_REPLICA: judgement.clocked & judgement.one_node & ~judgement.alone,
            Reason.ONE_EPISODE: judgement.clocked & judgement.one_node & judgement.alone,
            Reason.ONE_EDGE: judgement.clocked & (judgement.slower_at_one_edge >= judgement.signals["latency"].bound),
            Reason.TAIL_ABOVE: judgement.tail_above & judgement.clocked,
            Reason.QUEUE_OR_COST: judgement.number_too_high & judgement.clocked,
            Reason.UNANSWERED_GOLDEN: judgement.answers_missing & still_open,
            Reason.SATURATING: judgement.saturating & still_open,
        }
        conditions = {
            Reason.OVER: seen.over,
            **judgement.failures,
            **move.reasons,
            **{reason: where & held for reason, where in holds.items()},
        }
        failed = rolls_back({**judgement.failures, **move.reasons}, self._n)
        verdict = verdicts(failed, seen.blind | judgement.wrong_share, judgement.passed & judgement.clocked)
        return self._decision(verdict, first_reason(conditions, self._n), judgement.counted, judgement.signals)

    def _failures(self, seen: Observation, signals: Mapping[str, SignalResult]) -> dict[Reason, Bools]:
        """Where each reason to roll back holds that evidence or a fault gives; those of the clock are the ladder's."""
        running, releasing = ~seen.over, seen.releasing
        told = seen.answered & running
        failing = {name: signal.verdict == Verdict.FAIL for name, signal in signals.items()}
        return {
            Reason.CATASTROPHIC: running & failing["catastrophe"],
            Reason.NOT_ROUTABLE: releasing & (self.reach.evidence >= self._reach_bound),
            Reason.GPU: told & seen.fatal_gpu_error,
            Reason.OUT_OF_MEMORY: told & seen.out_of_memory,
            Reason.RESTARTS: running & failing["restarts"],
            Reason.INVALID_ANSWER: running & failing["malformed"],
            Reason.FAILED_MEMORY: running & failing["memory"],
            Reason.FAILED_CORRECTNESS: running & (failing["correctness"] | failing.get("mirrored", False)),
            Reason.FAILED_ERRORS: running & failing["errors"],
            Reason.FAILED_LATENCY: running & failing["latency"],
            Reason.FAILED_QUEUE: running & failing["queue"],
            Reason.FAILED_COST: running & failing["cost"],
        }

    def _watch_share(self, seen: Observation) -> Bools:
        """Update the share test; answers where the share is persistently wrong."""
        ladder, mirroring = self.ladder, seen.mirroring
        stable, canary, mirrored = seen.stable.total(), seen.canary.total(), seen.mirrored.total()
        watched = ~seen.blind & ~seen.over & ~seen.idle & ~ladder.parked
        if self.policy.by_user:
            # A few users may make most requests: any share of them is right, once both versions have some.
            met = (canary > 0) & ((stable > 0) | (seen.baking & (self.policy.held_back == 0)))
            self.share.settled = self.share.settled | (watched & ~mirroring & met)
        else:
            # In the bake it is the share of those who are held back that is small enough to be told.
            held = seen.baking & (self.policy.held_back > 0)
            asked = np.where(held, self.policy.held_back, np.where(mirroring, 0.5, ladder.weight()))
            self.share.observe(np.where(held, stable, canary), seen.users, asked, watched & ~mirroring)
        copied = mirrored >= 0.5 * ladder.mirror() * stable - 4 * np.sqrt(stable)
        self.share.settled = self.share.settled | (watched & mirroring & copied & (mirrored > 0))
        return self.share.wrong() & ~mirroring & ~seen.over

    def _watch_reach(self, seen: Observation) -> Bools:
        """Update the test of whether requests reach the canary; answers where they should have come long ago, and did not."""
        # What a container counted before it died is lost; and which users ask in a tick nobody can tell.
        watched = seen.releasing & ~seen.blind & ~seen.mirroring & ~self.ladder.parked & (seen.restarts == 0) & (not self.policy.by_user)
        canary, baseline = seen.canary.total(), seen.baseline.total()
        self.reach.observe(canary, baseline, watched & (self.ladder.baseline_weight() > 0), of_a_tick(LARGEST_GAIN, self._tick_minutes))
        routed = self.ladder.here > ticks_in(_MINUTES_UNTIL_ROUTED, self._tick_minutes)
        return watched & routed & unreached(canary, seen.stable.total() + baseline, self.ladder.weight())

    def _control(self, seen: Observation, clocked: Bools) -> tuple[ArmCounts, Bools]:
        """The baseline where it really is an arm of the canary's size, else the stable version; and where it is the baseline."""
        here = np.stack([seen.baseline.total(), seen.judged.total()])
        self.arms_here = np.where(clocked, self.arms_here + here, self.arms_here)
        from_baseline, from_canary = self.arms_here
        slack = np.where(seen.mirroring, 0.0, BASELINE_SLACK)
        comparable = (2 * from_baseline + slack >= from_canary) & (from_canary > 0)
        stable_is_idle = seen.stable.total() == 0
        chosen = (comparable | stable_is_idle) & self.policy.baseline & ~seen.baking
        return seen.baseline.where(chosen, seen.stable), chosen

    def _use_at_next_weight(self, seen: Observation) -> Floats:
        """Projected use of the canary's GPUs at the next weight."""
        return self.saturation.projected(seen.users * self._next_weights[self.ladder.stage], seen.capacity)

    def _restart(self, where: Bools) -> None:
        """The weight was changed: proofs begin anew."""
        self.restart_proofs(where, self.ladder.baking)
        self.arms_here = np.where(where, 0.0, self.arms_here)

    def _decision(self, verdict: Ints, reason: Ints, counted: Bools, signals: Mapping[str, SignalResult]) -> Decision:
        ladder = self.ladder

        def shaped(array: NDArray[Any]) -> NDArray[Any]:
            return array.reshape(self.shape)

        return Decision(
            verdict=shaped(verdict),
            reason=shaped(reason),
            phase=shaped(ladder.phase),
            stage=shaped(ladder.stage),
            weight=shaped(ladder.weight()),
            baseline_weight=shaped(ladder.baseline_weight()),
            mirror=shaped(ladder.mirror()),
            counted=shaped(counted),
            inconclusive=shaped(ladder.inconclusive),
            unproven=shaped(ladder.unproven),
            better=shaped(self.better),
            signals={
                name: SignalResult(
                    verdict=shaped(s.verdict),
                    evidence=shaped(s.evidence),
                    bound=s.bound,
                    proof=shaped(s.proof),
                    proof_bound=shaped(s.proof_bound),
                )
                for name, s in signals.items()
            },
        )

    def promote(self) -> None:
        """A person gives the new version all traffic without waiting for proof; while it bakes, ends the baking."""
        releasing = self.ladder.releasing
        self.ladder.promote()
        self._restart(releasing)

    def start(self) -> Decision:
        """The weights of the first tick, before anything was observed."""
        nothing = np.zeros(self._n, dtype=bool)
        signals = self.signals(self.ladder, nothing, ~nothing)
        unknown = np.full(self._n, int(Verdict.NO_DATA))
        return self._decision(unknown, np.full(self._n, int(Reason.NOT_READY)), nothing, signals)
