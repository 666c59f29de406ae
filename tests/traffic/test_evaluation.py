"""A version that becomes worse while it serves, on real Triton: labelled requests prove it, and golden requests do not see it."""

import hashlib
import json
import time
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

from headway.contract.evaluation import Evaluation
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
from sandbox.traffic.pod_exec import executed
from sandbox.traffic.profile import STABLE
from tests.traffic.replicas import only_serving
from tests.traffic.serving import CLASSIFIER, Serving
from tests.unit.release_kill import Shelf

CHAIN = f"{CLASSIFIER.tenant}/{CLASSIFIER.model}"
NOISE = 0.8
"""Around the centre of a kind: the release that serves has two in a hundred of such parts wrong."""


def holdout(serving: Serving) -> bytes:
    """Four hundred parts, each labelled with the kind around whose centre it was drawn."""
    chance, lines = Random(7), list[str]()
    kinds = [each["request"]["inputs"][0] for each in serving.bed.artifacts.golden("classifier")]
    for number in range(400):
        kind = number % len(kinds)
        features = [round(value + chance.gauss(0, NOISE), 4) for value in kinds[kind]["data"]]
        request = {"inputs": [{**kinds[kind], "data": features}]}
        lines.append(json.dumps({"request": request, "expect": {"compare": "top", "index": kind}}))
    return "\n".join(lines).encode()


class Watched:
    """The serving classifier, looked at by an evaluator whose ledger is in memory."""

    def __init__(self, serving: Serving) -> None:
        self.serving, self.store, content = serving, Shelf(), holdout(serving)
        model = serving.bed.model(CLASSIFIER, STABLE)
        self.releases = Ledger(self.store, CHAIN, "sandbox", "ci", lambda: datetime.now(UTC))
        adopt(self.releases, self.store, model.model_dump(mode="json"), release_id(model))
        pinned = {"uri": "artifacts://quality/holdout/1/", "path": "parts.jsonl", "size": f"{len(content)}B", "requests": 400}
        self.evaluation = Evaluation.model_validate(
            {
                "holdout": {**pinned, "sha256": hashlib.sha256(content).hexdigest()},
                "like": "kind-0",
                "wrong": "5%",
                "every": "1m",
                "on_loss": "ask",
            }
        )
        self.labelled = labelled_requests(content, self.evaluation)

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


def behave(serving: Serving, text: str) -> str:
    """Have the serving replica behave so from its next batch on; answers how it did before."""
    (path,) = RehearsalBed(serving.bed.layout).behaviours()
    before = Path(path).read_text()
    whole_file.replace(Path(path), text or before)
    return before


def test_answers_that_become_wrong_while_it_serves_are_proven_and_told(serving: Serving) -> None:
    watched = Watched(serving)
    sound = watched.rounds(4)
    assert sound.look is EvaluationLook.ASKED
    assert sound.standing
    assert sound.standing.known_sound
    kept = behave(serving, "")
    try:
        behave(serving, json.dumps({**json.loads(kept), "confused_below": 5.0}))
        lost = watched.rounds(15)
        golden = asked([only_serving(serving)], watched.run, 10.0)
    finally:
        behave(serving, kept)
    assert lost.look is EvaluationLook.LOST
    assert lost.standing
    assert lost.standing.answer
    assert "a person decide" in lost.standing.answer.reason
    assert (golden.mismatches, golden.pairs) == (0, 25)
