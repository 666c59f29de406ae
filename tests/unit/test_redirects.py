"""Servers that send their callers to another host: no client of ours goes there, so that nobody collects credentials."""

import importlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request

import pytest

from headway.environment.kubernetes import KubernetesApi
from headway.model_registry.mlflow import MlflowRegistry
from headway.outgoing import asked
from headway.problem import UserError
from headway.release.evidence.prometheus import Prometheus, PrometheusEndpoint, UnansweredError
from headway.release.notify import Webhook
from tests.loopback import Handler, served

PROJECT = Path(__file__).parents[2]
SCRIPTS = PROJECT / "components/model_service/scripts"


@pytest.fixture(params=[301, 302, 303, 307, 308])
def there(request: pytest.FixtureRequest) -> Iterator[tuple[str, list[str]]]:
    """A server that redirects whatever it is asked, and what the other one was asked."""
    got: list[str] = []

    class Thief(Handler):
        def do_GET(self) -> None:
            got.append(f"{self.command} {self.path} {self.headers}")
            self.reply(200, {})

        def do_POST(self) -> None:
            self.do_GET()

    with served(Thief, host="127.0.0.2") as thief:

        class Redirecting(Handler):
            def do_GET(self) -> None:
                self.body()
                self.reply(request.param, b"", Location=thief + self.path)

            def do_POST(self) -> None:
                self.do_GET()

        with served(Redirecting) as address:
            yield address, got


def mlflow(address: str, _: Path) -> None:
    MlflowRegistry(address, "Bearer secret").find("defects", "1")


def prometheus(address: str, login: Path) -> None:
    client = Prometheus(PrometheusEndpoint(url=address, login_file=login))
    try:
        client.samples("up", None)
    finally:
        client.close()


def webhook(address: str, _: Path) -> None:
    Webhook(address + "/services/secret", "vision/defects", pauses=())._post(b"{}")  # pyright: ignore[reportPrivateUsage]


def api_server(address: str, _: Path) -> None:
    user = {"name": "ci", "user": {"token": "secret"}}
    context = {"name": "one", "context": {"cluster": "one", "user": "ci"}}
    cluster = {"name": "one", "cluster": {"server": address}}
    api = KubernetesApi({"current-context": "one", "contexts": [context], "clusters": [cluster], "users": [user]})
    assert not api.answer("GET", "/api/v1/pods").ok


def pods_credentials(address: str, login: Path) -> None:
    named = {"AWS_CONTAINER_CREDENTIALS_FULL_URI": address}
    script("fetch").credentials({**named, "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(login)})


def web_identity(address: str, login: Path) -> None:
    named = {"AWS_ROLE_ARN": "arn:aws:iam::1:role/x", "AWS_REGION": "us-west-2", "AWS_WEB_IDENTITY_TOKEN_FILE": str(login)}
    script("fetch").credentials({**named, "AWS_ENDPOINT_URL_STS": address})


def queue(address: str, _: Path) -> None:
    keys = {"AWS_ACCESS_KEY_ID": "AKIA", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "token"}
    cloud = script("worker").Cloud({"region": "us-west-2", "queue_url": address}, {**keys, "AWS_ENDPOINT_URL_SQS": address})
    cloud.take(1)


def stored_request(address: str, _: Path) -> None:
    keys = {"AWS_ACCESS_KEY_ID": "AKIA", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_SESSION_TOKEN": "token"}
    cloud = script("worker").Cloud({"region": "us-west-2", "store": "s3://models/vision/"}, {**keys, "AWS_ENDPOINT_URL_S3": address})
    cloud.stored("one.json")


def model_server(address: str, _: Path) -> None:
    assert script("worker").ask({"base": address, "timeout_seconds": 5}, "/predict", b"{}")[0] >= 300


def golden_request(address: str, _: Path) -> None:
    script("probe").exchange(address, {"path": "/predict", "body": {"x": 1}, "timeout_seconds": 5})


def anything_else(address: str, _: Path) -> None:
    asked(Request(address, headers={"Authorization": "secret"}), 5)


def script(name: str) -> Any:
    if str(SCRIPTS) not in sys.path:
        sys.path.insert(0, str(SCRIPTS))
    return importlib.import_module(name)


REFUSALS = (HTTPError, UserError, UnansweredError)

CLIENTS = [
    mlflow,
    prometheus,
    webhook,
    api_server,
    pods_credentials,
    web_identity,
    queue,
    stored_request,
    model_server,
    golden_request,
    anything_else,
]


@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.__name__)
def test_no_client_follows_a_redirect(there: tuple[str, list[str]], client: Callable[[str, Path], None], tmp_path: Path) -> None:
    address, got = there
    (login := tmp_path / "login").write_text("ci:secret", encoding="utf-8")
    with suppress(*REFUSALS, script("fetch").Refused, script("worker").Again, script("worker").Refused, script("probe").NotYet):
        client(address, login)
    assert got == []


HTTPS_ALONE = {"api_server"}
"""Clients of servers that speak https alone: a proxy tunnels it, and sees the host's name."""


def test_no_client_asks_by_a_proxy_that_would_read_credentials(tmp_path: Path) -> None:
    got: list[str] = []

    class Thief(Handler):
        def do_GET(self) -> None:
            self.body()
            got.append(f"{self.command} {self.path}")
            self.reply(200, {})

        def do_POST(self) -> None:
            self.do_GET()

    (login := tmp_path / "login").write_text("ci:secret", encoding="utf-8")
    with served(Thief, host="127.0.0.2") as thief, served(Handler) as address:
        environment = {**os.environ, "http_proxy": thief, "all_proxy": thief, "no_proxy": ""}
        asking = subprocess.run(
            [sys.executable, "-m", "tests.unit.test_redirects", address, str(login)],
            env=environment,
            cwd=PROJECT,
            capture_output=True,
            text=True,
        )
    assert asking.returncode == 0, asking.stderr
    assert got == []


@pytest.mark.parametrize("address", ["http://mlflow.example.com", "http://10.0.0.7:5000", "http://me:word@mlflow.example.com"])
def test_credentials_are_not_sent_in_plain_text(address: str) -> None:
    with pytest.raises(UserError, match="is an http address, and credentials are set"):
        MlflowRegistry.of({"MLFLOW_TRACKING_URI": address, "MLFLOW_TRACKING_TOKEN": "secret"})
    assert MlflowRegistry.of({"MLFLOW_TRACKING_URI": "http://127.0.0.1:5000", "MLFLOW_TRACKING_TOKEN": "secret"}).authorization


def test_a_hooks_address_is_not_sent_in_plain_text() -> None:
    with pytest.raises(UserError, match="is an http address"):
        Webhook("http://hooks.example.com/services/secret", "vision/defects")


def test_a_registry_that_redirects_is_named_with_where_to(there: tuple[str, list[str]]) -> None:
    address, _ = there
    with pytest.raises(UserError, match=r"it redirects to http://127\.0\.0\.2, which gets no credentials"):
        mlflow(address, Path())


SPARED = {
    "headway/outgoing.py": "is the client that follows none",
    "headway/verify/inside.py": "asks a pod of its own, and carries nothing",
}


def test_no_other_file_opens_addresses_by_the_client_that_follows() -> None:
    rooms = [PROJECT / room for room in ("headway", "components", "stacks", "policies")]
    found = {
        str(file.relative_to(PROJECT)) for room in rooms for file in room.rglob("*.py") if "urlopen(" in file.read_text(encoding="utf-8")
    }
    assert found <= SPARED.keys(), found - SPARED.keys()


if __name__ == "__main__":
    for one in CLIENTS:
        if one.__name__ not in HTTPS_ALONE:
            with suppress(
                *REFUSALS, OSError, script("fetch").Refused, script("worker").Again, script("worker").Refused, script("probe").NotYet
            ):
                one(sys.argv[1], Path(sys.argv[2]))
