"""Who is outside of the cluster asks Prometheus through the API server, by the right to get and by no other."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from headway.environment.kubernetes import KubernetesApi
from headway.environment.service_proxy import ServiceProxy
from headway.release.evidence.prometheus import Prometheus, PrometheusEndpoint, UnansweredError
from tests.loopback import Handler, served
from tests.unit.environment.test_kubernetes_api import kubeconfig

FIRST, SECOND = "prometheus-0:9090", "prometheus-1:9090"
PATH = "/api/v1/namespaces/monitoring/services/prometheus-0:9090/proxy"


class ApiServer(Handler):
    """Answers Prometheus' query, or refuses, and remembers what was asked."""

    asked: list[tuple[str, str, bytes, str]]
    status = 200

    def do_GET(self) -> None:
        self.asked.append((self.command, self.path, self.body(), self.headers.get("Authorization", "")))
        value = {"metric": {}, "value": [1.0, "7"]}
        refusal = {"kind": "Status", "message": 'services "prometheus-0:9090" is forbidden'}
        self.reply(self.status, {"status": "success", "data": {"result": [value]}} if self.status == 200 else refusal)

    do_POST = do_GET  # noqa: N815


@pytest.fixture
def api_server() -> Iterator[tuple[type[ApiServer], ServiceProxy]]:
    kind = type("Fresh", (ApiServer,), {"asked": []})
    with served(kind) as address:
        api = KubernetesApi(kubeconfig(address))
        proxy = ServiceProxy(lambda: api, (FIRST, SECOND))
        yield kind, proxy
        proxy.close()


def test_a_query_is_posted_here_and_arrives_as_a_get_with_the_kubeconfigs_token(api_server: Any) -> None:
    kind, proxy = api_server
    prometheus = Prometheus(PrometheusEndpoint(url=proxy.addresses.split(",")[0]))
    assert prometheus.samples('up{namespace="vision"}', 5.0)[0].samples == [(1.0, 7.0)]
    prometheus.close()
    ((method, path, body, token),) = kind.asked
    assert (method, body, token) == ("GET", b"", "Bearer t")
    assert path == f"{PATH}/api/v1/query?query=up%7Bnamespace%3D%22vision%22%7D&time=5.000"


def test_a_refusal_is_told_in_the_api_servers_words(api_server: Any) -> None:
    kind, proxy = api_server
    kind.status = 403
    prometheus = Prometheus(PrometheusEndpoint(url=proxy.addresses.split(",")[0]))
    with pytest.raises(UnansweredError, match="is forbidden"):
        prometheus.samples("up", None)
    prometheus.close()


def test_each_replica_has_an_address_of_its_own(api_server: Any) -> None:
    _, proxy = api_server
    assert [address.rpartition("/")[2] for address in proxy.addresses.split(",")] == [FIRST, SECOND]


def asked(url: str, body: bytes | None = None, **headers: str) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers)) as answer:
            return answer.status
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code


def test_nothing_but_the_named_services_is_reached(api_server: Any) -> None:
    kind, proxy = api_server
    base, _, _ = proxy.addresses.split(",")[0].rpartition("/")
    assert asked(f"{base}/grafana:80/") == 403
    assert asked(f"{base}/{FIRST}/../../../secrets") == 403
    assert asked(f"{base}/{FIRST}/api/v1/query", Host="rebound.example") == 403
    assert kind.asked == []


def test_what_is_no_form_stays_a_post(api_server: Any) -> None:
    kind, proxy = api_server
    address = proxy.addresses.split(",")[0]
    assert asked(f"{address}/api/v2/alerts", json.dumps([{"labels": {}}]).encode(), **{"Content-Type": "application/json"}) == 200
    assert [(method, body) for method, _, body, _ in kind.asked] == [("POST", b'[{"labels": {}}]')]
    assert asked(f"{address}/api/v2/alerts", b"no JSON", **{"Content-Type": "text/plain"}) == 400


def test_an_api_server_that_is_away_is_a_bad_gateway() -> None:
    api = KubernetesApi(kubeconfig("http://127.0.0.1:9"))
    proxy = ServiceProxy(lambda: api, (FIRST,))
    assert asked(f"{proxy.addresses}/api/v1/query") == 502
    proxy.close()
