"""Asking over HTTP: what is not a whole answer is none, and no secret leaves its file."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote_plus

import pytest

from headway.problem import UserError
from headway.release.evidence.prometheus import (
    Prometheus,
    PrometheusEndpoint,
    UnansweredError,
    _refuse_partial,  # pyright: ignore[reportPrivateUsage]
)
from headway.release.evidence.reader import PrometheusEvidence
from headway.release.evidence.reading import ArmNames, JudgedService, TickWindow
from tests.loopback import Handler, served

Answer = Callable[[Handler], None]
GOOD = {"status": "success", "data": {"resultType": "vector", "result": [{"metric": {"a": "b"}, "value": [1.0, "2.5"]}]}}


class Fake:
    """A server on loopback whose answer a test sets; keeps what it was asked."""

    def __init__(self) -> None:
        self.answer: Answer = says(GOOD)
        self.asked: list[dict[str, str]] = []
        self.query = ""
        self.url = ""


def says(body: Any, status: int = 200) -> Answer:
    return lambda handler: handler.reply(status, body)


@pytest.fixture(scope="module")
def running() -> Iterator[Fake]:
    fake = Fake()

    class Server(Handler):
        def do_POST(self) -> None:
            fake.query = unquote_plus(f"{self.path} {self.body().decode()}")
            fake.asked.append({name.lower(): value for name, value in self.headers.items()})
            fake.answer(self)

    with served(Server) as fake.url:
        yield fake


@pytest.fixture
def server(running: Fake) -> Fake:
    running.answer, running.asked = says(GOOD), []
    return running


def ask(server: Fake, **options: Any) -> Any:
    return Prometheus(PrometheusEndpoint(url=server.url), **options).samples("up", 5.0)


def test_a_whole_answer_is_read(server: Fake) -> None:
    assert [(dict(one.labels), list(one.samples)) for one in ask(server)] == [({"a": "b"}, [(1.0, 2.5)])]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (says({**GOOD, "warnings": ["store 3 did not answer"]}), "partial: store 3"),
        (says("<html>log in</html>"), "not JSON"),
        (says({"status": "error"}), "not say that it is a success"),
        (says({"status": "success", "data": {}}), "another shape"),
        (says({"status": "success", "data": {"result": [{"metric": {}, "value": [1, "x"]}]}}), "another shape"),
        (says("bad query", 400), "refused up"),
        (says("busy", 503), "refused up"),
    ],
)
def test_what_is_not_a_whole_answer_is_none(server: Fake, answer: Answer, why: str) -> None:
    server.answer = answer
    with pytest.raises(UnansweredError, match=why):
        ask(server)
    assert len(server.asked) == 1, "nothing is asked twice behind the back"


def test_an_answer_that_drips_is_given_up(server: Fake) -> None:
    def drip(handler: Handler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "100000")
        handler.end_headers()
        try:
            for _ in range(200):
                handler.wfile.write(b" ")
                handler.wfile.flush()
                time.sleep(0.02)
        except OSError:
            pass

    server.answer = drip
    with pytest.raises(UnansweredError, match=r"not complete within 0\.3 s"):
        ask(server, timeout_seconds=0.3)


def test_an_answer_that_is_too_large_is_given_up(server: Fake) -> None:
    server.answer = says("x" * 5000)
    with pytest.raises(UnansweredError, match="larger than 1000 bytes"):
        ask(server, largest=1000)


def test_nobody_there_is_no_answer() -> None:
    with pytest.raises(UnansweredError, match="did not answer"):
        Prometheus(PrometheusEndpoint(url="http://127.0.0.1:9")).samples("up", 5.0)


def test_a_token_is_read_anew_for_each_question_and_never_shown(server: Fake, tmp_path: Path) -> None:
    file = tmp_path / "token"
    source = Prometheus(PrometheusEndpoint(url=server.url, token_file=file))
    for token in ("first-secret", "second-secret"):
        file.write_text(f"{token}\n")
        source.samples("up", 5.0)
    assert [asked["authorization"] for asked in server.asked] == ["Bearer first-secret", "Bearer second-secret"]
    server.answer = says("no", 403)
    with pytest.raises(UnansweredError) as refused:
        source.samples("up", 5.0)
    assert "secret" not in str(refused.value)
    file.unlink()
    with pytest.raises(UnansweredError, match="cannot be read"):
        source.samples("up", 5.0)


@pytest.mark.parametrize(
    ("url", "token", "why"),
    [
        ("http://me:word@prometheus.example", None, "holds credentials"),
        ("prometheus:", None, "^prometheus: is no address"),
        ("me:word@prometheus", None, "^prometheus is no address"),
        ("http://prometheus.example:9090", Path("token"), "not encrypted"),
        ("prometheus:9090", None, "no address"),
    ],
)
def test_an_address_that_would_leak_a_secret_is_refused(url: str, token: Path | None, why: str) -> None:
    with pytest.raises(UserError, match=why) as refused:
        PrometheusEndpoint(url=url, token_file=token)
    assert "word" not in str(refused.value)


def test_a_reading_never_raises_for_a_source_that_is_down(server: Fake) -> None:
    server.answer = says({**GOOD, "warnings": ["partial"]})
    evidence = PrometheusEvidence([PrometheusEndpoint(url="http://127.0.0.1:9"), PrometheusEndpoint(url=server.url)])
    raw = evidence.read(JudgedService(tenant="t", model="m"), ArmNames(stable="m-r1"), TickWindow(0, 60))
    assert raw["answered"] is False
    assert "did not answer" in raw["reason"]
    assert "the answer is partial" in raw["reason"]


@pytest.mark.parametrize(("baseline", "control"), [(None, 0.4), ("m-b1", 0.3)])
def test_gpu_memory_is_read_of_the_new_version_and_of_its_control(server: Fake, baseline: str | None, control: float) -> None:
    """The largest share of each arm; of the control's arms the baseline, which is as large and as old as the new version."""
    used = {"m-r1-aaaaa-bbbbb": 0.4, "m-r1-aaaaa-ccccc": 0.2, "m-r2-aaaaa-bbbbb": 0.6, "m-r2-aaaaa-ccccc": 0.7, "m-b1-aaaaa-bbbbb": 0.3}
    shown = [{"metric": {"exported_pod": pod}, "value": [60.0, str(share)]} for pod, share in used.items()]

    def answer(handler: Handler) -> None:
        found = [one for one in shown if one["metric"]["exported_pod"][:4] in server.query] if "FB_USED" in server.query else []
        handler.reply(200, {"status": "success", "data": {"resultType": "vector", "result": found}})

    server.answer = answer
    arms = ArmNames(stable="m-r1", baseline=baseline, canary="m-r2")
    raw = PrometheusEvidence([PrometheusEndpoint(url=server.url)]).read(JudgedService(tenant="t", model="m"), arms, TickWindow(0, 60))
    assert (raw["answered"], raw["memory"], raw["control_memory"]) == (True, 0.7, control), raw["reason"]


def test_a_login_is_sent_as_basic_authentication_and_never_shown(server: Fake, tmp_path: Path) -> None:
    file = tmp_path / "login"
    file.write_text("reader:let me in\n")
    Prometheus(PrometheusEndpoint(url=server.url, login_file=file)).samples("up", 5.0)
    assert server.asked[-1]["authorization"] == "Basic cmVhZGVyOmxldCBtZSBpbg=="
    file.write_text("reader")
    with pytest.raises(UnansweredError, match="holds no user:password"):
        Prometheus(PrometheusEndpoint(url=server.url, login_file=file)).samples("up", 5.0)
    file.write_bytes(b"\xff\xfe:")
    with pytest.raises(UnansweredError, match="holds no text"):
        Prometheus(PrometheusEndpoint(url=server.url, login_file=file)).samples("up", 5.0)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"url": "http://[::1"}, "cannot be read"),
        ({"url": "http://host:99999"}, "cannot be read"),
        ({"url": "https://host", "token_file": Path("a"), "login_file": Path("b")}, "a token and a login"),
        ({"url": "http://host", "login_file": Path("b")}, "is not encrypted"),
        ({"url": "https://host", "ca_file": Path("/nowhere/ca.pem")}, "The certificates for https://host cannot be used"),
        ({"url": "https://host", "ca_file": Path(__file__)}, "The certificates for https://host cannot be used"),
        ({"url": "https://host", "certificate": (Path(__file__), Path(__file__))}, "The certificates for https://host cannot be used"),
    ],
)
def test_what_could_never_be_asked_is_refused_before_anything_begins(given: dict[str, Any], why: str) -> None:
    with pytest.raises(UserError, match=why):
        PrometheusEndpoint(**given)


@pytest.mark.parametrize(
    "body", [b"[" * 100_000, b'{"status":"success","a":1e999}', b"<html>", b"5", b"[]"], ids=lambda body: str(body)[:20]
)
def test_an_answer_that_no_prometheus_gives_is_none(body: bytes) -> None:
    with pytest.raises(UnansweredError):
        _refuse_partial(body)
