"""What is made of an API server's answers, asked by a real client on loopback."""

import json
import time
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest

from headway.environment.api_answer import LARGEST_EVENT
from headway.environment.kubernetes import KubernetesApi, UnusableKubeconfigError
from headway.environment.port import OutOfReachError
from headway.problem import UserError
from tests.loopback import Handler, served

ROUTE = "/apis/networking.istio.io/v1/namespaces/vision/virtualservices/defects"


def kubeconfig(server: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }


@contextmanager
def answering(*refused: int, ready: int) -> Generator[KubernetesApi]:
    """An API server that refuses with each status in turn, then gives the route; its readiness is as said."""
    left = list(refused)

    class Server(Handler):
        def do_GET(self) -> None:
            status = ready if self.path == "/readyz" else left.pop(0) if left else 200
            self.reply(status, {"message": "User cannot get virtualservices"} if status >= 400 else {"kind": "VirtualService"})

    with served(Server) as server:
        yield KubernetesApi(kubeconfig(server))


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


def test_a_long_list_is_asked_for_page_by_page() -> None:
    asked: list[str] = []

    class Server(Handler):
        def do_GET(self) -> None:
            asked.append(self.path)
            page = {"items": [{"n": len(asked)}], "metadata": {"continue": "a&b" if len(asked) < 3 else ""}}
            self.reply(200, page)

    with served(Server) as server:
        api = KubernetesApi(kubeconfig(server))
        assert list(api.each("/api/v1/pods?labelSelector=a", page=1)) == [{"n": 1}, {"n": 2}, {"n": 3}]
    assert asked == ["/api/v1/pods?labelSelector=a&limit=1", *["/api/v1/pods?labelSelector=a&limit=1&continue=a%26b"] * 2]


def test_a_list_without_end_ends_with_its_time() -> None:
    class Server(Handler):
        def do_GET(self) -> None:
            self.reply(200, {"items": [{}], "metadata": {"continue": "on"}})

    with (
        served(Server) as server,
        pytest.raises(OutOfReachError, match=r"time for this list is over|ReadTimeoutError|not complete within"),
    ):  # between two pages, or within one
        for _ in KubernetesApi(kubeconfig(server)).each("/api/v1/pods", until=time.monotonic() + 0.5):
            pass


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (200, b'{"items":[' + b"0," * 1000, "more than 1000 bytes"),
        (403, b" " * 1001, "more than 1000 bytes"),
        (410, b"{}", "HTTP 410"),
        (200, b"<html>", "cannot be read"),
        (200, b"[" * 900, "cannot be read"),
        (200, b'{"a":1e999}', "cannot be read"),
        (200, b"[]", "no object"),
    ],
)
def test_an_answer_that_no_api_server_gives_is_none(status: int, body: bytes, why: str) -> None:
    class Server(Handler):
        def do_GET(self) -> None:
            self.reply(status, body)

    with served(Server) as server, pytest.raises(OutOfReachError, match=why):
        list(KubernetesApi(kubeconfig(server)).each("/api/v1/pods", largest=1000))


def event(kind: str, **body: Any) -> str:
    return json.dumps({"type": kind, "object": body}) + "\n"


def watched(status: int, body: str) -> list[tuple[str, dict[str, Any]]]:
    class Server(Handler):
        def do_GET(self) -> None:
            assert "watch=true&resourceVersion=7" in self.path and "labelSelector=a" in self.path
            self.reply(status, body)

    with served(Server) as server:
        return list(KubernetesApi(kubeconfig(server)).watch("/api/v1/pods", "7", 1, {"labelSelector": "a"}))


def test_a_watch_tells_each_event_with_its_object() -> None:
    assert watched(200, event("ADDED", a=1) + event("DELETED", a=2)) == [("ADDED", {"a": 1}), ("DELETED", {"a": 2})]


@pytest.mark.parametrize(("status", "body"), [(200, event("ERROR", code=410)), (410, "{}")])
def test_a_watch_of_a_forgotten_version_ends_and_can_be_begun_anew(status: int, body: str) -> None:
    assert watched(status, body) == []


@pytest.mark.parametrize(
    ("status", "body", "why"),
    [
        (200, event("ERROR", code=500, message="etcd is away"), "etcd is away"),
        (403, json.dumps({"message": "etcd is away"}), "etcd is away"),
        (200, "{" * 1000 + "\n", "cannot be read"),
        (200, " " * (LARGEST_EVENT + 1), "an event of more than"),
    ],
    ids=["error", "refused", "odd", "large"],
)
def test_a_watch_that_fails_says_why(status: int, body: str, why: str) -> None:
    with pytest.raises(OutOfReachError, match=why):
        watched(status, body)


def test_a_kubeconfig_that_names_nobody_is_told_apart_from_silence() -> None:
    with pytest.raises(UnusableKubeconfigError) as refused:
        KubernetesApi("/nowhere").connect()
    assert str(refused.value) == refused.value.reason == "there is no kubeconfig /nowhere"
