"""A tenant's rates over all proxies, by Envoy's rate limit service itself: whoever is over them waits, and nobody else."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPResponse
from time import sleep, time

import pytest

from tests.cluster.conftest import eventually
from tests.loopback import served
from tests.traffic.limited_gateway import HOST, OTHERS_HOST, SECOND, Model
from tests.traffic.rate_limiter import FLUSHES, WINDOW, Limiter, awaiting_a_minute_with, limiting_proxies

RATE, TOKENS = 20, 1_000_000
"""Requests and tokens a second of the first tenant."""

pytestmark = pytest.mark.needs("ratelimit")


@pytest.fixture(scope="module")
def begun(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Limiter]:
    with served(Model) as model:
        address = ("127.0.0.1", int(model.rpartition(":")[2]))
        with limiting_proxies(tmp_path_factory.mktemp("limiter"), address, f"{RATE}/s", f"{TOKENS}/s") as found:
            yield found


@pytest.fixture
def limiting(begun: Limiter) -> Limiter:
    """Nothing is counted yet."""
    assert begun.told("FLUSHALL") == "+OK"
    return begun


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
