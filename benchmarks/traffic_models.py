"""The models whose releases are tried on real traffic, each with its releases in the order of a run and how they should end."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandbox.layout import Layout
from sandbox.progress import Silent
from sandbox.traffic import language_trials, profile
from sandbox.traffic.demo import WANTED, Wanted, forget
from sandbox.traffic.language_trials import LanguageTrials
from sandbox.traffic.profile import LANGUAGE, SERVED, ServedModel
from sandbox.traffic.release_trials import ReleaseTrials

SPEED = 15.0
ALIKE = ("stable", "identical", "slow-start")
"""What behaves alike once it serves. Either of the first two is to the other what `identical` is to `stable`."""
ORDER = ("wrong", "crash-at-maximum", "errors", "slow-tail", "tail", "leak", "dead", "late", "identical", "slow-start", "better")
"""Of a run: one way back to the first version is enough."""


@dataclass(frozen=True, kw_only=True)
class TriedModel:
    """A model whose releases are tried, and how each of them should end."""

    served: tuple[ServedModel, ...]
    """Of its workspace; the first is tried."""
    order: Sequence[str]
    """Of a run."""
    wanted: Mapping[str, Wanted]
    alike: Sequence[str]
    speed: float
    trials: Callable[[Path, Layout, float], ReleaseTrials]

    def on(self, project: Path, layout: Layout, speed: float) -> ReleaseTrials:
        """Its workspace, which is begun anew where another model's was."""
        if layout.project.exists() and profile.served_in(layout.project) != self.served:
            forget(layout)
        return self.trials(project, layout, speed)


TRIED: Mapping[str, TriedModel] = {
    "releases": TriedModel(served=SERVED, order=ORDER, wanted=WANTED, alike=ALIKE, speed=SPEED, trials=ReleaseTrials.of),
    "language": TriedModel(
        served=(LANGUAGE,),
        order=language_trials.ORDER,
        wanted=language_trials.WANTED,
        alike=language_trials.ALIKE,
        speed=language_trials.SPEED,
        trials=lambda checkout, layout, speed: LanguageTrials.trained(checkout, layout, speed, Silent()),
    ),
}
"""By kind of table; of all others the model is the classifier."""
