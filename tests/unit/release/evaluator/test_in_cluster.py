"""The loops inside the cluster: they look at what the platform layer wrote, as their pod, by neither stack nor checkout."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from headway.cli import drift, evaluate
from headway.environment.kubernetes import KubernetesApi
from headway.ledger import location
from headway.problem import Exit, UserError
from headway.release.evaluator.in_cluster import evaluated_services, watched_services
from tests.drift_world import traffic
from tests.evaluation_world import evaluation
from tests.unit.release_kill import Shelf

FOUND: dict[str, Any] = {
    "environment": "prod",
    "region": "us-west-2",
    "cluster": {"artifact_bucket": "prod-artifacts", "ledger_bucket": "prod-ledger", "telemetry_bucket": "prod-telemetry"},
    "services": {"vision/embeddings": evaluation().model_dump(mode="json"), "assist/chat": evaluation(wrong="5%").model_dump(mode="json")},
    "watched": {"vision/defects": traffic().model_dump(mode="json")},
}


BROKEN: dict[str, Any] = {**FOUND, "services": {"a/b": {"wrong": "3%"}}, "watched": {"a/b": {"drift": {}}}}


@pytest.fixture
def written(tmp_path: Path) -> Callable[[Any], Path]:
    def write(document: Any) -> Path:
        file = tmp_path / "evaluation.json"
        file.write_text(document if isinstance(document, str) else json.dumps(document))
        return file

    return write


def test_every_service_of_the_file_is_asked_by_its_own_evaluation(written: Callable[[Any], Path]) -> None:
    chat, embeddings = evaluated_services(written(FOUND))
    assert (chat.chain, embeddings.chain) == ("assist/chat", "vision/embeddings")
    assert chat.evaluation() == evaluation(wrong="5%")
    assert embeddings.evaluation() == evaluation()


def test_samples_of_a_watched_service_are_where_the_platform_says(written: Callable[[Any], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []

    class Bucket:
        def __init__(self, _: Any, bucket: str, prefix: str) -> None:
            asked.append((bucket, prefix))

    monkeypatch.setattr("headway.environment.request_samples.SampleBucket", Bucket)
    monkeypatch.setattr("headway.ledger.s3_store.client", lambda: None)
    (defects,) = watched_services(written(FOUND))
    watched = defects.watched()
    assert watched == traffic()
    assert watched
    defects.port.request_samples(defects.tenant, defects.model, watched.retention)
    assert asked == [("prod-telemetry", "samples/90d/vision/defects/")]


def test_ledger_and_holdout_set_are_where_the_platform_says(written: Callable[[Any], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HEADWAY_LEDGER", raising=False)
    first, *_ = evaluated_services(written(FOUND))
    assert (first.environment, first.address, first.port.artifact_bucket) == ("prod", "s3://prod-ledger", "prod-artifacts")
    assert evaluation().holdout.located(first.port.artifact_bucket) == "s3://prod-artifacts/vision/holdout/1/set.jsonl"


def test_what_witnesses_the_ledger_is_asked_without_a_checkout(written: Callable[[Any], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(FOUND)
    monkeypatch.chdir(file.parent)
    monkeypatch.delenv("HEADWAY_LEDGER", raising=False)
    asked: list[tuple[str, str, str]] = []

    class Witness:
        def __init__(self, environment: str, region: str, ledger: str) -> None:
            asked.append((environment, region, ledger))

    def opened(_: str) -> Shelf:
        return Shelf()

    monkeypatch.setattr(location, "ParameterWitness", Witness)
    first, *_ = evaluated_services(file)
    monkeypatch.setattr(location, "opened", opened)
    first.ledger()
    assert isinstance(first.port.ledger_witness, Witness)
    assert asked == [("prod", "us-west-2", "s3://prod-ledger")]


def test_it_asks_the_api_server_as_its_pod(written: Callable[[Any], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    def init(_: KubernetesApi, kubeconfig: Any) -> None:
        made.append(kubeconfig)

    monkeypatch.setattr(KubernetesApi, "__init__", init)
    first, *_ = evaluated_services(written(FOUND))
    assert first.api is first.port.kubernetes
    assert made == [None]


@pytest.mark.parametrize("document", ["no json", {}, BROKEN, {**FOUND, "cluster": None}, []])
def test_a_file_that_no_platform_layer_wrote_is_refused(written: Callable[[Any], Path], document: Any) -> None:
    for read in (evaluated_services, watched_services):
        with pytest.raises(UserError) as refused:
            read(written(document))
        assert refused.value.exit is Exit.USAGE


def command(*words: str, function: Callable[..., None] = evaluate.evaluate) -> Result:
    app = typer.Typer()
    app.command()(function)
    return CliRunner().invoke(app, list(words))


def test_the_command_takes_nothing_back_in_the_cluster(written: Callable[[Any], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    acts: list[bool] = []

    def look(looking: Any, here: Any) -> Any:
        acts.append(looking._taker_of(here) is not None)
        raise UserError("a", "b", "c", Exit.ENVIRONMENT)

    monkeypatch.setattr(evaluate.Looking, "look", look)
    assert command("--in-cluster", str(written(FOUND))).exit_code == Exit.ENVIRONMENT
    assert acts == [False, False]


def test_the_command_asks_all_of_the_file_or_one_of_a_checkout(written: Callable[[Any], Path]) -> None:
    refused = command("vision/embeddings", "--in-cluster", str(written(FOUND)))
    assert "--in-cluster looks at every service of its file" in str(refused.exception)


def test_the_command_watches_all_of_the_file(written: Callable[[Any], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def look(_: Any, here: Any) -> Any:
        seen.append(here.chain)
        raise UserError("a", "b", "c", Exit.ENVIRONMENT)

    monkeypatch.setattr(drift.DriftLooking, "look", look)
    assert command("--in-cluster", str(written(FOUND)), function=drift.drift).exit_code == Exit.ENVIRONMENT
    assert seen == ["vision/defects"]


@pytest.mark.parametrize("words", [("vision/defects",), ("--anew", "why")])
def test_nothing_is_called_usual_from_inside_the_cluster(written: Callable[[Any], Path], words: tuple[str, ...]) -> None:
    refused = command(*words, "--in-cluster", str(written(FOUND)), function=drift.drift)
    assert isinstance(refused.exception, UserError)
    assert refused.exception.exit is Exit.USAGE


def test_a_file_in_which_nothing_is_watched_keeps_the_loop_waiting(written: Callable[[Any], Path]) -> None:
    assert command("--in-cluster", str(written({**FOUND, "watched": {}})), function=drift.drift).exit_code == Exit.OK
