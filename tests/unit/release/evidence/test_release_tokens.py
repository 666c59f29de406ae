"""What a language model's servers say of tokens: each arm's own, asked of vLLM alone, and kept beside what the gate takes in."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs

import numpy as np
import pytest

from headway.release.evidence import reading, tokens
from headway.release.evidence.counted import Counted, mesh_counts
from headway.release.evidence.prometheus import PrometheusEndpoint
from headway.release.evidence.reader import PrometheusEvidence
from headway.release.evidence.reading import ArmNames, JudgedService, TickWindow
from tests.loopback import Handler, served

ARMS = ArmNames(stable="m-r1", baseline="m-r1-baseline", canary="m-r2")
SERVICE = JudgedService(tenant="t", model="m")


def mesh(workload: str, number: float, code: str = "200", mirrored: str = "false") -> tuple[dict[str, str], Any]:
    return {"destination_workload": workload, "response_code": code, "mirrored": mirrored, "pod": "p"}, np.array([number])


def of_server(arm: str, name: str, value: float, **more: str) -> tuple[dict[str, str], Any]:
    return {"__name__": name, "pod": f"{arm}-6b9d8-abcde", **more}, np.array([value])


def said(risen: list[Any], requests: list[Any]) -> dict[str, dict[str, float]]:
    counted: Counted = mesh_counts(SERVICE, ARMS, requests, [], [])
    return tokens.of_tick(ARMS, risen, requests, counted, 0)


def test_each_arm_has_the_tokens_of_its_own_pods() -> None:
    risen = [
        of_server("m-r1", "vllm:request_generation_tokens_sum", 500.0),
        of_server("m-r1", "vllm:request_generation_tokens_count", 100.0),
        of_server("m-r2", "vllm:request_generation_tokens_sum", 140.0),
        of_server("m-r2", "vllm:request_generation_tokens_count", 10.0),
    ]
    found = said(risen, [mesh("m-r1", 100), mesh("m-r2", 10)])
    assert {part: (each["answer"], each["answers"]) for part, each in found.items()} == {"stable": (500.0, 100.0), "canary": (140.0, 10.0)}
    assert all(set(each) == set(tokens.SHAPE) for each in found.values())


def test_an_answer_is_truncated_where_its_limit_ended_it_and_not_itself() -> None:
    risen = [
        of_server("m-r2", "vllm:request_success_total", 7.0, finished_reason="length"),
        of_server("m-r2", "vllm:request_success_total", 90.0, finished_reason="stop"),
    ]
    assert said(risen, [mesh("m-r2", 97)])["canary"]["truncated"] == 7.0


def test_copies_and_users_of_one_server_have_their_share_of_its_tokens() -> None:
    risen = [of_server("m-r2", "vllm:request_generation_tokens_sum", 400.0)]
    found = said(risen, [mesh("m-r2", 30), mesh("m-r2", 10, mirrored="true")])
    assert (found["canary"]["answer"], found["mirrored"]["answer"]) == (300.0, 100.0)


def test_what_is_refused_is_counted_where_the_replica_refused_it() -> None:
    risen = [of_server(arm, "vllm:request_generation_tokens_sum", 1.0) for arm in ("m-r1", "m-r2")]
    requests = [mesh("m-r1", 10), mesh("m-r1", 2, "400"), mesh("m-r2", 10), mesh("m-r2", 4, "413", mirrored="true"), mesh("m-r2", 1, "503")]
    found = said(risen, requests)
    assert {part: each["refused"] for part, each in found.items()} == {"stable": 2.0, "canary": 0.0, "mirrored": 4.0}


def test_servers_that_say_nothing_of_tokens_leave_nothing() -> None:
    assert said([], [mesh("m-r1", 10)]) == {}


class Answers:
    """What a Prometheus has been asked, and the engine whose series it has."""

    def __init__(self, engine: str) -> None:
        self.engine, self.asked = engine, list[str]()

    def result(self, query: str) -> list[Any]:
        pod = {"pod": "m-r1-6b9d8-abcde", "namespace": "t", "job": "pods", "instance": "i"}
        names = {
            "nv_inference_queue_duration_us": ("triton", "nv_inference_queue_duration_us"),
            "vllm:request_queue_time_seconds_sum": ("vllm", "vllm:request_queue_time_seconds_sum"),
            "__name__": ("vllm", "vllm:request_generation_tokens_sum"),
        }
        engine, name = next((found for key, found in names.items() if query.partition("(")[2].startswith(key) or key in query), ("", ""))
        if query.startswith(("istio_requests_total", "last_over_time(istio_requests_total")) and "source" not in query:
            labels = {
                "__name__": "istio_requests_total",
                "destination_workload": "m-r1",
                "response_code": "200",
                "mirrored": "false",
                **pod,
            }
        elif engine == self.engine:
            labels = {"__name__": name, **pod}
        else:
            return []
        last = {"metric": labels, "value": [0.0, "1"]}
        return [last] if query.startswith("last") else [{"metric": labels, "values": [[30.0, "11"]]}]


@pytest.fixture(params=["vllm", "triton"])
def prometheus(request: pytest.FixtureRequest) -> Iterator[tuple[Answers, str]]:
    answers = Answers(request.param)

    class Server(Handler):
        def do_POST(self) -> None:
            query = parse_qs(f"{self.path.partition('?')[2]}&{self.body().decode()}")["query"][0]
            answers.asked.append(query)
            found = answers.result(query)
            kind = "matrix" if any("values" in each for each in found) else "vector"
            self.reply(200, {"status": "success", "data": {"resultType": kind, "result": found}})

    with served(Server) as url:
        yield answers, url


def test_tokens_are_asked_of_vllm_alone_and_the_gate_takes_none_of_them(prometheus: tuple[Answers, str]) -> None:
    answers, url = prometheus
    raw = PrometheusEvidence([PrometheusEndpoint(url=url)]).read(SERVICE, ArmNames(stable="m-r1"), TickWindow(0, 60))
    assert raw["answered"], raw["reason"]
    asked = [query for query in answers.asked if "vllm:request_generation_tokens_sum" in query]
    if answers.engine == "vllm":
        assert raw["tokens"]["stable"]["answer"] == 10.0
        assert len(asked) == 2, "one question for the tick, one for what was before"
        assert repr(reading.tick(raw)) == repr(reading.tick({name: value for name, value in raw.items() if name != "tokens"}))
    else:
        assert "tokens" not in raw
        assert not asked
