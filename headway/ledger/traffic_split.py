"""Which releases of a model live and how its traffic is divided, as the ledger says it: what a plan of the tenant's stack reads.

One event of a chain decides: the newest that carries a division. The trap: a chain is long and a plan must be quick, so it is read from
its end, and events that follow a division point back to it; whether the chain is whole is the business of `headway release verify`.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from headway.contract.model import Model
from headway.ledger.events import digest, parse, unreadable
from headway.ledger.store import Store
from headway.problem import Exit, UserError

ADOPTED = "adopted"
"""Means the release that served before there was a ledger entry is registered as the stable one."""
INTENDED = "intended"
"""Means traffic shall be divided so. Written before anything is done, so that whoever applies the stack goes on with it."""
DIVIDES = frozenset({ADOPTED, INTENDED})

STABLE, BASELINE, CANARY = "stable", "baseline", "canary"
WHOLE = 100


@dataclass(frozen=True, kw_only=True)
class Portion:
    """One arm: the part a release plays and its percentage of users' requests.

    `replicas` where it must not scale while it is compared; `at_least` where it may scale, but not below what it may have to take over;
    `at_most` where it may grow no further than that, in place of its contract's maximum.
    """

    release: str
    arm: str
    weight: int
    replicas: int | None = None
    at_least: int | None = None
    at_most: int | None = None

    @property
    def key(self) -> str:
        """Name part of the arm's objects."""
        return f"{self.release}-baseline" if self.arm == BASELINE else self.release

    def document(self) -> dict[str, Any]:
        """As part of an event; without `at_most` where it says nothing, so that who does not know it can read all others."""
        found = asdict(self)
        return {key: value for key, value in found.items() if key != "at_most" or value is not None}


@dataclass(frozen=True, kw_only=True)
class Split:
    """How users are divided: `share` percent of them get the canary, which has no weight, and all others what weights give."""

    experiment: str
    """The salt of the assignment."""
    share: int
    user_claim: str
    hash: str
    """The function from experiment and user to a bucket, by its name (`headway.contract.assignment`)."""


@dataclass(frozen=True, kw_only=True)
class Division:
    """All arms. `mirrored` is the release that gets copies of `copies` percent of requests. `digests` finds each release's content."""

    portions: tuple[Portion, ...]
    digests: Mapping[str, str]
    mirrored: str | None = None
    copies: int = 0
    split: Split | None = None

    @classmethod
    def only(cls, release: str, content: str) -> "Division":
        """One release that serves everything."""
        return cls(portions=(Portion(release=release, arm=STABLE, weight=WHOLE),), digests={release: content})

    def weight(self, release: str, arm: str) -> int:
        return sum(p.weight for p in self.portions if p.release == release and p.arm == arm)

    def arm(self, name: str) -> Portion | None:
        return next((p for p in self.portions if p.arm == name), None)

    @property
    def exposes(self) -> bool:
        """Whether users' requests, or copies of them, go to the new version."""
        return self.mirrored is not None or self.split is not None or any(p.weight for p in self.portions if p.arm == CANARY)

    @property
    def led(self) -> tuple[str, str] | None:
        """Experiment, and key of the arm that its users are led to by a rule of their own; None where requests alone are divided."""
        canary = self.arm(CANARY)
        return (self.split.experiment, canary.key) if self.split and canary else None

    @property
    def routes(self) -> Mapping[str, int]:
        """Percentage by key of arm: what the mesh carries out."""
        return {p.key: p.weight for p in self.portions}

    def document(self) -> dict[str, Any]:
        """As the body of an event."""
        return {
            "arms": [portion.document() for portion in self.portions],
            "digests": dict(sorted(self.digests.items())),
            "mirror": {"release": self.mirrored, "percent": self.copies} if self.mirrored else None,
            **({"split": asdict(self.split)} if self.split else {}),
        }

    @classmethod
    def read(cls, body: Mapping[str, Any]) -> "Division":
        mirror = body["mirror"] or {}
        return cls(
            portions=tuple(Portion(**arm) for arm in body["arms"]),
            digests=dict(body["digests"]),
            mirrored=mirror.get("release"),
            copies=mirror.get("percent", 0),
            split=Split(**body["split"]) if body.get("split") else None,
        )


def latest(store: Store, chain: str) -> Division | None:
    """The division that holds now; None for a service that no ledger knows. Raises UnreachableError, UserError for a broken event."""
    keys = store.list(f"{chain}/events/")
    at = len(keys) - 1
    while at >= 0:
        content = store.get(keys[at])
        try:
            event = parse(content or b"")
        except (ValueError, TypeError):
            raise _broken(chain, keys[at]) from None
        if event.kind in DIVIDES:
            try:
                return Division.read(event.body["division"])
            except (KeyError, TypeError, ValueError):
                raise unreadable(event) from None
        pointed = event.body.get("division")
        at = pointed - 1 if isinstance(pointed, int) and 0 < pointed <= at else at - 1
    return None


def released(store: Store, chain: str, content: str) -> Model:
    """The contract that a release was registered with. Raises UserError when it is gone or is not what its name says."""
    body = store.get(f"{chain}/releases/{content}.json")
    if body is None or digest(body) != content:
        raise UserError(
            f"Release {content[:12]} of {chain} is {'missing' if body is None else 'not what its name says'}.",
            "What it runs is not known any more, so nothing can be planned; what runs goes on.",
            "Restore the object from its versions.",
            Exit.REFUSED,
        )
    return Model.model_validate(json.loads(body)["contract"])


def _broken(chain: str, key: str) -> UserError:
    return UserError(
        f"{key} of the release ledger cannot be read.",
        f"Which release of {chain} serves is not known, so nothing can be planned; what runs goes on.",
        f"Run `headway release verify {chain}`; restore the object from its versions.",
        Exit.REFUSED,
    )
