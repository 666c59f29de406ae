"""What tenants' limits do in a real Envoy: one gateway proxy for two tenants, a model server that answers as OpenAI's API does, a limiter.

The limiter here answers what a test tells it and keeps what it was asked, on the wire format of envoy.service.ratelimit.v3; it counts nothing.
"""

import json
import math
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from http.client import HTTPConnection
from queue import Queue
from time import monotonic
from typing import Any

import grpc
import pytest

from components.tenant import limits
from tests.components.contracts import MODELS
from tests.loopback import served
from tests.traffic.limited_gateway import (
    HOST,
    OTHER,
    OTHERS_HOST,
    PROMPT,
    SECOND,
    TENANT,
    UNKNOWN,
    WORDS,
    LimitedGateway,
    Model,
    configuration,
    filters,
)
from tests.traffic.proxied import envoy, free_port

PASSES, REFUSED = b"\x08\x01", b"\x08\x02\x12\x0c\x08\x02\x12\x04\x08\x32\x10\x01\x22\x02\x08\x07"
"""RateLimitResponse with overall_code OK, and OVER_LIMIT of 50 a second for another seven seconds."""
CONTEXT = MODELS["chat"].envelope.largest_request.context_tokens or 0
RATE, PROXIES = 50, 10
"""Requests a second of all proxies together, and how many proxies share them."""


def parts(message: bytes) -> Iterator[tuple[int, Any]]:
    """Field numbers and values of a protobuf message on the wire."""

    def varint(at: int) -> tuple[int, int]:
        value = shift = 0
        while True:
            value, shift, at = value | (message[at] & 127) << shift, shift + 7, at + 1
            if message[at - 1] < 128:
                return value, at

    at = 0
    while at < len(message):
        key, at = varint(at)
        value, at = varint(at)
        if key & 7 == 2:
            yield key >> 3, message[at : at + value]
            at += value
        else:
            yield key >> 3, value


@dataclass(frozen=True)
class Question:
    """One descriptor: what is counted, by how much, and the limit that it is judged by (requests a unit, unit)."""

    entries: tuple[tuple[str, str], ...]
    limit: tuple[int, int]
    adds: int | None

    @classmethod
    def read(cls, descriptor: bytes) -> "Question":
        found = list(parts(descriptor))
        entries = tuple((str(key, "utf-8"), str(value, "utf-8")) for number, entry in found if number == 1 for key, value in [pair(entry)])
        limit = next(dict(parts(value)) for number, value in found if number == 2)
        adds = next((dict(parts(value)).get(1, 0) for number, value in found if number == 3), None)
        return cls(entries, (limit[1], limit[2]), adds)


def pair(entry: bytes) -> tuple[bytes, bytes]:
    found = dict(parts(entry))
    return found[1], found[2]


@dataclass
class Limiter:
    """`answer` is what it says next; `asked` what it was asked, question by question."""

    answer: bytes = PASSES
    asked: Queue[Question] = field(default_factory=Queue[Question])

    def judge(self, request: bytes, _: grpc.ServicerContext) -> bytes:
        for number, value in parts(request):
            if number == 2:
                self.asked.put(Question.read(value))
        return self.answer

    def question(self, limit: str, adds: int | None) -> Question:
        """Wait for a question about `limit` that adds this much."""
        while True:
            found = self.asked.get(timeout=5)
            if ("limit", limit) in found.entries and found.adds == adds:
                return found


@dataclass(frozen=True, kw_only=True)
class Gateway(LimitedGateway):
    """A proxy whose limiter is told what to answer."""

    limiter: Limiter


@pytest.fixture(scope="module")
def limiter() -> Iterator[tuple[Limiter, int]]:
    found = Limiter()
    server = grpc.server(ThreadPoolExecutor(4))
    handler = grpc.unary_unary_rpc_method_handler(found.judge)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("envoy.service.ratelimit.v3.RateLimitService", {"ShouldRateLimit": handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield found, port
    server.stop(None)


@pytest.fixture(scope="module")
def proxy(tmp_path_factory: pytest.TempPathFactory, limiter: tuple[Limiter, int]) -> Iterator[Gateway]:
    """Envoy between a tenant that may ask 50 times a second and generate 20 tokens a second, and one with no quota of tokens."""
    port = free_port()
    with served(Model) as model:
        config = configuration(
            port, filters(f"{RATE}/s", "20/s", PROXIES, answer=30), ("127.0.0.1", int(model.rpartition(":")[2])), limiter[1]
        )
        with envoy(tmp_path_factory.mktemp("proxy"), config, port):
            yield Gateway(port=port, limiter=limiter[0])


@pytest.fixture
def gateway(proxy: Gateway) -> Gateway:
    proxy.limiter.answer = PASSES
    while not proxy.limiter.asked.empty():
        proxy.limiter.asked.get()
    return proxy


def prompt_of(asked: Mapping[str, Any]) -> int:
    """What is taken for the tokens of a prompt that nobody has counted: a quarter of its bytes."""
    return math.ceil(len(json.dumps(asked)) / 4)


def test_every_request_counts_over_all_proxies_against_the_quota_it_carries(gateway: Gateway) -> None:
    assert gateway.ask()[0].status == 200
    assert gateway.limiter.question("requests", None) == Question((("tenant", TENANT.name), ("limit", "requests")), (RATE, 1), None)


def test_what_the_limiter_refuses_is_told_to_come_back(gateway: Gateway) -> None:
    gateway.limiter.answer = REFUSED
    answer, _ = gateway.ask()
    assert (answer.status, answer.getheader("retry-after")) == (429, "7")


def test_another_tenants_requests_count_as_its_own_without_its_tokens(gateway: Gateway) -> None:
    assert gateway.ask(host=OTHERS_HOST.upper(), tokens=5)[0].status == 200
    asked = gateway.limiter.question("requests", None)
    assert asked == Question((("tenant", OTHER.name), ("limit", "requests")), (round(OTHER.quota.requests.per_second), 1), None)
    # Tokens of an earlier test's answer may still come.
    assert not any(("tenant", OTHER.name) in each.entries for each in gateway.limiter.asked.queue)


def test_a_host_without_a_contract_is_not_served_because_it_has_no_limit(gateway: Gateway) -> None:
    answer, body = gateway.ask(host=UNKNOWN)
    assert (answer.status, body) == (404, b"no model answers at this host\n")


@pytest.mark.parametrize("streamed", [False, True])
def test_the_tokens_of_an_answer_are_charged_when_it_is_over(gateway: Gateway, streamed: bool) -> None:
    gateway.ask(tokens=17, stream=streamed)
    asked = gateway.limiter.question("tokens", PROMPT + 17)
    assert asked.limit == (20 * 60, 2), "twenty a second, over a minute"


def test_before_an_answer_the_tokens_spent_are_read_and_none_are_added(gateway: Gateway) -> None:
    gateway.ask(tokens=3)
    gateway.limiter.question("tokens", 0)


def test_a_stream_that_does_not_say_its_usage_is_charged_its_events(gateway: Gateway) -> None:
    asked = {"tokens": 9, "stream": True, "usage": False}
    gateway.ask(**asked)
    gateway.limiter.question("tokens", 9 + prompt_of(asked))


def test_a_stream_that_is_left_before_its_first_token_is_charged_its_prompt(gateway: Gateway) -> None:
    asked = {"tokens": 3, "stream": True, "pause": 2}
    with closing(HTTPConnection("127.0.0.1", gateway.port, timeout=30)) as connection:
        connection.request("POST", "/v1/completions", json.dumps(asked), {"host": HOST})
        assert connection.getresponse().status == 200
    gateway.limiter.question("tokens", prompt_of(asked))


@pytest.mark.parametrize(("text", "encoding"), [("x" * 400_000, "identity"), ("", "gzip")])
def test_a_prompt_is_taken_for_the_models_context_at_most(gateway: Gateway, text: str, encoding: str) -> None:
    """Which is what one is taken for whose size nobody knows, such as a compressed one."""
    gateway.ask(tokens=9, stream=True, usage=False, text=text, encoding=encoding)
    gateway.limiter.question("tokens", 9 + CONTEXT)


def test_a_stream_of_several_choices_is_charged_them_all_and_once(gateway: Gateway) -> None:
    gateway.ask(tokens=12, stream=True, choices=3)
    gateway.limiter.question("tokens", PROMPT + 12)


def test_a_stream_of_several_choices_that_is_left_is_charged_all_of_them(gateway: Gateway) -> None:
    gateway.ask(tokens=11, stream=True, choices=3, usage=False)
    gateway.limiter.question("tokens", 3 * PROMPT + 11)


@pytest.mark.parametrize("streamed", [False, True])
def test_an_api_that_calls_its_tokens_output_is_charged_too(gateway: Gateway, streamed: bool) -> None:
    """`/v1/responses` and `/v1/messages` of vLLM (OpenAI's ResponseUsage, Anthropic's Usage)."""
    gateway.ask(tokens=23, stream=streamed, counted=("input_tokens", "output_tokens"), text='"output_tokens": 1')
    gateway.limiter.question("tokens", PROMPT + 23)


@pytest.mark.parametrize("name", [*WORDS, "input_tokens", "output_tokens"])
def test_a_number_that_a_caller_has_repeated_to_it_hides_no_tokens(gateway: Gateway, name: str) -> None:
    """A stream that is left before its usage comes, whose first event holds the caller's own words."""
    asked = {"tokens": 11, "stream": True, "usage": False, "tools": [{"parameters": {name: 0}}]}
    gateway.ask(**asked)
    gateway.limiter.question("tokens", 11 + prompt_of(asked))


def test_numbers_that_a_model_writes_into_its_text_are_not_charged(gateway: Gateway) -> None:
    gateway.ask(tokens=4, text='"completion_tokens": 70000')
    gateway.limiter.question("tokens", PROMPT + 4)


def test_an_answer_larger_than_any_buffer_passes_whole(gateway: Gateway) -> None:
    answer, body = gateway.ask(tokens=6, text="x" * 5_000_000)
    assert (answer.status, len(json.loads(body)["choices"][0]["text"])) == (200, 5_000_000)
    gateway.limiter.question("tokens", PROMPT + 6)


def test_without_the_limiter_requests_pass_up_to_the_proxys_own_limit(gateway: Gateway) -> None:
    gateway.limiter.answer, begun = b"\xff", monotonic()
    with ThreadPoolExecutor(16) as callers:
        asked = [callers.submit(gateway.ask, (HOST, SECOND)[number % 2]) for number in range(200)]
    statuses = [each.result()[0].status for each in asked]
    assert set(statuses) == {200, 429}
    of_one_proxy = RATE / PROXIES * limits.UNEVEN
    assert statuses.count(200) <= of_one_proxy * (limits.BURST_SECONDS + 1 + monotonic() - begun), "of all its models together"
    assert gateway.ask(host=OTHERS_HOST)[0].status == 200, "nobody else waits for it"
