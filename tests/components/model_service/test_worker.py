"""The batch worker, run as its container runs it: a process between a queue, a store and a model server that can
refuse, stall or lie.

Queue and store check every signature with botocore.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from botocore.auth import S3SigV4Auth, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from tests.loopback import Handler, served

SCRIPTS = Path(__file__).parents[3] / "components" / "model_service" / "scripts"
KEYS = Credentials("AKIDEXAMPLE", "not-a-real-secret", "session-token")
GOLDEN = {
    "name": "one",
    "path": "/predict",
    "body": {"x": 0},
    "answer": "/y",
    "timeout_seconds": 2,
    "expect": {"compare": "exact", "value": 0},
}
DEADLINE_SECONDS = 30


@dataclass
class World:
    """A queue, a store and a server. `answers` of the server come by the value of x: a status, or seconds to wait
    before 200.
    """

    url: str = ""
    sent: int = 0
    waiting: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    taken: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    deleted: list[str] = field(default_factory=list[str])
    given_back: dict[str, int] = field(default_factory=dict[str, int])
    stored: dict[str, bytes] = field(default_factory=dict[str, bytes])
    asked: list[Any] = field(default_factory=list[Any])
    statuses: dict[int, int] = field(default_factory=dict[int, int])
    delays: dict[int, float] = field(default_factory=dict[int, float])
    golden: int = 0
    unsigned: list[str] = field(default_factory=list[str])

    def send(self, *bodies: Any) -> None:
        for body in bodies:
            text = body if isinstance(body, str) else json.dumps(body)
            self.waiting.append({"MessageId": f"m{self.sent}", "ReceiptHandle": f"h{self.sent}", "Body": text})
            self.sent += 1

    def answer(self, name: str) -> Any:
        return json.loads(self.stored[f"/example-batch/vision/answers/{name}.json"])

    def queue(self, action: str, fields: Any) -> Any:
        if action == "ReceiveMessage":
            if not self.waiting:
                time.sleep(0.05)
            messages, self.waiting = self.waiting[: fields["MaxNumberOfMessages"]], self.waiting[fields["MaxNumberOfMessages"] :]
            self.taken |= {m["ReceiptHandle"]: m for m in messages}
            return {"Messages": [{**m, "Attributes": {"ApproximateReceiveCount": "2"}} for m in messages]}
        if action == "DeleteMessage":
            self.deleted.append(fields["ReceiptHandle"])
        if action == "ChangeMessageVisibility":
            self.given_back[fields["ReceiptHandle"]] = fields["VisibilityTimeout"]
        return {}


@pytest.fixture
def world() -> Iterator[World]:
    found = World()

    class Services(Handler):
        def do_POST(self) -> None:
            body = self.body()
            if self.path == "/predict":
                x = json.loads(body)["x"]
                found.asked.append(x)
                time.sleep(found.delays.get(x, 0))
                return self.reply(found.statuses.get(x, 200), {"y": found.golden if x == 0 else x * 2})
            self.check("sqs", body)
            action = self.headers["x-amz-target"].removeprefix("AmazonSQS.")
            return self.reply(200, found.queue(action, json.loads(body)))

        def do_PUT(self) -> None:
            body = self.body()
            self.check("s3", body)
            found.stored[self.path] = body
            self.reply(200)

        def do_GET(self) -> None:
            self.check("s3", b"")
            data = found.stored.get(self.path)
            self.reply(200 if data is not None else 404, data or b"")

        def check(self, service: str, body: bytes) -> None:
            claimed = self.headers["authorization"].partition("SignedHeaders=")[2].partition(",")[0].split(";")
            headers = {name: self.headers[name] for name in claimed if name != "host"}
            request = AWSRequest(self.command, found.url + self.path, headers=headers, data=body)
            request.context["timestamp"] = self.headers["x-amz-date"]
            signer = (S3SigV4Auth if service == "s3" else SigV4Auth)(KEYS, service, "us-west-2")
            signature = signer.signature(signer.string_to_sign(request, signer.canonical_request(request)), request)
            if not self.headers["authorization"].endswith(f"Signature={signature}"):
                found.unsigned.append(f"{self.command} {self.path}")

    with served(Services) as found.url:
        yield found


@contextmanager
def working(world: World, tmp_path: Path, **changes: Any) -> Generator[subprocess.Popen[str]]:
    config = {
        "region": "us-west-2",
        "queue_url": "https://sqs.us-west-2.amazonaws.com/111122223333/q",
        "store": "s3://example-batch/vision/",
        "base": world.url,
        "release": "r1",
        "golden": GOLDEN,
        "path": "/predict",
        "paths": {"m": "/predict"},
        "path_by_key": {},
        "defaults": {},
        "at_once": 3,
        "timeout_seconds": 5,
        "message_seconds": 20,
        "grace_seconds": 1,
        "check_seconds": 60,
        "pause_seconds": 0.1,
    }
    (tmp_path / "worker.json").write_text(json.dumps({**config, **changes}))
    environment = {
        "HEADWAY_SCRIPTS": str(SCRIPTS),
        "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE",
        "AWS_SECRET_ACCESS_KEY": "not-a-real-secret",
        "AWS_SESSION_TOKEN": "session-token",
        "AWS_ENDPOINT_URL_SQS": world.url,
        "AWS_ENDPOINT_URL_S3": world.url,
        "PATH": os.environ["PATH"],
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    command = [sys.executable, "-I", str(SCRIPTS / "worker.py"), str(tmp_path / "worker.json")]
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def eventually(holds: Callable[[], Any]) -> None:
    end = time.monotonic() + DEADLINE_SECONDS
    while not holds():
        assert time.monotonic() < end, "it never came to pass"
        time.sleep(0.02)


def test_every_message_gets_its_answer_in_the_store_and_is_then_forgotten(world: World, tmp_path: Path) -> None:
    world.stored["/example-batch/vision/requests/large.json"] = b'{"x": 4}'
    world.send({"id": "a", "request": {"x": 3}}, {"id": "b", "file": "large.json"}, {"id": "c", "model": "m", "request": {"x": 5}})
    with working(world, tmp_path):
        eventually(lambda: len(world.deleted) == 3)
    assert [world.answer(name)["answer"] for name in ("a", "b", "c")] == [{"y": 6}, {"y": 8}, {"y": 10}]
    assert world.answer("a") == {"id": "a", "release": "r1", "status": 200, "answer": {"y": 6}}
    assert sorted(world.deleted) == ["h0", "h1", "h2"]
    assert world.unsigned == []


def test_no_message_is_taken_before_the_server_answers_rightly(world: World, tmp_path: Path) -> None:
    world.golden = 7
    world.send({"id": "a", "request": {"x": 3}})
    with working(world, tmp_path):
        eventually(lambda: world.asked.count(0) >= 3)
        assert world.taken == {}
        world.golden = 0
        eventually(lambda: world.deleted == ["h0"])


def test_final_refusals_are_answered_and_passing_faults_go_back_to_the_queue(world: World, tmp_path: Path) -> None:
    world.statuses |= {1: 400, 2: 503, 3: 429, 4: 500}
    world.send(*({"id": f"n{x}", "request": {"x": x}} for x in (1, 2, 3, 4)))
    with working(world, tmp_path):
        eventually(lambda: len(world.given_back) == 3 and world.deleted)
    assert world.answer("n1")["status"] == 400
    assert world.deleted == ["h0"]
    assert world.given_back == {"h1": 20, "h2": 20, "h3": 20}, "twice 15 s for the second attempt, but never beyond the message's own time"


@pytest.mark.parametrize(
    ("message", "why"),
    [
        ("no JSON", "it is no JSON object with an id"),
        ("[]", "it is no JSON object with an id"),
        ({"id": "../other-tenant", "request": {"x": 1}}, "its id is no name"),
        ({"id": "a"}, "a must hold either request or file"),
        ({"id": "a", "request": {"x": 1}, "file": "b"}, "a must hold either request or file"),
        ({"id": "a", "file": "../../secrets"}, "a names a file that is no plain name"),
        ({"id": "a", "file": "gone.json"}, "s3 answered 404"),
        ({"id": "a", "model": "other", "request": {}}, "a asks model 'other'"),
        ({"id": "a", "request": [1]}, "the request of a is no JSON object"),
        ({"id": "a", "model": ["x"], "request": {}}, "a asks model"),
        ({"id": "a", "model": {}, "request": {}}, "a asks model"),
        ("[" * 100_000, "it is no JSON object with an id"),
        ('{"id":"a","request":' + '{"a":' * 900 + "1" + "}" * 900 + "}", ""),
        ("5", "it is no JSON object with an id"),
    ],
)
def test_a_message_that_says_it_wrongly_goes_back_and_stops_nothing(world: World, tmp_path: Path, message: Any, why: str) -> None:
    world.send(message, {"id": "good", "request": {"x": 2}})
    with working(world, tmp_path) as process:
        eventually(lambda: "h0" in world.given_back and world.deleted == ["h1"])
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=DEADLINE_SECONDS)
    assert f"message m0 goes back: {why}" in said
    assert "Traceback" not in said


def test_a_worker_takes_no_more_than_its_server_takes_at_once(world: World, tmp_path: Path) -> None:
    world.delays |= dict.fromkeys(range(1, 9), 0.3)
    world.send(*({"id": f"n{x}", "request": {"x": x}} for x in range(1, 9)))
    most = 0
    with working(world, tmp_path, at_once=3):
        while len(world.deleted) < 8:
            most = max(most, len(world.taken) - len(world.deleted))
            time.sleep(0.02)
    assert most == 3


def test_a_stopping_worker_finishes_what_it_can_and_returns_the_rest(world: World, tmp_path: Path) -> None:
    world.delays |= {1: 0.5, 2: 60.0}
    world.send({"id": "short", "request": {"x": 1}}, {"id": "long", "request": {"x": 2}})
    with working(world, tmp_path, timeout_seconds=90, grace_seconds=4) as process:
        eventually(lambda: {1, 2} <= set(world.asked))
        process.send_signal(signal.SIGTERM)
        world.send({"id": "late", "request": {"x": 3}})
        said, _ = process.communicate(timeout=DEADLINE_SECONDS)
    assert process.returncode == 0
    assert world.deleted == ["h0"]
    assert world.given_back in ({"h1": 0}, {"h1": 0, "h2": 0}), "and what a poll under way still brings"
    assert 3 not in world.asked
    assert said.endswith("stopped\n")


def test_no_line_of_the_log_holds_a_request_or_an_answer(world: World, tmp_path: Path) -> None:
    world.statuses[3] = 400
    world.send(
        {"id": "a", "request": {"x": 3, "prompt": "marked-prompt"}}, "marked-prompt", {"id": "b", "request": {"x": 2, "p": "marked-prompt"}}
    )
    with working(world, tmp_path) as process:
        eventually(lambda: len(world.deleted) == 2 and world.given_back)
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=DEADLINE_SECONDS)
    assert "marked-prompt" not in said
