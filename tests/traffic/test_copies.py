"""How a copy of a request is told from the request: by a real Envoy, which makes the copies, and by the label that its metrics get."""

import json
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from components.addons.istio import ADDED_TAGS
from sandbox.traffic.mesh import clusters, patches
from tests.traffic import proxied

KINDS = "type.googleapis.com/envoy.extensions"
HOST = "defects.vision.svc.cluster.local"


def manager(name: str, route: dict[str, Any], **more: Any) -> dict[str, Any]:
    routes = [{"match": {"prefix": "/"}, **route}]
    return {
        "@type": f"{KINDS}.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": name,
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": routes}]},
        "http_filters": [{"name": patches.ROUTER, "typed_config": {"@type": f"{KINDS}.filters.http.router.v3.Router"}}],
        **more,
    }


def listener(name: str, port: int, made: dict[str, Any]) -> dict[str, Any]:
    chain = {"filters": [{"name": patches.MANAGER, "typed_config": made}]}
    return {"name": name, "address": clusters.address("127.0.0.1", port), "filter_chains": [chain]}


@pytest.fixture
def mirroring(tmp_path: Path) -> Iterator[tuple[int, Path]]:
    """(port, log): a caller's proxy that copies every request to a replica's, which answers and logs each request's host and label."""
    port, replica, log = proxied.free_port(), proxied.free_port(), tmp_path / "log"
    said = {"host": "%REQ(:AUTHORITY)%", "mirrored": f"%CEL({ADDED_TAGS['mirrored']})%"}
    form = {"json_format": said, "formatters": [{"name": "cel", "typed_config": {"@type": f"{KINDS}.formatter.cel.v3.Cel"}}]}
    sink = {"@type": f"{KINDS}.access_loggers.file.v3.FileAccessLog", "path": str(log), "log_format": form}
    logs = [{"name": "envoy.access_loggers.file", "typed_config": sink}]
    led = {"cluster": "replica", "request_mirror_policies": [{"cluster": "replica"}]}
    resources = {
        "listeners": [
            listener("caller", port, manager("caller", {"route": led})),
            listener("replica", replica, manager("replica", {"direct_response": {"status": 200}}, access_log=logs)),
        ],
        "clusters": [clusters.inbound("replica", ("127.0.0.1", replica), {}, grpc=False)],
    }
    with proxied.envoy(tmp_path, {"static_resources": resources}, port):
        yield port, log


@pytest.mark.parametrize("port", ["", ":8000"])
def test_a_copy_is_labelled_as_one_whether_its_caller_wrote_a_port_or_not(mirroring: tuple[int, Path], port: str) -> None:
    at, log = mirroring
    with closing(HTTPConnection("127.0.0.1", at, timeout=60)) as connection:
        connection.request("GET", "/", headers={"host": f"{HOST}{port}"})
        assert connection.getresponse().status == 200
        until = monotonic() + 60
        while len(lines := log.read_text().splitlines()) < 2:
            assert monotonic() < until, lines
            sleep(0.1)
        found = {(line["host"], line["mirrored"]) for line in map(json.loads, lines)}
        assert found == {(f"{HOST}{port}", "false"), (f"{HOST}-shadow{port}", "true")}
