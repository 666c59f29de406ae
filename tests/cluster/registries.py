"""Two real registries on loopback (distribution/distribution), and images in them."""

import hashlib
import json
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headway.registry_mirror.client import RawManifest, RegistryClient
from sandbox.cluster.toolchain import ensure_toolchain
from sandbox.layout import Layout
from sandbox.progress import Silent
from tests.cluster.conftest import PROJECT

OCI_MANIFEST, OCI_INDEX = "application/vnd.oci.image.manifest.v1+json", "application/vnd.oci.image.index.v1+json"


def digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


@pytest.fixture
def registries(tmp_path: Path) -> Iterator[tuple[RegistryClient, RegistryClient]]:
    """A source and a target on loopback."""
    program = ensure_toolchain(Layout.of(PROJECT), Silent(), ("registry",)).binary("registry")
    started, found = list[subprocess.Popen[bytes]](), list[RegistryClient]()
    try:
        for name in ("source", "target"):
            with socket.socket() as free:
                free.bind(("127.0.0.1", 0))
                port = free.getsockname()[1]
            config = {
                "version": 0.1,
                "log": {"level": "error"},
                "storage": {"filesystem": {"rootdirectory": str(tmp_path / name)}},
                "http": {"addr": f"127.0.0.1:{port}"},
            }
            (tmp_path / f"{name}.yaml").write_text(json.dumps(config))
            with (tmp_path / f"{name}.log").open("wb") as log:
                started.append(subprocess.Popen([program, "serve", str(tmp_path / f"{name}.yaml")], stdout=log, stderr=log))
            found.append(RegistryClient(f"127.0.0.1:{port}"))
            _answers(f"http://127.0.0.1:{port}/v2/")
        yield found[0], found[1]
    finally:
        for process in started:
            process.terminate()
            process.wait(timeout=10)


def _answers(url: str) -> None:
    for _ in range(100):
        try:
            urllib.request.urlopen(url, timeout=1).close()
            return
        except OSError:
            time.sleep(0.1)
    raise AssertionError(f"{url} does not answer")


def pushed(registry: RegistryClient, repository: str, tag: str, layers: list[bytes], folder: Path, *, index: bool = True) -> str:
    """An image of `layers`, of two platforms where it is an index; its digest."""

    def blob(content: bytes) -> dict[str, Any]:
        file = folder / "blob"
        file.write_bytes(content)
        registry.push_blob(repository, digest(content), file)
        return {"digest": digest(content), "size": len(content)}

    manifests = list[dict[str, Any]]()
    for architecture in ("amd64", "arm64") if index else ("amd64",):
        config = {"mediaType": "application/vnd.oci.image.config.v1+json", **blob(json.dumps({"architecture": architecture}).encode())}
        found = [{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", **blob(layer)} for layer in layers]
        raw = json.dumps({"schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": config, "layers": found}).encode()
        registry.push_manifest(repository, digest(raw) if index else tag, RawManifest(OCI_MANIFEST, raw))
        manifests.append({"mediaType": OCI_MANIFEST, "digest": digest(raw), "size": len(raw), "platform": {"architecture": architecture}})
    if not index:
        return str(manifests[0]["digest"])
    raw = json.dumps({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": manifests}).encode()
    registry.push_manifest(repository, tag, RawManifest(OCI_INDEX, raw))
    return digest(raw)
