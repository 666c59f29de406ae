"""What the driver makes of an API server's answers, asked by a real client on loopback."""

from collections.abc import Generator
from contextlib import contextmanager

import pytest

from headway.environment.kubernetes import KubernetesApi
from headway.environment.port import OutOfReachError
from headway.problem import UserError
from tests.loopback import Handler, served

ROUTE = "/apis/networking.istio.io/v1/namespaces/vision/virtualservices/defects"


@contextmanager
def answering(*refused: int, ready: int) -> Generator[KubernetesApi]:
    """An API server that refuses with each status in turn, then gives the route; its readiness is as said."""
    left = list(refused)

    class Server(Handler):
        def do_GET(self) -> None:
            status = ready if self.path == "/readyz" else left.pop(0) if left else 200
            self.reply(status, {"message": "User cannot get virtualservices"} if status >= 400 else {"kind": "VirtualService"})

    with served(Server) as server:
        cluster = {"name": "c", "cluster": {"server": server}}
        user = {"name": "u", "user": {"token": "t"}}
        context = {"name": "x", "context": {"cluster": "c", "user": "u"}}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [cluster],
            "users": [user],
            "contexts": [context],
            "current-context": "x",
        }
        yield KubernetesApi(config)


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
