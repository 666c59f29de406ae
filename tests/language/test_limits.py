"""Tokens of a real engine, counted by the gateway's own script and limited by Envoy's rate limit service for their tenant alone."""

import json
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from typing import Any

import pytest

from components.model_service.vllm import PORT
from sandbox.traffic.profile import LANGUAGE
from tests.cluster.conftest import eventually
from tests.language.sorter import CHAT, COMPLETIONS, RESPONSES, Sorter, question
from tests.traffic.bed import tenant
from tests.traffic.limited_gateway import HOST, OTHERS_HOST, LimitedGateway
from tests.traffic.rate_limiter import WINDOW, Limiter, awaiting_a_minute_with, limiting_proxies

TOKENS = 2
"""A second, of the first tenant: less than one answer in a minute."""
ASKED = WINDOW * TOKENS + 8
WORDS = "wheel nut bolt"
LONG = 900
"""Words of a long prompt, which is most of the sorter's context."""

pytestmark = pytest.mark.needs("ratelimit")


@pytest.fixture(scope="module")
def limiter(sorter: Sorter, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Limiter]:
    with limiting_proxies(tmp_path_factory.mktemp("limiter"), (sorter.address, PORT), "50/s", f"{TOKENS}/s") as found:
        yield found


@pytest.fixture
def limiting(limiter: Limiter) -> Limiter:
    assert limiter.told("FLUSHALL") == "+OK"
    awaiting_a_minute_with(30)
    return limiter


def status(proxy: LimitedGateway, path: str, host: str = HOST, *, leaves: bool = False, **body: Any) -> int:
    """Of one answer, which is read to its end unless its caller `leaves` at its first event."""
    with closing(HTTPConnection("127.0.0.1", proxy.port, timeout=120)) as connection:
        asked = {"model": LANGUAGE.model, "temperature": 0, "ignore_eos": True, **body}
        connection.request("POST", path, json.dumps(asked), {"host": host, "content-type": "application/json"})
        with connection.getresponse() as answer:
            answer.readline() if leaves else answer.read()
            return answer.status


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("path", "asked"),
    [
        (COMPLETIONS, {"prompt": question(WORDS), "max_tokens": ASKED}),
        (CHAT, {"messages": [{"role": "user", "content": f"sort: {WORDS}"}], "max_tokens": ASKED}),
        (RESPONSES, {"input": f"sort: {WORDS}", "max_output_tokens": ASKED}),
    ],
)
def test_a_tenant_that_has_spent_its_tokens_is_refused_and_no_other(
    limiting: Limiter, path: str, asked: dict[str, Any], stream: bool
) -> None:
    one, other = limiting.proxies
    assert status(one, path, stream=stream, **asked) == 200, "an answer under way is never cut off"
    eventually(lambda: status(other, COMPLETIONS, prompt=question(WORDS), max_tokens=1) == 429, within=20)
    assert status(other, COMPLETIONS, OTHERS_HOST, prompt=question(WORDS), max_tokens=1) == 200


@pytest.mark.parametrize("leaves", [False, True])
def test_a_prompt_is_charged_though_its_answer_is_one_token(limiting: Limiter, leaves: bool) -> None:
    """Which its caller hears of with the first event, and so does the gateway."""
    one, other = limiting.proxies
    long = question("nut " * ASKED)
    assert status(one, COMPLETIONS, stream=leaves, leaves=leaves, prompt=long, max_tokens=512 if leaves else 1) == 200
    eventually(lambda: status(other, COMPLETIONS, prompt=question(WORDS), max_tokens=1) == 429, within=20)


@pytest.fixture
def a_minute_of_its_own(sorter: Sorter) -> Iterator[Sorter]:
    """Nothing is spent yet, and nobody else is refused for what is."""
    awaiting_a_minute_with(WINDOW)
    yield sorter
    awaiting_a_minute_with(WINDOW)


def test_the_beds_gateway_holds_the_contracts_quota_by_the_platforms_limiter(a_minute_of_its_own: Sorter) -> None:
    quota, spent = tenant(LANGUAGE.tenant).quota.tokens, 0
    assert quota is not None
    a_minutes = int(quota.per_second * WINDOW)

    def ask() -> tuple[int, int, str]:
        with a_minute_of_its_own.asking(COMPLETIONS, prompt=question("nut " * LONG), max_tokens=1) as answer:
            said = json.loads(answer.read() or "{}") if answer.status == 200 else {"usage": {"total_tokens": 0}}
            return answer.status, said["usage"]["total_tokens"], answer.getheader("x-ratelimit-limit") or ""

    status, tokens, limit = ask()
    while status == 200 and spent < 4 * a_minutes:
        spent += tokens
        status, tokens, limit = ask()
    assert (status, limit.partition(",")[0]) == (429, str(a_minutes)), limit
    assert spent >= a_minutes


def test_a_caller_that_leaves_is_charged_for_what_was_generated(limiting: Limiter) -> None:
    for _ in range(WINDOW * TOKENS + 1):
        if status(limiting.proxies[0], COMPLETIONS, leaves=True, stream=True, prompt=question(WORDS), max_tokens=512) == 429:
            return
    pytest.fail("nobody was refused, though each stream had one token at least")
