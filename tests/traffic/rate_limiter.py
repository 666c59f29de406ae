"""Envoy's rate limit service itself with its counts in Valkey, both started as the platform renders them, behind two gateway proxies.

Valkey is of a later patch than the platform's. The service is built from the newest commit that the Go registry has, which is some months
older than that of the platform's image.
"""

import socket
import subprocess
from collections.abc import Generator, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPResponse
from itertools import cycle
from pathlib import Path
from time import sleep, time

from components.platform import limiter
from sandbox.cluster.toolchain import ensure_toolchain
from sandbox.layout import Layout
from sandbox.progress import Silent
from sandbox.traffic.limiter import configure, container, counts_command, environment
from sandbox.traffic.programs import programs
from tests.cluster.conftest import eventually
from tests.traffic.bed import PROJECT
from tests.traffic.limited_gateway import LimitedGateway, configuration, filters
from tests.traffic.proxied import envoy, free_port

WINDOW = 60
"""Seconds over which tokens are counted."""
FLUSHES = 1
"""Seconds between two times that the service would print its statistics, instead of its ten."""
LONGEST = "local most = 0 for _, key in ipairs(redis.call('KEYS', '*')) do most = math.max(most, redis.call('TTL', key)) end return most"


@contextmanager
def running(command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> Generator[None]:
    """The program with this environment and no other."""
    with log.open("a") as said, subprocess.Popen(command, stdout=said, stderr=said, env=environment or {}, cwd=log.parent) as process:
        try:
            yield
            assert process.poll() is None, log.read_text()
        finally:
            process.kill()


@dataclass(frozen=True, kw_only=True)
class Limiter:
    """The service and its counts, with its gateway's proxies."""

    proxies: tuple[LimitedGateway, ...]
    health: int
    counts: int
    log: Path
    counts_process: ExitStack

    def ready(self) -> bool:
        """What the kubelet would find."""
        with closing(HTTPConnection("127.0.0.1", self.health, timeout=10)) as connection:
            connection.request("GET", container("limiter")["readinessProbe"]["httpGet"]["path"])
            return connection.getresponse().status == 200

    def told(self, command: str) -> str:
        """What the counts answer, in one line."""
        with socket.create_connection(("127.0.0.1", self.counts), timeout=10) as connection, connection.makefile("rwb") as counts:
            counts.write(f"{command}\r\n".encode())
            counts.flush()
            return counts.readline().decode().strip()

    def longest_life(self) -> int:
        """Seconds that the count has which lives longest."""
        return int(self.told(f'EVAL "{LONGEST}" 0').removeprefix(":"))

    def start_counts(self) -> None:
        command = counts_command(programs(PROJECT).valkey_server(), self.counts)
        self.counts_process.enter_context(running(command, self.log.parent / "counts.log"))
        eventually(lambda: _listens(self.counts))

    def answers(self, requests: int, hosts: Sequence[str]) -> list[HTTPResponse]:
        """Answers to requests that several callers send to all proxies in turn."""
        to = cycle([(proxy, host) for proxy in self.proxies for host in hosts])
        with ThreadPoolExecutor(8) as callers:
            asked = [callers.submit(proxy.ask, host) for proxy, host in (next(to) for _ in range(requests))]
        return [each.result()[0] for each in asked]

    def ask(self, requests: int, hosts: Sequence[str]) -> list[int]:
        """Their statuses alone."""
        return [each.status for each in self.answers(requests, hosts)]


def _listens(port: int) -> bool:
    with socket.socket() as found:
        return found.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def limiting_proxies(folder: Path, model: tuple[str, int], requests: str, tokens: str) -> Iterator[Limiter]:
    """The service with its counts, and two proxies of a gateway before the server at `model`; the first tenant has these rates."""
    configure(folder)
    program = ensure_toolchain(Layout.of(PROJECT), Silent(), ("ratelimit",)).binary("ratelimit")
    asked, health, debugging, counts, *proxies = (free_port() for _ in range(6))
    assert {"name": "REDIS_URL", "value": f"{limiter.COUNTS}:{limiter.COUNTS_PORT}"} in container("limiter")["env"]
    given = environment(folder, grpc=asked, health=health, debugging=debugging, counts=counts)
    with ExitStack() as processes:
        found = Limiter(
            proxies=tuple(LimitedGateway(port=port) for port in proxies),
            health=health,
            counts=counts,
            log=folder / "limiter.log",
            counts_process=processes.enter_context(ExitStack()),
        )
        found.start_counts()
        processes.enter_context(running([str(program)], found.log, {**given, "STATS_FLUSH_INTERVAL": f"{FLUSHES}s"}))
        eventually(lambda: _listens(health) and found.ready())
        known = filters(requests, tokens, len(proxies), answer=5)
        for port in proxies:
            place = folder / str(port)
            place.mkdir()
            processes.enter_context(envoy(place, configuration(port, known, model, asked), port))
        yield found


def awaiting_a_minute_with(seconds: float) -> None:
    """Wait until this much is left of the minute over which tokens are counted."""
    left = WINDOW - time() % WINDOW
    if left < seconds:
        sleep(left)
