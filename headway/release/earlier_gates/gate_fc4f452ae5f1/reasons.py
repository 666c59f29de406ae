"""Why the gate decided as it did: every reason with its effect and its sentence, in ONE table whose order decides.

Several reasons can hold in the same tick. The decision names the first of them, in the order of `REASONS`.
"""

from collections.abc import Mapping
from enum import Enum, IntEnum, unique
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from headway.release.earlier_gates.gate_fc4f452ae5f1.tick import Bools, Ints


@unique
class Reason(IntEnum):
    """The reason of a decision. Ledgers hold the names."""

    OVER = 0
    UNANSWERED = 1
    CANARY_NOT_SCRAPED = 2
    CONTROL_NOT_SCRAPED = 3
    WRONG_SHARE = 4
    IDLE = 5
    NOT_READY = 6
    GRACE = 7
    SHARE_SETTLING = 8
    BLIND_TOO_LONG = 9
    GATHERING = 10
    SUSPICIOUS = 11
    TOO_EARLY = 12
    UNREACHED = 22
    SATURATING = 20
    UNANSWERED_GOLDEN = 21
    MEMORY_RISING = 23
    ONE_REPLICA = 26
    ONE_EPISODE = 27
    ONE_EDGE = 25
    TAIL_ABOVE = 28
    QUEUE_OR_COST = 24
    FROZEN = 13
    INCONCLUSIVE = 14
    PROVEN = 15
    ADVANCED_UNPROVEN = 16
    PROMOTED = 17
    BAKING = 18
    BAKED = 19
    BAKED_UNPROVEN = 44
    BAKE_UNCONTROLLED = 45
    BAKE_SUSPICIOUS = 46
    BAKE_UNPROVEN = 47
    FAILED_LATENCY = 30
    FAILED_ERRORS = 31
    FAILED_CORRECTNESS = 32
    FAILED_MEMORY = 33
    FAILED_QUEUE = 41
    FAILED_COST = 42
    CATASTROPHIC = 34
    NOT_ROUTABLE = 35
    RESTARTS = 36
    GPU = 37
    OUT_OF_MEMORY = 43
    INVALID_ANSWER = 38
    OUT_OF_TIME = 39
    ROLLED_BACK_INCONCLUSIVE = 40


@unique
class Effect(Enum):
    """What a reason does to the traffic of the new version."""

    NONE = "nothing changes any more"
    ROLL_BACK = "all traffic goes back to the stable version, for good"
    GIVE_UP = "all traffic goes back, because a time is over; nothing was shown against the new version"
    STEP_BACK = "traffic goes back to the last weight with evidence"
    HOLD = "the weight stays"
    ADVANCE = "traffic grows, or the rollout ends well"


class ReasonRow(NamedTuple):
    """A row of the table."""

    reason: Reason
    effect: Effect
    sentence: str


REASONS: tuple[ReasonRow, ...] = (
    ReasonRow(Reason.OVER, Effect.NONE, "The rollout is over."),
    # Failures that show at once.
    ReasonRow(
        Reason.CATASTROPHIC,
        Effect.ROLL_BACK,
        "Far more of the new version's requests fail than of any healthy version, while the stable version's requests succeed.",
    ),
    ReasonRow(
        Reason.NOT_ROUTABLE,
        Effect.ROLL_BACK,
        "Requests do not reach the new version, although it is running and the baseline beside it in the same route receives them.",
    ),
    ReasonRow(Reason.GPU, Effect.ROLL_BACK, "A GPU of the new version reported a fatal error."),
    ReasonRow(Reason.OUT_OF_MEMORY, Effect.ROLL_BACK, "A container of the new version was killed because it ran out of memory."),
    ReasonRow(Reason.RESTARTS, Effect.ROLL_BACK, "Containers of the new version restart again and again."),
    ReasonRow(
        Reason.INVALID_ANSWER,
        Effect.ROLL_BACK,
        "The new version gives answers that are empty, are no numbers, or do not match their schema, more often than once in a thousand.",
    ),
    # Failures by evidence.
    ReasonRow(Reason.FAILED_MEMORY, Effect.ROLL_BACK, "The GPU memory of the new version is at its limit, and the control's is not."),
    ReasonRow(Reason.FAILED_CORRECTNESS, Effect.ROLL_BACK, "More answers differ from the expected ones than the policy tolerates."),
    ReasonRow(Reason.FAILED_ERRORS, Effect.ROLL_BACK, "More requests fail than the policy tolerates."),
    ReasonRow(Reason.FAILED_LATENCY, Effect.ROLL_BACK, "Requests are slower than the policy tolerates."),
    ReasonRow(Reason.FAILED_QUEUE, Effect.ROLL_BACK, "Requests wait in the queue for longer than the policy tolerates, again and again."),
    ReasonRow(Reason.FAILED_COST, Effect.ROLL_BACK, "A request costs more GPU time than the policy tolerates, again and again."),
    # Failures by the clock.
    ReasonRow(
        Reason.OUT_OF_TIME,
        Effect.GIVE_UP,
        "The rollout has taken longer than its policy allows. Nothing was shown against the new version; all traffic goes back.",
    ),
    ReasonRow(
        Reason.ROLLED_BACK_INCONCLUSIVE,
        Effect.GIVE_UP,
        "The time of this step is over without proof for or against the new version, and the policy says to roll back.",
    ),
    ReasonRow(
        Reason.BLIND_TOO_LONG, Effect.STEP_BACK, "There has been no data for too long. Traffic goes back to the last weight with evidence."
    ),
    # Nothing can be concluded from this tick.
    ReasonRow(
        Reason.UNANSWERED, Effect.HOLD, "The metrics could not be read completely, so nothing can be concluded. The weight stays as it is."
    ),
    ReasonRow(
        Reason.CANARY_NOT_SCRAPED,
        Effect.HOLD,
        "The metrics of the new version are not being scraped, so nothing can be concluded. The weight stays as it is.",
    ),
    ReasonRow(
        Reason.CONTROL_NOT_SCRAPED,
        Effect.HOLD,
        "There are no metrics of the stable version to compare with, so nothing can be concluded. The weight stays as it is.",
    ),
    ReasonRow(
        Reason.WRONG_SHARE,
        Effect.HOLD,
        "The new version does not receive the share of requests that it should, so nothing can be concluded. Check the routes and session "
        "affinity.",
    ),
    ReasonRow(Reason.IDLE, Effect.HOLD, "There were no requests. The clock of this step stands still."),
    # This tick is no evidence yet.
    ReasonRow(Reason.NOT_READY, Effect.HOLD, "The new version is not ready yet."),
    ReasonRow(Reason.GRACE, Effect.HOLD, "The new version has just become ready. Its first ticks do not count as evidence."),
    ReasonRow(
        Reason.UNREACHED,
        Effect.HOLD,
        "The new version should have received at least 20 requests by now, but it received none. The weight stays as it is, because a "
        "route that is only late looks the same. Check the routes.",
    ),
    ReasonRow(
        Reason.SHARE_SETTLING,
        Effect.HOLD,
        "The weight was changed, and the share of requests has not followed yet. These ticks do not count as evidence.",
    ),
    # Something else than the evidence holds the weight.
    ReasonRow(
        Reason.MEMORY_RISING,
        Effect.HOLD,
        "The GPU memory of the new version rises beside the control's, or is at its limit while the control's is not known. A leak and an "
        "allocator that is still growing look the same, so the weight stays. Look at the pods' memory.",
    ),
    ReasonRow(
        Reason.ONE_REPLICA,
        Effect.HOLD,
        "Requests are slower than the policy tolerates, but not those of all replicas of the new version. A version is in all its replicas "
        "and a node is in one, so the weight stays while the node is looked at. Move the slow replica to another node.",
    ),
    ReasonRow(
        Reason.ONE_EPISODE,
        Effect.HOLD,
        "Requests are slower than the policy tolerates, but not yet for longer than a node may be in trouble, and no second replica of the "
        "new version tells one from the other. The weight stays until this has passed, or has lasted. A person may decide.",
    ),
    ReasonRow(
        Reason.ONE_EDGE,
        Effect.HOLD,
        "Requests are slower than the policy tolerates, but at one edge of the histogram only. A peak just below that edge looks the same "
        "when it moves by less, so the weight stays. Add edges around it, or let a person decide.",
    ),
    ReasonRow(
        Reason.TAIL_ABOVE,
        Effect.HOLD,
        "Everything is proven, but of its slowest requests the new version has had more so far than the policy tolerates. That may be chance, "
        "so the weight stays until there are fewer, or proof. A person may decide.",
    ),
    ReasonRow(
        Reason.QUEUE_OR_COST,
        Effect.HOLD,
        "Requests wait longer in the queue, or cost more GPU time, than this step may. Equal versions differ so for hours, too, so the "
        "weight stays. A person may decide.",
    ),
    ReasonRow(
        Reason.UNANSWERED_GOLDEN,
        Effect.HOLD,
        "Too few answers were compared with the expected ones, or too many of them differed, for the weight to grow.",
    ),
    ReasonRow(
        Reason.SATURATING,
        Effect.HOLD,
        "At the next weight the new version's GPUs would be more than 85 % busy. It gets no more traffic until it has more replicas.",
    ),
    # The ladder of weights.
    ReasonRow(
        Reason.PROMOTED, Effect.ADVANCE, "A regression beyond the margin of the last step is ruled out. The new version takes all traffic."
    ),
    ReasonRow(Reason.PROVEN, Effect.ADVANCE, "A regression beyond the margin of this step is ruled out. Traffic grows."),
    ReasonRow(Reason.ADVANCED_UNPROVEN, Effect.ADVANCE, "The time of this step is over without proof, and the policy says to go on."),
    ReasonRow(
        Reason.INCONCLUSIVE,
        Effect.HOLD,
        "The time of this step is over, and the evidence is neither good nor bad. A person may decide; the gate keeps gathering evidence.",
    ),
    ReasonRow(
        Reason.BAKED,
        Effect.ADVANCE,
        "The new version has baked for long enough, and a regression is ruled out anew on its latest requests. The release is complete.",
    ),
    ReasonRow(
        Reason.BAKED_UNPROVEN,
        Effect.ADVANCE,
        "The longest time of the bake is over. A regression is neither shown nor ruled out. The old version is let go.",
    ),
    ReasonRow(
        Reason.BAKE_UNCONTROLLED,
        Effect.HOLD,
        "The new version is worse than the old one was before, but nobody was held back on the old one, so the cause may be another. "
        "A person may decide; the old version is kept.",
    ),
    ReasonRow(
        Reason.BAKE_SUSPICIOUS,
        Effect.HOLD,
        "The time of the bake is over, and there is recent evidence against the new version. The old version is kept until that is settled.",
    ),
    ReasonRow(
        Reason.BAKE_UNPROVEN,
        Effect.HOLD,
        "The time of the bake is over, and a regression is not ruled out anew on its own requests yet. The old version is kept.",
    ),
    ReasonRow(Reason.BAKING, Effect.HOLD, "The new version bakes. The old version is kept warm, with the requests that are held back."),
    ReasonRow(
        Reason.SUSPICIOUS,
        Effect.HOLD,
        "There is some evidence against the new version. It gets no more traffic until that is settled.",
    ),
    ReasonRow(Reason.FROZEN, Effect.HOLD, "All signals pass. A person holds the weight."),
    ReasonRow(Reason.TOO_EARLY, Effect.HOLD, "All signals pass. The minimum time at this weight is not over yet."),
    ReasonRow(Reason.GATHERING, Effect.HOLD, "The evidence is neither good nor bad yet."),
)
"""First reason first. GATHERING is left where nothing else holds."""

OUT_OF_TIME = frozenset(row.reason.name for row in REASONS if row.effect is Effect.GIVE_UP)
"""Names of the reasons that end a rollout without evidence against it."""

SENTENCES: Mapping[Reason, str] = MappingProxyType({row.reason: row.sentence for row in REASONS})


def first_reason(conditions: Mapping[Reason, Bools], rollouts: int) -> Ints:
    """For each rollout, the first reason of the table whose condition holds."""
    reason = np.full(rollouts, int(REASONS[-1].reason))
    for row in reversed(REASONS):
        if row.reason in conditions:
            reason = np.where(conditions[row.reason], int(row.reason), reason)
    return reason


def rolls_back(conditions: Mapping[Reason, Bools], rollouts: int) -> Bools:
    """Where a condition holds whose reason sends all traffic back."""
    failed = np.zeros(rollouts, dtype=bool)
    for row in REASONS:
        if row.effect in (Effect.ROLL_BACK, Effect.GIVE_UP) and row.reason in conditions:
            failed = failed | conditions[row.reason]
    return failed
