"""A version that becomes worse while it serves, on real Triton: labelled requests prove it, and golden requests do not see it."""

import time
from datetime import UTC, datetime
from random import Random
from typing import Any

from headway.contract.evaluation import OnLoss
from headway.contract.released import release_id
from headway.ledger.chain import Ledger
from headway.release.driver.adoption import adopt
from headway.release.driver.event_kinds import ReleaseOutcome
from headway.release.driver.golden_answers import asked
from headway.release.evaluation.decision import ServedVersion
from headway.release.evaluation.holdout import HoldoutSet, labelled_requests
from headway.release.evaluation.standing import evaluation_chain
from headway.release.evaluator.asking import LabelledAnswers, ask_lines
from headway.release.evaluator.evaluator import EvaluationLook, Evaluator, LookResult
from sandbox.cluster import whole_file
from sandbox.rehearsal.bed import RehearsalBed
from sandbox.traffic import labelled_parts
from sandbox.traffic.pod_exec import executed
from sandbox.traffic.profile import STABLE
from tests.traffic.replicas import only_serving
from tests.traffic.serving import CLASSIFIER, Serving
from tests.unit.release_kill import Shelf

CHAIN = f"{CLASSIFIER.tenant}/{CLASSIFIER.model}"


class Watched:
    """The serving classifier, looked at by an evaluator whose ledger is in memory."""

    def __init__(self, serving: Serving) -> None:
        self.serving, self.store = serving, Shelf()
        model = serving.bed.model(CLASSIFIER, STABLE)
        self.releases = Ledger(self.store, CHAIN, "sandbox", "ci", lambda: datetime.now(UTC))
        adopt(self.releases, self.store, model.model_dump(mode="json"), release_id(model))
        assert model.evaluation
        self.evaluation = model.evaluation.model_copy(update={"on_loss": OnLoss.ASK})
        self.labelled = labelled_requests(labelled_parts.content(serving.bed.artifacts.golden("classifier")), self.evaluation)

    def run(self, pod: Any, arguments: Any, seconds: float) -> str:
        return executed(self.serving.bed.layout, pod, arguments, seconds)

    def ask(self, release: str, labelled: HoldoutSet, drawn: list[int]) -> LabelledAnswers:
        return ask_lines([only_serving(self.serving)], self.run, self.evaluation, labelled, drawn, Random(1))

    def take_back(self, version: ServedVersion, reason: str) -> ReleaseOutcome:
        raise AssertionError(reason)

    def rounds(self, most: int) -> LookResult:
        """So many rounds, or fewer where something is proven."""
        evaluator = Evaluator(
            rounds=Ledger(self.store, evaluation_chain(CHAIN), "sandbox", "ci", lambda: datetime.now(UTC)),
            releases=self.releases,
            evaluation=self.evaluation,
            holdout=lambda: self.labelled,
            ask=self.ask,
            take_back=self.take_back,
            chance=Random(3),
            now=lambda: datetime.now(UTC),
            speed=240.0,
        )
        found = evaluator.look()
        for _ in range(most - 1):
            if found.look is EvaluationLook.LOST:
                break
            time.sleep(found.wait + 0.01)
            found = evaluator.look()
        return found


def test_answers_that_become_wrong_while_it_serves_are_proven_and_told(serving: Serving) -> None:
    watched = Watched(serving)
    sound = watched.rounds(4)
    assert sound.look is EvaluationLook.ASKED
    assert sound.standing
    assert sound.standing.known_sound
    bed = RehearsalBed(serving.bed.layout)
    (path,) = bed.behaviours()
    kept = path.read_text()
    try:
        bed.confuse()
        lost = watched.rounds(15)
        golden = asked([only_serving(serving)], watched.run, 10.0)
    finally:
        whole_file.replace(path, kept)
    assert lost.look is EvaluationLook.LOST
    assert lost.standing
    assert lost.standing.answer
    assert "a person decide" in lost.standing.answer.reason
    assert (golden.mismatches, golden.pairs) == (0, 25)
