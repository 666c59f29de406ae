"""What a registry says an image is made of, believed only where it has the form that the specification gives it. Pure.

A digest becomes the name of a file and part of an address, and a size the end of a download; so both are checked where
a manifest arrives, and nobody checks them again. Source: opencontainers/image-spec v1.1.1 `manifest.md`,
`image-index.md`, `descriptor.md`.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from headway.bounded_json import bounded_json

LARGEST_MANIFEST = 4 * 2**20
"""Bytes: what registries must take at least (distribution-spec, "Pushing Manifests"), and no maker has more."""
INDEXES = ("application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json")
MANIFESTS = ("application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json")
MOST_PARTS = 256
"""Layers of an image (overlayfs mounts 128), and platforms of an index."""
LARGEST_BLOB = 64 * 2**30
"""Bytes of a layer: an image of a model server has some 20 GiB in all."""
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True)
class RawManifest:
    """A manifest as its bytes, which its digest is of."""

    kind: str
    raw: bytes

    @property
    def digest(self) -> str:
        return f"sha256:{hashlib.sha256(self.raw).hexdigest()}"

    @property
    def content(self) -> dict[str, Any]:
        """Raises ValueError where it says something that no manifest says."""
        found: Any = bounded_json(self.raw, LARGEST_MANIFEST)
        if not isinstance(found, dict):
            raise ValueError("it is no object")
        content = cast(dict[str, Any], found)
        if self.kind in INDEXES or "manifests" in content:
            for part in _parts(content, "manifests"):
                _described(part)
                if not isinstance(part.get("platform") or {}, dict):
                    raise ValueError("a platform of it is no object")
        else:
            _described(content.get("config"))
            for layer in _parts(content, "layers"):
                _described(layer)
        return content


def _parts(content: Mapping[str, Any], name: str) -> list[Any]:
    found = content.get(name)
    if not isinstance(found, list) or len(cast(list[Any], found)) > MOST_PARTS:
        raise ValueError(f"its {name} are no list of at most {MOST_PARTS}")
    return cast(list[Any], found)


def _described(part: Any) -> None:
    if not isinstance(part, dict):
        raise ValueError("a part of it is no object")
    said = cast(dict[str, Any], part)
    digest, size = said.get("digest"), said.get("size")
    if not isinstance(digest, str) or not DIGEST.fullmatch(digest):
        raise ValueError("a part of it has no SHA-256 digest")
    if type(size) is not int or not 0 <= size <= LARGEST_BLOB:
        raise ValueError(f"a part of it has no size, or one above {LARGEST_BLOB}")
