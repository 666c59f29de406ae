"""The first of the gate's four steps: what one tick says, read into arrays by rollout. Pure.

A tick that cannot be read raises ValueError before the gate has remembered anything of it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from headway.release.earlier_gates.gate_fc4f452ae5f1.policy import GatePolicy
from headway.release.earlier_gates.gate_fc4f452ae5f1.stages import Ladder
from headway.release.earlier_gates.gate_fc4f452ae5f1.tick import ArmCounts, Bools, Floats, Tick, read_arm, read_count, read_flag, read_number

BASELINE_SLACK = 20.0
"""Requests by which an arm may be ahead of another before they count as arms of different size."""


@dataclass(frozen=True, kw_only=True)
class ArmShape:
    """The shape that all counts of a gate have."""

    buckets: Mapping[str, int]
    """Number of buckets by histogram."""
    classes: int
    rollouts: int


@dataclass(frozen=True, kw_only=True)
class AnswerCounts:
    """Answers that were compared in the tick, by rollout: how many, and how many of them differed or were wrong."""

    pairs: Floats
    mismatches: Floats
    invalid: Floats
    mirrored_pairs: Floats
    mirrored_mismatches: Floats
    labelled: Floats
    only_canary_right: Floats
    only_stable_right: Floats


@dataclass(frozen=True, kw_only=True)
class Observation:
    """What a tick says of each rollout, together with where the rollout is."""

    stable: ArmCounts
    baseline: ArmCounts
    canary: ArmCounts
    mirrored: ArmCounts
    judged: ArmCounts
    """What is judged: the copies in a mirror stage, else users' requests."""
    users: Floats
    """Users' requests of all arms."""
    answers: AnswerCounts
    restarts: Floats
    memory: Floats
    """Share of GPU memory in use; not-a-number where unknown."""
    control_memory: Floats
    capacity: Floats
    """GPU seconds of a tick that the canary will have at the next weight; not-a-number where unknown."""
    answered: Bools
    ready: Bools
    frozen: Bools
    out_of_memory: Bools
    fatal_gpu_error: Bools
    over: Bools
    """The rollout ended before this tick."""
    releasing: Bools
    baking: Bools
    mirroring: Bools
    canary_missing: Bools
    """Nothing is known of the canary."""
    controlled: Bools
    """The stable version's counts can be compared with."""
    blind: Bools
    """Something is missing without which nothing can be concluded."""
    idle: Bools
    """Nobody sent a request."""


def read_tick(tick: Tick, shape: ArmShape, policy: GatePolicy, ladder: Ladder) -> Observation:
    """What `tick` says. Raises ValueError for counts that cannot be compared, and for flags that mean nothing."""
    n = shape.rollouts
    stable, baseline, canary, mirrored = (
        read_arm(counts, shape.buckets, shape.classes, n, name)
        for counts, name in ((tick.stable, "stable"), (tick.baseline, "baseline"), (tick.canary, "canary"), (tick.mirrored, "mirrored"))
    )
    answered, canary_up, control_up = (read_flag(value, n) for value in (tick.answered, tick.canary_up, tick.control_up))
    releasing, baking, mirroring = ladder.releasing, ladder.baking, ladder.mirroring
    judged = mirrored.where(mirroring, canary)
    control_requests = stable.total() + baseline.total()
    # While the new version bakes a control may be missing; then it is judged by what needs none.
    controlled = control_up & ~stable.missing & ~baseline.missing
    canary_missing = ~canary_up | judged.missing
    control_silent = (control_requests == 0) & (judged.total() >= BASELINE_SLACK)
    uncontrolled = releasing & control_silent & (mirroring | (not policy.by_user))
    users = control_requests + canary.total()
    return Observation(
        stable=stable,
        baseline=baseline,
        canary=canary,
        mirrored=mirrored,
        judged=judged,
        users=users,
        answers=_read_answers(tick, n),
        restarts=read_count(tick.restarts, n),
        memory=_read_memory(tick.memory, n),
        control_memory=_read_memory(tick.control_memory, n),
        capacity=read_number(tick.capacity, n),
        answered=answered,
        ready=read_flag(tick.ready, n),
        frozen=read_flag(tick.freeze, n),
        out_of_memory=read_flag(tick.out_of_memory, n),
        fatal_gpu_error=read_flag(tick.fatal_gpu_error, n),
        over=~(releasing | baking),
        releasing=releasing,
        baking=baking,
        mirroring=mirroring,
        canary_missing=canary_missing,
        controlled=controlled,
        blind=~answered | (~controlled & ~baking) | canary_missing | uncontrolled,
        idle=users + judged.total() == 0,
    )


def _read_answers(tick: Tick, rollouts: int) -> AnswerCounts:
    return AnswerCounts(
        pairs=read_count(tick.pairs, rollouts),
        mismatches=read_count(tick.mismatches, rollouts),
        invalid=read_count(tick.invalid_answers, rollouts),
        mirrored_pairs=read_count(tick.mirrored_pairs, rollouts),
        mirrored_mismatches=read_count(tick.mirrored_mismatches, rollouts),
        labelled=read_count(tick.labelled, rollouts),
        only_canary_right=read_count(tick.only_canary_right, rollouts),
        only_stable_right=read_count(tick.only_stable_right, rollouts),
    )


def _read_memory(value: ArrayLike, rollouts: int) -> Floats:
    memory = read_number(value, rollouts)
    if (memory > 1).any():
        raise ValueError(f"memory is {np.nanmax(memory):g}. No GPU uses more than it has. Give the share in use, 0 to 1")
    return memory
