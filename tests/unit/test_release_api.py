"""What the driver makes of an API server's answers, asked by a real client on loopback."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from headway.errors import UserError
from headway.release.driver.api import Api
from headway.release.driver.world import OutOfReachError

ROUTE = "/apis/networking.istio.io/v1/namespaces/vision/virtualservices/defects"


@contextmanager
def answering(*refused: int, ready: int) -> Iterator[Api]:
    """An API server that refuses with each status in turn, then gives the route; its readiness is as said."""
    left = list(refused)

    class Server(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status = ready if self.path == "/readyz" else left.pop(0) if left else 200
            said = json.dumps({"message": "User cannot get virtualservices"} if status >= 400 else {"kind": "VirtualService"}).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, format: str, *args: object) -> None:
            """Tests print nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    cluster = {"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}
    user = {"name": "u", "user": {"token": "t"}}
    context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
    config = {"apiVersion": "v1", "kind": "Config", "clusters": [cluster], "users": [user], "contexts": [context], "current-context": "x"}
    try:
        yield Api(config)
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("status", [401, 403])
def test_a_server_that_is_starting_refuses_nothing_for_good(status: int) -> None:
    with answering(status, ready=500) as api, pytest.raises(OutOfReachError):
        api.get(ROUTE)


def test_a_server_that_became_ready_meanwhile_is_asked_again() -> None:
    with answering(403, ready=200) as api:
        assert api.get(ROUTE) == {"kind": "VirtualService"}


def test_a_ready_server_that_refuses_twice_means_it() -> None:
    with answering(403, 403, ready=200) as api, pytest.raises(UserError, match=r"refuses GET .*virtualservices/defects: User cannot get"):
        api.get(ROUTE)
