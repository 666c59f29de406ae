"""What registries, repositories of charts and authorities say, and the credentials of a machine."""

import base64
import contextlib
import hashlib
import io
import json
import tarfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

from headway import gateway_certificate
from headway.problem import UserError
from headway.registry_mirror import charts, client, loops_image
from headway.registry_mirror.charts import package_of
from headway.registry_mirror.client import RegistryClient
from headway.registry_mirror.copying import chart_of
from headway.registry_mirror.ecr import credentials_of
from headway.registry_mirror.image import StartSettings, image_of
from headway.registry_mirror.manifest import MANIFESTS, RawManifest
from tests.fuzz.parser import FuzzedParser, file_of, texts

PEM = (Path(__file__).parent / "certificate.pem").read_bytes()
NOW = datetime(2026, 11, 21, tzinfo=UTC)
START = StartSettings(entrypoint=("python",), user="1", variables={})


def _packed(name: str, content: bytes, kind: bytes = tarfile.REGTYPE) -> bytes:
    """An archive as it stands: the fuzzer packs what it made of it."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as archive:
        member = tarfile.TarInfo(name)
        member.type, member.size, member.linkname = kind, len(content), "elsewhere"
        archive.addfile(member, io.BytesIO(content))
    return target.getvalue()


class _Unpacked:
    """A package that holds `content`: compressed by nobody, because a fuzzer finds no checksum."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def GzipFile(self, fileobj: Any) -> Any:
        return contextlib.closing(io.BytesIO(self._content))


def _manifest(data: bytes) -> None:
    for kind in ("application/vnd.oci.image.index.v1+json", MANIFESTS[0]):
        _ = RawManifest(kind, data).content


def _index(data: bytes) -> None:
    with mock.patch.object(charts, "_read", lambda url, most: data if url.endswith("index.yaml") else b"package"):
        package_of({"chart": "keda", "version": "2.1.0", "repository": "https://charts.example", "digest": None}, None)


def _chart(data: bytes) -> None:
    with mock.patch("headway.registry_mirror.copying.gzip", _Unpacked(data)):
        json.dumps(chart_of(b""), sort_keys=True)


def _configuration(data: bytes) -> None:
    class Registry:
        def manifest(self, *_: Any) -> RawManifest:
            part = {"digest": f"sha256:{hashlib.sha256(data).hexdigest()}", "size": len(data)}
            return RawManifest(MANIFESTS[0], json.dumps({"config": part, "layers": []}).encode())

        def fetch_blob(self, _: str, __: str, ___: int, into: Path, ____: Any) -> None:
            into.write_bytes(data)

    registry: Any = Registry()
    wanted = loops_image.base_reference("python:3.12-slim@sha256:" + "a" * 64)
    base = loops_image.base_of(registry, wanted, "linux/amd64", file_of(b"", "spool/x").parent)
    loops_image.python_of(base)
    image_of(base, [], START, {})


def _challenged(data: bytes) -> None:
    """The first line is the challenge, the rest the token's answer."""
    challenge, _, answer = data.partition(b"\n")
    with mock.patch.object(client, "asked", lambda *_: contextlib.closing(io.BytesIO(answer))):
        RegistryClient("registry.example", "a:b")._authorization(challenge.decode("latin-1"), "x")  # pyright: ignore[reportPrivateUsage]


def _certificate(data: bytes) -> None:
    """Base64 between the lines of a PEM, so that what changes is the certificate."""
    pem = b"-----BEGIN CERTIFICATE-----\n" + base64.encodebytes(data) + b"-----END CERTIFICATE-----\n"
    for text in (pem, data):
        for found in gateway_certificate.certificate_problems(text, ["*.vision.example"], NOW):
            assert found.fact
            str(found).encode()


def _docker(data: bytes) -> None:
    credentials_of("registry.example", lambda _: None, file_of(data, "docker.json"))


_DER = base64.b64decode(b"".join(PEM.splitlines()[1:-1]))
_INDEX = {"entries": {"keda": [{"version": "v2.1.0", "urls": ["keda-2.1.0.tgz"]}]}}
_CONFIG = {
    "architecture": "amd64",
    "os": "linux",
    "config": {"Env": ["PYTHON_VERSION=3.12.1", "A=b"]},
    "rootfs": {"diff_ids": ["sha256:a"]},
    "history": [{}],
}
_PART = {"digest": "sha256:" + "a" * 64, "size": 5, "platform": {"os": "linux", "architecture": "amd64"}}

PARSERS = (
    FuzzedParser(
        name="registry-manifest",
        rooms=("headway/registry_mirror/manifest.py",),
        read=_manifest,
        refuses=(ValueError,),
        seeds=texts({"manifests": [_PART], "config": _PART, "layers": [_PART]}),
    ),
    FuzzedParser(
        name="registry-challenge",
        rooms=("headway/registry_mirror/client.py",),
        read=_challenged,
        refuses=(UserError,),
        seeds=texts('Bearer realm="https://registry.example/token",service="a"\n{"token": "abc"}', "Basic realm=x"),
    ),
    FuzzedParser(
        name="chart-index",
        rooms=("headway/registry_mirror/charts.py", "headway/bounded_yaml.py"),
        read=_index,
        refuses=(UserError,),
        seeds=texts(_INDEX, "entries: {keda: [{version: 2.1.0, created: 2024-01-01T00:00:00Z, urls: [a]}]}\n", "a: &a [1]\nb: {<<: *a}\n"),
    ),
    FuzzedParser(
        name="chart-package",
        rooms=("headway/registry_mirror/copying.py",),
        read=_chart,
        refuses=(UserError,),
        seeds=(_packed("keda/Chart.yaml", b"name: keda\nversion: 2.1.0\n"), _packed("keda/Chart.yaml", b"", tarfile.SYMTYPE)),
    ),
    FuzzedParser(
        name="image-configuration",
        rooms=("headway/registry_mirror/loops_image.py", "headway/registry_mirror/image.py"),
        read=_configuration,
        refuses=(UserError,),
        seeds=texts(_CONFIG),
    ),
    FuzzedParser(name="certificate", rooms=("headway/gateway_certificate.py",), read=_certificate, seeds=(_DER, PEM)),
    FuzzedParser(
        name="docker-credentials",
        rooms=("headway/registry_mirror/ecr.py",),
        read=_docker,
        refuses=(UserError,),
        seeds=texts({"auths": {"registry.example": {"auth": "YTpi"}}}),
    ),
)
