"""A real API server passes a runner's questions on to one replica of Prometheus, and to nothing else."""

import json
import socket
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest
import yaml

from components.tenant import releasing
from headway.environment.kubernetes import KubernetesApi
from headway.environment.service_proxy import ServiceProxy, proxied
from headway.release.evidence.prometheus import Prometheus, PrometheusEndpoint
from headway.wire import MONITORING_NAMESPACE, PROMETHEUS_PROXIED
from tests.cluster.conftest import ControlPlane
from tests.contract_samples import tenant
from tests.loopback import Handler, served
from tests.unit.environment.test_service_proxy import asked

RUNNER = "vision-releases"


def address() -> str:
    """This machine's own: the API server passes nothing on to loopback addresses."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # nothing is sent
        return str(probe.getsockname()[0])


class Replica(Handler):
    """A Prometheus of one sample."""

    asked: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.asked.append(f"{self.command} {self.path}")
        self.reply(200, {"status": "success", "data": {"result": [{"metric": {}, "value": [1.0, "7"]}]}}, content_type="application/json")

    do_POST = do_GET  # noqa: N815


@pytest.fixture(scope="module")
def replica(control_plane: ControlPlane) -> Iterator[str]:
    """A Service of one replica, with the endpoint and the pod that the API server demands behind it."""
    host, name = address(), PROMETHEUS_PROXIED[0].partition(":")[0]
    control_plane.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": MONITORING_NAMESPACE}})
    with served(Replica, host=host) as url:
        port = int(url.rpartition(":")[2])
        where = {"namespace": MONITORING_NAMESPACE, "name": name}
        container = {"name": "prometheus", "image": f"registry.test/prometheus@sha256:{'a' * 64}"}
        control_plane.create(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": where,
                "spec": {"containers": [container], "automountServiceAccountToken": False},
            },
            {"apiVersion": "v1", "kind": "Service", "metadata": where, "spec": {"ports": [{"name": "http-web", "port": 9090}]}},
            {
                "apiVersion": "v1",
                "kind": "Endpoints",
                "metadata": where,
                "subsets": [
                    {
                        "addresses": [{"ip": host, "targetRef": {"kind": "Pod", **where}}],
                        "ports": [{"name": "http-web", "port": port}],
                    }
                ],
            },
        )
        control_plane.patch_status(
            "Pod", name, {"phase": "Running", "podIP": host, "podIPs": [{"ip": host}]}, namespace=MONITORING_NAMESPACE
        )
        control_plane.create(
            *(body for role, body in releasing.everywhere(tenant()) if role in ("release-metrics", "release-metrics-readers"))
        )
        yield name


@pytest.fixture
def runner(control_plane: ControlPlane) -> KubernetesApi:
    """The API server as somebody of the runners' group asks it, who has no other right."""
    config: dict[str, Any] = yaml.safe_load(control_plane.kubeconfig.read_text(encoding="utf-8"))
    config["users"][0]["user"] |= {"as": "ci", "as-groups": [RUNNER]}
    return _As(config, "ci", RUNNER)


class _As(KubernetesApi):
    """Impersonates by headers: the Python client does not read `as` from a kubeconfig."""

    def __init__(self, config: dict[str, Any], user: str, group: str) -> None:
        super().__init__(config)
        api = self._connected()
        api.rest_client.pool_manager.headers = {"Impersonate-User": user, "Impersonate-Group": group}
        sent = api.rest_client.pool_manager.request

        def request(method: str, url: str, **options: Any) -> Any:
            options["headers"] = {**options.get("headers", {}), "Impersonate-User": user, "Impersonate-Group": group}
            return sent(method, url, **options)

        api.rest_client.pool_manager.request = request


def test_a_runner_asks_prometheus_through_the_api_server(replica: str, runner: KubernetesApi) -> None:
    proxy = ServiceProxy(lambda: runner, PROMETHEUS_PROXIED)
    prometheus = Prometheus(PrometheusEndpoint(url=proxy.addresses.split(",")[0]))
    assert prometheus.samples("up", None)[0].samples == [(1.0, 7.0)]
    prometheus.close()
    assert Replica.asked == ["GET /api/v1/query?query=up"]
    # Its Service is there, and nobody behind it: the next replica's would be asked.
    assert asked(f"{proxy.addresses.split(',')[1]}/api/v1/query") == 404
    proxy.close()


@pytest.mark.usefixtures("replica")
def test_a_runner_may_neither_post_nor_reach_another_service(runner: KubernetesApi) -> None:
    posted = runner.answer("POST", f"{proxied(PROMETHEUS_PROXIED[0])}/api/v1/admin/tsdb/delete_series", body={})
    other = runner.answer("GET", f"{proxied('kube-prometheus-stack-grafana:80')}/")
    assert (posted.status, other.status) == (403, 403)
    assert 'cannot create resource "services/proxy"' in json.loads(posted.content)["message"]
