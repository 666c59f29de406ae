"""A real vLLM behind a real Envoy: what applications get, what leaves the server with its caller, what is refused and in which words."""

import re
from contextlib import ExitStack

import pytest

from components.model_service.objectives import INTER_TOKEN_EDGES_S, QUEUE_EDGES_S, TTFT_EDGES_S
from components.platform.gateway_scripts import BETWEEN, FIRST
from headway.contract.arithmetic.fit import fit
from sandbox.traffic.profile import LANGUAGE
from tests.cluster.conftest import eventually
from tests.language.sorter import CHAT, COMPLETIONS, PATIENCE, RESPONSES, Sorter, in_order, question
from tests.traffic.bed import PROJECT
from tests.traffic.serving import container

WORDS = "wheel nut bolt gear"
MESSAGES = [{"role": "user", "content": f"sort: {WORDS}"}]
CALLERS = 6


def test_the_engine_is_ready_by_its_own_probes_with_a_proven_artifact(sorter: Sorter) -> None:
    (pod,) = sorter.pods
    assert container(pod)["started"]
    assert container(pod)["restartCount"] == 0
    assert container(pod, "fetch")["state"]["terminated"]["reason"] == "Completed"
    assert "running" in container(pod, "metrics")["state"]
    assert "fetched model.safetensors" in sorter.log("fetch")


def test_the_warmup_was_at_the_largest_prompt_and_answered_in_full(sorter: Sorter) -> None:
    largest = sorter.bed.model(LANGUAGE).envelope.largest_request
    assert largest.context_tokens and largest.output_tokens
    requests = sorter.bed.model(LANGUAGE).health.warmup.requests
    assert sorter.total("vllm:prompt_tokens_total") >= requests * (largest.context_tokens - largest.output_tokens)
    assert sorter.total("vllm:generation_tokens_total") >= requests * largest.output_tokens
    assert sorter.total("vllm:request_success_total", finished_reason="length") >= requests


def test_lists_are_sorted_rightly_by_completions_chat_and_responses(sorter: Sorter) -> None:
    status, completed = sorter.ask(COMPLETIONS, prompt=question(WORDS), max_tokens=40)
    assert (status, in_order(WORDS) in completed["choices"][0]["text"]) == (200, True), completed
    status, chatted = sorter.ask(CHAT, messages=MESSAGES, max_tokens=40)
    assert (status, in_order(WORDS) in chatted["choices"][0]["message"]["content"]) == (200, True), chatted
    status, responded = sorter.ask(RESPONSES, input=f"sort: {WORDS}", max_output_tokens=40)
    assert status == 200, responded
    assert in_order(WORDS) in responded["output"][-1]["content"][0]["text"], responded


@pytest.mark.parametrize("path", [COMPLETIONS, CHAT])
def test_a_stream_comes_piece_by_piece_and_ends_with_its_usage(sorter: Sorter, path: str) -> None:
    asked = {"prompt": question(WORDS)} if path == COMPLETIONS else {"messages": MESSAGES}
    events = sorter.events(path, max_tokens=40, **asked)
    pieces = [choice.get("text") or (choice.get("delta") or {}).get("content") or "" for _, each in events for choice in each["choices"]]
    assert in_order(WORDS) in "".join(pieces)
    assert len([piece for piece in pieces if piece]) >= 4
    usage = events[-1][1]["usage"]
    assert usage["completion_tokens"] == 5
    assert events[0][0] < events[-1][0]


def test_a_stream_of_responses_ends_with_its_usage(sorter: Sorter) -> None:
    events = [each for _, each in sorter.events(RESPONSES, input=f"sort: {WORDS}", max_output_tokens=40)]
    assert in_order(WORDS) in "".join(each["delta"] for each in events if each["type"] == "response.output_text.delta")
    assert events[-1]["response"]["usage"]["output_tokens"] >= 5


def test_the_first_token_comes_at_the_gateway_when_the_server_says(sorter: Sorter) -> None:
    def spent() -> tuple[float, float]:
        name = "vllm:time_to_first_token_seconds"
        return sorter.total(f"{name}_sum"), sorter.total(f"{name}_count")

    (seconds, count), asked = spent(), 10
    seen = [sorter.events(COMPLETIONS, prompt=question(WORDS), max_tokens=40)[0][0] for _ in range(asked)]
    after, number = spent()
    assert number == count + asked
    server, gateway = (after - seconds) / asked, sum(seen) / asked
    assert server <= gateway < server + 1.0, "a connection, two proxies, and a busy machine"


def test_each_prompt_is_picked_for_among_the_engines_that_serve(sorter: Sorter) -> None:
    before = sorter.at_picker("requests_total", outcome="by_prompt")
    for number in range(5):
        assert sorter.ask(COMPLETIONS, prompt=question(WORDS, f"{number} "), max_tokens=4)[0] == 200
    assert sorter.at_picker("requests_total", outcome="by_prompt") == before + 5
    assert sorter.at_picker("failures_total", outcome="page") == 0, "it reads the engine's page"


def test_tokens_are_counted_as_the_answer_says(sorter: Sorter) -> None:
    before = [sorter.total(f"vllm:{kind}_tokens_total") for kind in ("prompt", "generation")]
    _, said = sorter.ask(COMPLETIONS, prompt=question(WORDS), max_tokens=40)
    after = [sorter.total(f"vllm:{kind}_tokens_total") for kind in ("prompt", "generation")]
    grown = [now - then for now, then in zip(after, before, strict=True)]
    assert grown[0] >= said["usage"]["prompt_tokens"]
    assert grown[1] >= said["usage"]["completion_tokens"]


def test_every_series_that_the_platform_asks_of_vllm_is_there(sorter: Sorter) -> None:
    sources = (path.read_text() for room in ("headway", "components") for path in (PROJECT / room).rglob("*.py"))
    asked = {name for text in sources for name in re.findall(r"vllm:[a-z_]+", text)}
    page = sorter.page()
    there = set(re.findall(r"^(vllm:\w+)[{ ]", page, re.MULTILINE))
    assert len(asked) > 10
    assert {name for name in asked if name not in there and f"{name}_count" not in there} == set()
    assert all('finished_reason="' in line for line in page.splitlines() if line.startswith("vllm:request_success_total"))


def test_the_cache_holds_as_many_tokens_as_the_contracts_arithmetic_says(sorter: Sorter) -> None:
    model = sorter.bed.model(LANGUAGE)
    (request,) = [line.amount for line in fit(model).lines if line.what == "KV cache, one request"]
    a_token = int(request) // (model.envelope.largest_request.context_tokens or 0)
    (told,) = re.findall(r"^vllm:cache_config_info{(.*)} 1", sorter.page(), re.MULTILINE)
    engine = dict(re.findall(r'(\w+)="([^"]*)"', told))
    memory, blocks, block = (int(engine[name]) for name in ("kv_cache_memory_bytes", "num_gpu_blocks", "block_size"))
    assert blocks == memory // (a_token * block)


@pytest.mark.parametrize(
    ("name", "edges"),
    [
        ("vllm:time_to_first_token_seconds", TTFT_EDGES_S),
        ("vllm:inter_token_latency_seconds", INTER_TOKEN_EDGES_S),
        ("vllm:request_queue_time_seconds", QUEUE_EDGES_S),
    ],
)
def test_an_objective_is_judged_at_an_edge_that_the_histogram_has(sorter: Sorter, name: str, edges: tuple[float, ...]) -> None:
    found = re.findall(rf'^{name}_bucket{{[^}}]*le="([^"]+)"', sorter.page(), re.MULTILINE)
    assert [repr(float(edge)) for edge in edges] == [each for each in dict.fromkeys(found) if each != "+Inf"]


def test_callers_that_leave_free_their_slots_and_count_as_no_answer(sorter: Sorter) -> None:
    eventually(lambda: sorter.total("vllm:num_requests_running") == 0, within=PATIENCE)
    generated, answered = (sorter.total(f"vllm:{name}_total") for name in ("generation_tokens", "request_success"))
    with ExitStack() as callers:
        for _ in range(CALLERS):
            answer = callers.enter_context(sorter.asking(COMPLETIONS, stream=True, prompt=question(WORDS), max_tokens=512, ignore_eos=True))
            assert answer.readline().startswith(b"data: ")
    eventually(lambda: sorter.total("vllm:num_requests_running") == 0, within=PATIENCE)
    assert sorter.total("vllm:generation_tokens_total") - generated < CALLERS * 512
    assert sorter.total("vllm:request_success_total") < answered + CALLERS, "vLLM counts an aborted request nowhere"


@pytest.mark.parametrize("path", [COMPLETIONS, CHAT, RESPONSES])
def test_a_request_beyond_the_contracts_context_is_refused_with_its_number(sorter: Sorter, path: str) -> None:
    long = question("nut " * 1100)
    asked = {COMPLETIONS: {"prompt": long}, CHAT: {"messages": [{"role": "user", "content": long}]}, RESPONSES: {"input": long}}
    status, said = sorter.ask(path, **asked[path])
    assert status == 400
    assert "1024" in str(said), said


def test_a_full_replica_turns_callers_away_by_their_priority(sorter: Sorter) -> None:
    degradation = sorter.bed.model(LANGUAGE).degradation
    eventually(lambda: sorter.total("vllm:num_requests_running") == 0, within=PATIENCE)
    with ExitStack() as callers:
        for _ in range(degradation.overload_at):
            callers.enter_context(sorter.asking(COMPLETIONS, stream=True, prompt=question(WORDS), max_tokens=512, ignore_eos=True))
        for priority, status in (("low", 429), ("normal", 503), ("high", 503)):
            with sorter.asking(COMPLETIONS, {"priority": priority}, prompt=question(WORDS), max_tokens=4) as answer:
                told = (answer.status, answer.getheader("retry-after"))
            assert told == (status, str(degradation.retry_after.whole_seconds)), priority
    eventually(lambda: sorter.ask(COMPLETIONS, prompt=question(WORDS), max_tokens=4)[0] == 200, within=PATIENCE)


def test_the_gateway_measures_tokens_as_the_server_does_and_the_way_there(sorter: Sorter) -> None:
    pairs = {FIRST: "vllm:time_to_first_token_seconds", BETWEEN: "vllm:inter_token_latency_seconds"}

    def spent() -> dict[str, tuple[float, float, float, float]]:
        """By the gateway, then by the server: seconds, and of how many."""
        found = {}
        for ours, theirs in pairs.items():
            name = f"envoy_headway_{ours}"
            gateway = [sorter.at_gateway(f"{name}_{each}", tenant=LANGUAGE.tenant, model=LANGUAGE.model) for each in ("sum", "count")]
            found[ours] = (gateway[0] / 1000, gateway[1], sorter.total(f"{theirs}_sum"), sorter.total(f"{theirs}_count"))
        return found

    before, asked = spent(), 10
    for _ in range(asked):
        sorter.events(COMPLETIONS, prompt=question(WORDS), max_tokens=40, ignore_eos=True)
    eventually(lambda: spent()[BETWEEN][1] == before[BETWEEN][1] + asked, within=60)
    grown = {name: [now - then for now, then in zip(spent()[name], before[name], strict=True)] for name in pairs}
    first, between = ((seconds / count, engine / times) for seconds, count, engine, times in grown.values())
    assert first[1] * 0.9 <= first[0] < first[1] + 1.0, first
    assert between[0] == pytest.approx(between[1], rel=0.5, abs=0.02), between


def test_no_answer_is_longer_than_the_contract_allows(sorter: Sorter) -> None:
    for path, asked in ((COMPLETIONS, {"prompt": question(WORDS), "max_tokens": 900}), (CHAT, {"messages": MESSAGES})):
        status, said = sorter.ask(path, ignore_eos=True, **asked)
        assert (status, said["usage"]["completion_tokens"], said["choices"][0]["finish_reason"]) == (200, 512, "length"), path


def test_what_a_container_printed_is_kept_without_prompts(sorter: Sorter) -> None:
    log = sorter.log("server")
    assert WORDS not in log
    assert "Application startup complete" in log
