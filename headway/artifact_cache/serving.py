"""The node's store over HTTP: `GET /artifacts/SHA256` for pods with a token, and metrics and health on another port.

An answer is the file or a refusal with no word about why, so nobody learns what others have: 404 for what a tenant does
not name and for what is not there, 401 without a valid token, 503 while callers cannot be told apart. Every caller can
go on without: it fetches from S3 then.
"""

import http.server
import threading
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from headway.artifact_cache.callers import BusyError, Callers
from headway.artifact_cache.store import ArtifactStore
from headway.listening import IDLE_SECONDS, listening, pages
from headway.wire import ARTIFACTS_PATH

_NAME = "headway_artifact_cache"


@dataclass
class CacheCounts:
    """What happened so far."""

    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)
    _found: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]], init=False)

    def add(self, what: str, outcome: str, amount: int = 1) -> None:
        with self._lock:
            self._found[what, outcome] += amount

    def of(self, what: str) -> dict[str, int]:
        with self._lock:
            return {outcome: count for (name, outcome), count in sorted(self._found.items()) if name == what}


REQUESTS, FETCHES = "requests", "fetches"
SERVED, UNKNOWN, MISSING, BUSY, CUT = "served", "unauthorised", "missing", "busy", "cut"
FETCHED, REFUSED, FAILED, NO_ROOM = "fetched", "refused", "failed", "no_room"


@dataclass
class CacheStatus:
    """What the loop shows of itself. `missing` counts files that releases name and that are not here."""

    store: ArtifactStore
    counts: CacheCounts = field(default_factory=CacheCounts)
    missing: int = 0
    well: bool = False
    """Whether the API server has said what is wanted, so that the store may answer at all."""
    workers: tuple[threading.Thread, ...] = ()
    """The threads that hear and fetch: without one of them the cache is of no use, though it answers."""

    @property
    def alive(self) -> bool:
        return all(worker.is_alive() for worker in self.workers)

    def collect(self) -> Iterator[Metric]:
        """Every outcome from the start: a counter that is born with a value has no increase."""
        requests, fetches = self.counts.of(REQUESTS), self.counts.of(FETCHES)
        yield _counted("requests", "Questions of pods, by what became of them.", (BUSY, CUT, MISSING, SERVED, UNKNOWN), requests)
        yield _counted("fetches", "Files brought from S3, by what became of them.", (FAILED, FETCHED, NO_ROOM, REFUSED), fetches)
        yield GaugeMetricFamily(f"{_NAME}_bytes", "What the store holds.", self.store.bytes)
        yield GaugeMetricFamily(f"{_NAME}_missing_files", "Files that releases on this pool name and that are not here.", self.missing)

    def text(self) -> str:
        """In Prometheus' text format."""
        return generate_latest(self).decode()


def _counted(name: str, meaning: str, outcomes: tuple[str, ...], found: dict[str, int]) -> Metric:
    family = CounterMetricFamily(f"{_NAME}_{name}", meaning, labels=("outcome",))
    for outcome in outcomes:
        family.add_metric((outcome,), found.get(outcome, 0))
    return family


@contextmanager
def served(watched: CacheStatus, callers: Callers, address: str, port: int, metrics_port: int) -> Generator[tuple[int, int]]:
    """Serve until the end of the block; the two ports, free ones for 0. Raises UserError when they cannot be had."""
    counts = watched.counts

    class Files(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        timeout = IDLE_SECONDS

        def do_GET(self) -> None:
            status, outcome, opened = self._found()
            if opened is None:
                counts.add(REQUESTS, outcome)
                self._end(status)
                return
            stream, size = opened
            with stream:
                self.send_response(200)
                self.send_header("Content-Type", "application/octet-stream")
                self.send_header("Content-Length", str(size))
                self.end_headers()
                try:
                    self.connection.sendfile(stream)
                    counts.add(REQUESTS, SERVED)
                except OSError:
                    counts.add(REQUESTS, CUT)
                    self.close_connection = True

        def _found(self) -> tuple[int, str, Any]:
            kind, _, token = (self.headers.get("Authorization") or "").partition(" ")
            try:
                tenant = callers.namespace(token.strip()) if kind == "Bearer" else None
            except BusyError:
                return 503, BUSY, None
            if tenant is None:
                return 401, UNKNOWN, None
            opened = watched.store.open(tenant, self.path.removeprefix(ARTIFACTS_PATH)) if self.path.startswith(ARTIFACTS_PATH) else None
            return (200, SERVED, opened) if opened else (404, MISSING, None)

        def _end(self, status: int) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None: ...

    shown_pages = pages(
        {
            "/healthz": lambda: (200, "well\n") if watched.alive else (503, "nothing is heard or fetched any more\n"),
            "/metrics": lambda: (200, watched.text()),
            "/ready": lambda: (200, "well\n") if watched.well else (503, "the API server has not said what is wanted\n"),
        }
    )
    said = {"consequence": "Nothing was fetched and nothing is served.", "remedy": "Choose other ports for --serve and --metrics."}
    with listening(address, port, Files, **said) as files, listening(address, metrics_port, shown_pages, **said) as shown:
        yield files, shown
