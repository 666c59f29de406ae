"""What a tenant's pod shows on its metrics page, or in the place of its proxy, of Services and nodes that are not its own: a real Prometheus
that relabels as the platform's monitors say keeps none of it.
"""

import json
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlencode

import pytest
import yaml

from components.platform import mesh
from headway.signals.catalogue import signal
from headway.signals.definition import Scope, Source
from headway.wire import GATEWAY_NAMESPACE
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
nv_inference_request_success{{platform_io_tenant="assist",namespace="assist"}} 3
own_queue_length 5
"""
PROXYS = f"istio_requests_total{{{OTHERS}}} 7\nistio_requests_total{{{OWN}}} 9\n"


def relabelled(endpoint: Mapping[str, Any]) -> list[dict[str, Any]]:
    """By Prometheus' own names, as the operator writes them (promcfg.go)."""
    names = {"sourceLabels": "source_labels", "targetLabel": "target_label"}
    return [{str(names.get(key, key)): value for key, value in rule.items()} for rule in endpoint.get("metricRelabelings", ())]


def endpoints() -> dict[str, Mapping[str, Any]]:
    every = [*mesh.manifests(hosts=["a.example"], certificate=None, region="us-east-1"), *service("defects").manifests()]
    return {each.body["metadata"]["name"]: each.body["spec"]["podMetricsEndpoints"][0] for each in every if each.kind == "PodMonitor"}


@pytest.fixture(scope="module")
def ask(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """The series that an expression finds, once all three pages were read."""
    toolchain, folder, (port, *_) = (
        ensure_toolchain(control_plane.layout, Silent(), TOOL_SETS),
        tmp_path_factory.mktemp("prometheus"),
        free_ports(),
    )
    found = endpoints()
    with shown(FORGED) as server, shown(PROXYS) as proxy, shown(PROXYS) as gateway:
        targets = (("defects", server, "vision"), ("mesh-replicas", proxy, "vision"), ("mesh-proxies", gateway, GATEWAY_NAMESPACE))
        jobs = [
            {
                "job_name": name,
                "scrape_interval": "1s",
                "static_configs": [{"targets": [page.target], "labels": {"namespace": namespace, "platform_io_tenant": namespace}}],
                "metric_relabel_configs": relabelled(found[name]),
            }
            for name, page, namespace in targets
        ]
        (folder / "prometheus.yml").write_text(yaml.safe_dump({"scrape_configs": jobs}))
        words = [f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{port}"]
        with subprocess.Popen([toolchain.binary("prometheus"), *words], stderr=subprocess.DEVNULL) as process:
            try:
                eventually(lambda: len(_found(port, "up == 1")) == len(jobs) or None, within=60)
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


@pytest.mark.parametrize("name", ["DCGM_FI_DEV_XID_ERRORS", "kube_node_status_condition", "ALERTS"])
def test_no_pod_speaks_of_nodes_or_alerts(ask: Any, name: str) -> None:
    assert ask(name) == []


def test_a_pod_says_what_it_likes_of_itself_and_names_no_other_tenant(ask: Any) -> None:
    assert [each["namespace"] for each in ask("own_queue_length")] == ["vision"]
    (found,) = ask("nv_inference_request_success")
    assert (found["namespace"], found["platform_io_tenant"]) == ("vision", "vision")
