"""A holdout set and a version that answers it, in memory."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from headway.contract.evaluation import Evaluation
from headway.environment.port import OutOfReachError
from headway.ledger.chain import Ledger
from headway.ledger.serving import released
from headway.release.driver.event_kinds import ReleaseOutcome
from headway.release.driver.start import StartOptions, begin
from headway.release.evaluation.decision import ServedVersion
from headway.release.evaluation.holdout import HoldoutSet, labelled_requests
from headway.release.evaluation.standing import evaluation_chain
from headway.release.evaluator.asking import LabelledAnswers
from headway.release.evaluator.evaluator import Evaluator
from headway.release.evaluator.way_back import way_back
from tests.unit.release_world import CHAIN, ROOM, UNASKED, Scene

SHA256 = "5e" * 32


def lines(count: int) -> list[dict[str, Any]]:
    """Labelled requests; every third belongs to the slice `night`."""
    return [
        {
            "request": {"inputs": [number]},
            "expect": {"compare": "top", "index": number},
            "slices": ["night"] if number % 3 == 0 else [],
        }
        for number in range(count)
    ]


def evaluation(requests: int = 60, **changed: Any) -> Evaluation:
    document: dict[str, Any] = {
        "holdout": {"uri": "artifacts://vision/holdout/1/", "path": "set.jsonl", "sha256": SHA256, "size": "1Ki", "requests": requests},
        "like": "scratch",
        "wrong": "3%",
        "slices": [{"name": "night", "wrong": "10%"}],
        "every": "10m",
        "requests": 40,
        "on_loss": "roll_back",
    }
    return Evaluation.model_validate({**document, **changed})


@dataclass
class Bench:
    """A scene whose serving version answers labelled requests: `wrong` says of a release which share of its answers, by whether the
    line belongs to the slice."""

    scene: Scene
    contract: Evaluation = field(default_factory=evaluation)
    wrong: dict[str, Callable[[bool], float]] = field(default_factory=dict[str, Callable[[bool], float]])
    reachable: bool = True
    asked: list[str] = field(default_factory=list[str])
    begun: list[str] = field(default_factory=list[str])
    """Why versions were taken back."""
    dies: bool = False
    """Whether the runner ends as soon as the way back has begun."""
    meanwhile: Callable[[], object] | None = None
    """What happens once while labelled requests are asked."""
    seed: int = 1

    def rounds(self) -> Ledger:
        return Ledger(self.scene.store, evaluation_chain(CHAIN), "sandbox", "ci", self.scene.world.now, self.scene.witness)

    def evaluator(self, *, holdout: Callable[[], HoldoutSet] | None = None, acts: bool = True) -> Evaluator:
        self.seed += 1
        return Evaluator(
            rounds=self.rounds(),
            releases=self.scene.ledger(),
            evaluation=self.contract,
            holdout=holdout or self._set,
            ask=self._ask,
            take_back=self._take_back if acts else None,
            chance=Random(self.seed),
            now=self.scene.world.now,
        )

    def _set(self) -> HoldoutSet:
        return labelled_requests("\n".join(map(json.dumps, lines(self.contract.holdout.requests))).encode(), self.contract)

    def _ask(self, release: str, holdout: HoldoutSet, drawn: list[int]) -> LabelledAnswers:
        if not self.reachable:
            raise OutOfReachError("nobody answers")
        self.asked.append(release)
        if happens := self.meanwhile:
            self.meanwhile = None
            happens()
        chance, share = Random(self.seed * 1000 + len(self.asked)), self.wrong.get(release, lambda _: 0.01)
        return LabelledAnswers(right=[(n, chance.random() >= share("night" in holdout.lines[n].slices)) for n in drawn], silent=0)

    def _take_back(self, version: ServedVersion, reason: str) -> ReleaseOutcome:
        self.begun.append(reason)
        service = self.scene.service()
        if service.running is None:
            sound = released(self.scene.store, CHAIN, version.digest)
            begin(self.scene.ledger(), self.scene.store, way_back(sound), ROOM, StartOptions(reason=reason), UNASKED)
        if self.dies:
            raise KeyboardInterrupt
        outcome = self.scene.driver().run().outcome
        assert outcome is not None
        return outcome
