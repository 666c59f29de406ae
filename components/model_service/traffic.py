"""Which releases of a model are live and what share of its requests each one gets.

A typed value that the release ledger renders to; the component only draws it. Nothing here decides. The trap: weights move by one
object (the VirtualService) that names every arm each time; an arm that is live at weight 0 is dark, not absent.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

WHOLE = 100
"""Istio's weights are whole percent; the weights of all arms add up to this."""


class Arm(StrEnum):
    """The part a release plays. Not the release itself: during a canary the stable release also runs as the baseline."""

    STABLE = "stable"
    """Serves what no other arm serves, with the replicas its load needs."""
    BASELINE = "baseline"
    """The stable release once more, as large and as fresh as the canary: what the canary is compared with."""
    CANARY = "canary"
    """The release that has still to prove itself."""


@dataclass(frozen=True, kw_only=True)
class Live:
    """One arm that exists. `release` is the release's content address, `weight` its percentage of live requests."""

    release: str
    arm: Arm = Arm.STABLE
    weight: int = WHOLE
    fixed_replicas: int | None = None
    """Replicas of an arm that must not scale while it is compared; None leaves them to the autoscaler."""
    at_least: int | None = None
    """Replicas that the autoscaler must not go below, because the arm may have to take over all traffic at once."""
    at_most: int | None = None
    """Replicas that it must not go above, in place of the contract's maximum: two versions divide users, and share that maximum."""

    @property
    def key(self) -> str:
        """Name part of this arm's objects: the release, and the arm where one release runs twice."""
        return f"{self.release}-baseline" if self.arm is Arm.BASELINE else self.release


@dataclass(frozen=True, kw_only=True)
class Mirror:
    """A copy of live requests for `release`, whose answers nobody sees; `percent` of them."""

    release: str
    percent: int


@dataclass(frozen=True, kw_only=True)
class Split:
    """Users of an experiment are divided: `percent` of them get `release`, which has no weight, and all others what weights give."""

    release: str
    experiment: str
    percent: int
    user_claim: str
    """Claim of the caller's token that holds the user."""


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """All arms of one model, the mirror and the split, if any. Raises ValueError for a division that no mesh could carry out."""

    arms: tuple[Live, ...]
    mirror: Mirror | None = None
    split: Split | None = None

    def __post_init__(self) -> None:
        wrong = tuple(self._contradictions())
        if wrong:
            raise ValueError("; ".join(wrong))

    def _contradictions(self) -> Iterator[str]:
        keys = [live.key for live in self.arms]
        if len(set(keys)) != len(keys):
            yield f"arms {', '.join(keys)} are not all different: each release plays a part once"
        stable = sum(live.arm is Arm.STABLE for live in self.arms)
        if stable != 1:
            yield f"{stable} arms are stable: exactly one release serves what no other arm serves"
        if any(not 0 <= live.weight <= WHOLE for live in self.arms):
            yield f"a weight lies outside 0 to {WHOLE}"
        total = sum(live.weight for live in self.arms)
        if total != WHOLE:
            yield f"weights add up to {total}, not {WHOLE}: requests would be lost or shared differently than recorded"
        if self.mirror and self.mirror.release not in {live.release for live in self.arms}:
            yield f"mirror names release {self.mirror.release}, which is not live"
        if self.mirror and not 0 < self.mirror.percent <= WHOLE:
            yield f"mirror percent {self.mirror.percent} lies outside 1 to {WHOLE}"
        if self.split and self.split.release not in {live.release for live in self.arms if live.arm is Arm.CANARY and not live.weight}:
            yield f"split names release {self.split.release}, which is no canary without a weight: users would meet it outside the experiment too"
        if self.split and not 0 < self.split.percent < WHOLE:
            yield f"split percent {self.split.percent} lies outside 1 to {WHOLE - 1}"

    @classmethod
    def only(cls, release: str) -> "Traffic":
        """One release that serves everything: a service that has never seen a rollout."""
        return cls(arms=(Live(release=release),))

    @property
    def ordered(self) -> tuple[Live, ...]:
        """Stable first, canary last: with weights of constant sum, raising the canary's then only adds users to its arm."""
        rank = {Arm.STABLE: 0, Arm.BASELINE: 1, Arm.CANARY: 2}
        return tuple(sorted(self.arms, key=lambda live: (rank[live.arm], live.release)))

    @property
    def primary(self) -> Live:
        """Where a client that bypasses the mesh ends up: the arm with the greatest weight, stable winning a tie."""
        return max(self.ordered, key=lambda live: live.weight)
