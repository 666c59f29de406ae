"""All signals of the gate: what the canary's counts say beside the control's, and what they say by themselves.

The control's histogram is remembered only after a tick was judged, so that no tick is judged by itself.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from headway.release.gate.correctness import Correctness, Gain, Malformed
from headway.release.gate.decision import SignalResult, Verdict, verdicts
from headway.release.gate.errors import Errors
from headway.release.gate.evidence import (
    LARGEST_GAIN,
    LARGEST_GAIN_OF_PROOF,
    LARGEST_GAIN_WHILE_YOUNG,
    WORTH_WHILE_YOUNG,
    AnyOnset,
    TickStake,
    of_a_tick,
    ticks_in,
    worth_of_a_tick,
)
from headway.release.gate.health import Catastrophe, RestartTest, ShareTest
from headway.release.gate.latency import Latency
from headway.release.gate.level import LevelLimits, LevelTest
from headway.release.gate.memory import GpuMemoryUse
from headway.release.gate.observation import AnswerCounts
from headway.release.gate.policy import GatePolicy
from headway.release.gate.replicas import ReplicaRows
from headway.release.gate.stages import Ladder
from headway.release.gate.state import Stateful
from headway.release.gate.tick import ArmCounts, Bools, Floats, over_classes
from headway.release.gate.usual import UsualLevel

_YOUNG_MINUTES = 12
"""Minutes since the canary was ready during which a slow start is likelier than a slow version."""
_STARTING_MINUTES = 5
"""The first of them, in which a healthy version may be several times slower."""
_BETTER = 100.0
"""Evidence at which a version counts as better for good: one that is not gets there in one of a hundred rollouts at most."""
RECENTLY_BAD = 20.0
"""Evidence of the latest minutes from which on a bake does not end."""
_QUEUE_TOLERATED, _QUEUE_RULED_OUT = 5.0, 10.0
"""Multiples of the tolerated slow-down by which time in queue may grow, because it grows several times faster than the work."""


class ComparedArms(NamedTuple):
    """What is compared in one tick."""

    canary: ArmCounts
    control: ArmCounts
    same_version: ArmCounts
    """All arms of the stable version together."""
    alike: Bools
    """Whether the control is the baseline, an arm of the canary's size and load."""
    by_history: Bools
    """Where there is no control in the bake, so that the past stands in for it."""


class Comparison(Stateful):
    """Evidence of every kind, for and against the canary."""

    def __init__(
        self, policy: GatePolicy, histograms: Mapping[str, Sequence[float]], classes: int, rollouts: int, tick_minutes: float
    ) -> None:
        self.policy = policy
        self._n, self._tick_minutes = rollouts, tick_minutes

        def compared(by: GatePolicy, hoped: float = 0.0) -> dict[str, Latency]:
            return {name: Latency(by, ends, classes, rollouts, tick_minutes, hoped) for name, ends in histograms.items()}

        self.replicas, self.latency = ReplicaRows(), compared(policy)
        self.gain = None if policy.trade_gain is None else Gain(policy.trade_gain, rollouts)
        self.better = np.zeros(rollouts, dtype=bool)
        """Shown to answer better, so that the trade's tolerance holds."""
        self.traded = {} if policy.trade_gain is None else compared(policy.traded(), policy.trade_latency)
        """The same histograms by the trade's tolerance, from the first tick on, for when it is needed."""
        self.errors = Errors(policy, classes, rollouts, tick_minutes)
        self.correctness = Correctness(policy.mismatch, rollouts)
        self.mirrored = None if policy.mirrored is None else Correctness(policy.mirrored, rollouts)
        self.malformed = Malformed(rollouts, tick_minutes)
        self.catastrophe, self.restarting = Catastrophe(rollouts), RestartTest(rollouts, tick_minutes)
        self.gpu_memory = GpuMemoryUse(policy.memory, tick_minutes, rollouts)
        queue = LevelLimits(1 + _QUEUE_TOLERATED * policy.latency, 1 + _QUEUE_RULED_OUT * policy.latency, policy.queue_floor)
        self.levels = {"queue": LevelTest(queue, rollouts), "cost": LevelTest(LevelLimits(1 + policy.cost, 1 + 2 * policy.cost), rollouts)}
        self.usual = {name: UsualLevel(rollouts, tick_minutes) for name in self.levels}
        self.share = ShareTest(rollouts)
        self.pairs, self.mirrored_pairs = np.zeros(rollouts), np.zeros(rollouts)
        self._proof_bounds = np.asarray([stage.proof_bound for stage in policy.stages])

    def compare(self, arms: ComparedArms, stake: Floats, ladder: Ladder) -> None:
        """Add one tick to the signals that need a control. `stake`: what the tick counts, below zero where it does not."""
        minutes = self._tick_minutes
        largest, while_young = of_a_tick(LARGEST_GAIN, minutes), of_a_tick(LARGEST_GAIN_WHILE_YOUNG, minutes)
        patient = np.where(ladder.mirroring, while_young, largest)
        young = ladder.ready <= ticks_in(_YOUNG_MINUTES, minutes)
        shown, of_proof = np.where(young, while_young, patient), of_a_tick(LARGEST_GAIN_OF_PROOF, minutes)
        worth = np.where(young, of_a_tick(WORTH_WHILE_YOUNG, minutes), worth_of_a_tick(minutes))
        started = ladder.ready > ticks_in(_STARTING_MINUTES, minutes)
        at = TickStake(stake, ladder.stage, shown, of_proof, worth, arms.by_history, ladder.baking, started, young)
        self._compare_levels(arms, at)
        by_replica, anew = self.replicas.place(arms.canary)
        for name, signal in self._all_latency():
            signal.choose()
            canary, control, same = (arm.buckets[name] for arm in (arms.canary, arms.control, arms.same_version))
            signal.compare(canary, control, same, at, by_replica.get(name), anew=anew)
        self.errors.compare(arms.canary, arms.control, replace(at, largest=patient, worth=np.full(self._n, largest)))

    def _compare_levels(self, arms: ComparedArms, at: TickStake) -> None:
        canary, control = arms.canary, arms.control
        n, n_control = canary.total(), control.total()
        # What a request costs depends on how many a replica batches, so it is compared between arms of one size and load only. The arm
        # that is held back in the bake has less load, so its requests cost more, which lets no healthy version fail.
        baking = at.baking
        cost = np.where(arms.alike | baking, control.busy, np.nan)
        for name, value, of in (("queue", canary.queued, control.queued), ("cost", canary.busy, cost)):
            level, usual = of / np.maximum(n_control, 1.0), self.usual[name]
            self.levels[name].compare(value / np.maximum(n, 1.0), usual.at_least(level, baking), n, n_control, at)
            usual.observe(level, at.counts & ~baking)

    def compare_answers(self, answers: AnswerCounts, known: Bools) -> None:
        """Answers need no control, and come from the pods themselves, so that only a rollout that is over is not judged by them."""
        if self.gain:
            labelled = (answers.labelled, answers.only_canary_right, answers.only_stable_right)
            self.gain.compare(*(np.where(known, count, 0.0) for count in labelled))
            self.better = self.better | (self.gain.evidence() >= _BETTER)
        self.malformed.compare(answers.pairs, answers.invalid, known)
        pairs, mismatches = (np.where(known, count, 0.0) for count in (answers.pairs, answers.mismatches))
        self.correctness.compare(pairs, mismatches)
        self.pairs = self.pairs + pairs
        if self.mirrored:
            pairs, mismatches = (np.where(known, count, 0.0) for count in (answers.mirrored_pairs, answers.mirrored_mismatches))
            self.mirrored.compare(pairs, mismatches)
            self.mirrored_pairs = self.mirrored_pairs + pairs

    def signals(self, ladder: Ladder, clocked: Bools, unknown: Bools) -> dict[str, SignalResult]:
        """What each signal says now, by name."""
        alpha, bounds = self.policy.alpha, self._proof_bounds[ladder.stage]
        nothing, never = np.full(self._n, np.nan), np.zeros(self._n, dtype=bool)

        def signal(against: Floats, bound: float, proof: Floats, no_data: Bools) -> SignalResult:
            verdict = verdicts(against >= bound, no_data, clocked & (proof >= bounds))
            return SignalResult(verdict=verdict, evidence=against, bound=bound, proof=proof, proof_bound=bounds)

        evidence, proofs = self._latency_evidence(ladder)
        count = len(evidence)
        mean = over_classes(np.stack(list(evidence.values()))) / count
        least = np.stack(list(proofs.values())).min(axis=0)
        undecided = unknown | ~np.stack([one.decided for one in self.latency.values()]).all(axis=0)
        mean = self._where_load_is_alike(mean, ladder.baking)
        error_proof = self.errors.proven(ladder.stage, ladder.counted_here)
        answers, copies = self.correctness, self.mirrored
        signals = {
            "latency": signal(mean, 1 / alpha["latency"], least, undecided),
            "errors": signal(self.errors.evidence(), 1 / alpha["errors"], error_proof, unknown),
            "correctness": signal(answers.evidence(), 1 / alpha["correctness"], answers.proven(), self.pairs == 0),
            "memory": signal(np.where(self.gpu_memory.beyond(), 1.0, 0.0), 1.0, nothing, self.gpu_memory.known == 0),
        }
        for name, process in self.faults().items():
            signals[name] = signal(process.value(), 1 / alpha[name], nothing, process.ticks == 0)
        if copies:
            signals["mirrored"] = signal(copies.evidence(), 1 / alpha["mirrored"], copies.proven(), self.mirrored_pairs == 0)
        for name, level in self.levels.items():
            signals[name] = signal(level.evidence(), 1 / alpha[name], level.proven(), unknown | ~level.known)
        shares = verdicts(never, self.share.wrong(), never)
        signals["share"] = SignalResult(
            verdict=shares, evidence=self.share.evidence(), bound=self.share.bound, proof=nothing, proof_bound=bounds
        )
        if count > 1:
            for name in self.latency:
                signals[f"latency.{name}"] = signal(evidence[name], count / alpha["latency"], proofs[name], undecided)
        return signals

    def faults(self) -> dict[str, AnyOnset]:
        """What shows within a few ticks or not at all, by name."""
        return {"catastrophe": self.catastrophe.failing, "malformed": self.malformed.bets, "restarts": self.restarting.crashes}

    def _latency_evidence(self, ladder: Ladder) -> tuple[dict[str, Floats], dict[str, Floats]]:
        """Evidence against, and proof for, by histogram; by the trade's tolerance where the version was shown to be better."""
        evidence = {name: one.evidence() for name, one in self.latency.items()}
        proofs = {name: one.proven(ladder.stage, ladder.baking, ladder.step_over) for name, one in self.latency.items()}
        for name, one in self.traded.items():
            evidence[name] = np.where(self.better, one.evidence(), evidence[name])
            proofs[name] = np.where(self.better, one.proven(ladder.stage, ladder.baking, ladder.step_over), proofs[name])
        return evidence, proofs

    def slower_at_one_edge(self, baking: Bools) -> Floats:
        """Evidence against where requests lie evenly within every bucket. Where only this much is there, a peak of the histogram just
        below one edge explains it as well."""
        return self._mean_latency(Latency.anywhere, baking)

    def slower_as_seen(self, baking: Bools) -> Floats:
        """Evidence against by all requests. Where only this much is there, one node in trouble explains it as well."""
        return self._mean_latency(Latency.seen_evidence, baking)

    def _mean_latency(self, of: Callable[[Latency], Floats], baking: Bools) -> Floats:
        """Over the histograms."""
        total = np.zeros(self._n)
        for name, one in self.latency.items():
            traded = self.traded.get(name)
            total = total + (np.where(self.better, of(traded), of(one)) if traded else of(one))
        return self._where_load_is_alike(total / len(self.latency), baking)

    def _where_load_is_alike(self, latency: Floats, baking: Bools) -> Floats:
        """Evidence from latency; in the bake no more than the control's want of load leaves."""
        if not baking.any():
            return latency
        most = np.stack([one.most_evidence(1 / self.policy.alpha["latency"]) for one in self.latency.values()]).max(axis=0)
        return np.where(baking, np.minimum(latency, most), latency)

    def regression_ruled_out(self, signals: Mapping[str, SignalResult]) -> Bools:
        """Whether every signal that somebody measures rules out this step's margin."""
        proven = np.ones(self._n, dtype=bool)
        for name in ("latency", "errors", *self.levels):
            proven &= (signals[name].proof >= signals[name].proof_bound) | np.isnan(signals[name].proof)
        return proven

    def tail_above(self, ladder: Ladder) -> Bools:
        """Whether, at the end of the copies or before full traffic, the tail stands above what is tolerated; by the trade's tolerance where the
        version was shown to be better."""
        above = np.zeros(self._n, dtype=bool)
        for name, one in self.latency.items():
            found = one.standing.above()
            above |= np.where(self.better, self.traded[name].standing.above(), found) if name in self.traded else found
        asked = np.asarray([stage.mirror > 0 or stage.last for stage in self.policy.stages])
        return above & ladder.releasing & asked[ladder.stage]

    def number_too_high(self, signals: Mapping[str, SignalResult]) -> Bools:
        """Whether nothing but time in queue or cost keeps traffic from growing, because it was too high in most ticks."""
        counts = np.ones(self._n, dtype=bool)
        for name in ("latency", "errors"):
            counts &= signals[name].proof >= signals[name].proof_bound
        return counts & (self.levels["queue"].high() | self.levels["cost"].high())

    def answers_pass(self, ladder: Ladder) -> Bools:
        """Whether enough was compared, and found alike, of what is compared at all."""
        bounds = self._proof_bounds[ladder.stage]
        copies_pass = self.mirrored.proven() >= bounds if self.mirrored else np.ones(self._n, dtype=bool)
        return copies_pass & ((self.correctness.proven() >= bounds) | (not self.policy.golden))

    def recently_bad(self) -> Bools:
        """Whether the latest minutes speak against the canary, or what only holds is too high; by the trade's tolerance where it was shown to be better."""
        worst = self.errors.recent_evidence()
        high = self.levels["queue"].high() | self.levels["cost"].high()
        for name, one in self.latency.items():
            found, slower = one.recent_evidence(), one.slower_than_usual()
            if traded := self.traded.get(name):
                found = np.where(self.better, traded.recent_evidence(), found)
                slower = np.where(self.better, traded.slower_than_usual(), slower)
            worst, high = np.maximum(worst, found), high | slower
        return (worst >= RECENTLY_BAD) | high

    def restart_proofs(self, where: Bools, baking: Bools) -> None:
        """Forget what was proven at the last weight; where the bake begins, all of it."""
        for latency in (*self.latency.values(), *self.traded.values()):
            latency.restart_proof(where, baking)
        for signal in (self.errors, *self.levels.values()):
            signal.restart_proof(where)
        self.share.restart(where)

    def remember_history(self, buckets: Mapping[str, Floats]) -> None:
        """Take in the stable version's histograms from before the rollout."""
        for name, signal in self._all_latency():
            signal.memory.remember(buckets[name])

    def remember(self, stable: ArmCounts, baseline: ArmCounts) -> None:
        """Add the control's counts of a tick that has been judged to what is known of the stable version."""
        for name, signal in self._all_latency():
            signal.remember(stable.buckets[name], baseline.buckets[name])
        self.errors.remember(stable, baseline)

    def _all_latency(self) -> list[tuple[str, Latency]]:
        return [*self.latency.items(), *self.traded.items()]


def worst_evidence(signals: Mapping[str, SignalResult]) -> Floats:
    """Largest evidence against; answers that nobody compared say nothing."""
    worst = np.maximum(signals["latency"].evidence, signals["errors"].evidence)
    for name in ("correctness", "cost", "queue", "catastrophe", "malformed", "restarts", *(("mirrored",) if "mirrored" in signals else ())):
        worst = np.maximum(worst, np.where(signals[name].verdict == Verdict.NO_DATA, 0.0, signals[name].evidence))
    return worst
