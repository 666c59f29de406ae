"""A version that was proven to answer worse after its promotion is released again by a person only, who says why."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from headway.cli.release_start import begun
from headway.contract.model import Model
from headway.problem import Exit, UserError
from headway.release import messages
from headway.release.driver.event_kinds import ReleaseOutcome
from headway.release.driver.start import StartOptions
from headway.release.evaluator.evaluator import EvaluationLook
from tests.evaluation_world import Bench, evaluation
from tests.unit.release.driver.test_release_start import Here, version
from tests.unit.release_kill import Shelf
from tests.unit.release_world import Scene, quickly_baked


class _Said:
    """A view that remembers."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, text: str) -> None:
        self.lines.append(text)


class Evaluated(Here):
    """A place whose users nobody counts."""

    def requests_a_second(self, arm: str, speed: float) -> float | None:
        return None


def start(bench: Bench, model: Model, options: StartOptions | None = None, *, supersede: bool = False) -> list[str]:
    """What `headway release start` of `model` says. Raises UserError."""
    here: Any = Evaluated(bench.scene, model)
    said: Any = _Said()
    begun(here, said, options or StartOptions(), supersede=supersede, guarded=True)
    return said.lines


@pytest.fixture
def bench() -> Bench:
    return Bench(Scene.of(Shelf(), quickly_baked(), mirror=None, weights=["10%"]))


def asked_until(bench: Bench, look: EvaluationLook) -> None:
    found = bench.evaluator().look().look
    while found in (EvaluationLook.ASKED, EvaluationLook.WAITING):
        bench.scene.world.clock += timedelta(minutes=10)
        found = bench.evaluator().look().look
    assert found is look


@pytest.fixture
def taken_back(bench: Bench) -> Bench:
    """The new version was promoted, was proven to answer worse, and the one before it serves again."""
    for _ in range(3):
        bench.evaluator().look()
        bench.scene.world.clock += timedelta(minutes=10)
    bench.scene.run()
    bench.wrong[bench.scene.release] = lambda _: 0.3
    asked_until(bench, EvaluationLook.BACK)
    return bench


def test_a_version_that_was_taken_back_is_not_released_again(taken_back: Bench) -> None:
    before = taken_back.scene.kinds()
    with pytest.raises(UserError) as refused:
        start(taken_back, taken_back.scene.new)
    assert refused.value.exit is Exit.REFUSED
    assert taken_back.scene.release in refused.value.fact
    assert taken_back.begun[0] in refused.value.fact
    assert "--overrule" in refused.value.remedy
    assert taken_back.scene.kinds() == before


def test_a_version_that_a_person_was_told_of_is_not_released_again(bench: Bench) -> None:
    bench.contract = evaluation(on_loss="ask")
    bench.wrong[bench.scene.stable] = lambda _: 0.3
    asked_until(bench, EvaluationLook.LOST)
    bench.scene.run()
    with pytest.raises(UserError, match="its contract has a person decide"):
        start(bench, bench.scene.old)


def test_it_is_refused_before_the_release_under_way_is_drained(taken_back: Bench) -> None:
    other = version(taken_back.scene, "2027.2.1")
    start(taken_back, other)
    before = taken_back.scene.kinds()
    with pytest.raises(UserError, match="labelled answers were wrong"):
        start(taken_back, taken_back.scene.new, supersede=True)
    assert taken_back.scene.kinds() == before


def test_another_version_is_released_after_it(taken_back: Bench) -> None:
    start(taken_back, version(taken_back.scene, "2027.2.1"))
    running = taken_back.scene.service().running
    assert running is not None and "overruled" not in running.body


def test_a_person_overrules_it_with_a_reason_that_the_ledger_keeps(taken_back: Bench) -> None:
    start(taken_back, taken_back.scene.new, StartOptions(reason="labels were wrong", overrule=True))
    begins = taken_back.scene.ledger().read()[-1]
    assert begins.body["reason"] == "labels were wrong"
    assert begins.body["overruled"] == taken_back.begun[0]
    assert f"A person overruled its evaluation: {taken_back.begun[0]}" in str(messages.said(begins))


def test_nobody_overrules_without_a_reason(taken_back: Bench) -> None:
    with pytest.raises(UserError, match="--overrule needs a reason") as refused:
        start(taken_back, taken_back.scene.new, StartOptions(reason=" ", overrule=True))
    assert refused.value.exit is Exit.USAGE


def test_a_version_that_corrected_labels_acquit_is_released_again(bench: Bench) -> None:
    bench.contract = evaluation(on_loss="ask")
    bench.wrong[bench.scene.stable] = lambda _: 0.3
    asked_until(bench, EvaluationLook.LOST)
    bench.wrong.clear()
    holdout = bench.contract.holdout.model_copy(update={"sha256": "7c" * 32})
    bench.contract = bench.contract.model_copy(update={"holdout": holdout})
    bench.scene.world.clock += timedelta(minutes=10)
    bench.evaluator().look()
    bench.scene.run()
    start(bench, bench.scene.old)
    running = bench.scene.service().running
    assert running is not None and running.release == bench.scene.stable


def test_no_version_that_another_set_accused_is_gone_back_to(taken_back: Bench) -> None:
    """The sound one by this set was accused by a later one, and this set is in the contract again."""
    scene = taken_back.scene
    later = evaluation(on_loss="ask", wrong="0.1%", slices=[])
    first, taken_back.contract = taken_back.contract, later
    taken_back.wrong[scene.stable] = lambda _: 0.3
    scene.world.clock += timedelta(minutes=10)
    asked_until(taken_back, EvaluationLook.LOST)
    newer = replace(scene, new=version(scene, "2027.2.1"))
    assert newer.run().outcome is ReleaseOutcome.PROMOTED
    taken_back.scene, taken_back.contract = newer, first
    taken_back.wrong = {newer.release: lambda _: 0.3}
    scene.world.clock += timedelta(minutes=10)
    asked_until(taken_back, EvaluationLook.LOST)
