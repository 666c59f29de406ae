"""Who met which version in an A/B release: recomputed from what the ledger recorded, for whoever holds user ids. Pure.

Nothing here knows who really asked: an assignment says what a user gets who asks while users are divided. A user's
version is that of the release's own split, which the contract of today need not say any more.
"""

from dataclasses import dataclass
from typing import Any

from headway.contract.assignment import HASH, bucket, buckets_of
from headway.ledger.traffic_split import ArmRole
from headway.problem import Exit, UserError
from headway.release.driver.rollout_state import RolloutState


@dataclass(frozen=True, kw_only=True)
class UserAssignment:
    """One user's place in one experiment."""

    experiment: str
    user_claim: str
    bucket: int
    arm: str
    """`canary` or `stable`, as the access log says it."""
    release: str
    """Which version that arm had while users were divided."""
    divided: bool
    """Whether users are divided now; else the arm tells of the past, or of what was planned."""
    since: str | None
    until: str | None
    """When users ceased to be divided; None while they are, or never were."""

    def document(self) -> dict[str, Any]:
        return {**vars(self)}


def assigned(rollout: RolloutState, user: str) -> UserAssignment:
    """Where `rollout`, an A/B release, puts `user`. Raises UserError for another release, an empty user and another
    function."""
    user_split = rollout.user_split
    if user_split is None:
        raise UserError(
            f"Release {rollout.release} was no experiment: it was carried out as {rollout.body['strategy']}.",
            "Its requests were divided by chance, so nobody can say which version a user met.",
            "Name an A/B release by --number; `headway release history` lists all.",
            Exit.USAGE,
        )
    if user_split.hash != HASH:
        raise UserError(
            f"Experiment {user_split.experiment} divided users by {user_split.hash}, and this Headway computes {HASH}.",
            "The answer would differ from what users got.",
            "Use the Headway that began it.",
            Exit.REFUSED,
        )
    if not user:
        raise UserError(
            "An empty text is no user.", "Such callers are in no experiment.", "Write the value of the token's claim.", Exit.USAGE
        )
    found = bucket(user_split.experiment, user)
    new = found < buckets_of(user_split.share.whole_percent)
    return UserAssignment(
        experiment=user_split.experiment,
        user_claim=user_split.user_claim,
        bucket=found,
        arm=ArmRole.CANARY if new else ArmRole.STABLE,
        release=rollout.release if new else rollout.stable,
        divided=rollout.divided and not rollout.over,
        since=rollout.users_since,
        until=rollout.users_until,
    )
