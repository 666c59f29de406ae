"""A node's store of artifacts as a process: with the rights that its manifests give it, against a real API server and an S3.

Pods' fetchers run as they do in a pod, with tokens that the API server issued. What is left out: the Service that leads a pod to its own node's
store, and the network policies around both.
"""

import copy
import hashlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from kubernetes import client

from components.model_service.configuration import FETCH_CONFIG, FETCH_SCRIPT
from components.model_service.manifests import ServicePlan
from components.platform import artifact_cache, namespaces
from headway.contract.units import Bytes
from headway.wire import ARTIFACT_CACHE_AUDIENCE, ARTIFACT_CACHE_NAMESPACE
from sandbox.cloud import objectstore
from sandbox.progress import Silent
from tests.cluster.conftest import PROJECT, ControlPlane, api_client, eventually, kubeconfig_of
from tests.components.contracts import MODELS, SURROUNDINGS, service

BUCKET, REGION = "artifacts", "us-west-2"
WEIGHTS = bytes(range(256)) * 16_384
TENANTS = ("assist", "vision")
POOL = service("defects").pool
MADE = ServicePlan.of("vision", MODELS["defects"], POOL, replace(SURROUNDINGS, artifact_cache=True))


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def release(tenant: str, folder: str, files: Mapping[str, bytes]) -> dict[str, Any]:
    """A ConfigMap as the program makes it of a release, of these files below `s3://artifacts/FOLDER/`."""
    (found,) = [copy.deepcopy(dict(each.body)) for each in MADE.manifests() if each.role.endswith("-configuration")]
    said = json.loads(found["data"][FETCH_CONFIG])
    said["uri"] = f"s3://{BUCKET}/{folder}/"
    said["files"] = [{"path": path, "sha256": digest(data), "size": len(data)} for path, data in files.items()]
    found["data"][FETCH_CONFIG] = json.dumps(said)
    found["metadata"] |= {"namespace": tenant, "name": folder.replace("/", "-")}
    return found


@dataclass
class Node:
    """One node's store, and the S3 and the API server behind it."""

    plane: ControlPlane
    kubeconfig: Path
    folder: Path
    process: "subprocess.Popen[str]"
    port: int = 0
    shown: int = 0
    lines: list[str] = field(default_factory=list[str])

    @property
    def s3(self) -> Any:
        return objectstore.client("s3", REGION, objectstore.endpoint(self.plane.layout))

    def release(self, tenant: str, folder: str, files: Mapping[str, bytes], stored: bytes | None = None) -> dict[str, Any]:
        """ArtifactStore a release's files (or `stored` in the place of each), and create its ConfigMap."""
        for path, data in files.items():
            self.s3.put_object(Bucket=BUCKET, Key=f"{folder}/{path}", Body=data if stored is None else stored)
        made = release(tenant, folder, files)
        self.plane.create(made)
        return made

    def token(self, tenant: str, audience: str | None = ARTIFACT_CACHE_AUDIENCE) -> str:
        return token(self.plane, tenant, "models", audience)

    def ask(self, sha256: str, token: str | None) -> tuple[int, bytes]:
        with closing(HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            connection.request("GET", f"/artifacts/{sha256}", headers={} if token is None else {"Authorization": f"Bearer {token}"})
            answer = connection.getresponse()
            return answer.status, answer.read()

    def await_file(self, tenant: str, data: bytes) -> None:
        known = self.token(tenant)
        eventually(lambda: self.ask(digest(data), known) == (200, data), within=60)

    def count(self, what: str) -> int:
        with closing(HTTPConnection("127.0.0.1", self.shown, timeout=60)) as connection:
            connection.request("GET", "/metrics")
            page = connection.getresponse().read().decode()
        (found,) = re.findall(rf"^headway_artifact_cache_{re.escape(what)} (\d+)(?:\.0)?$", page, re.M)
        return int(found)

    def fetch(
        self, made: dict[str, Any], place: Path, token: str, environment: Mapping[str, str], port: int | None = None
    ) -> "subprocess.CompletedProcess[str]":
        """Run a pod's fetcher by its ConfigMap, with the paths of the pod below `place`."""
        place.mkdir(parents=True)
        (place / "token").write_text(token)
        said = json.loads(made["data"][FETCH_CONFIG])
        assert said["node"]["url"] == artifact_cache.ADDRESS
        node = {"url": f"http://127.0.0.1:{port or self.port}", "token": str(place / "token")}
        (place / "fetch.json").write_text(json.dumps({**said, "node": node, "target": str(place / "models"), "places": []}))
        (place / "fetch.py").write_text(made["data"][FETCH_SCRIPT])
        command = [sys.executable, "-I", str(place / "fetch.py"), str(place / "fetch.json")]
        return subprocess.run(command, env=dict(environment), capture_output=True, text=True, timeout=120, check=False)

    @property
    def keys(self) -> dict[str, str]:
        """A pod's own way to S3."""
        return dict(objectstore.environment(self.plane.layout))


def token(plane: ControlPlane, namespace: str, account: str, audience: str | None) -> str:
    core: Any = client.CoreV1Api(api_client(plane.kubeconfig.read_text()))
    spec = client.V1TokenRequestSpec(audiences=[audience] if audience else [])
    return core.create_namespaced_service_account_token(account, namespace, client.AuthenticationV1TokenRequest(spec=spec)).status.token


def start(node: Node) -> None:
    """Run the store by the manifest's own arguments, but for places and ports."""
    (made,) = [
        m.body
        for m in artifact_cache.manifests("image", REGION, [artifact_cache.NodeCache(pool=POOL, room=Bytes(16 * 2**20))])
        if m.kind == "DaemonSet"
    ]
    arguments: list[str] = made["spec"]["template"]["spec"]["containers"][0]["args"]
    changed_ = {"--folder": str(node.folder), "--serve": "127.0.0.1:0", "--metrics": "0"}
    given: list[str] = [
        changed_.get(before, each) for before, each in zip(["", *arguments], arguments, strict=False) if each != "--in-cluster"
    ]
    environment = {**os.environ, **node.keys, "AWS_REGION": REGION, "AWS_DEFAULT_REGION": REGION, "KUBECONFIG": str(node.kubeconfig)}
    command = [sys.executable, "-m", "headway.cli.main", *given]
    node.process = subprocess.Popen(command, cwd=PROJECT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    output = node.process.stdout
    assert output
    first = output.readline()
    found = re.fullmatch(r"serving on 127\.0\.0\.1:(\d+), metrics on 127\.0\.0\.1:(\d+)\n", first)
    assert found, first + output.read()
    node.port, node.shown = map(int, found.groups())

    def read() -> None:
        with output:
            node.lines.extend(output)

    threading.Thread(target=read, daemon=True).start()


def end(process: "subprocess.Popen[str]", number: int = signal.SIGTERM) -> int:
    process.send_signal(number)
    return process.wait(30)


@pytest.fixture(scope="module")
def node(control_plane: ControlPlane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    folder = tmp_path_factory.mktemp("node")
    objectstore.ensure_running(control_plane.layout, Silent())
    places = [dict(m.body) for m in namespaces.manifests([]) if m.name == ARTIFACT_CACHE_NAMESPACE and m.kind == "Namespace"]
    control_plane.create(*places, *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": tenant}} for tenant in TENANTS))
    control_plane.create(
        *({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "models", "namespace": tenant}} for tenant in TENANTS)
    )
    rights = [
        m
        for m in artifact_cache.manifests("image", REGION, ())
        if m.kind in {"ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Service"}
    ]
    control_plane.create(*(dict(m.body) for m in rights))
    kubeconfig = kubeconfig_of(control_plane, artifact_cache.NAME, ARTIFACT_CACHE_NAMESPACE, folder / "kubeconfig")
    made = Node(plane=control_plane, kubeconfig=kubeconfig, folder=folder / "store", process=None)  # pyright: ignore[reportArgumentType]
    made.s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    try:
        start(made)
        yield made
        assert end(made.process) == 0
    finally:
        made.process.kill()
        control_plane.cluster.supervisor.stop(objectstore.NAME, Silent())


def test_a_replica_takes_from_its_node_what_was_fetched_before_and_needs_no_s3(node: Node, tmp_path: Path) -> None:
    made = node.release("vision", "vision/defects/one", {"config.json": b"{}", "model.bin": WEIGHTS})
    node.await_file("vision", WEIGHTS)
    node.await_file("vision", b"{}")
    done = node.fetch(made, tmp_path / "pod", node.token("vision"), {})
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "pod" / "models" / "model.bin").read_bytes() == WEIGHTS


def test_nobody_is_told_what_another_tenant_has(node: Node) -> None:
    theirs = b"vision's own" * 100
    node.release("vision", "vision/defects/two", {"model.bin": theirs})
    node.await_file("vision", theirs)
    assert node.ask(digest(theirs), node.token("assist")) == (404, b"")
    assert node.ask(digest(theirs), node.token("vision", None)) == (401, b""), "a token for the API server is no token for this"
    assert node.ask(digest(theirs), None) == (401, b"")
    assert node.ask("../vision/" + digest(theirs), node.token("assist")) == (404, b"")


def test_who_names_anothers_file_in_a_configmap_does_not_get_it(node: Node) -> None:
    theirs = b"secret weights" * 100
    node.release("vision", "vision/defects/three", {"model.bin": theirs})
    node.await_file("vision", theirs)
    refused = node.count('fetches_total{outcome="refused"}')
    # By its place, and by its digest alone.
    node.plane.create(release("assist", "vision/defects/three", {"model.bin": theirs}))
    node.release("assist", "assist/chat/three", {"model.bin": theirs}, stored=b"nothing of that")
    eventually(lambda: node.count('fetches_total{outcome="refused"}') > refused, within=60)
    assert node.ask(digest(theirs), node.token("assist")) == (404, b"")


def test_a_file_with_one_wrong_byte_is_neither_kept_nor_served_nor_fetched(node: Node, tmp_path: Path) -> None:
    right = b"x" * 1_000_000
    refused = node.count('fetches_total{outcome="refused"}')
    made = node.release("vision", "vision/defects/four", {"model.bin": right}, stored=b"y" + right[1:])
    eventually(lambda: node.count('fetches_total{outcome="refused"}') > refused, within=60)
    assert node.ask(digest(right), node.token("vision")) == (404, b"")
    done = node.fetch(made, tmp_path / "pod", node.token("vision"), node.keys)
    assert done.returncode == 1
    assert "the contract states" in done.stderr
    assert not list((tmp_path / "pod").rglob("model.bin*"))


def test_what_no_release_names_any_more_is_no_longer_handed_out(node: Node) -> None:
    former = b"of last year" * 100
    made = node.release("vision", "vision/defects/five", {"model.bin": former})
    node.await_file("vision", former)
    node.plane.resource(made).delete(name=made["metadata"]["name"], namespace="vision")
    eventually(lambda: node.ask(digest(former), node.token("vision")) == (404, b""), within=60)


def test_the_store_may_read_configurations_and_no_secret(node: Node) -> None:
    own: Any = client.AuthorizationV1Api(api_client(node.kubeconfig.read_text()))

    def may(verb: str, resource: str) -> bool:
        asked = client.V1ResourceAttributes(verb=verb, resource=resource, namespace="vision")
        review = client.V1SelfSubjectAccessReview(spec=client.V1SelfSubjectAccessReviewSpec(resource_attributes=asked))
        return bool(own.create_self_subject_access_review(review).status.allowed)

    assert may("list", "configmaps")
    assert not [
        each for each in (("list", "secrets"), ("get", "configmaps"), ("list", "pods"), ("create", "serviceaccounts/token")) if may(*each)
    ]


@contextmanager
def cut(to: int, after: int, then: Any) -> Generator[int]:
    """A way to the port that ends once `after` bytes have come back, when `then` is called."""
    listener = socket.create_server(("127.0.0.1", 0))

    def carry() -> None:
        caller, _ = listener.accept()
        with caller, socket.create_connection(("127.0.0.1", to)) as server:
            server.sendall(caller.recv(65_536))
            sent = 0
            while sent < after and (data := server.recv(min(65_536, after - sent))):
                caller.sendall(data)
                sent += len(data)
            then()

    threading.Thread(target=carry, daemon=True).start()
    with listener:
        yield int(listener.getsockname()[1])


def test_a_store_that_dies_in_the_middle_of_a_file_costs_nothing_but_time(node: Node, tmp_path: Path) -> None:
    made = node.release("vision", "vision/defects/six", {"a.bin": WEIGHTS[1:], "b.bin": b"b"})
    node.await_file("vision", WEIGHTS[1:])
    # Another life of the store, so that the module's own goes on.
    other = replace(node, folder=tmp_path / "store", lines=[])
    with ExitStack() as stack:
        start(other)
        stack.callback(other.process.kill)
        other.await_file("vision", WEIGHTS[1:])
        port = stack.enter_context(cut(other.port, 1_000_000, lambda: end(other.process, signal.SIGKILL)))
        done = node.fetch(made, tmp_path / "pod", node.token("vision"), node.keys, port)
    assert done.returncode == 0, done.stderr
    assert "the node's store is not asked again" in done.stdout
    assert [(tmp_path / "pod" / "models" / name).read_bytes() for name in ("a.bin", "b.bin")] == [WEIGHTS[1:], b"b"]
