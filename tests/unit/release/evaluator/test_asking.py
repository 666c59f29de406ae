"""Labelled requests are judged by the script that each replica carries, and only by a set that is the contract's."""

import hashlib
import io
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from components.model_service import probing
from headway.contract.evaluation import Evaluation
from headway.environment.port import OutOfReachError
from headway.problem import Exit, UserError
from headway.release.driver.labelled import CHARACTERS_AT_MOST
from headway.release.evaluation.holdout import HoldoutSet, labelled_requests
from headway.release.evaluator.asking import ask_lines
from headway.release.evaluator.labelled_set import labelled_set
from headway.wire import SCRIPTS_FOLDER
from tests.evaluation_world import evaluation, lines
from tests.loopback import Handler, served

PROBE = Path(probing.__file__).parent / "scripts" / "probe.py"
PODS = [{"metadata": {"name": f"defects-r1-{name}"}} for name in "abc"]
GOLDEN = {"name": "scratch", "path": "/infer", "file": "golden/scratch.json", "answer": "/label", "expect": {"compare": "exact"}}
Runner = Callable[[Mapping[str, Any], Sequence[str], float], str]


class Echo(Handler):
    """Answers with a score for each of 60 kinds, largest at the input; one input is too much for it, and of two it is wrong."""

    def do_POST(self) -> None:
        (number,) = json.loads(self.body())["inputs"]
        scores = [0.0] * 60
        scores[(number + (number in (7, 8))) % 60] = 1.0
        self.reply(503 if number == 5 else 200, json.dumps({"outputs": [{"data": scores}]}))


@pytest.fixture
def replica(tmp_path: Path) -> Callable[[str], Runner]:
    def made(base: str) -> Runner:
        shutil.copy(PROBE, tmp_path / "probe.py")
        (tmp_path / "probe.json").write_text(json.dumps({"base": base, "golden": [{**GOLDEN, "timeout_seconds": 5}]}), encoding="utf-8")

        def run(pod: Mapping[str, Any], arguments: Sequence[str], seconds: float) -> str:
            words = [str(tmp_path) if word == SCRIPTS_FOLDER else word for word in arguments]
            done = subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=seconds, check=False)
            if done.returncode:
                raise OutOfReachError(done.stderr.strip())
            return done.stdout

        return run

    return made


def contract(**changed: Any) -> Evaluation:
    return evaluation(60, slices=[], answer="/outputs/0/data", **changed)


def holdout(document: Evaluation) -> HoldoutSet:
    return labelled_requests("\n".join(map(json.dumps, lines(60))).encode(), document)


def test_an_answer_counts_as_right_or_wrong_and_silence_as_neither(replica: Callable[[str], Runner]) -> None:
    with served(Echo) as base:
        found = ask_lines(PODS, replica(base), contract(), holdout(contract()), [5, 6, 7, 6, 8], Random(1))
    assert (list(found.right), found.silent) == ([(6, True), (7, False), (6, True), (8, False)], 1)


def test_a_release_without_that_golden_request_cannot_be_asked(replica: Callable[[str], Runner]) -> None:
    document = contract(like="other")
    with served(Echo) as base, pytest.raises(OutOfReachError, match="has no golden request other"):
        ask_lines(PODS, replica(base), document, holdout(document), [1], Random(1))


@pytest.mark.parametrize("said", [[60, "right"], [-1, "right"], [1, "right"]], ids=["beyond", "from the end", "twice"])
def test_a_replica_that_answers_what_it_was_not_asked_is_not_believed(said: Any) -> None:
    told = "\n".join(map(json.dumps, [[1, "right"], said]))
    with pytest.raises(OutOfReachError, match="not asked"):
        ask_lines(PODS, lambda *_: told, contract(), holdout(contract()), [1, 2], Random(1))


def test_without_a_ready_replica_nobody_is_asked(replica: Callable[[str], Runner]) -> None:
    with pytest.raises(OutOfReachError, match="no replica that is ready"):
        ask_lines([], replica(""), contract(), holdout(contract()), [1], Random(1))


def test_many_lines_go_to_several_replicas_in_calls_that_an_address_can_hold() -> None:
    calls: list[tuple[str, str]] = []

    def run(pod: Mapping[str, Any], arguments: Sequence[str], seconds: float) -> str:
        calls.append((pod["metadata"]["name"], arguments[-1]))
        return "\n".join(json.dumps([number, "right"]) for number, _ in json.loads(arguments[-1]))

    drawn = list(range(60)) * 20
    found = ask_lines(PODS, run, contract(), holdout(contract()), drawn, Random(1))
    assert [number for number, _ in found.right] == drawn
    assert max(len(part) for _, part in calls) <= CHARACTERS_AT_MOST
    assert len({pod for pod, _ in calls}) > 1


class Storage:
    """An environment that has one object."""

    artifact_bucket = "artifacts"

    def __init__(self, body: bytes = b"", failure: Exception | None = None) -> None:
        self.body, self.failure = body, failure

    def object_store(self) -> Any:
        return self

    def get_object(self, Bucket: str, Key: str) -> dict[str, Any]:  # noqa: N803  as S3 has it
        if self.failure:
            raise self.failure
        assert (Bucket, Key) == ("artifacts", "vision/holdout/1/set.jsonl")
        return {"Body": io.BytesIO(self.body)}


def pinned(body: bytes, **changed: Any) -> Evaluation:
    found = contract().model_dump(mode="json")
    digest = {"sha256": hashlib.sha256(body).hexdigest(), "size": f"{len(body)}B", **changed}
    return Evaluation.model_validate({**found, "holdout": {**found["holdout"], **digest}})


BODY = "\n".join(map(json.dumps, lines(60))).encode()
ANY: Any = Storage


def test_the_set_is_brought_from_the_artifact_bucket_and_proven() -> None:
    found = labelled_set(ANY(BODY), pinned(BODY))
    assert (len(found.lines), found.sha256) == (60, hashlib.sha256(BODY).hexdigest())


@pytest.mark.parametrize("changed", [{"sha256": "0" * 64}, {"size": "1B"}], ids=["digest", "size"])
def test_a_file_that_is_not_the_contracts_is_never_asked(changed: dict[str, str]) -> None:
    with pytest.raises(UserError, match="is not the holdout set of the contract") as refusal:
        labelled_set(ANY(BODY), pinned(BODY, **changed))
    assert refusal.value.exit is Exit.REFUSED


def test_a_set_that_is_not_there_is_said_with_its_address() -> None:
    missing = ClientError({"Error": {"Code": "NoSuchKey"}}, "GetObject")
    with pytest.raises(UserError, match=r"s3://artifacts/vision/holdout/1/set\.jsonl cannot be read \(NoSuchKey\)"):
        labelled_set(ANY(failure=missing), pinned(BODY))


def test_storage_that_does_not_answer_says_nothing_of_the_set() -> None:
    with pytest.raises(OutOfReachError):
        labelled_set(ANY(failure=EndpointConnectionError(endpoint_url="x")), pinned(BODY))
