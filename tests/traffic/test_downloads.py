"""What it costs a replica's proxy to pass its artifact, which the fetching init container reads from S3 through it."""

import os
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from threading import Thread

import pytest

from components.addons import istio
from headway.contract.arithmetic.startup import DEFAULT_RATES
from headway.contract.units import MilliCpu
from sandbox.traffic.mesh import clusters
from tests.traffic.proxied import envoy, free_port

ARTIFACT, CONNECTIONS = 2**29, 8
_PIECE = bytes(2**20)
_FILTERS = "type.googleapis.com/envoy.extensions.filters"


class Store(BaseRequestHandler):
    """Sends a connection's part of the artifact, whatever it is asked."""

    def handle(self) -> None:
        self.request.recv(64)
        for _ in range(ARTIFACT // CONNECTIONS // len(_PIECE)):
            self.request.sendall(_PIECE)


@pytest.fixture
def store() -> Iterator[int]:
    with ThreadingTCPServer(("127.0.0.1", 0), Store) as server:
        Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield int(server.server_address[1])
        server.shutdown()


def read(port: int) -> int:
    """Bytes that a connection gives."""
    found, into = 0, bytearray(2**18)
    with socket.create_connection(("127.0.0.1", port), timeout=120) as connection:
        connection.sendall(b"GET /")
        while got := connection.recv_into(into):
            found += got
    return found


def seconds_of_children() -> float:
    """CPU time of the processes that this one has started and seen end."""
    spent = os.times()
    return spent.children_user + spent.children_system


def test_a_proxy_passes_an_artifact_within_its_cpu_as_fast_as_starts_count_on(store: int, tmp_path: Path) -> None:
    """Bytes pass as they are, as istiod has it for a TLS host outside the mesh; the proxy neither decrypts nor looks into them."""
    port = free_port()
    listener = {
        "name": "outbound",
        "address": clusters.address("127.0.0.1", port),
        "listener_filters": [{"name": "tls", "typed_config": {"@type": f"{_FILTERS}.listener.tls_inspector.v3.TlsInspector"}}],
        "filter_chains": [
            {
                "filters": [
                    {
                        "name": "tcp",
                        "typed_config": {
                            "@type": f"{_FILTERS}.network.tcp_proxy.v3.TcpProxy",
                            "stat_prefix": "s3",
                            "cluster": "s3",
                        },
                    }
                ]
            }
        ],
    }
    reached = clusters.inbound("s3", ("127.0.0.1", store), {}, grpc=False)
    before = seconds_of_children()
    with (
        ThreadPoolExecutor(CONNECTIONS) as readers,
        envoy(tmp_path, {"static_resources": {"listeners": [listener], "clusters": [reached]}}, port),
    ):
        assert sum(readers.map(read, [port] * CONNECTIONS)) == ARTIFACT
    spent = seconds_of_children() - before
    limit = MilliCpu.parse(istio.control_plane_values("host", 1)["global"]["proxy"]["resources"]["limits"]["cpu"])
    assert spent / ARTIFACT * int(DEFAULT_RATES.nvme) < limit / 1000, "CPUs at the rate at which a start reads its artifact"
