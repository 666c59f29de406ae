"""How requests of one model are divided among the releases that live: the one type that ledger, driver, stacks and
components share.

Pure. A weight is a `Share`, exact from the contract to the route and the ledger, which both carry whole percent.
Raising the weight of one arm moves one object (the VirtualService) that names every arm each time; an arm that is live
at weight 0 is dark, not absent.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum, unique
from typing import Any

from headway.contract.units import Share

NOTHING = Share(0)
EVERYTHING = Share(Share.WHOLE)


@unique
class ArmRole(StrEnum):
    """The part a release plays. Not the release itself: during a canary the stable release also runs as the baseline."""

    STABLE = "stable"
    """Serves what no other arm serves, with the replicas its load needs."""
    BASELINE = "baseline"
    """The stable release once more, as large and as fresh as the canary: what the canary is compared with."""
    CANARY = "canary"
    """The release that has still to prove itself."""


def _require(kind: Any, *values: Any) -> None:
    """Raises TypeError for a value of another kind: whoever renders it would meet it without knowing whose it is."""
    if not all(isinstance(value, kind) for value in values):
        raise TypeError(f"not every one of {values} is {kind}")


_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


def release_name(value: Any) -> str:
    """A release's name as an event holds it: part of names of objects, of pages and of terminals. Raises ValueError for
    what is none."""
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise ValueError(f"{value!r} names no release")
    return value


@dataclass(frozen=True, kw_only=True)
class TrafficArm:
    """One arm: the part a release plays and its share of users' requests."""

    release: str
    """The release's content address."""
    role: ArmRole = ArmRole.STABLE
    weight: Share = EVERYTHING
    replicas: int | None = None
    """Replicas of an arm that must not scale while it is compared; None leaves them to the autoscaler."""
    at_least: int | None = None
    """Replicas that the autoscaler must not go below, because the arm may have to take over all traffic at once."""
    at_most: int | None = None
    """Replicas that it must not go above, in place of the contract's maximum: two versions divide users, and share that
    maximum."""

    @property
    def key(self) -> str:
        """Name part of the arm's objects: the release, and the role where one release runs twice."""
        return f"{self.release}-baseline" if self.role is ArmRole.BASELINE else self.release

    def document(self) -> dict[str, Any]:
        """As part of an event; without `at_most` where it says nothing, so that an older reader can read all others."""
        bounds = {"replicas": self.replicas, "at_least": self.at_least}
        most = {} if self.at_most is None else {"at_most": self.at_most}
        return {"release": self.release, "arm": self.role.value, "weight": self.weight.whole_percent, **bounds, **most}

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> "TrafficArm":
        known: dict[str, Any] = {**body}
        release_name(known["release"])
        _require(int | None, known["replicas"], known["at_least"], known.get("at_most"))
        return cls(role=ArmRole(known.pop("arm")), weight=Share.percent(known.pop("weight")), **known)


@dataclass(frozen=True, kw_only=True)
class TrafficMirror:
    """Copies of live requests for `release`, whose answers nobody sees; `share` says how many of them are copied."""

    release: str
    share: Share


@dataclass(frozen=True, kw_only=True)
class UserSplit:
    """How users are divided: `share` of them get the canary, which has no weight, and all others what weights give."""

    experiment: str
    """The salt of the assignment."""
    share: Share
    user_claim: str
    """Claim of the caller's token that holds the user."""
    hash: str
    """The function from experiment and user to a bucket, by its name (`headway.contract.assignment`)."""

    def document(self) -> dict[str, Any]:
        share = self.share.whole_percent
        return {"experiment": self.experiment, "share": share, "user_claim": self.user_claim, "hash": self.hash}

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> "UserSplit":
        known: dict[str, Any] = {**body}
        _require(str, known["experiment"], known["user_claim"], known["hash"])
        return cls(share=Share.percent(known.pop("share")), **known)


@dataclass(frozen=True, kw_only=True)
class TrafficSplit:
    """All arms of one model, the mirror and the division of users, if any. Raises ValueError for what no mesh could
    carry out."""

    arms: tuple[TrafficArm, ...]
    digests: Mapping[str, str] = field(default_factory=dict[str, str])
    """Finds the content of each release in the ledger."""
    mirror: TrafficMirror | None = None
    user_split: UserSplit | None = None

    def __post_init__(self) -> None:
        wrong = tuple(self._contradictions())
        if wrong:
            raise ValueError("; ".join(wrong))

    def _contradictions(self) -> Iterator[str]:
        keys = [arm.key for arm in self.arms]
        if len(set(keys)) != len(keys):
            yield f"arms {', '.join(keys)} are not all different: each release plays a part once"
        stable = sum(arm.role is ArmRole.STABLE for arm in self.arms)
        if stable != 1:
            yield f"{stable} arms are stable: exactly one release serves what no other arm serves"
        if any(not NOTHING <= arm.weight <= EVERYTHING for arm in self.arms):
            yield "a weight lies outside 0 to 100 %"
        total = sum(arm.weight for arm in self.arms)
        if total != EVERYTHING:
            yield f"weights add up to {Share(total)}, not 100%: requests would be lost or shared differently than recorded"
        if self.mirror and self.mirror.release not in {arm.release for arm in self.arms}:
            yield f"the mirror names release {self.mirror.release}, which is not live"
        if self.mirror and not NOTHING < self.mirror.share <= EVERYTHING:
            yield f"a mirror of {self.mirror.share} lies outside 1 to 100 %"
        if self.user_split and not any(arm.role is ArmRole.CANARY and not arm.weight for arm in self.arms):
            yield "users are divided and there is no canary without a weight: users would meet it outside the experiment too"
        if self.user_split and not NOTHING < self.user_split.share < EVERYTHING:
            yield f"a division of {self.user_split.share} of users lies outside 1 to 99 %"

    @classmethod
    def only(cls, release: str, digest: str | None = None) -> "TrafficSplit":
        """One release that serves everything."""
        return cls(arms=(TrafficArm(release=release),), digests={} if digest is None else {release: digest})

    def arm(self, role: ArmRole) -> TrafficArm | None:
        return next((arm for arm in self.arms if arm.role is role), None)

    def weight(self, release: str, role: ArmRole) -> Share:
        """The weight of one arm; nothing where it does not exist."""
        return next((arm.weight for arm in self.arms if (arm.release, arm.role) == (release, role)), NOTHING)

    @property
    def ordered(self) -> tuple[TrafficArm, ...]:
        """Stable first, canary last: with weights of constant sum, raising the canary's then only adds users to its
        arm."""
        rank = list(ArmRole)
        return tuple(sorted(self.arms, key=lambda arm: (rank.index(arm.role), arm.release)))

    @property
    def primary(self) -> TrafficArm:
        """Where a client that bypasses the mesh ends up: the arm with the greatest weight, stable winning a tie."""
        return max(self.ordered, key=lambda arm: arm.weight)

    @property
    def exposes(self) -> bool:
        """Whether users' requests, or copies of them, go to the new version."""
        new = self.arm(ArmRole.CANARY)
        return self.mirror is not None or self.user_split is not None or bool(new and new.weight)

    @property
    def led(self) -> tuple[str, str] | None:
        """An experiment, and the key of the arm that its users are led to by a rule of their own; None where requests
        alone are divided."""
        canary = self.arm(ArmRole.CANARY)
        return (self.user_split.experiment, canary.key) if self.user_split and canary else None

    @property
    def weights(self) -> Mapping[str, Share]:
        """By key of arm: what the mesh carries out."""
        return {arm.key: arm.weight for arm in self.arms}

    @property
    def percentages(self) -> dict[str, int]:
        """The weights in whole percent, as events, outputs and people have them."""
        return {key: weight.whole_percent for key, weight in self.weights.items()}

    def document(self) -> dict[str, Any]:
        """As the body of an event."""
        return {
            "arms": [arm.document() for arm in self.arms],
            "digests": dict(sorted(self.digests.items())),
            "mirror": {"release": self.mirror.release, "percent": self.mirror.share.whole_percent} if self.mirror else None,
            **({"split": self.user_split.document()} if self.user_split else {}),
        }

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> "TrafficSplit":
        mirror, users = body["mirror"], body.get("split")
        _require(str, *body["digests"].values())
        return cls(
            arms=tuple(TrafficArm.read(arm) for arm in body["arms"]),
            digests=dict(body["digests"]),
            mirror=TrafficMirror(release=release_name(mirror["release"]), share=Share.percent(mirror["percent"])) if mirror else None,
            user_split=UserSplit.read(users) if users else None,
        )
