"""Copies images and charts into a mirror. Whatever is there already is left alone, so an interrupted copy goes on where it ended.

Blobs first, the manifest that names them last, an index after its parts: a tag in the mirror means that everything below it is there. The
trap: an image is copied with all of its platforms, because its digest is that of the index, and that is what pods name.
"""

import gzip
import hashlib
import io
import json
import tarfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from headway.bounded_yaml import LARGEST_YAML, bounded_yaml
from headway.problem import Exit, UserError
from headway.registry_mirror.client import RegistryClient
from headway.registry_mirror.manifest import INDEXES, RawManifest

CHART_CONFIG = "application/vnd.cncf.helm.config.v1+json"
CHART_CONTENT = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
"""Media types of a chart in a registry (helm/community, hips/hip-0006)."""
DEEPEST_INDEX = 3
LARGEST_UNPACKED = 100 * 2**20
"""Bytes, as Helm takes at most (helm/helm, `pkg/chart/v2/loader/archive`: MaxDecompressedChartSize)."""
MOST_FILES = 10_000
"""The add-ons' charts have some hundred."""

Told = Callable[[str], None]
"""Takes a line of progress."""


@dataclass(frozen=True)
class ImagePlace:
    """A repository in a registry."""

    registry: RegistryClient
    repository: str


@dataclass(frozen=True)
class CopyOutcome:
    """What became of one image or chart."""

    target: str
    digest: str
    copied: bool
    """False where it was there already."""


def copy_image(source: ImagePlace, target: ImagePlace, tag: str, pinned: str | None, spool: Path, told: Told) -> CopyOutcome:
    """`tag` of `source` into `target`, under the same tag; `pinned` is the digest that it must be."""
    found = source.registry.manifest(source.repository, pinned or tag)
    if found is None:
        raise _refused(f"{source.registry.host} has no {source.repository}:{tag}{f' with {pinned}' if pinned else ''}")
    name = f"{target.repository}:{tag}"
    if _is_there(target, tag, found.digest):
        return CopyOutcome(name, found.digest, copied=False)
    _parts(source, target, found, spool, told)
    return CopyOutcome(name, _put(target, tag, found), copied=True)


def copy_chart(package: bytes, target: ImagePlace, version: str, spool: Path) -> CopyOutcome:
    """A chart's package as the artifact that `helm push` makes of it; the same package always has the same digest."""
    config = json.dumps(chart_of(package), sort_keys=True, separators=(",", ":")).encode()
    described = {"mediaType": CHART_CONFIG, "digest": _digest(config), "size": len(config)}
    content = {"mediaType": CHART_CONTENT, "digest": _digest(package), "size": len(package)}
    kind = "application/vnd.oci.image.manifest.v1+json"
    body = {"schemaVersion": 2, "mediaType": kind, "config": described, "layers": [content]}
    manifest = RawManifest(kind, json.dumps(body, sort_keys=True, separators=(",", ":")).encode())
    # A registry's tags know no plus sign, which Helm writes as an underscore.
    tag = version.replace("+", "_")
    name = f"{target.repository}:{tag}"
    if _is_there(target, tag, manifest.digest):
        return CopyOutcome(name, manifest.digest, copied=False)
    for blob in (config, package):
        push_bytes(target, blob, spool)
    return CopyOutcome(name, _put(target, tag, manifest), copied=True)


def push_bytes(target: ImagePlace, blob: bytes, spool: Path) -> None:
    """A blob that is at hand, unless it is there."""
    if target.registry.has_blob(target.repository, _digest(blob)):
        return
    file = spool / _digest(blob).partition(":")[2]
    file.write_bytes(blob)
    target.registry.push_blob(target.repository, _digest(blob), file)
    file.unlink()


def chart_of(package: bytes) -> dict[str, Any]:
    """Chart.yaml of a package: of the chart itself, not of one that it brings."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(package)) as packed:
            unpacked = packed.read(LARGEST_UNPACKED + 1)
        if len(unpacked) > LARGEST_UNPACKED:
            raise ValueError(f"it has more than {LARGEST_UNPACKED} bytes when it is unpacked")
        with tarfile.open(fileobj=io.BytesIO(unpacked)) as archive:
            (member,) = [each for each in _members(archive) if each.name.count("/") == 1 and each.name.endswith("/Chart.yaml")]
            file = archive.extractfile(member) if member.isreg() else None
            found: Any = bounded_yaml(file.read(LARGEST_YAML + 1) if file else b"")
        if not isinstance(found, dict):
            raise ValueError("its Chart.yaml says nothing")
        json.dumps(found, sort_keys=True, allow_nan=False)  # a date, say, is nothing that a configuration can hold
        return cast(dict[str, Any], found)
    except (OSError, EOFError, ArithmeticError, LookupError, TypeError, ValueError, zlib.error, tarfile.TarError) as error:
        raise _refused(f"a package is no chart: {error}") from None


def _members(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Raises ValueError beyond `MOST_FILES`: what is empty takes no room in a package, and some in memory."""
    for number, member in enumerate(archive):
        if number >= MOST_FILES:
            raise ValueError(f"it has more than {MOST_FILES} files")
        yield member


def _is_there(target: ImagePlace, tag: str, digest: str) -> bool:
    there = target.registry.digest_of(target.repository, tag)
    if there not in (None, digest):
        raise _refused(f"{target.repository}:{tag} in the mirror is {there}, and what would be copied is {digest}")
    return there is not None


def _parts(source: ImagePlace, target: ImagePlace, manifest: RawManifest, spool: Path, told: Told, deeper: int = DEEPEST_INDEX) -> None:
    """Everything that `manifest` names, depth first."""
    content = manifest.content
    if manifest.kind in INDEXES or "manifests" in content:
        if not deeper:
            raise _refused(f"an index of {source.repository} has indexes within indexes")
        for part in content["manifests"]:
            digest = str(part["digest"])
            if target.registry.digest_of(target.repository, digest) is None:
                found = source.registry.manifest(source.repository, digest)
                if found is None:
                    raise _refused(f"{source.registry.host} has no {digest}, which an index of {source.repository} names")
                _parts(source, target, found, spool, told, deeper - 1)
                _put(target, digest, found)
        return
    blobs = {str(each["digest"]): int(each["size"]) for each in (content["config"], *content["layers"])}
    for number, (digest, size) in enumerate(blobs.items(), start=1):
        copy_blob(source, target, digest, size, spool, lambda text, n=number: told(f"{n} of {len(blobs)}, {text}"))


def copy_blob(source: ImagePlace, target: ImagePlace, digest: str, size: int, spool: Path, told: Told) -> None:
    """The blob in `target`: left alone where it is, named anew within one registry, copied through `spool` from another."""
    if target.registry.has_blob(target.repository, digest):
        return
    if source.registry.host == target.registry.host and target.registry.mount_blob(target.repository, digest, source.repository):
        return
    file, passed = spool / digest.partition(":")[2], 0

    def seen(more: int) -> None:
        nonlocal passed
        passed += more
        told(f"{passed / 2**20:.1f} of {size / 2**20:.1f} MiB")

    source.registry.fetch_blob(source.repository, digest, size, file, seen)
    target.registry.push_blob(target.repository, digest, file)
    file.unlink()


def _put(target: ImagePlace, reference: str, manifest: RawManifest) -> str:
    target.registry.push_manifest(target.repository, reference, manifest)
    there = target.registry.digest_of(target.repository, reference)
    if there != manifest.digest:
        raise _refused(f"{target.repository}:{reference} arrived as {there}, and was sent as {manifest.digest}")
    return manifest.digest


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _refused(fact: str) -> UserError:
    return UserError(
        f"{fact}.",
        "What nodes would pull is not what was reviewed.",
        "Find out which of the two is right; a mirror's tag is never moved.",
        Exit.REFUSED,
    )
