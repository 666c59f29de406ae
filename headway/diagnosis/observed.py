"""What was read of one service, whole, and how it is divided into before and since. Pure.

`gathering` reads; a diagnosis divides the same readings at the onset of each symptom, for two that began at different times have different
causes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from headway.diagnosis.comparison import LEAST_BLOCKS, BeforeAfter, compared, mean
from headway.diagnosis.facts import Blindness, Change, Facts, ServedSettings, State
from headway.diagnosis.measure import Sight
from headway.diagnosis.measures import MEASURES
from headway.release.evidence.samples import TimedValue

BEFORE_SECONDS = 1800.0
"""How far before an onset things are compared: the same half hour of the day, not another."""


@dataclass(frozen=True, kw_only=True)
class Observed:
    """One service. `series`: by measure and by the label that its sight tells apart ("" for the service), one value each `step` seconds,
    about the `step` before its time."""

    tenant: str
    model: str
    at: float
    step: float
    series: Mapping[str, Mapping[str, Sequence[TimedValue]]] = field(default_factory=dict[str, Mapping[str, Sequence[TimedValue]]])
    states: tuple[State, ...] = ()
    changes: tuple[Change, ...] = ()
    hosts: Mapping[str, str] = field(default_factory=dict[str, str])
    settings: Mapping[str, ServedSettings] = field(default_factory=dict[str, ServedSettings])
    blind: tuple[Blindness, ...] = ()

    def of(self, measure: str) -> Sequence[TimedValue]:
        """Of the whole service; empty where nobody measures it."""
        return self.series.get(measure, {}).get("", ())

    def measured_until(self, moment: float) -> "Observed":
        """Without what was measured after that moment, in Unix seconds."""
        if moment >= self.at:
            return self
        series = {
            name: {label: tuple(each for each in samples if each[0] <= moment) for label, samples in by_label.items()}
            for name, by_label in self.series.items()
        }
        return replace(self, series=series)


def facts(observed: Observed, onset: float | None, calm: float = 0.0) -> Facts:
    """What is known before `onset`, from `calm` on, and since. The step in which it fell belongs to neither where there are others. None:
    nothing is compared."""
    whole: dict[str, BeforeAfter] = {}
    apart: dict[str, dict[str, BeforeAfter]] = {}
    present: dict[str, dict[str, float]] = {}
    for name, by_label in observed.series.items():
        for label, samples in by_label.items():
            before, since = _divided(samples, onset, calm)
            found = compared(before, since)
            if MEASURES[name].sight is Sight.SERVICE:
                if found is not None:
                    whole[name] = found
                continue
            if found is not None:
                apart.setdefault(name, {})[label] = found
            if (now := mean(since)) is not None:
                present.setdefault(name, {})[label] = now.value
    return Facts(
        at=observed.at,
        onset=onset,
        step=observed.step,
        compared=whole,
        apart=apart,
        present=present,
        states=observed.states,
        changes=observed.changes,
        hosts=observed.hosts,
        settings=observed.settings,
    )


def _divided(samples: Sequence[TimedValue], onset: float | None, calm: float) -> tuple[list[float], list[float]]:
    if onset is None:
        return [], [value for _, value in samples]
    before = [value for moment, value in samples if max(onset - BEFORE_SECONDS, calm) <= moment <= onset]
    since = [value for moment, value in samples if moment > onset]
    return before, since[1:] if len(since) > LEAST_BLOCKS else since
