"""What a real gateway's proxy measures of streams: first tokens and the time between them, as Prometheus would read them."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from components.platform.gateway_measures import BETWEEN_EDGES_MS, FIRST_EDGES_MS
from components.platform.gateway_scripts import BETWEEN, FIRST
from sandbox.traffic.mesh.envoy import EnvoyAdmin
from tests.cluster.conftest import eventually
from tests.loopback import served
from tests.traffic.limited_gateway import OTHERS_HOST, LimitedGateway, Model, configuration, filters
from tests.traffic.proxied import envoy, free_port

PAUSE = 0.2
"""Seconds of the model before each piece."""


@dataclass(frozen=True, kw_only=True)
class MeasuredGateway(LimitedGateway):
    admin: int

    def total(self, name: str, what: str) -> float:
        """Of the histogram of one time, for the first tenant's first model."""
        page = EnvoyAdmin(self.admin).get("/stats/prometheus")
        found = re.findall(rf'^envoy_headway_{name}_{what}{{tenant="assist",model="chat"}} (\S+)$', page, re.MULTILINE)
        return float(found[0]) if found else 0.0

    def grown(self, name: str, **asked: Any) -> float:
        """By how many milliseconds the histogram's sum grows with one more request, which must count."""
        before, count = self.total(name, "sum"), self.total(name, "count")
        self.ask(**asked)
        eventually(lambda: self.total(name, "count") == count + 1, within=60)
        return self.total(name, "sum") - before


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MeasuredGateway]:
    port, admin = free_port(), free_port()
    with served(Model) as model:
        place = ("127.0.0.1", int(model.rpartition(":")[2]))
        config = configuration(port, filters("500/s", "1000000/s", 1, answer=1), place, free_port(), admin)
        with envoy(tmp_path_factory.mktemp("proxy"), config, port):
            yield MeasuredGateway(port=port, admin=admin)


@pytest.mark.parametrize("asked", [{}, {"choices": 1}])
def test_a_streams_first_token_and_the_time_to_each_further_one_are_measured(gateway: MeasuredGateway, asked: dict[str, int]) -> None:
    first = gateway.grown(FIRST, tokens=5, stream=True, pause=PAUSE, **asked)
    assert PAUSE * 1000 <= first < 4 * PAUSE * 1000
    between = gateway.grown(BETWEEN, tokens=5, stream=True, pause=PAUSE, **asked)
    assert between == pytest.approx(PAUSE * 1000, rel=0.5)


def test_what_a_server_says_before_its_first_token_is_no_token(gateway: MeasuredGateway) -> None:
    assert gateway.grown(FIRST, tokens=2, stream=True, pause=PAUSE, tools=[{"name": "t"}]) >= PAUSE * 1000


def test_of_several_choices_and_of_a_stream_without_usage_no_mean_is_told(gateway: MeasuredGateway) -> None:
    count = gateway.total(BETWEEN, "count")
    gateway.grown(FIRST, tokens=6, stream=True, choices=2)
    gateway.grown(FIRST, tokens=6, stream=True, usage=False)
    assert gateway.total(BETWEEN, "count") == count


def test_the_edges_are_those_that_the_annotation_tells_istios_proxies(gateway: MeasuredGateway) -> None:
    gateway.grown(BETWEEN, tokens=2, stream=True)
    page = EnvoyAdmin(gateway.admin).get("/stats/prometheus")
    for name, edges in ((FIRST, FIRST_EDGES_MS), (BETWEEN, BETWEEN_EDGES_MS)):
        found = re.findall(rf'^envoy_headway_{name}_bucket{{.*le="(\d+)"}}', page, re.MULTILINE)
        assert found == [str(edge) for edge in edges]


def test_nothing_is_measured_of_answers_in_one_piece_nor_without_tokens(gateway: MeasuredGateway) -> None:
    gateway.ask(tokens=5)
    gateway.ask(host=OTHERS_HOST, tokens=5, stream=True)
    gateway.grown(FIRST, tokens=1, stream=True)
    page = EnvoyAdmin(gateway.admin).get("/stats/prometheus")
    assert set(re.findall(r"headway_\w+_count{([^}]*)}", page)) == {'tenant="assist",model="chat"'}
    assert gateway.total(FIRST, "count") >= gateway.total(BETWEEN, "count")


def test_of_a_tenant_whose_stack_names_no_model_yet_all_is_measured_without(tmp_path: Path) -> None:
    """The platform is updated first: its scripts meet what an earlier tenant's stack has said."""
    port, admin = free_port(), free_port()
    known = json.loads(json.dumps(filters("500/s", "1000000/s", 1, answer=1)).replace('"model": "chat", ', ""))
    with served(Model) as model:
        place = ("127.0.0.1", int(model.rpartition(":")[2]))
        with envoy(tmp_path, configuration(port, known, place, free_port(), admin), port):
            assert LimitedGateway(port=port).ask(tokens=2, stream=True)[0].status == 200
            name = f"envoy_headway_{FIRST}_count"
            eventually(lambda: f'{name}{{tenant="assist",model=""}} 1' in EnvoyAdmin(admin).get("/stats/prometheus"), within=30)
