"""Servers that answer without end, byte by byte, or with what unpacks to far more: each client of ours gives up, in its own words, soon."""

import gzip
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from headway.environment import api_answer, loki
from headway.environment.container_logs import LogQuery
from headway.environment.kubernetes import KubernetesApi
from headway.environment.port import OutOfReachError
from headway.listening import listening, pages
from headway.model_registry import mlflow
from headway.problem import UserError
from headway.registry_mirror import charts, client
from headway.registry_mirror.client import RegistryClient
from headway.release.evidence.prometheus import Prometheus, PrometheusEndpoint, UnansweredError
from tests.fuzz.of_pods import fetch, probe, script, worker
from tests.loopback import Handler, served

SECONDS, MOST = 0.4, 2**20
BOMB = gzip.compress(bytes(64 * MOST), 1)
CONTEXT = {"name": "one", "context": {"cluster": "one", "user": "ci"}}
QUERY = LogQuery(tenant="vision", since=datetime(2026, 1, 1, tzinfo=UTC), most=10)


class Endless(Handler):
    """A body of zeros, as fast as they are taken."""

    def do_GET(self) -> None:
        self.answer()

    def do_POST(self) -> None:
        self.body()
        self.answer()

    def answer(self) -> None:
        self.begin()
        with suppress(OSError):
            while True:
                self.wfile.write(bytes(2**16))

    def begin(self, *headers: tuple[str, str]) -> None:
        self.send_response(200)
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()


class Dripping(Endless):
    """A byte now and then, always before a timeout between two of them is over."""

    def answer(self) -> None:
        self.begin(("Content-Length", "1000000"))
        self.drip()

    def drip(self) -> None:
        with suppress(OSError):
            for _ in range(600):
                self.wfile.write(b" ")
                time.sleep(SECONDS / 8)


class DrippingHeaders(Dripping):
    """The same, before its headers have ended."""

    def answer(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\nX-One:")
        self.drip()


class Bomb(Endless):
    """Zeros, packed: sixty times as many as may be."""

    def answer(self) -> None:
        self.begin(("Content-Encoding", "gzip"), ("Content-Length", str(len(BOMB))))
        with suppress(OSError):
            self.wfile.write(BOMB)


def api(address: str, _: Path) -> None:
    user = {"name": "ci", "user": {"token": "secret"}}
    found = KubernetesApi(
        {"current-context": "one", "contexts": [CONTEXT], "clusters": [{"name": "one", "cluster": {"server": address}}], "users": [user]}
    )
    found.answer("GET", "/api/v1/pods", seconds=SECONDS, largest=MOST)


def registered(address: str, _: Path) -> None:
    mlflow.MlflowRegistry(address).find("defects", "1")


def logs(address: str, _: Path) -> None:
    loki.LokiReader(address, QUERY).read()


def manifest(address: str, _: Path) -> None:
    RegistryClient(address.removeprefix("http://")).manifest("a/b", "1")


def blob(address: str, folder: Path) -> None:
    RegistryClient(address.removeprefix("http://")).fetch_blob("a/b", "sha256:" + "a" * 64, MOST, folder / "blob", lambda _: None)


def chart(address: str, _: Path) -> None:
    charts.package_of({"chart": "a", "version": "1", "repository": address, "digest": None}, None)


def metrics(address: str, _: Path) -> None:
    source = Prometheus(PrometheusEndpoint(url=address), SECONDS, MOST)
    try:
        source.samples("up", None)
    finally:
        source.close()


def golden(address: str, _: Path) -> None:
    probe.exchange(address, {"path": "/x", "timeout_seconds": SECONDS})


def asked(address: str, _: Path) -> None:
    worker.ask({"base": address, "timeout_seconds": SECONDS}, "/x", b"{}")


def credentials(address: str, folder: Path) -> None:
    (folder / "token").write_text("t")
    fetch.credentials({"AWS_CONTAINER_CREDENTIALS_FULL_URI": address, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(folder / "token")})


REFUSALS = (OutOfReachError, UserError, UnansweredError, probe.NotYet, worker.Again, fetch.Refused)
OF_THE_PROGRAM = (registered, logs, manifest, blob, chart)
CLIENTS = (api, *OF_THE_PROGRAM, metrics, golden, asked, credentials)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (mlflow, client, charts, fetch):
        monkeypatch.setattr(module, "TIMEOUT_SECONDS", SECONDS)
    monkeypatch.setattr(loki, "SECONDS", SECONDS)
    for module, name in (
        (mlflow, "LARGEST_ANSWER"),
        (loki, "LARGEST_ANSWER"),
        (client, "LARGEST_MANIFEST"),
        (charts, "LARGEST_INDEX"),
        (worker, "LARGEST_ANSWER"),
        (probe, "LARGEST_ANSWER"),
    ):
        monkeypatch.setattr(module, name, MOST)
    monkeypatch.setattr(client, "SLOWEST", MOST * 10)


def gives_up(ask: Callable[[str, Path], None], server: type[Handler], folder: Path) -> None:
    began = time.monotonic()
    with served(server) as address, pytest.raises(REFUSALS):
        ask(address, folder)
    assert time.monotonic() - began < 20 * SECONDS


@pytest.mark.parametrize("ask", CLIENTS, ids=lambda ask: ask.__name__)
@pytest.mark.parametrize("server", [Endless, Dripping], ids=lambda server: server.__name__)
def test_an_answer_without_end_is_given_up(ask: Callable[[str, Path], None], server: type[Handler], tmp_path: Path) -> None:
    gives_up(ask, server, tmp_path)


@pytest.mark.parametrize("ask", OF_THE_PROGRAM, ids=lambda ask: ask.__name__)
def test_headers_that_drip_are_given_up(ask: Callable[[str, Path], None], tmp_path: Path) -> None:
    gives_up(ask, DrippingHeaders, tmp_path)


@pytest.mark.parametrize("ask", [api, metrics], ids=lambda ask: ask.__name__)
def test_what_unpacks_to_far_more_is_given_up(ask: Callable[[str, Path], None], tmp_path: Path) -> None:
    gives_up(ask, Bomb, tmp_path)


def test_an_answer_of_many_small_values_is_refused_before_it_takes_memory() -> None:
    said = ("[" + "[]," * 2_000_000 + "0]").encode()
    with pytest.raises(OutOfReachError, match="more than 3000000 values"):
        _ = api_answer.ApiAnswer(status=200, content=said).document
    assert isinstance(probe.read(said), str)


def test_a_page_of_metrics_without_end_is_no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    relay = script("relay")
    monkeypatch.setattr(relay, "LARGEST_PAGE", MOST)
    with served(Endless) as address, relay.STRAIGHT.open(address, timeout=5) as answer, pytest.raises(OSError, match="longer than"):
        relay.whole(answer)


def test_more_connections_than_a_loop_serves_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.listening.MOST_AT_ONCE", 3)
    before = threading.active_count()
    with listening("127.0.0.1", 0, pages({"/": lambda: (200, "well")}), consequence="", remedy="") as port:
        *held, one = [socket.create_connection(("127.0.0.1", port)) for _ in range(4)]
        one.settimeout(5)
        assert one.recv(1) == b""
        assert threading.active_count() <= before + 4
        for each in (*held, one):
            each.close()
