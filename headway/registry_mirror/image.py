"""An image made of a base and of folders, without a container engine: layers, configuration and manifest. The same files on the same
base always give the same bytes: sorted, of one owner, without times.

Sources: opencontainers/image-spec v1.1.1 `layer.md`, `config.md`, `manifest.md` and the compatibility matrix of `media-types.md`.
"""

import gzip
import hashlib
import json
import stat
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, cast

from headway.registry_mirror.manifest import RawManifest

IMAGE_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
IMAGE_CONFIG = "application/vnd.oci.image.config.v1+json"
IMAGE_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
_SAME_AS = {"application/vnd.docker.image.rootfs.diff.tar.gzip": IMAGE_LAYER}
"""Docker's names of what the image specification calls interchangeable."""
EPOCH = "1970-01-01T00:00:00Z"


@dataclass(frozen=True, kw_only=True)
class BaseImage:
    """What a new image stands on: the manifest of one platform, with its configuration."""

    name: str
    """As it was asked for, with its digest."""
    manifest: RawManifest
    config: Mapping[str, Any]

    @property
    def variables(self) -> dict[str, str]:
        return dict(each.partition("=")[::2] for each in (self.config.get("config") or {}).get("Env") or ())


def require_configuration(said: Any) -> None:
    """Raises ValueError for what is no configuration of an image (image-spec v1.1.1 `config.md`)."""
    found: dict[str, Any] = said if isinstance(said, dict) else {}
    settings, layers = found.get("config") or {}, found.get("rootfs")
    if not isinstance(settings, dict) or not _texts(settings.get("Env") or []):
        raise ValueError("its settings are none")
    if not isinstance(layers, dict) or not _texts(layers.get("diff_ids")) or not isinstance(found.get("history") or [], list):
        raise ValueError("its layers are none")


def _texts(said: Any) -> bool:
    return isinstance(said, list) and all(isinstance(each, str) for each in cast(list[Any], said))


@dataclass(frozen=True, kw_only=True)
class ImageLayer:
    """A packed folder as a file."""

    file: Path
    digest: str
    diff_id: str
    """Digest of the archive before it was compressed, by which a configuration knows its layers."""
    size: int
    made_of: str


@dataclass(frozen=True, kw_only=True)
class StartSettings:
    """How a container of the image starts, where its pod does not say otherwise."""

    entrypoint: tuple[str, ...]
    user: str
    variables: Mapping[str, str]


def packed(files: Iterable[tuple[PurePosixPath, Path]], into: Path, made_of: str) -> ImageLayer:
    """A layer of `files`, each by its path from the image's root, written as the file `into`."""
    found = sorted(files, key=lambda each: each[0].parts)
    with into.open("wb") as raw:
        outer = _Counting(raw)
        with gzip.GzipFile(filename="", fileobj=cast(IO[bytes], outer), mode="wb", compresslevel=4, mtime=0) as zipped:
            inner = _Counting(zipped)
            with tarfile.open(fileobj=cast(IO[bytes], inner), mode="w|", format=tarfile.PAX_FORMAT) as archive:
                _pack(archive, found)
    return ImageLayer(file=into, digest=outer.digest, diff_id=inner.digest, size=outer.size, made_of=made_of)


def image_of(
    base: BaseImage, layers: Sequence[ImageLayer], start: StartSettings, annotations: Mapping[str, str]
) -> tuple[bytes, RawManifest]:
    """Configuration and manifest of `layers` upon `base`."""
    config = _config(base, layers, start)
    content = base.manifest.content
    described = [
        *({**each, "mediaType": _SAME_AS.get(each["mediaType"], each["mediaType"])} for each in content["layers"]),
        *({"mediaType": IMAGE_LAYER, "digest": layer.digest, "size": layer.size} for layer in layers),
    ]
    manifest = {
        "schemaVersion": 2,
        "mediaType": IMAGE_MANIFEST,
        "config": {"mediaType": IMAGE_CONFIG, "digest": digest_of(config), "size": len(config)},
        "layers": described,
        "annotations": dict(annotations),
    }
    return config, RawManifest(IMAGE_MANIFEST, _written(manifest))


def digest_of(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"


def _config(base: BaseImage, layers: Sequence[ImageLayer], start: StartSettings) -> bytes:
    before = base.config.get("config") or {}
    # The base's own command would become arguments of the new entrypoint.
    kept = {name: value for name, value in before.items() if name not in ("Cmd", "Entrypoint", "Env", "User") and value}
    history = base.config.get("history") or []
    found = {
        **{name: base.config[name] for name in ("architecture", "os", "variant", "os.version") if base.config.get(name)},
        "created": EPOCH,
        "config": {
            **kept,
            "User": start.user,
            "Env": [f"{name}={value}" for name, value in {**base.variables, **start.variables}.items()],
            "Entrypoint": list(start.entrypoint),
        },
        "rootfs": {"type": "layers", "diff_ids": [*base.config["rootfs"]["diff_ids"], *(layer.diff_id for layer in layers)]},
    }
    if history:
        found["history"] = [*history, *({"created": EPOCH, "created_by": layer.made_of} for layer in layers)]
    return _written(found)


def _written(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()


def _pack(archive: tarfile.TarFile, files: Sequence[tuple[PurePosixPath, Path]]) -> None:
    known = set[PurePosixPath]()
    for name, file in files:
        for parent in reversed(name.parents[:-1]):
            if parent not in known:
                known.add(parent)
                archive.addfile(_member(parent, tarfile.DIRTYPE, 0o755))
        runs = file.stat().st_mode & stat.S_IXUSR
        member = _member(name, tarfile.REGTYPE, 0o755 if runs else 0o644)
        member.size = file.stat().st_size
        with file.open("rb") as content:
            archive.addfile(member, content)


def _member(name: PurePosixPath, kind: bytes, mode: int) -> tarfile.TarInfo:
    found = tarfile.TarInfo(name.as_posix())
    found.type, found.mode, found.mtime = kind, mode, 0
    return found


class _Counting:
    """Passes what is written on, and knows its digest and size."""

    def __init__(self, to: Any) -> None:
        self._to, self._sha, self.size = to, hashlib.sha256(), 0

    def write(self, piece: bytes) -> int:
        self._sha.update(piece)
        self.size += len(piece)
        self._to.write(piece)
        return len(piece)

    def flush(self) -> None:
        self._to.flush()

    @property
    def digest(self) -> str:
        return f"sha256:{self._sha.hexdigest()}"
