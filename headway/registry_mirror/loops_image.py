"""The image in which the platform's own loops run: the `headway` command with its locked requirements, upon a base that has Python.

The traps: requirements are resolved for the image's Python and platform, not for this machine's; and an installation leaves files that
differ from run to run (scripts that name an interpreter, records of them), so those stay out.
"""

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, cast

from headway.bounded_json import bounded_json
from headway.problem import Exit, UserError
from headway.registry_mirror.client import RegistryClient
from headway.registry_mirror.copying import ImagePlace, Told, copy_blob, push_bytes
from headway.registry_mirror.image import BaseImage, ImageLayer, StartSettings, image_of, packed, require_configuration
from headway.registry_mirror.manifest import INDEXES, LARGEST_MANIFEST

ROOT = PurePosixPath("opt/headway")
START = StartSettings(
    entrypoint=("python", "-m", "headway.cli.main"),
    user="65534:65534",
    variables={"PYTHONPATH": f"/{ROOT}:/{ROOT}/dependencies", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"},
)
REQUIREMENTS = "requirements/headway.txt"
PLATFORMS = {"linux/amd64": "x86_64-manylinux_2_28", "linux/arm64": "aarch64-manylinux_2_28"}
"""What uv calls each platform; wheels for glibc 2.28 run on every Debian since 10."""
_REFERENCE = re.compile(r"(?P<name>[^@\s]+?)(:(?P<tag>[A-Za-z0-9_][A-Za-z0-9._-]*))?@(?P<digest>sha256:[0-9a-f]{64})")
NOT_THE_LOOPS = re.compile(r"(pulumi([_-][a-z]+)*|debugpy|grafana[_-]foundation[_-]sdk|pillow)==")
"""Requirements of the program that makes an environment, and of pictures for people. The loops speak to Kubernetes and to AWS; these are
200 MB more."""
_LEFT_BEHIND = frozenset({"RECORD", "INSTALLER", "REQUESTED", "direct_url.json", "uv_cache.json"})


@dataclass(frozen=True, kw_only=True)
class BaseReference:
    """Where the base lies, by digest."""

    host: str
    repository: str
    digest: str
    text: str


@dataclass(frozen=True, kw_only=True)
class PushedImage:
    """The image as it lies in its repository."""

    tag: str
    digest: str
    pushed: bool
    """False where it was there already."""


def base_reference(text: str) -> BaseReference:
    """`python:3.12-slim@sha256:...` as Docker reads it: without a host it is Docker Hub's. Raises UserError."""
    found = _REFERENCE.fullmatch(text)
    if found is None:
        raise UserError(
            f"{text} names no image by digest.",
            "A tag would be another image next month, and nobody could make this one again.",
            "Write NAME:TAG@sha256:DIGEST; the registry's page of the tag shows the digest.",
            Exit.USAGE,
        )
    if "alpine" in text:
        raise UserError(
            f"{text} is an Alpine image.",
            "The requirements are wheels for glibc, which Alpine does not have; the image would not start.",
            "Take one that stands on Debian, such as python:3.12-slim.",
            Exit.USAGE,
        )
    host, _, rest = found["name"].partition("/")
    if not rest or not ("." in host or ":" in host or host == "localhost"):
        host, rest = "docker.io", found["name"] if rest else f"library/{found['name']}"
    return BaseReference(host=host, repository=rest, digest=found["digest"], text=text)


def base_of(registry: RegistryClient, wanted: BaseReference, platform: str, spool: Path) -> BaseImage:
    """The base's manifest for `platform`, with its configuration. Raises UserError where it has none."""
    found = registry.manifest(wanted.repository, wanted.digest)
    if found is not None and (found.kind in INDEXES or "manifests" in found.content):
        system, _, processor = platform.partition("/")
        fitting = (
            each["digest"]
            for each in found.content["manifests"]
            if (each.get("platform") or {}).get("os", system) == system and (each.get("platform") or {}).get("architecture") == processor
        )
        chosen = next(fitting, None)
        found = registry.manifest(wanted.repository, chosen) if chosen else None
    if found is None:
        raise _unusable(f"{wanted.text} is not there for {platform}", "Nothing was pushed", "Name a base that exists for this platform")
    if "config" not in found.content:
        raise _unusable(f"{wanted.text} names an index where an image belongs", "Nothing was pushed", "Name the base of another maker")
    file = spool / "base-config.json"
    file.unlink(missing_ok=True)
    described = found.content["config"]
    registry.fetch_blob(wanted.repository, described["digest"], min(described["size"], LARGEST_MANIFEST), file, lambda _: None)
    try:
        config = bounded_json(file.read_bytes(), LARGEST_MANIFEST)
        require_configuration(config)
    except ValueError as odd:
        raise _unusable(f"The configuration of {wanted.text} cannot be read: {odd}", "Nothing was pushed", "Name another base") from None
    file.unlink()
    return BaseImage(name=wanted.text, manifest=found, config=cast(Mapping[str, Any], config))


def python_of(base: BaseImage) -> str:
    """Minor version of the base's Python, such as 3.12, as Python's official images state it. Raises UserError."""
    said = re.match(r"3\.[0-9]+", base.variables.get("PYTHON_VERSION", ""))
    if said is None:
        raise _unusable(
            f"{base.name} does not say which Python it has (PYTHON_VERSION)",
            "Requirements would be resolved for another one, and the image would not start",
            "Take one of Python's official images, or one that stands on it",
        )
    if tuple(map(int, said[0].split("."))) < (3, 11):
        raise _unusable(f"{base.name} has Python {said[0]}", "Headway needs Python 3.11 at least", "Take a newer base")
    return said[0]


def layers_of(project: Path, python: str, platform: str, work: Path) -> tuple[ImageLayer, ...]:
    """The requirements, which change seldom, and the command upon them; packed in the folder `work`."""
    target = work / "dependencies"
    shutil.rmtree(target, ignore_errors=True)
    wanted = work / "requirements.txt"
    wanted.write_text(requirements((project / REQUIREMENTS).read_text(encoding="utf-8")), encoding="utf-8")
    _install(wanted, target, python, platform)
    dependencies = packed(_installed(target), work / "dependencies.tar.gz", f"headway loops push: {REQUIREMENTS}")
    shutil.rmtree(target)
    code = packed(_code(project), work / "headway.tar.gz", "headway loops push: headway")
    return dependencies, code


def requirements(locked: str) -> str:
    """Those of the loops among locked ones, with their hashes."""
    entries = re.split(r"\n(?=\S)", locked.strip())
    return "\n".join(entry for entry in entries if not NOT_THE_LOOPS.match(entry)) + "\n"


def push(
    base: BaseImage, source: ImagePlace, layers: tuple[ImageLayer, ...], target: ImagePlace, version: str, spool: Path, told: Told
) -> PushedImage:
    """The image in `target`: the base's layers from `source`, then its own, then what names them. What is there stays."""
    name, _, pin = base.name.rpartition("@")
    annotations = {
        "org.opencontainers.image.base.name": name,
        "org.opencontainers.image.base.digest": pin,
        "org.opencontainers.image.version": version,
    }
    config, manifest = image_of(base, layers, START, annotations)
    tag = f"{version}-{manifest.digest[7:19]}"
    if target.registry.digest_of(target.repository, tag) == manifest.digest:
        return PushedImage(tag=tag, digest=manifest.digest, pushed=False)
    blobs = {str(each["digest"]): int(each["size"]) for each in base.manifest.content["layers"]}
    for number, (digest, size) in enumerate(blobs.items(), start=1):
        copy_blob(source, target, digest, size, spool, lambda text, n=number: told(f"layer {n} of {len(blobs)} of the base, {text}"))
    for layer in layers:
        if not target.registry.has_blob(target.repository, layer.digest):
            told(f"{layer.made_of}: {layer.size / 2**20:.1f} MiB")
            target.registry.push_blob(target.repository, layer.digest, layer.file)
    push_bytes(target, config, spool)
    target.registry.push_manifest(target.repository, tag, manifest)
    there = target.registry.digest_of(target.repository, tag)
    if there != manifest.digest:
        raise _unusable(
            f"{target.repository}:{tag} arrived as {there}, and was sent as {manifest.digest}", "It is not usable", "Push it again"
        )
    return PushedImage(tag=tag, digest=manifest.digest, pushed=True)


def _install(requirements: Path, target: Path, python: str, platform: str) -> None:
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    if uv is None:
        raise _unusable("uv is not installed", "The requirements cannot be had for the image's platform", "Run `make .venv/.ready`")
    command = [uv, "pip", "install", "--quiet", "--target", str(target), "--python", sys.executable, "--python-version", python]
    command += ["--python-platform", PLATFORMS[platform], "--only-binary", ":all:", "--require-hashes", "--no-compile-bytecode"]
    # Whatever they need is locked beside them.
    command += ["--no-deps"]
    ended = subprocess.run([*command, "-r", str(requirements)], capture_output=True, text=True, check=False)
    if ended.returncode:
        last = ended.stderr.strip().splitlines()[-1:] or ["no reason given"]
        raise _unusable(
            f"{REQUIREMENTS} cannot be installed for Python {python} on {platform}: {last[0]}",
            "Nothing was pushed",
            "Check the network or the package index, and take a base with a Python that all requirements have wheels for",
        )


def _installed(target: Path) -> Iterator[tuple[PurePosixPath, Path]]:
    for file in target.rglob("*"):
        inside = file.relative_to(target)
        if not file.is_file() or inside.parts[0] in ("bin", ".lock") or "__pycache__" in inside.parts:
            continue
        if inside.parts[0].endswith(".dist-info") and inside.name in _LEFT_BEHIND:
            continue
        yield ROOT / "dependencies" / PurePosixPath(inside.as_posix()), file


def _code(project: Path) -> Iterator[tuple[PurePosixPath, Path]]:
    for file in (project / "headway").rglob("*"):
        if file.is_file() and "__pycache__" not in file.parts:
            yield ROOT / PurePosixPath(file.relative_to(project).as_posix()), file


def _unusable(fact: str, consequence: str, remedy: str) -> UserError:
    return UserError(f"{fact}.", f"{consequence}.", f"{remedy}.", Exit.ENVIRONMENT)
