"""What happens in a soak, and when: a seed becomes events at simulated times. Pure.

At least `LEAST_AN_HOUR` events an hour, drawn by their weights: what tenants do to their services, what people and
loops do to releases, and what the world does to all of them. An event that has nothing to act on (a kill where nobody
runs) is one still, and does nothing.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

HOUR = 3600.0
LEAST_AN_HOUR, MOST_AN_HOUR = 200, 240
VERSIONS = 4
"""Of the service that is released; those of `FAULTY` fail requests."""
FAULTY = frozenset({1, 3})
PARTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok", "object-store", "node-health-loop")
"""Processes that are killed or hang."""
HANGING = ("etcd", "kube-apiserver", "object-store")
WISHES = ("rollback", "promote", "freeze", "resume")
ODDITIES = ("promise", "route", "privileged-pod", "huge-annotation", "label-of-another")
REASONS = ("NvidiaXID48Error", "NvidiaXID79Error", "DCGMError")


@dataclass(frozen=True, kw_only=True)
class SoakEvent:
    """`at`: seconds of simulated time after the beginning."""

    at: float
    kind: str
    about: Mapping[str, Any]

    def line(self) -> str:
        return json.dumps({"at": self.at, "kind": self.kind, "about": dict(self.about)}, sort_keys=True)


Draw = Callable[[Random], Mapping[str, Any]]


def _nothing(_: Random) -> Mapping[str, Any]:
    return {}


def _one(name: str, choices: Sequence[Any]) -> Draw:
    return lambda rng: {name: rng.choice(choices)}


def _bounds(rng: Random) -> Mapping[str, Any]:
    least = rng.randint(1, 2)
    return {"least": least, "most": least + rng.randint(1, 3)}


def _kill(rng: Random) -> Mapping[str, Any]:
    return {"part": rng.choice(PARTS), "seconds": rng.choice((3, 20, 90))}


def _hang(rng: Random) -> Mapping[str, Any]:
    return {"part": rng.choice(HANGING), "real_seconds": rng.choice((0.5, 1.5))}


KINDS: Mapping[str, tuple[float, Draw]] = {
    # tenants and their pipelines
    "release_begins": (8.0, _one("version", range(VERSIONS))),
    "two_releases_at_once": (2.0, lambda rng: {"versions": rng.sample(range(VERSIONS), 2)}),
    "somebody_asks": (4.0, _one("wish", WISHES)),
    "contract_changes": (5.0, _bounds),
    "stack_is_updated": (4.0, _nothing),
    "replicas_are_scaled": (8.0, _one("replicas", (1, 2, 3, 5))),
    "something_is_written": (8.0, _nothing),
    "odd_object": (7.0, _one("which", ODDITIES)),
    "quota_is_cut": (2.0, _nothing),
    "quota_is_restored": (4.0, _nothing),
    "finalizer_is_stuck": (3.0, _nothing),
    "finalizer_is_freed": (4.0, _nothing),
    "secret_is_rotated": (3.0, _nothing),
    # runners and the guard
    "runner_comes": (16.0, lambda rng: {"who": rng.randint(0, 1), "ahead": rng.choice((0.0, 0.0, 0.0, 4.0, -4.0, 900.0))}),
    "runner_is_killed": (5.0, lambda rng: {"who": rng.randint(0, 1), "meetings": rng.randint(0, 12)}),
    "runner_stands_still": (3.0, _one("who", (0, 1))),
    "runner_goes_on": (5.0, _one("who", (0, 1))),
    "clock_jumps": (4.0, lambda rng: {"who": rng.randint(0, 1), "seconds": rng.choice((-3600.0, -30.0, 3.0, 30.0, 3600.0))}),
    "guard_is_away": (2.0, _one("seconds", (20, 120))),
    # the world
    "pod_dies": (12.0, _nothing),
    "node_is_lost": (1.5, _nothing),
    "node_is_faulty": (4.0, _one("reason", REASONS)),
    "node_is_sound": (5.0, _nothing),
    "node_is_set_apart": (2.0, _nothing),
    "ledger_is_away": (3.0, _one("seconds", (2, 40, 130))),
    "ledger_is_full": (2.0, _one("seconds", (20, 130))),
    "answers_are_lost": (3.0, _one("writes", (1, 2, 3))),
    "witness_disk_is_full": (2.0, _one("seconds", (20, 600))),
    "lease_is_deleted": (2.0, _nothing),
    "evidence_is_away": (4.0, _one("seconds", (60, 300))),
    "loops_token_is_rotated": (0.6, _nothing),
    "certificates_are_rotated": (0.3, _nothing),
    "part_is_killed": (2.0, _kill),
    "part_hangs": (1.0, _hang),
}
"""Weight of each kind, and what it is about."""


def scheduled(seed: int, hours: float) -> tuple[SoakEvent, ...]:
    """The events of a seed, in order."""
    rng = Random(seed)
    kinds, weights = list(KINDS), [weight for weight, _ in KINDS.values()]
    found: list[SoakEvent] = []
    whole = int(hours)
    for hour, part in [*((each, 1.0) for each in range(whole)), *([(whole, hours - whole)] if hours > whole else [])]:
        count = round(rng.randint(LEAST_AN_HOUR, MOST_AN_HOUR) * part)
        moments = sorted(rng.uniform(0.0, HOUR * part) for _ in range(count))
        for moment in moments:
            (kind,) = rng.choices(kinds, weights)
            found.append(SoakEvent(at=round(hour * HOUR + moment, 1), kind=kind, about=KINDS[kind][1](rng)))
    return tuple(found)


def script(events: Iterable[SoakEvent]) -> str:
    """Events as a file, one a line, that a replay takes."""
    return "".join(f"{event.line()}\n" for event in events)


def read_script(text: str) -> tuple[SoakEvent, ...]:
    """The events of a script that a soak has written. Raises ValueError with the line that is none."""
    found: list[SoakEvent] = []
    for number, line in enumerate(text.splitlines(), 1):
        try:
            one = json.loads(line)
            found.append(SoakEvent(at=float(one["at"]), kind=str(one["kind"]), about=dict(one["about"])))
        except (ValueError, KeyError, TypeError):
            raise ValueError(f"line {number} is no event") from None
        if found[-1].kind not in KINDS:
            raise ValueError(f"line {number}: there is no event {found[-1].kind}")
    return tuple(found)
