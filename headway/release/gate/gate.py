"""The gate: counts of one tick in, a decision out, for one rollout or for many at once.

It owns the order of things within a tick: read, judge health, update evidence, decide, remember. The trap: the control's histogram is
remembered last, so that no tick is judged by itself.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headway.release.gate.correctness import Correctness, Gain
from headway.release.gate.decision import Decision, Phase, Reason, Signal, Verdict, any_of
from headway.release.gate.errors import Errors
from headway.release.gate.evidence import (
    LARGEST_GAIN,
    LARGEST_GAIN_OF_PROOF,
    LARGEST_GAIN_WHILE_YOUNG,
    WORTH_WHILE_YOUNG,
    At,
    Stakes,
    of_a_tick,
    ticks_in,
    worth_of_a_tick,
)
from headway.release.gate.health import Share, catastrophic, unreachable
from headway.release.gate.latency import Latency
from headway.release.gate.level import Level, Limits, Saturation
from headway.release.gate.memory import GpuMemory
from headway.release.gate.policy import FULL_WEIGHT, GatePolicy
from headway.release.gate.stages import Ladder
from headway.release.gate.state import Kept
from headway.release.gate.tick import Arm, Bools, Counts, Floats, Ints, Tick, over_classes, read_arm, read_count, read_flag, read_number

_RESTARTS = 2
_MINUTES_UNTIL_ROUTED = 2
"""Minutes that a new weight may take to reach the proxies, before a canary without requests is a fault."""
_BASELINE_SLACK = 20.0
_YOUNG_MINUTES = 12
"""Minutes since the canary was ready during which a slow start is likelier than a slow version."""
_BETTER = 100.0
"""Evidence at which a version counts as better for good: one that is not gets there in one of a hundred rollouts at most."""
_QUEUE_TOLERATED, _QUEUE_RULED_OUT = 5.0, 10.0
"""Multiples of the tolerated slow-down by which time in queue may grow, because it grows several times faster than the work."""


class Gate(Kept):
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
        self.policy, self.shape = policy, shape
        self._n = shape[0] if shape else 1
        self._classes = len(classes)
        histograms = edges if isinstance(edges, Mapping) else {"latency": edges}
        self._sizes = {name: len(ends) + 1 for name, ends in histograms.items()}
        minutes = self._tick_minutes = tick_seconds / 60

        def compared(by: GatePolicy, hoped: float = 0.0) -> dict[str, Latency]:
            return {name: Latency(by, ends, self._classes, self._n, minutes, hoped) for name, ends in histograms.items()}

        self.latency = compared(policy)
        self.gain = None if policy.trade_gain is None else Gain(policy.trade_gain, self._n)
        self.better = np.zeros(self._n, dtype=bool)
        """Shown to answer better, so that the trade's tolerance holds."""
        self.traded = {} if policy.trade_gain is None else compared(policy.traded(), policy.trade_latency)
        """The same histograms by the trade's tolerance, from the first tick on, for when it is needed."""
        self.errors = Errors(policy, self._classes, self._n, minutes)
        self.correctness = Correctness(policy.mismatch, self._n)
        self.mirrored = None if policy.mirrored is None else Correctness(policy.mirrored, self._n)
        self.gpu_memory = GpuMemory(policy.memory, minutes, self._n)
        queue = Limits(1 + _QUEUE_TOLERATED * policy.latency, 1 + _QUEUE_RULED_OUT * policy.latency, policy.queue_floor)
        self.levels = {"queue": Level(queue, self._n), "cost": Level(Limits(1 + policy.cost, 1 + 2 * policy.cost), self._n)}
        self.saturation = Saturation(self._n, minutes)
        self.share = Share(self._n)
        self.ladder = Ladder(policy, self._n, minutes)
        self.stakes = Stakes(len(policy.stages), policy.planned_ticks, self._n)
        self.pairs, self.mirrored_pairs = np.zeros(self._n), np.zeros(self._n)
        self.arms_here = np.zeros((2, self._n))
        """Requests of baseline and canary at this weight."""
        self.restarts = np.zeros(self._n)
        self._proof_bounds = np.asarray([stage.proof_bound for stage in policy.stages])
        self._following = np.asarray([*(stage.weight for stage in policy.stages[1:]), FULL_WEIGHT])

    def learn(self, stable: Counts) -> None:
        """What the stable version did before the rollout: counts of a tick, or the sum of many. About 15 minutes are a good start."""
        arm = read_arm(stable, self._sizes, self._classes, self._n, "stable")
        nothing = read_arm(None, self._sizes, self._classes, self._n, "baseline")
        for histograms in (self.latency, self.traded):
            for name, signal in histograms.items():
                signal.memory.remember(arm.buckets[name])
        self.errors.remember(arm, nothing)

    def observe(self, tick: Tick) -> Decision:
        """Take in one tick and decide. The weights of the answer hold from the next tick on."""
        stable, baseline, canary, mirrored = (
            read_arm(counts, self._sizes, self._classes, self._n, where)
            for counts, where in (
                (tick.stable, "stable"),
                (tick.baseline, "baseline"),
                (tick.canary, "canary"),
                (tick.mirrored, "mirrored"),
            )
        )
        answered, canary_up, control_up, ready, frozen, oom, gpu = (
            read_flag(value, self._n)
            for value in (
                tick.answered,
                tick.canary_up,
                tick.control_up,
                tick.ready,
                tick.freeze,
                tick.out_of_memory,
                tick.fatal_gpu_error,
            )
        )
        ladder = self.ladder
        over = ~(ladder.releasing | (ladder.phase == Phase.BAKING))
        releasing, mirroring = ladder.releasing, ladder.mirroring
        judged = _pick(mirroring, mirrored, canary)
        users = stable.total() + baseline.total() + canary.total()
        alone = ladder.phase == Phase.BAKING
        gap = ~alone & (~control_up | stable.missing | baseline.missing)
        no_canary = ~canary_up | judged.missing
        blind = ~answered | gap | no_canary
        lonely = (stable.total() + baseline.total() == 0) & (judged.total() >= _BASELINE_SLACK)
        blind = blind | (releasing & lonely & (mirroring | (not self.policy.by_user)))
        ladder.tick(ready=ready, blind=blind)

        idle = users + judged.total() == 0
        wrong = self._watch_share(stable, canary, mirrored, users, ~blind & releasing & ~idle & ~ladder.parked)
        started, graced = ladder.ready > 0, ladder.in_grace()
        clocked = releasing & ~ladder.parked & ~blind & ~idle & started & ~graced & self.share.settled & ~wrong
        control, alike = self._control(stable, baseline, judged, mirroring, clocked)
        counted = clocked & (judged.total() > 0) & (control.total() > 0)
        stake = self.stakes.next(counted, ladder.count(clocked, counted))
        same_version = _joined(stable, baseline)
        self._compare(judged, control, same_version, stake, alike)
        known = ~blind & ~over
        self._absolute(tick, ~over)
        self.saturation.observe(judged.busy, judged.total(), counted)

        told, restarts = answered & ~over, read_count(tick.restarts, self._n)
        self.restarts = np.where(told, self.restarts + restarts, self.restarts)
        restarted = restarts > 0
        """What a container counted before it died is lost, and is no proof that nothing reached it."""
        routed = (ladder.here > ticks_in(_MINUTES_UNTIL_ROUTED, self._tick_minutes)) | self.share.settled
        signals = self._signals(clocked, blind | wrong)
        fails = {name: signal.verdict == Verdict.FAIL for name, signal in signals.items()}
        proven = self._proven(signals)
        unasked = proven & ~self._answers_pass()
        saturating = proven & ~unasked & (self._next_use(users, tick) > Saturation.LIMIT)
        passed = proven & ~unasked & ~saturating
        failures: list[tuple[Bools, Reason]] = [
            (known & catastrophic(judged, same_version), Reason.CATASTROPHIC),
            (known & releasing & routed & ~restarted & self._unreachable(canary, stable, baseline), Reason.NOT_ROUTABLE),
            (told & gpu, Reason.GPU),
            (told & (oom | (self.restarts >= _RESTARTS)), Reason.RESTARTS),
            (~over & (read_count(tick.invalid_answers, self._n) > 0), Reason.INVALID_ANSWER),
            (~over & fails["memory"], Reason.FAILED_MEMORY),
            (~over & (fails["correctness"] | fails.get("mirrored", False)), Reason.FAILED_CORRECTNESS),
            (releasing & fails["errors"], Reason.FAILED_ERRORS),
            (releasing & fails["latency"], Reason.FAILED_LATENCY),
            (releasing & fails["queue"], Reason.FAILED_QUEUE),
            (releasing & fails["cost"], Reason.FAILED_COST),
        ]
        failed = np.zeros(self._n, dtype=bool)
        for holds, _ in failures:
            failed = failed | holds
        ladder.roll_back(failed)
        usable = ~blind & ~wrong & ~over & ~idle
        move = ladder.decide(passed=passed & clocked, worst=_worst(signals), usable=usable, frozen=frozen)
        ladder.roll_back(move.failed)
        failed = failed | move.failed
        self._restart(move.changed & ~failed)
        self._remember(stable, baseline, ~blind & ~over)

        held: list[tuple[Bools, Reason]] = [
            (over, Reason.OVER),
            *failures,
            (failed | (move.reason == Reason.BLIND_TOO_LONG), Reason.GATHERING),
            (~answered, Reason.UNANSWERED),
            (no_canary, Reason.CANARY_NOT_SCRAPED),
            (blind, Reason.CONTROL_NOT_SCRAPED),
            (wrong, Reason.WRONG_SHARE),
            (idle, Reason.IDLE),
            (releasing & ~started, Reason.NOT_READY),
            (releasing & graced, Reason.GRACE),
            (releasing & ~clocked & ~ladder.inconclusive, Reason.SHARE_SETTLING),
            (unasked & clocked & ~ladder.inconclusive, Reason.UNANSWERED_GOLDEN),
            (saturating & clocked & ~ladder.inconclusive, Reason.SATURATING),
        ]
        marker = np.full(self._n, -1)
        reason = any_of(held, marker)
        from_move = (reason == -1) | (reason == Reason.GATHERING)
        reason = np.where(from_move, move.reason, reason)
        verdict = any_of_verdicts(failed, blind | wrong, passed & clocked)
        return self._decision(verdict, reason, counted, signals)

    def _watch_share(self, stable: Arm, canary: Arm, mirrored: Arm, users: Floats, judged: Bools) -> Bools:
        """Update the share test; answers where the share is persistently wrong."""
        ladder = self.ladder
        weight, mirroring = ladder.weight(), ladder.mirroring
        if self.policy.by_user:
            # A few users may make most requests: any share of them is right, once both versions have some.
            met = (canary.total() > 0) & (stable.total() > 0)
            self.share.settled = self.share.settled | (judged & ~mirroring & met)
        else:
            self.share.observe(canary.total(), users, np.where(mirroring, 0.5, weight), judged & ~mirroring)
        copied = mirrored.total() >= 0.5 * ladder.mirror() * stable.total() - 4 * np.sqrt(stable.total())
        self.share.settled = self.share.settled | (judged & mirroring & copied & (mirrored.total() > 0))
        return self.share.wrong() & ~mirroring & ladder.releasing

    def _unreachable(self, canary: Arm, stable: Arm, baseline: Arm) -> Bools:
        """Whether requests that should have come did not; which users ask in a tick nobody can tell."""
        if self.policy.by_user:
            return np.zeros(self._n, dtype=bool)
        return unreachable(canary.total(), stable.total() + baseline.total(), self.ladder.weight())

    def _control(self, stable: Arm, baseline: Arm, judged: Arm, mirroring: Bools, clocked: Bools) -> tuple[Arm, Bools]:
        """The baseline where it really is an arm of the canary's size, else the stable version; and where it is the baseline."""
        here = np.stack([baseline.total(), judged.total()])
        self.arms_here = np.where(clocked, self.arms_here + here, self.arms_here)
        from_baseline, from_canary = self.arms_here
        comparable = (2 * from_baseline + np.where(mirroring, 0.0, _BASELINE_SLACK) >= from_canary) & (from_canary > 0)
        alone = stable.total() == 0
        chosen = (comparable | alone) & self.policy.baseline
        return _pick(chosen, baseline, stable), chosen

    def _compare(self, canary: Arm, control: Arm, same: Arm, stake: Floats, alike: Bools) -> None:
        ladder, minutes = self.ladder, self._tick_minutes
        largest, while_young = of_a_tick(LARGEST_GAIN, minutes), of_a_tick(LARGEST_GAIN_WHILE_YOUNG, minutes)
        patient = np.where(ladder.mirroring, while_young, largest)
        young = ladder.ready <= ticks_in(_YOUNG_MINUTES, minutes)
        shown, of_proof = np.where(young, while_young, patient), of_a_tick(LARGEST_GAIN_OF_PROOF, minutes)
        at = At(stake, ladder.stage, shown, of_proof, np.where(young, of_a_tick(WORTH_WHILE_YOUNG, minutes), worth_of_a_tick(minutes)))
        n, n_control = canary.total(), control.total()
        # What a request costs depends on how many a replica batches, so it is compared between arms of one size and load only.
        usual_cost = np.where(alike, control.busy, np.nan)
        for name, value, usual in (("queue", canary.queued, control.queued), ("cost", canary.busy, usual_cost)):
            self.levels[name].compare(value / np.maximum(n, 1.0), usual / np.maximum(n_control, 1.0), n, n_control, at)
        for histograms in (self.latency, self.traded):
            for name, signal in histograms.items():
                signal.choose()
                signal.compare(canary.buckets[name], control.buckets[name], same.buckets[name], at)
        self.errors.compare(canary, control, At(stake, ladder.stage, patient, of_proof, np.full(self._n, largest)))

    def _absolute(self, tick: Tick, known: Bools) -> None:
        """Signals that need no control; answers come from the pods themselves, so that only a rollout that is over is not judged."""
        if self.gain:
            told = (tick.labelled, tick.only_canary_right, tick.only_stable_right)
            self.gain.compare(*(np.where(known, read_count(value, self._n), 0.0) for value in told))
            self.better = self.better | (self.gain.evidence() >= _BETTER)
        pairs, mismatches = (np.where(known, read_count(value, self._n), 0.0) for value in (tick.pairs, tick.mismatches))
        self.correctness.compare(pairs, mismatches)
        self.pairs = self.pairs + pairs
        if self.mirrored:
            told = (tick.mirrored_pairs, tick.mirrored_mismatches)
            pairs, mismatches = (np.where(known, read_count(value, self._n), 0.0) for value in told)
            self.mirrored.compare(pairs, mismatches)
            self.mirrored_pairs = self.mirrored_pairs + pairs
        memory = read_number(tick.memory, self._n)
        if (memory > 1).any():
            raise ValueError(f"memory is {memory.max():g}. No GPU uses more than it has. Give the share in use, 0 to 1")
        self.gpu_memory.observe(np.where(known, memory, np.nan))

    def _signals(self, clocked: Bools, unknown: Bools) -> dict[str, Signal]:
        """What each signal says now, by name."""
        alpha, count = self.policy.alpha, len(self.latency)
        asked = self._proof_bounds[self.ladder.stage]
        nothing, never = np.full(self._n, np.nan), np.zeros(self._n, dtype=bool)

        def signal(against: Floats, bound: float, proof: Floats, no_data: Bools) -> Signal:
            verdict = any_of_verdicts(against >= bound, no_data, clocked & (proof >= asked))
            return Signal(verdict=verdict, evidence=against, bound=bound, proof=proof, proof_bound=asked)

        evidence = {name: one.evidence() for name, one in self.latency.items()}
        proofs = {name: one.proven(self.ladder.stage) for name, one in self.latency.items()}
        for name, one in self.traded.items():
            evidence[name] = np.where(self.better, one.evidence(), evidence[name])
            proofs[name] = np.where(self.better, one.proven(self.ladder.stage), proofs[name])
        mean = over_classes(np.stack(list(evidence.values()))) / count
        least = np.stack(list(proofs.values())).min(axis=0)
        decided = np.stack([one.decided for one in self.latency.values()]).all(axis=0)
        error_proof = self.errors.proven(self.ladder.stage, self.ladder.counted_here)
        full = self.gpu_memory.nearly_full() | self.gpu_memory.ramp()
        answers = self.correctness
        signals = {
            "latency": signal(mean, 1 / alpha["latency"], least, unknown | ~decided),
            "errors": signal(self.errors.evidence(), 1 / alpha["errors"], error_proof, unknown),
            "correctness": signal(answers.evidence(), 1 / alpha["correctness"], answers.proven(), self.pairs == 0),
            "memory": signal(np.where(full, 1 / alpha["memory"], 0.0), 1 / alpha["memory"], nothing, self.gpu_memory.known == 0),
        }
        if self.mirrored:
            copies = self.mirrored
            signals["mirrored"] = signal(copies.evidence(), 1 / alpha["mirrored"], copies.proven(), self.mirrored_pairs == 0)
        for name, level in self.levels.items():
            signals[name] = signal(level.evidence(), 1 / alpha[name], level.proven(), unknown | ~level.known)
        shares = any_of_verdicts(never, self.share.wrong(), never)
        signals["share"] = Signal(verdict=shares, evidence=self.share.evidence(), bound=self.share.bound, proof=nothing, proof_bound=asked)
        if count > 1:
            for name in self.latency:
                signals[f"latency.{name}"] = signal(evidence[name], count / alpha["latency"], proofs[name], unknown | ~decided)
        return signals

    def _proven(self, signals: Mapping[str, Signal]) -> Bools:
        """Whether every signal that somebody measures rules out this step's margin."""
        proven = np.ones(self._n, dtype=bool)
        for name in ("latency", "errors", *self.levels):
            proven &= (signals[name].proof >= signals[name].proof_bound) | np.isnan(signals[name].proof)
        return proven

    def _answers_pass(self) -> Bools:
        """Whether enough was compared, and found alike, of what is compared at all."""
        asked = self._proof_bounds[self.ladder.stage]
        alike = self.mirrored.proven() >= asked if self.mirrored else np.ones(self._n, dtype=bool)
        return alike & ((self.correctness.proven() >= asked) | (not self.policy.golden))

    def _next_use(self, users: Floats, tick: Tick) -> Floats:
        """Projected use of the canary's GPUs at the next weight."""
        return self.saturation.projected(users * self._following[self.ladder.stage], read_number(tick.room, self._n))

    def _restart(self, where: Bools) -> None:
        for signal in (*self.latency.values(), *self.traded.values(), self.errors, *self.levels.values()):
            signal.restart_proof(where)
        self.share.restart(where)
        self.arms_here = np.where(where, 0.0, self.arms_here)

    def _remember(self, stable: Arm, baseline: Arm, where: Bools) -> None:
        stable, baseline = _only(where, stable), _only(where, baseline)
        for histograms in (self.latency, self.traded):
            for name, signal in histograms.items():
                signal.remember(stable.buckets[name], baseline.buckets[name])
        self.errors.remember(stable, baseline)

    def _decision(self, verdict: Ints, reason: Ints, counted: Bools, signals: dict[str, Signal]) -> Decision:
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
                name: Signal(
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
        signals = self._signals(nothing, ~nothing)
        unknown = np.full(self._n, int(Verdict.NO_DATA))
        return self._decision(unknown, np.full(self._n, int(Reason.NOT_READY)), nothing, signals)


def _worst(signals: Mapping[str, Signal]) -> Floats:
    """Largest evidence against; answers that nobody compared say nothing."""
    worst = np.maximum(signals["latency"].evidence, signals["errors"].evidence)
    for name in ("correctness", "cost", "queue", *(("mirrored",) if "mirrored" in signals else ())):
        worst = np.maximum(worst, np.where(signals[name].verdict == Verdict.NO_DATA, 0.0, signals[name].evidence))
    return worst


def any_of_verdicts(failed: Bools, unknown: Bools, passed: Bools) -> Ints:
    """FAIL before NO_DATA before PASS before CONTINUE."""
    known = np.where(passed, int(Verdict.PASS), int(Verdict.CONTINUE))
    return np.where(failed, int(Verdict.FAIL), np.where(unknown, int(Verdict.NO_DATA), known))


def _pick(where: Bools, one: Arm, other: Arm) -> Arm:
    return Arm(
        np.where(where, one.requests, other.requests),
        np.where(where, one.errors, other.errors),
        {name: np.where(where, one.buckets[name], other.buckets[name]) for name in one.buckets},
        np.where(where, one.missing, other.missing),
        np.where(where, one.queued, other.queued),
        np.where(where, one.busy, other.busy),
    )


def _joined(one: Arm, other: Arm) -> Arm:
    return Arm(
        one.requests + other.requests,
        one.errors + other.errors,
        {name: one.buckets[name] + other.buckets[name] for name in one.buckets},
        one.missing | other.missing,
        one.queued + other.queued,
        one.busy + other.busy,
    )


def _only(where: Bools, arm: Arm) -> Arm:
    return Arm(
        np.where(where, arm.requests, 0.0),
        np.where(where, arm.errors, 0.0),
        {name: np.where(where, buckets, 0.0) for name, buckets in arm.buckets.items()},
        arm.missing,
        arm.queued,
        arm.busy,
    )
