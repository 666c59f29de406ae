"""What a real replica's proxy measures of streams, for those who judge releases."""

import json
import re
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from itertools import pairwise
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from components.model_service.routing import guard
from components.platform.replica_measures import FIRST_EDGES_MS, NEXT_EDGES_US, annotations
from headway.wire import FIRST_TOKEN, NEXT_TOKEN
from sandbox.traffic.mesh import clusters, listeners
from sandbox.traffic.mesh.envoy import EnvoyAdmin, measuring
from sandbox.traffic.mesh.snapshot import INBOUND_OFFSET, MeshSnapshot
from tests.cluster.conftest import eventually
from tests.components.contracts import MODELS
from tests.loopback import served
from tests.traffic.limited_gateway import Model
from tests.traffic.proxied import envoy, free_port

PAUSE = 0.1
"""Seconds of the model before each piece."""
MODEL = MODELS["chat"]


@dataclass(frozen=True, kw_only=True)
class MeasuredReplica:
    port: int
    admin: int

    def ask(self, *, copied: bool = False, leave_after: float = 30.0, **asked: Any) -> None:
        """Ask, and read until the end, or for so many seconds."""
        until, said = monotonic() + leave_after, {"host": f"chat.assist{'-shadow' if copied else ''}", "x-request-class": "invented"}
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=leave_after)) as connection, suppress(TimeoutError):
            connection.request("POST", "/v1/completions", json.dumps({"tokens": 0, **asked}), said)
            answer = connection.getresponse()
            while answer.read1(1) and monotonic() < until:
                pass

    def total(self, name: str, what: str, **labels: str) -> float:
        wanted = {"mirrored": "false", "request_class": "short", "namespace": "assist", "pod": "chat-r1-0", **labels}
        tags = ",".join(f'{key}="{value}"' for key, value in wanted.items())
        found = re.findall(rf"^envoy_headway_replica_{name}_{what}{{{tags}}} (\S+)$", EnvoyAdmin(self.admin).measured(), re.MULTILINE)
        return float(found[0]) if found else 0.0

    def grown(self, name: str, labels: dict[str, str] | None = None, **asked: Any) -> float:
        """By how much the histogram's sum grows with one more request, which must count."""
        of = labels or {}
        before, count = self.total(name, "sum", **of), self.total(name, "count", **of)
        self.ask(**asked)
        eventually(lambda: self.total(name, "count", **of) == count + 1, within=60)
        return self.total(name, "sum", **of) - before


def proxy(port: int, admin: int, model: str, said: dict[str, str]) -> dict[str, Any]:
    """The configuration of one replica's proxy, its pod annotated so."""
    item = guard("assist", MODEL)
    labels = item["spec"]["workloadSelector"]["labels"]
    pod = {"metadata": {"name": "chat-r1-0", "namespace": "assist", "labels": labels, "annotations": said}}
    place = ("127.0.0.1", int(model.rpartition(":")[2]))
    ports = listeners.ListenerPorts(gateway={}, mesh={}, log="/dev/null")
    snapshot = MeshSnapshot.of([{**item, "metadata": {**item["metadata"], "uid": "1"}}])
    found = listeners.sidecar(snapshot, pod, port - INBOUND_OFFSET, "127.0.0.1", "server", ports)
    resources = {"listeners": [found], "clusters": [clusters.inbound("server", place, {}, grpc=False)]}
    return {"static_resources": resources, **measuring(), "admin": {"address": clusters.address("127.0.0.1", admin)}}


@pytest.fixture(scope="module")
def replica(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MeasuredReplica]:
    port, admin = free_port(), free_port()
    with served(Model) as model, envoy(tmp_path_factory.mktemp("proxy"), proxy(port, admin, model, annotations()), port):
        yield MeasuredReplica(port=port, admin=admin)


def test_the_first_token_and_the_mean_of_the_further_ones_are_told_by_class(replica: MeasuredReplica) -> None:
    milliseconds = replica.grown(FIRST_TOKEN, tokens=12, stream=True, pause=PAUSE, choices=1)
    assert PAUSE * 1e3 <= milliseconds < 4 * PAUSE * 1e3
    microseconds = replica.grown(NEXT_TOKEN, tokens=4, stream=True, pause=PAUSE, choices=1)
    assert microseconds == pytest.approx(PAUSE * 1e6, rel=0.5), "of a stream that says its tokens at its end, too"
    assert replica.grown(FIRST_TOKEN, {"request_class": "long"}, tokens=1, stream=True, text="a" * 20_000) >= 0


def test_copies_are_told_apart(replica: MeasuredReplica) -> None:
    users = replica.total(FIRST_TOKEN, "count")
    assert replica.grown(FIRST_TOKEN, {"mirrored": "true"}, tokens=2, stream=True, copied=True) >= 0
    assert replica.total(FIRST_TOKEN, "count") == users


def test_who_leaves_before_a_first_token_counts_with_the_time_waited(replica: MeasuredReplica) -> None:
    assert replica.grown(FIRST_TOKEN, tokens=2, stream=True, pause=3.0, leave_after=1.0) >= 1000


def test_a_stream_that_is_left_counts_with_the_tokens_it_had(replica: MeasuredReplica) -> None:
    microseconds = replica.grown(NEXT_TOKEN, tokens=100, stream=True, pause=PAUSE, choices=1, leave_after=2.0)
    assert microseconds == pytest.approx(PAUSE * 1e6, rel=0.5)


def test_of_several_choices_no_mean_is_told(replica: MeasuredReplica) -> None:
    count = replica.total(NEXT_TOKEN, "count")
    replica.grown(FIRST_TOKEN, tokens=24, stream=True, choices=2)
    assert replica.total(NEXT_TOKEN, "count") == count


def test_a_stream_whose_server_says_that_it_failed_is_counted(replica: MeasuredReplica) -> None:
    def broken() -> float:
        found = re.findall(
            r'^envoy_headway_replica_broken_streams{.*request_class="short".*} (\S+)$', EnvoyAdmin(replica.admin).measured(), re.MULTILINE
        )
        return float(found[0]) if found else 0.0

    replica.grown(FIRST_TOKEN, tokens=3, stream=True, tools='data: {"error": "in a text"}')
    assert broken() == 0
    replica.grown(FIRST_TOKEN, tokens=3, stream=True, fails=True)
    eventually(lambda: broken() == 1, within=60)


def test_answers_in_one_piece_and_refusals_are_no_streams(replica: MeasuredReplica) -> None:
    count = replica.total(FIRST_TOKEN, "count")
    replica.ask(tokens=5)
    replica.ask(tokens=5, stream=True, text="a" * int(MODEL.envelope.largest_request.body))
    replica.grown(FIRST_TOKEN, tokens=1, stream=True)
    assert replica.total(FIRST_TOKEN, "count") == count + 1


def test_the_edges_are_those_that_the_pods_annotation_tells(replica: MeasuredReplica) -> None:
    replica.grown(NEXT_TOKEN, tokens=3, stream=True, choices=1)
    page = EnvoyAdmin(replica.admin).measured()
    for name, edges in ((FIRST_TOKEN, FIRST_EDGES_MS), (NEXT_TOKEN, NEXT_EDGES_US)):
        found = re.findall(
            rf'^envoy_headway_replica_{name}_bucket{{mirrored="false",request_class="short".*le="([^"]+)"}}', page, re.MULTILINE
        )
        assert [float(edge) for edge in found[:-1]] == list(edges)
        assert all(later / earlier < 1.27 for earlier, later in pairwise(edge for edge in edges if edge >= 20))


def test_a_proxy_whose_pod_asks_for_no_such_statistic_shows_none(tmp_path: Path) -> None:
    port, admin = free_port(), free_port()
    with served(Model) as model, envoy(tmp_path, proxy(port, admin, model, {}), port):
        MeasuredReplica(port=port, admin=admin).ask(tokens=2, stream=True)
        sleep(2.5)
        assert "headway_replica" not in EnvoyAdmin(admin).measured()
