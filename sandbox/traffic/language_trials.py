"""Releases of the language model on real traffic: nine kinds, and how each should end.

Two or three engines of vLLM run at a time, 2 to 4 GiB each, and each takes minutes to start, so a release lasts a quarter of an hour. The
load is heavier than the demonstration's and the clock slower than the classifier's: a rollout needs as many requests.
"""

from collections.abc import Mapping
from pathlib import Path

from headway.problem import UserError
from sandbox.cluster.processes import Supervisor
from sandbox.layout import Layout
from sandbox.progress import Progress
from sandbox.traffic import demo, language_demo, profile, workspace
from sandbox.traffic.demo import CAUGHT_DARK, CAUGHT_ON_COPIES, PROMOTED, Wanted
from sandbox.traffic.mesh import envoy
from sandbox.traffic.profile import LANGUAGE
from sandbox.traffic.programs import programs
from sandbox.traffic.release_trials import ReleaseTrials
from sandbox.traffic.steady_load import SteadyLoad

SPEED = 5.0
RATE = 4.0
"""Requests of users a second, by streams."""
HELD_SECONDS = 3600.0
WANTED: Mapping[str, Wanted] = {
    "identical": PROMOTED,
    "better": PROMOTED,
    "slow-prefill": CAUGHT_ON_COPIES,
    "slow-decode": CAUGHT_ON_COPIES,
    "wrong": CAUGHT_DARK,
    "garbled": CAUGHT_DARK,
    "kv-exhausted": CAUGHT_DARK,
    "leak": CAUGHT_ON_COPIES,
    "dead": CAUGHT_ON_COPIES,
}
"""Of every release that the sorter has beside its stable one. `better` says three times as much, which makes it no slower."""
ORDER = ("wrong", "garbled", "kv-exhausted", "slow-prefill", "slow-decode", "leak", "dead", "identical", "better")
ALIKE = ("stable", "identical")
"""What behaves alike once it serves; either is to the other what `identical` is to `stable`."""


class LanguageTrials(ReleaseTrials):
    """A workspace whose one tenant has the language model."""

    @classmethod
    def trained(cls, checkout: Path, layout: Layout, speed: float, progress: Progress) -> "LanguageTrials":
        """Train the models where nobody has yet, and write the contracts; nothing is started. UserError without vLLM's environment."""
        artifacts = profile.train(programs(checkout), checkout, layout.cache, progress)
        workspace.make(checkout, layout.project, artifacts)
        return cls(layout, artifacts, speed, served=LANGUAGE, held_seconds=HELD_SECONDS)

    def up(self) -> bool:
        """Pods are given a minute, which is for Triton: what counts is that the proxies run, and then that the engine is ready."""
        if not super().up() and not Supervisor(self.layout).runs(envoy.NAME):
            return False
        try:
            language_demo.await_ready(self.layout)
        except UserError as error:
            demo.refused(error)
            return False
        return True

    def loads(self) -> SteadyLoad:
        return SteadyLoad(self.layout, self.artifacts, rates={LANGUAGE.model: RATE})
