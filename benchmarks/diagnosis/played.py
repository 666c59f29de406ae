"""What all played services share: the time in which they play, what an incident is, and how what they show becomes what Prometheus would say.
Pure; seeded.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from headway.diagnosis.facts import Blindness, Change, State, StateKind

Floats = NDArray[np.float64]
STEP = 20.0
STEPS = 90
AT = 1_700_000_000.0
BEGAN = 60
"""The step after which an incident is there, where it says nothing else."""
ONSET = AT - (STEPS - BEGAN) * STEP
RELEASES = ("r9876543210", "r0123456789")
"""The one before, and the newest."""
REPLACES = f"release {RELEASES[1]} began to replace {RELEASES[0]}"

Played = TypeVar("Played")
Shown = Mapping[str, Mapping[str, float]]
"""What is measured of one step, by measure and label."""


@dataclass(frozen=True, kw_only=True)
class PlayedIncident(Generic[Played]):
    """One case: what the service does before and since, and what else is known. `truth`: the cause; empty where nothing is wrong or nobody
    can know."""

    name: str
    truth: str
    before: Played
    since: Played
    began: int = BEGAN
    """The step after which it is so."""
    states: tuple[State, ...] = ()
    changes: tuple[Change, ...] = ()
    unmeasured: tuple[str, ...] = ()
    blind: tuple[Blindness, ...] = ()

    @property
    def onset(self) -> float:
        return AT - (STEPS - self.began) * STEP

    def random(self, seed: int) -> np.random.Generator:
        return np.random.default_rng([seed, *self.name.encode()])

    def series(self, steps: Iterable[Shown]) -> Mapping[str, Mapping[str, list[tuple[float, float]]]]:
        """As `Observed` holds them, less what nobody measures."""
        found: dict[str, dict[str, list[tuple[float, float]]]] = {}
        for step, shown in enumerate(steps):
            for name, by_label in shown.items():
                for label, value in by_label.items():
                    if name not in self.unmeasured and np.isfinite(value):
                        found.setdefault(name, {}).setdefault(label, []).append((AT - (STEPS - 1 - step) * STEP, float(value)))
        return found


def pod(release: str, number: int) -> str:
    """A replica's name."""
    return f"defects-{release}-5b6bb57495-tj4t{number}"


def says(kind: StateKind, subject: str = "", pool: str = "") -> State:
    """What the cluster says since the onset; of the second replica of the version before where nothing else is named."""
    return State(kind=kind, subject=subject or pod(RELEASES[0], 1), words=kind.value.replace("-", " "), since=ONSET, pool=pool)


def serial(random: np.random.Generator, count: int, likeness: float) -> Floats:
    """Noise whose neighbours are so alike."""
    values, last = np.zeros(count), 0.0
    for number in range(count):
        last = likeness * last + float(np.sqrt(1 - likeness**2) * random.normal())
        values[number] = last
    return values
