"""The image of the platform's loops, made of this machine's Python, pushed into a real registry, pulled, unpacked and started alone."""

import gzip
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any, cast

import pytest
import yaml

from headway.problem import UserError
from headway.registry_mirror.client import RegistryClient
from headway.registry_mirror.manifest import RawManifest
from tests.cluster.registries import OCI_INDEX, OCI_MANIFEST, digest, registries
from tests.guide_page import commands, hold

__all__ = ["registries"]
pytestmark = [pytest.mark.needs("registry"), pytest.mark.timeout(600)]
ROOT = Path(__file__).parents[2]
MINOR = f"{sys.version_info.major}.{sys.version_info.minor}"
EVERYWHERE = ("libdl.so.2", "libgcc_s.so.1", "libpthread.so.0", "libresolv.so.2", "librt.so.1", "libstdc++.so.6", "libutil.so.1")
"""What wheels for manylinux expect of every system, as a slim Debian has it (pypa/auditwheel, `manylinux-policy.json`)."""
Registries = tuple[RegistryClient, RegistryClient]


def libraries(program: Path) -> set[Path]:
    told = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False).stdout.split()
    return {Path(word) for word in told if word.startswith("/")}


def python_layer(into: Path) -> None:
    """This machine's Python with all that it links, each at its own path."""
    prefix = Path(sys.base_prefix)
    program = Path(sys.executable).resolve()
    lib = prefix / "lib" / f"python{MINOR}"
    linked = libraries(program).union(*(libraries(each) for each in (lib / "lib-dynload").glob("*.so")))
    linked |= {Path("/lib/x86_64-linux-gnu") / name for name in EVERYWHERE}

    def kept(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        return None if any(part in ("__pycache__", "site-packages", "test", "idlelib") for part in Path(member.name).parts) else member

    with tarfile.open(into, "w:gz", compresslevel=1) as archive:
        for file in sorted({program, *linked}):
            archive.add(file.resolve(), arcname=str(file).lstrip("/"))
        archive.add(lib, arcname=str(lib).lstrip("/"), filter=kept)
        link = tarfile.TarInfo(f"{prefix}/bin/python".lstrip("/"))
        link.type, link.linkname = tarfile.SYMTYPE, program.name
        archive.addfile(link)


def base(registry: RegistryClient, layer: Path, *, variables: list[str]) -> str:
    """A base as the makers of Python lay it: an index of one platform and of something else."""

    def blob(content: bytes) -> dict[str, Any]:
        file = layer.parent / "blob"
        file.write_bytes(content)
        registry.push_blob("library/python", digest(content), file)
        return {"digest": digest(content), "size": len(content)}

    packed = layer.read_bytes()
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Env": variables, "Cmd": ["python3"]},
        "rootfs": {"type": "layers", "diff_ids": [digest(gzip.decompress(packed))]},
        "history": [{"created": "2026-11-01T00:00:00Z", "created_by": "a test"}],
    }
    described = {"mediaType": "application/vnd.oci.image.config.v1+json", **blob(json.dumps(config).encode())}
    layers = [{"mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip", **blob(packed)}]
    raw = json.dumps({"schemaVersion": 2, "mediaType": OCI_MANIFEST, "config": described, "layers": layers}).encode()
    registry.push_manifest("library/python", digest(raw), RawManifest(OCI_MANIFEST, raw))
    parts = [
        {"mediaType": OCI_MANIFEST, "digest": digest(raw), "size": len(raw), "platform": {"os": os_, "architecture": processor}}
        for os_, processor in (("unknown", "unknown"), ("linux", "amd64"))
    ]
    index = json.dumps({"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": parts}).encode()
    registry.push_manifest("library/python", "3-slim", RawManifest(OCI_INDEX, index))
    return f"{registry.host}/library/python:3-slim@{digest(index)}"


def checkout(folder: Path) -> Path:
    """This checkout with stack files of its own, which a command may write into."""
    made = folder / "checkout"
    made.mkdir()
    for each in ROOT.iterdir():
        if each.name != "stacks":
            (made / each.name).symlink_to(each)
    shutil.copytree(ROOT / "stacks", made / "stacks")
    return made


def command(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "HEADWAY_CACHE": str(folder / "cache")}
    whole = [sys.executable, "-m", "headway.cli.main", "loops", "push", "--environment", "dev", *arguments]
    return subprocess.run(whole, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def unpacked(registry: RegistryClient, repository: str, reference: str, folder: Path) -> dict[str, Any]:
    """Pull the image as a node would, prove every layer, lay them over each other; the image's configuration."""
    manifest = registry.manifest(repository, reference)
    assert manifest is not None
    config = folder / "config.json"
    registry.fetch_blob(repository, manifest.content["config"]["digest"], manifest.content["config"]["size"], config, lambda _: None)
    found = json.loads(config.read_text())
    assert len(found["history"]) == len(found["rootfs"]["diff_ids"]) == len(manifest.content["layers"])
    for described, diff in zip(manifest.content["layers"], found["rootfs"]["diff_ids"], strict=True):
        assert described["mediaType"] == "application/vnd.oci.image.layer.v1.tar+gzip"
        layer = folder / "layer"
        registry.fetch_blob(repository, described["digest"], described["size"], layer, lambda _: None)
        assert layer.stat().st_size == described["size"]
        with subprocess.Popen(["gzip", "-dc", str(layer)], stdout=subprocess.PIPE) as plain:
            assert plain.stdout is not None
            assert f"sha256:{hashlib.file_digest(cast(Any, plain.stdout), 'sha256').hexdigest()}" == diff
        subprocess.run(["tar", "-xzf", str(layer), "-C", str(folder / "root"), "--no-same-owner"], check=True)
        layer.unlink()
    return found


@pytest.mark.needs("root")
def test_the_image_of_the_loops_starts_from_its_own_layers(registries: Registries, tmp_path: Path) -> None:
    source, target = registries
    python_layer(tmp_path / "python.tar.gz")
    variables = [f"PATH={sys.base_prefix}/bin", f"PYTHON_VERSION={MINOR}.1"]
    arguments = ["--base", base(source, tmp_path / "python.tar.gz", variables=variables), "--to", f"{target.host}/headway-dev/headway"]
    written = checkout(tmp_path)
    first = command(tmp_path, *arguments, "--write", "--project", str(written))
    assert first.returncode == 0, first.stderr
    hold({line: first.stdout for line in commands() if line.startswith("headway loops push ")})
    image = yaml.safe_load((written / "stacks/Pulumi.dev-platform.yaml").read_text())["config"]["headway:loops"]["image"]
    said = json.loads(command(tmp_path, *arguments, "--output", "json").stdout)
    assert said["image"] == image, "the same inputs make the same image"
    assert (said["image"].startswith(f"{target.host}/headway-dev/headway:0."), said["pushed"]) == (True, False)
    assert said["image"].endswith(f"@{said['digest']}")

    (tmp_path / "root" / "tmp").mkdir(parents=True)
    config = unpacked(target, "headway-dev/headway", said["digest"], tmp_path)["config"]
    assert (config["User"], config.get("Cmd")) == ("65534:65534", None)

    def started(*more: str) -> subprocess.CompletedProcess[str]:
        inside = [shutil.which("chroot") or "", f"--userspec={config['User']}", str(tmp_path / "root")]
        # A runtime sets the home of a user whom the image does not know (opencontainers/runc, `libcontainer/init_linux.go`).
        variables = {"HOME": "/", **dict(each.split("=", 1) for each in config["Env"])}
        return subprocess.run([*inside, *config["Entrypoint"], *more], env=variables, capture_output=True, text=True, check=False)

    helped = started("--help")
    assert helped.returncode == 0, helped.stderr
    assert "release" in helped.stdout
    looked = started("nodes", "watch", "--once", "--kubeconfig", "/nowhere")
    assert looked.returncode == 3
    assert "No cluster is named" in looked.stderr
    kept = started("artifact-cache", "--help")
    assert kept.returncode == 0, kept.stderr


def test_a_base_that_is_not_there_for_the_platform_is_refused(registries: Registries, tmp_path: Path) -> None:
    layer = tmp_path / "layer.tar.gz"
    with tarfile.open(layer, "w:gz"):
        pass
    named = base(registries[0], layer, variables=["PYTHON_VERSION=3.12.1"])
    refused = command(tmp_path, "--base", named, "--to", f"{registries[1].host}/headway", "--platform", "linux/arm64")
    assert refused.returncode == 3
    assert "is not there for linux/arm64" in refused.stderr


def test_a_blob_of_the_same_registry_is_named_and_not_sent(registries: Registries, tmp_path: Path) -> None:
    registry = registries[0]
    file = tmp_path / "blob"
    file.write_bytes(b"a layer")
    registry.push_blob("library/python", digest(b"a layer"), file)
    assert registry.mount_blob("headway", digest(b"a layer"), "library/python")
    assert registry.has_blob("headway", digest(b"a layer"))
    assert not registry.mount_blob("headway", digest(b"another"), "library/python")


def test_a_base_that_hides_its_python_is_refused(registries: Registries, tmp_path: Path) -> None:
    from headway.registry_mirror import loops_image

    layer = tmp_path / "layer.tar.gz"
    with tarfile.open(layer, "w:gz"):
        pass
    wanted = loops_image.base_reference(base(registries[0], layer, variables=["PATH=/bin"]))
    with pytest.raises(UserError, match="does not say which Python"):
        loops_image.python_of(loops_image.base_of(registries[0], wanted, "linux/amd64", tmp_path))
