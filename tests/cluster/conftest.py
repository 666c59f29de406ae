"""A real control plane for the tests of this tier: one for each module, with the programs from the shared cache, its state in a temp folder.

On a machine where the programs have not been built yet, the fixture builds them (minutes), as `make up` would.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml
from kubernetes import client, config, dynamic

from sandbox.cluster.control_plane import SandboxCluster
from sandbox.cluster.toolchain import is_built
from sandbox.layout import Layout
from sandbox.progress import Silent

T = TypeVar("T")

PROJECT = Path(__file__).parents[2]
LONGEST = (
    "test_release.py",
    "test_day_two_tenant.py",
    "test_drift_loop.py",
    "test_sandbox.py",
    "test_autoscaling.py",
    "test_verify.py",
    "test_guide.py",
    "test_loops_image.py",
)
"""Files that take minutes with few tests, longest first, for begun last one worker would wait for the others; what computes beside what waits."""


@dataclass
class ControlPlane:
    """A control plane that runs, and a client of it."""

    layout: Layout
    cluster: SandboxCluster
    _client: dynamic.DynamicClient | None = field(default=None, repr=False)

    @property
    def kubeconfig(self) -> Path:
        return self.layout.kubeconfig

    @property
    def client(self) -> dynamic.DynamicClient:
        if self._client is None:
            self._client = dynamic.DynamicClient(api_client(self.kubeconfig.read_text()))
        return self._client

    def resource(self, manifest: dict[str, Any]) -> Any:
        return self.client.resources.get(api_version=manifest["apiVersion"], kind=manifest["kind"])

    def create(self, *manifests: str | dict[str, Any]) -> None:
        for manifest in documents(manifests):
            self.resource(manifest).create(body=manifest, namespace=manifest["metadata"].get("namespace", "default"))

    def get(self, kind: str, name: str, *, api_version: str = "v1", namespace: str | None = "default") -> dict[str, Any]:
        return self.client.resources.get(api_version=api_version, kind=kind).get(name=name, namespace=namespace).to_dict()

    def list(self, kind: str, *, api_version: str = "v1", namespace: str | None = None, **query: Any) -> list[dict[str, Any]]:
        return self.client.resources.get(api_version=api_version, kind=kind).get(namespace=namespace, **query).to_dict()["items"]

    def patch_status(self, kind: str, name: str, status: dict[str, Any], *, namespace: str | None = "default") -> None:
        resource = self.client.resources.get(api_version="v1", kind=kind)
        resource.status.patch(
            name=name, namespace=namespace, body={"status": status}, content_type="application/strategic-merge-patch+json"
        )


def kubeconfig_of(plane: ControlPlane, account: str, namespace: str, path: Path) -> Path:
    """A kubeconfig at `path` with a token of the service account, for an hour."""
    core: Any = client.CoreV1Api(api_client(plane.kubeconfig.read_text()))
    token = core.create_namespaced_service_account_token(account, namespace, {"spec": {"expirationSeconds": 3600}})
    found = yaml.safe_load(plane.kubeconfig.read_text())
    found["users"][0]["user"] = {"token": token.status.token}
    path.write_text(yaml.safe_dump(found))
    return path


def api_client(kubeconfig: str) -> client.ApiClient:
    return config.new_client_from_config_dict(yaml.safe_load(kubeconfig))


def documents(manifests: tuple[str | dict[str, Any], ...]) -> Iterator[dict[str, Any]]:
    for manifest in manifests:
        if isinstance(manifest, str):
            yield from (document for document in yaml.safe_load_all(manifest) if document)
        else:
            yield manifest


def eventually(look: Callable[[], T | None], within: float = 20.0) -> T:
    """The first true answer of `look`; fails with the last one after `within` seconds."""
    deadline = time.monotonic() + within
    while True:
        answer = look()
        if answer:
            return answer
        assert time.monotonic() < deadline, f"still {answer!r} after {within:.0f} s"
        time.sleep(0.05)


def running(folder: Path) -> Iterator[ControlPlane]:
    """A control plane whose state is in `folder`; its programs come from the cache that every sandbox of this user shares."""
    layout = Layout(project=PROJECT, state=folder, cache=Layout.of(PROJECT).cache)
    plane = ControlPlane(layout, SandboxCluster(layout))
    try:
        plane.cluster.start(Silent())
        yield plane
    finally:
        plane.cluster.supervisor.stop_all(Silent())


@pytest.fixture(scope="module")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """Shared by a module: leave it running. Not by all: what one file leaves behind would move another's pods."""
    yield from running(tmp_path_factory.mktemp("sandbox"))


@pytest.fixture(scope="module")
def breakable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane of the module's own, for tests that kill, stop or starve it."""
    yield from running(tmp_path_factory.mktemp("breakable"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long files begin first; the first test on a fresh machine waits for the programs to be built."""
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))
    if not is_built(Layout.of(PROJECT)):
        for item in items:
            if {"control_plane", "breakable"} & set(getattr(item, "fixturenames", ())):
                item.add_marker(pytest.mark.timeout(1800))
