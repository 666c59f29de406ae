"""An image made without an engine: what it holds, and that it is the same each time."""

import gzip
import io
import json
import os
import tarfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

from headway.problem import UserError
from headway.registry_mirror.client import RawManifest
from headway.registry_mirror.image import IMAGE_LAYER, IMAGE_MANIFEST, BaseImage, ImageLayer, digest_of, image_of, packed
from headway.registry_mirror.loops_image import REQUIREMENTS, START, base_reference, python_of, requirements

PROJECT = Path(__file__).parents[3]
PIN = "sha256:" + "a" * 64
BASE_LAYER, OWN_LAYER = "sha256:" + "b" * 64, "sha256:" + "c" * 64


def folder(at: Path, *, time: int) -> list[tuple[PurePosixPath, Path]]:
    at.mkdir()
    found = list[tuple[PurePosixPath, Path]]()
    for name, mode in (("b.py", 0o600), ("a/run", 0o700), ("a/c.txt", 0o664)):
        file = at / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(name)
        file.chmod(mode)
        os.utime(file, (time, time))
        found.append((PurePosixPath("opt") / name, file))
    return found


def base(**config: Any) -> BaseImage:
    layers = [{"mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip", "digest": BASE_LAYER, "size": 7}]
    raw = json.dumps({"schemaVersion": 2, "config": {"digest": PIN, "size": 1}, "layers": layers}).encode()
    whole: Mapping[str, Any] = {
        "architecture": "amd64",
        "os": "linux",
        "config": {
            "Env": ["PATH=/usr/local/bin", "PYTHON_VERSION=3.12.4"],
            "Cmd": ["python3"],
            "User": "root",
            "WorkingDir": "/",
            **config,
        },
        "rootfs": {"type": "layers", "diff_ids": ["sha256:basediff"]},
        "history": [{"created_by": "base"}, {"created_by": "ENV", "empty_layer": True}],
    }
    return BaseImage(
        name=f"python:3.12-slim@{PIN}", manifest=RawManifest("application/vnd.docker.distribution.manifest.v2+json", raw), config=whole
    )


def test_the_same_files_make_the_same_layer_whoever_wrote_them_and_when(tmp_path: Path) -> None:
    first = packed(folder(tmp_path / "one", time=1), tmp_path / "one.tar.gz", "files")
    second = packed(reversed(folder(tmp_path / "two", time=10**9)), tmp_path / "two.tar.gz", "files")
    assert (tmp_path / "one.tar.gz").read_bytes() == (tmp_path / "two.tar.gz").read_bytes()
    assert (first.digest, first.diff_id, first.size) == (second.digest, second.diff_id, second.size)


def test_a_layer_has_its_folders_and_belongs_to_root(tmp_path: Path) -> None:
    layer = packed(folder(tmp_path / "one", time=1), tmp_path / "one.tar.gz", "files")
    content = layer.file.read_bytes()
    assert (layer.digest, layer.diff_id, layer.size) == (digest_of(content), digest_of(gzip.decompress(content)), len(content))
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        found = [(member.name, oct(member.mode), member.uid, member.mtime) for member in archive]
    assert found == [
        ("opt", "0o755", 0, 0),
        ("opt/a", "0o755", 0, 0),
        ("opt/a/c.txt", "0o644", 0, 0),
        ("opt/a/run", "0o755", 0, 0),
        ("opt/b.py", "0o644", 0, 0),
    ]


def test_an_image_starts_the_command_as_nobody_upon_its_base(tmp_path: Path) -> None:
    layer = ImageLayer(file=tmp_path, digest=OWN_LAYER, diff_id="sha256:owndiff", size=9, made_of="files")
    raw, manifest = image_of(base(), (layer,), START, {"org.opencontainers.image.version": "1"})
    config, content = json.loads(raw), manifest.content
    assert config["config"] == {
        "Entrypoint": ["python", "-m", "headway.cli.main"],
        "Env": [
            "PATH=/usr/local/bin",
            "PYTHON_VERSION=3.12.4",
            "PYTHONPATH=/opt/headway:/opt/headway/dependencies",
            "PYTHONDONTWRITEBYTECODE=1",
            "PYTHONUNBUFFERED=1",
        ],
        "User": "65534:65534",
        "WorkingDir": "/",
    }
    assert config["rootfs"]["diff_ids"] == ["sha256:basediff", "sha256:owndiff"]
    assert [each["created_by"] for each in config["history"] if not each.get("empty_layer")] == ["base", "files"]
    assert (manifest.kind, content["config"]["digest"]) == (IMAGE_MANIFEST, digest_of(raw))
    assert [(each["mediaType"], each["digest"]) for each in content["layers"]] == [
        (IMAGE_LAYER, BASE_LAYER),
        (IMAGE_LAYER, OWN_LAYER),
    ]


@pytest.mark.parametrize(
    ("text", "host", "repository"),
    [
        (f"python:3.12-slim@{PIN}", "docker.io", "library/python"),
        (f"acme/python@{PIN}", "docker.io", "acme/python"),
        (f"public.ecr.aws/docker/library/python:3.12@{PIN}", "public.ecr.aws", "docker/library/python"),
        (f"127.0.0.1:5000/python:3@{PIN}", "127.0.0.1:5000", "python"),
    ],
)
def test_a_base_is_named_as_docker_names_images(text: str, host: str, repository: str) -> None:
    found = base_reference(text)
    assert (found.host, found.repository, found.digest) == (host, repository, PIN)


@pytest.mark.parametrize(("text", "why"), [("python:3.12-slim", "by digest"), (f"python:3.12-alpine@{PIN}", "Alpine")])
def test_a_base_without_a_digest_or_without_glibc_is_refused(text: str, why: str) -> None:
    with pytest.raises(UserError, match=why):
        base_reference(text)


def test_requirements_are_resolved_for_the_python_of_the_base() -> None:
    assert python_of(base()) == "3.12"
    with pytest.raises(UserError, match=r"has Python 3\.10"):
        python_of(base(Env=["PYTHON_VERSION=3.10.2"]))


def test_the_loops_bring_their_locked_requirements_and_not_the_programs() -> None:
    locked = (PROJECT / REQUIREMENTS).read_text(encoding="utf-8")
    kept = requirements(locked)
    names = {line.partition("==")[0] for line in kept.splitlines() if "==" in line and not line.startswith(" ")}
    assert {"kubernetes", "boto3", "pydantic", "typer"} <= names
    assert not [name for name in names if name.startswith("pulumi")]
    assert set(kept.splitlines()) <= set(locked.splitlines())
    assert all("--hash=sha256:" in entry for entry in kept.replace(" \\\n", " ").strip().splitlines())
