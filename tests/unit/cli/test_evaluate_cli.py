"""`headway evaluate`: one line or one object a look, its exit code, and a loop that goes on where something does not answer."""

import json
import re
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from headway.cli import evaluate
from headway.environment.port import OutOfReachError
from headway.problem import Exit
from headway.release.evaluator.evaluator import EvaluationLook, Evaluator, LookResult
from headway.release.evaluator.serving import EvaluationPulse
from headway.release.evaluator.words import said
from headway.release.service_place import ServicePlace
from tests.evaluation_world import Bench, evaluation
from tests.unit.cli.conftest import PROJECT, Command
from tests.unit.release_world import CHAIN, Scene


@pytest.fixture
def bench(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """A service in memory in place of every environment's."""
    made = Bench(scene, evaluation(on_loss="ask"))

    def evaluator(looking: Any, here: Any) -> Evaluator:
        return made.evaluator()

    monkeypatch.setattr(evaluate.Looking, "_evaluator", evaluator)
    return made


@pytest.fixture
def command(command_of: Callable[[Any], Command]) -> Command:
    return command_of(evaluate.evaluate)


def lost(bench: Bench) -> None:
    """The serving version answers worse, and a person was told so."""
    bench.wrong[bench.scene.stable] = lambda _: 0.3
    while bench.evaluator().look().look is not EvaluationLook.LOST:
        bench.scene.world.clock += timedelta(minutes=10)


def test_a_round_is_told_in_one_line_with_its_counts(bench: Bench, command: Command) -> None:
    answer = command(CHAIN)
    assert answer.exit_code == Exit.OK
    told = (
        rf"{CHAIN}: {bench.scene.stable} was asked\. 0 of 40 labelled answers were wrong, 3 % may be; evidence against it 0\.\d+ of 100\.\n"
    )
    assert re.fullmatch(told, answer.stdout)


def test_programs_get_an_object_with_what_was_found_and_what_follows(bench: Bench, command: Command) -> None:
    lost(bench)
    answer = command(CHAIN, "--output", "json")
    found = json.loads(answer.stdout)
    assert answer.exit_code == Exit.REFUSED
    assert (found["service"], found["look"], found["release"]) == (CHAIN, "loss proven", bench.scene.stable)
    assert found["evidence"] >= 100
    assert found["answers"]["all"]["wrong"] > found["answers"]["all"]["asked"] * 0.03
    assert found["loss"] == {"to": None, "reason": found["loss"]["reason"], "outcome": ""}


def test_a_service_whose_contract_asks_nothing_is_refused_with_the_section(command: Command) -> None:
    answer = command(CHAIN)
    assert answer.exit_code == 1
    assert "does not say what its serving version is asked" in str(answer.exception)


def test_without_a_service_every_one_with_the_section_is_asked(bench: Bench, command: Command) -> None:
    answer = command()
    assert answer.exit_code == Exit.OK
    assert answer.stdout.startswith("vision/embeddings: ")
    assert len(answer.stdout.splitlines()) == 1


def test_one_of_several_that_does_not_answer_is_said_and_counts(bench: Bench, command: Command) -> None:
    bench.reachable = False
    answer = command()
    assert answer.exit_code == Exit.ENVIRONMENT
    assert "vision/embeddings: nobody answers" in answer.stderr


def test_a_person_is_told_of_a_loss_by_webhook_once(bench: Bench, command: Command, posted: list[dict[str, Any]]) -> None:
    bench.wrong[bench.scene.stable] = lambda _: 0.3
    while command(CHAIN, "--notify", "https://chat.example.com/x").exit_code == Exit.OK:
        bench.scene.world.clock += timedelta(minutes=10)
    command(CHAIN, "--notify", "https://chat.example.com/x")
    (message,) = posted
    assert message["service"] == CHAIN
    assert message["status"] == "loss proven"
    assert "a person decides" in message["text"]


class StoppedError(Exception):
    """The test has seen enough."""


def test_the_loop_goes_on_where_something_does_not_answer(bench: Bench, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.reachable = False
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        monkeypatch.setattr(time, "monotonic", lambda: 1e6 * len(slept))
        bench.reachable = True
        if len(slept) == 2:
            raise StoppedError

    monkeypatch.setattr(time, "sleep", sleep)
    answer = command(CHAIN, "--watch")
    assert isinstance(answer.exception, StoppedError)
    assert f"{CHAIN}: nobody answers" in answer.stderr
    assert answer.stdout.startswith(f"{CHAIN}: {bench.scene.stable} was asked.")


def moments(bench: Bench, chain: str) -> Callable[[float, bool], float]:
    """A pulse that looks `chain` at a time, well or not; answers when it was last looked at well."""
    moment = [0.0]
    pulse = EvaluationPulse(lambda: moment[0], 100.0, lambda: 1000.0 + moment[0])
    pulse.watches((chain,))

    def at(seconds: float, well: bool) -> float:
        moment[0] = seconds
        pulse.watches((chain,))
        pulse.looked(chain, bench.evaluator().look()) if well else pulse.failed()
        found = re.search(r"headway_evaluation_last_look_timestamp_seconds\{.* (\S+)", pulse.text())
        assert found
        return float(found[1])

    return at


def test_metrics_say_of_each_service_how_its_version_stands(bench: Bench) -> None:
    lost(bench)
    moment = [0.0]
    pulse = EvaluationPulse(lambda: moment[0], 100.0, lambda: 0.0)
    pulse.watches((CHAIN,))
    pulse.looked(CHAIN, bench.evaluator().look())
    text = pulse.text()
    assert 'headway_evaluation_loss{model="defects",tenant="vision"} 1.0' in text
    assert 'headway_evaluation_wrong{model="defects",slice="night",tenant="vision"}' in text
    assert 'headway_evaluation_last_round_timestamp_seconds{model="defects",tenant="vision"}' in text
    moment[0] = 99.0
    assert pulse.well
    moment[0] = 100.0
    assert not pulse.well
    pulse.failed()
    assert pulse.well, "what is asked does not answer, and the loop goes on asking"


def test_metrics_say_when_somebody_last_looked_and_failures_do_not_count(bench: Bench) -> None:
    at = moments(bench, CHAIN)
    assert at(60.0, False) == 0.0, "since the loop began, nobody has"
    assert at(120.0, True) == 1120.0
    assert at(180.0, False) == 1120.0


def test_a_service_that_is_no_longer_asked_leaves_no_metrics(bench: Bench) -> None:
    pulse = EvaluationPulse(lambda: 0.0, 100.0, lambda: 0.0)
    pulse.watches((CHAIN,))
    pulse.looked(CHAIN, bench.evaluator().look())
    assert CHAIN.partition("/")[2] in pulse.text()
    pulse.watches(())
    assert CHAIN.partition("/")[2] not in pulse.text()


@pytest.mark.parametrize("look", EvaluationLook)
def test_every_look_is_said_with_the_release_it_is_about(look: EvaluationLook) -> None:
    assert "r123" in said(LookResult(look=look, release="r123"))


def test_a_replica_that_is_simulated_is_never_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    here: Any = ServicePlace(project=PROJECT, environment="sandbox", tenant="vision", model="defects")

    class Pretence:
        def simulated(self, release: str) -> bool:
            return True

    monkeypatch.setitem(here.__dict__, "cluster", Pretence())
    with pytest.raises(OutOfReachError, match="simulated"):
        here.ask_labelled("r1", evaluation(), None, [1], None)


def shown_loss(stored: Scene) -> None:
    asked = Bench(stored, evaluation(on_loss="ask"))
    asked.wrong[stored.release] = lambda _: 0.3
    while asked.evaluator().look().look is not EvaluationLook.LOST:
        stored.world.clock += timedelta(minutes=10)


def test_status_says_how_what_serves_answers_and_that_a_person_decides(stored: Scene, read: Command) -> None:
    shown_loss(stored)
    said_of_it = " ".join(read("status").stdout.split())
    assert "labelled answers were wrong, 3 % may be" in said_of_it
    assert "no version" not in said_of_it
    assert "its contract has a person decide" in said_of_it
    assert re.search(r" ago\. \d+ of", said_of_it)
    found = json.loads(read("status", "--output", "json").stdout)[CHAIN]["evaluation"]
    assert found["loss"]["to"] is None
    assert found["evidence"] >= 100


def test_the_report_of_a_release_shows_what_it_answered_afterwards(stored: Scene, read: Command) -> None:
    assert "After the promotion" not in read("report").stdout
    shown_loss(stored)
    page = read("report").stdout
    assert "After the promotion" in page
    assert "its contract has a person decide" in page
    assert "<th>night</th>" in page


def test_a_chain_of_evaluations_that_was_altered_is_found_by_verify(stored: Scene, read: Command, tmp_path: Path) -> None:
    shown_loss(stored)
    assert "evaluations" not in read("verify").stdout
    event = tmp_path / "ledger" / CHAIN / "evaluation" / "events" / "00000001.json"
    event.chmod(0o644)
    event.write_bytes(event.read_bytes().replace(b'"silent":0', b'"silent":1'))
    answer = read("verify")
    assert answer.exit_code == Exit.REFUSED
    assert "evaluations: " in answer.stdout
