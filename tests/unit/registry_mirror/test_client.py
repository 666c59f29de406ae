"""What makers' registries ask of a client beyond the plain API: tokens, and stores behind redirects; and what ECR asks."""

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, NoCredentialsError
from moto import mock_aws

from headway.problem import UserError
from headway.registry_mirror.charts import package_of
from headway.registry_mirror.client import RegistryClient
from headway.registry_mirror.ecr import credentials_of, ensure_repository

BLOB = b"a layer"
DIGEST = f"sha256:{hashlib.sha256(BLOB).hexdigest()}"
ECR = "123456789012.dkr.ecr.eu-west-1.amazonaws.com"


class Maker(BaseHTTPRequestHandler):
    """Asks for a token of `/token`, and keeps its blobs in a store of another name, which takes no credentials."""

    asked: list[tuple[str, str]]

    def do_GET(self) -> None:
        authorization = self.headers.get("Authorization", "")
        self.asked.append((self.path, authorization))
        port = int(self.headers["Host"].rpartition(":")[2])
        if self.path.startswith("/token"):
            self._answer(200, json.dumps({"token": "of-this-repository"}).encode())
        elif self.path.startswith("/store"):
            self._answer(400 if authorization else 200, BLOB)
        elif authorization != "Bearer of-this-repository":
            self._answer(401, b"", {"WWW-Authenticate": f'Bearer realm="http://127.0.0.1:{port}/token",service="maker"'})
        elif self.path.endswith(DIGEST):
            self._answer(307, b"", {"Location": f"http://localhost:{port}/store"})
        else:
            self._answer(404, b"")

    def _answer(self, code: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(code)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None: ...


@pytest.fixture
def maker() -> Iterator[tuple[RegistryClient, list[tuple[str, str]]]]:
    Maker.asked = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Maker)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield RegistryClient(f"127.0.0.1:{server.server_address[1]}"), Maker.asked
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_token_is_asked_for_and_ends_at_the_store(maker: tuple[RegistryClient, list[tuple[str, str]]], tmp_path: Path) -> None:
    registry, asked = maker
    registry.fetch_blob("nvidia/dcgm", DIGEST, len(BLOB), tmp_path / "blob", lambda _: None)
    assert (tmp_path / "blob").read_bytes() == BLOB
    assert ("/store", "") in asked
    assert any(path.startswith("/token?service=maker&scope=repository%3Anvidia%2Fdcgm%3Apull") for path, _ in asked)


def test_what_is_not_there_is_told_from_what_fails(maker: tuple[RegistryClient, list[tuple[str, str]]], tmp_path: Path) -> None:
    registry, _ = maker
    assert registry.manifest("nvidia/dcgm", "1") is None
    with pytest.raises(UserError, match="has no blobs/sha256:0"):
        registry.fetch_blob("nvidia/dcgm", "sha256:0", 1, tmp_path / "blob", lambda _: None)


def test_a_registry_that_does_not_answer_is_named() -> None:
    with pytest.raises(UserError, match=r"The registry 127\.0\.0\.1:9 does not do"):
        RegistryClient("127.0.0.1:9").manifest("a", "1")


@mock_aws
def test_ecr_has_a_password_and_a_repository_whose_tags_never_move(tmp_path: Path) -> None:
    def client(region: str) -> Any:
        return boto3.client("ecr", region_name=region)

    assert credentials_of(ECR, client, tmp_path / "config.json").startswith("AWS:")
    for _ in range(2):
        ensure_repository(ECR, "mirror/images/grafana/loki", client)
    (found,) = client("eu-west-1").describe_repositories()["repositories"]
    assert (found["repositoryName"], found["imageTagMutability"]) == ("mirror/images/grafana/loki", "IMMUTABLE")


@pytest.mark.parametrize(
    ("failure", "told"),
    [
        (ClientError({"Error": {"Code": "AccessDeniedException", "Message": "no"}}, "GetAuthorizationToken"), "AccessDeniedException"),
        (NoCredentialsError(), "Unable to locate credentials"),
    ],
)
def test_an_identity_that_ecr_refuses_is_no_fault_of_headway(failure: Exception, told: str, tmp_path: Path) -> None:
    class Refusing:
        exceptions = boto3.client("ecr", region_name="eu-west-1").exceptions

        def get_authorization_token(self) -> None:
            raise failure

        def create_repository(self, **_: Any) -> None:
            raise failure

    with pytest.raises(UserError, match=told):
        credentials_of(ECR, lambda _: Refusing(), tmp_path / "config.json")
    with pytest.raises(UserError, match=told):
        ensure_repository(ECR, "mirror/images/grafana/loki", lambda _: Refusing())


def test_other_registries_are_asked_as_docker_login_left_it(tmp_path: Path) -> None:
    kept = {"auths": {"registry.example.com": {"auth": base64.b64encode(b"me:word").decode()}}}
    (tmp_path / "config.json").write_text(json.dumps(kept))
    assert credentials_of("registry.example.com", lambda _: None, tmp_path / "config.json") == "me:word"
    assert credentials_of("docker.io", lambda _: None, tmp_path / "config.json") == ""
    assert credentials_of("docker.io", lambda _: None, tmp_path / "none.json") == ""


def test_a_package_other_than_recorded_is_not_copied(tmp_path: Path) -> None:
    (tmp_path / "keda-2.20.2.tgz").write_bytes(b"another")
    found = {"chart": "keda", "version": "2.20.2", "repository": "https://charts.test", "digest": "sha256:0"}
    with pytest.raises(UserError, match="and sha256:0 is recorded"):
        package_of(found, tmp_path)
    assert package_of({**found, "digest": None}, tmp_path) == b"another"
