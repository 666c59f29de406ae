"""What a tenant's pod shows on its metrics page, or in the place of its proxy, of Services and nodes that are not its own: a real Prometheus
that relabels as the platform's monitors say keeps none of it.
"""

import json
import re
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from typing import Any
from urllib.parse import urlencode

import pytest
import yaml

from components.platform import mesh
from headway.release.evidence import queries
from headway.signals.catalogue import signal
from headway.signals.definition import Scope, Source
from headway.wire import GATEWAY_NAMESPACE, WAITING_REQUESTS
from sandbox.cluster.toolchain import ensure_toolchain
from sandbox.monitoring.servers import TOOL_SETS
from sandbox.progress import Silent
from tests.cluster.components.observability.collecting import free_ports
from tests.cluster.conftest import ControlPlane, eventually
from tests.cluster.exporter import shown
from tests.components.contracts import service

OTHERS = 'destination_service_namespace="assist",destination_service_name="chat-r0123456789",reporter="source",response_code="500"'
OWN = 'destination_service_namespace="vision",destination_service_name="defects-r0123456789",reporter="source",response_code="200"'
FORGED = f"""\
istio_requests_total{{{OTHERS}}} 7
DCGM_FI_DEV_XID_ERRORS{{Hostname="h100-0"}} 79
kube_node_status_condition{{node="h100-0",condition="Ready",status="false"}} 1
ALERTS{{alertname="NodeLost",alertstate="firing"}} 1
{WAITING_REQUESTS}{{tenant="assist",model="chat"}} 1
nv_inference_request_success{{platform_io_tenant="assist",namespace="assist"}} 3
own_queue_length 5
"""
HOSTILE = {
    "a value without end": 'own{a="%s"} 1\n' % ("x" * 2**20),
    "labels without end": "own{{{}}} 1\n".format(",".join(f'a{number}="1"' for number in range(5_000))),
    "a name without end": 'own{%s="1"} 1\n' % ("a" * 2**16),
    "series without end": "".join(f'own{{a="{number}"}} 1\n' for number in range(50_000)),
    "a page without end": f"# HELP own {'x' * 2**26}\nown 1\n",
}
UNTYPED = "own_answers_total 4\n"
TIMES = queries.STREAMS[queries.FIRST][0]
PROXYS = f"""\
istio_requests_total{{{OTHERS}}} 7
istio_requests_total{{{OWN}}} 9
{TIMES}{{namespace="assist",destination_service_namespace="assist",le="1"}} 3
"""


def relabelled(endpoint: Mapping[str, Any]) -> list[dict[str, Any]]:
    """By Prometheus' own names, as the operator writes them (promcfg.go)."""
    names = {"sourceLabels": "source_labels", "targetLabel": "target_label"}
    return [{str(names.get(key, key)): value for key, value in rule.items()} for rule in endpoint.get("metricRelabelings", ())]


def limited(monitor: Mapping[str, Any]) -> dict[str, Any]:
    """What a PodMonitor says of pages, by Prometheus' own names."""
    said = {key: value for key, value in monitor.items() if key.endswith(("Limit", "Protocol"))}
    return {re.sub("[A-Z]", lambda found: f"_{found[0].lower()}", key): value for key, value in said.items()}


def monitors() -> dict[str, Mapping[str, Any]]:
    every = [*mesh.manifests(hosts=["a.example"], certificate=None, region="us-east-1"), *service("defects").manifests()]
    return {each.body["metadata"]["name"]: each.body["spec"] for each in every if each.kind == "PodMonitor"}


@pytest.fixture(scope="module")
def ask(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The series that an expression finds, once all pages were read, and those of hostile pods refused."""
    toolchain, folder, (port, *_) = (
        ensure_toolchain(control_plane.layout, Silent(), TOOL_SETS),
        tmp_path_factory.mktemp("prometheus"),
        free_ports(),
    )
    found = monitors()
    with ExitStack() as pages:
        told = (
            (FORGED, "defects", "vision"),
            (PROXYS, "mesh-replicas", "vision"),
            (PROXYS, "mesh-proxies", GATEWAY_NAMESPACE),
            (UNTYPED, "defects", "vision"),
        )
        hostile = [*((text, "defects", "vision") for text in HOSTILE.values()), (HOSTILE["a page without end"], "mesh-replicas", "vision")]
        jobs = [
            {
                "job_name": f"{name}-{number}",
                "scrape_interval": "1s",
                "static_configs": [
                    {
                        "targets": [pages.enter_context(shown(text, typed=text != UNTYPED)).target],
                        "labels": {"namespace": namespace, "platform_io_tenant": namespace},
                    }
                ],
                "metric_relabel_configs": relabelled(found[name]["podMetricsEndpoints"][0]),
                **limited(found[name]),
            }
            for number, (text, name, namespace) in enumerate([*told, *hostile])
        ]
        (folder / "prometheus.yml").write_text(yaml.safe_dump({"scrape_configs": jobs}))
        words = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{port}"]
        with subprocess.Popen([toolchain.binary("prometheus"), *words], stderr=subprocess.DEVNULL) as process:
            try:
                eventually(lambda: (len(_found(port, "up == 1")) >= len(told) and len(_found(port, "up")) == len(jobs)) or None, within=60)
                yield lambda expression: _found(port, expression)
            finally:
                process.terminate()


def _found(port: int, expression: str) -> list[dict[str, str]]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/v1/query?{urlencode({'query': expression})}", timeout=5) as answer:
            return [each["metric"] for each in json.load(answer)["data"]["result"]]
    except OSError:
        return []


def test_of_anothers_service_nobody_but_the_gateway_is_believed(ask: Any) -> None:
    found = ask('istio_requests_total{destination_service_namespace="assist"}')
    assert [each["namespace"] for each in found] == [GATEWAY_NAMESPACE]
    matchers = Scope(tenant="assist", model="chat", release="r0123456789").matchers(Source.MESH)
    assert "$scope" in signal("request_rate").expressions[Source.MESH]
    assert [each["namespace"] for each in ask(f"istio_requests_total{{{matchers}}}")] == [GATEWAY_NAMESPACE], "as a gate asks"


def test_a_replicas_proxy_is_believed_of_its_own_service(ask: Any) -> None:
    assert {each["namespace"] for each in ask('istio_requests_total{destination_service_namespace="vision"}')} == {
        "vision",
        GATEWAY_NAMESPACE,
    }


def test_times_of_tokens_are_of_the_pod_whose_page_they_are_on(ask: Any) -> None:
    found = [each for each in ask(TIMES) if each["namespace"] != GATEWAY_NAMESPACE]
    assert [(each["namespace"], each["destination_service_namespace"]) for each in found] == [("vision", "vision")]


@pytest.mark.parametrize("name", ["DCGM_FI_DEV_XID_ERRORS", "kube_node_status_condition", "ALERTS", WAITING_REQUESTS])
def test_no_pod_speaks_of_nodes_alerts_or_others_callers(ask: Any, name: str) -> None:
    assert ask(name) == []


def test_a_pod_says_what_it_likes_of_itself_and_names_no_other_tenant(ask: Any) -> None:
    assert [each["namespace"] for each in ask("own_queue_length")] == ["vision"]
    (found,) = ask("nv_inference_request_success")
    assert (found["namespace"], found["platform_io_tenant"]) == ("vision", "vision")


def test_a_page_larger_than_any_servers_is_not_kept(ask: Any) -> None:
    read = {each["job"] for each in ask("up == 1")}
    assert read == {"defects-0", "mesh-replicas-1", "mesh-proxies-2", "defects-3"}


def test_a_page_that_does_not_say_its_type_is_read_as_text(ask: Any) -> None:
    assert [each["namespace"] for each in ask("own_answers_total")] == ["vision"]
