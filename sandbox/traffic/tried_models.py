"""The models whose releases are tried on real traffic: each with its releases, how they should end, and a demonstration's choice of them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sandbox.layout import Layout
from sandbox.progress import Progress
from sandbox.traffic import language_questions, profile
from sandbox.traffic.language_trials import LanguageTrials
from sandbox.traffic.profile import LANGUAGE, SERVED, ServedModel
from sandbox.traffic.release_trials import BEFORE_TRAFFIC, ReleaseTrials, TrialResult, forget


@dataclass(frozen=True)
class Wanted:
    """How a release should end, and where that should be decided; `where` is the beginning of the stage's name, empty for
    any."""

    outcome: str
    where: str

    def met(self, found: TrialResult) -> bool:
        return found.outcome == self.outcome and found.where.startswith(self.where)

    def __str__(self) -> str:
        return self.outcome if self.outcome == "promoted" or not self.where else f"{self.outcome} at {place(self.where)}"


def place(where: str) -> str:
    """A stage in words."""
    if where == BEFORE_TRAFFIC:
        return "its own checks, before any traffic"
    return "the mirror stage, on copies of requests" if where.startswith("mirror") else where


PROMOTED = Wanted("promoted", "all traffic")
CAUGHT_DARK = Wanted("rolled back", BEFORE_TRAFFIC)
CAUGHT_ON_COPIES = Wanted("rolled back", "mirror")
CAUGHT_IN_BAKE = Wanted("rolled back", "95% while it bakes")
CAUGHT = Wanted("rolled back", "")


@dataclass(frozen=True, kw_only=True)
class TriedModel:
    """A model whose releases are tried."""

    served: tuple[ServedModel, ...]
    """Of its workspace; the first is tried."""
    title: str
    """What a demonstration starts."""
    wanted: Mapping[str, Wanted]
    """Of every release that it has beside its stable one."""
    order: Sequence[str]
    """Of a run: one way back to the first version is enough."""
    story: Sequence[str]
    """Of a demonstration: a good one and three bad ones."""
    alike: Sequence[str]
    """What behaves alike once it serves. Either of the first two is to the other what `identical` is to `stable`."""
    speed: float
    """How much faster the minutes of a rollout pass: a rollout needs as many requests, however few come."""
    trials: Callable[[Path, Layout, float, Progress], ReleaseTrials]
    questions: Callable[[Layout], Sequence[str]] = lambda _: ()
    """Commands with which a person asks it."""

    def on(self, project: Path, layout: Layout, speed: float, progress: Progress) -> ReleaseTrials:
        """Its workspace, which is begun anew where another model's was."""
        if layout.project.exists() and profile.served_in(layout.project) != self.served:
            forget(layout)
        return self.trials(project, layout, speed, progress)


TRIED: Mapping[str, TriedModel] = {
    "releases": TriedModel(
        served=SERVED,
        title="two tenants, served by Triton behind Envoy and measured by Prometheus",
        wanted={
            "identical": PROMOTED,
            "better": PROMOTED,
            "slow-tail": CAUGHT_ON_COPIES,
            "tail": CAUGHT,
            "errors": CAUGHT_ON_COPIES,
            "late": CAUGHT_IN_BAKE,
            "wrong": CAUGHT_DARK,
            "leak": CAUGHT_ON_COPIES,
            "crash-at-maximum": CAUGHT_DARK,
            "slow-start": PROMOTED,  # within the contract's budget it harms nobody
            "dead": CAUGHT_ON_COPIES,
        },
        order=("wrong", "crash-at-maximum", "errors", "slow-tail", "tail", "leak", "dead", "late", "identical", "slow-start", "better"),
        story=("identical", "wrong", "errors", "dead"),
        alike=("stable", "identical", "slow-start"),
        speed=15.0,
        trials=lambda checkout, layout, speed, _: ReleaseTrials.of(checkout, layout, speed),
    ),
    "language": TriedModel(
        served=(LANGUAGE,),
        title="one tenant, whose language model is served by vLLM behind Envoy and measured by Prometheus",
        wanted={
            "identical": PROMOTED,
            "better": PROMOTED,  # says three times as much, which makes it no slower
            "slow-prefill": CAUGHT_ON_COPIES,
            "slow-decode": CAUGHT_ON_COPIES,
            "wrong": CAUGHT_DARK,
            "garbled": CAUGHT_DARK,
            "kv-exhausted": CAUGHT_DARK,
            "leak": CAUGHT_ON_COPIES,
            "dead": CAUGHT_ON_COPIES,
        },
        order=("wrong", "garbled", "kv-exhausted", "slow-prefill", "slow-decode", "leak", "dead", "identical", "better"),
        story=("identical", "wrong", "garbled", "slow-decode"),
        alike=("stable", "identical"),
        speed=5.0,
        trials=LanguageTrials.trained,
        questions=language_questions.commands,
    ),
}
"""By kind of table."""
