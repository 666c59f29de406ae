"""Which files belong on a node, from the configurations of the releases on its pool. Pure.

A release's ConfigMap lists its artifact's files with sizes and digests; what a tenant may have is what its own
namespace's ConfigMaps name below `s3://BUCKET/NAMESPACE/`, and nothing else. Tenants' deployers write ConfigMaps, so a
digest there proves nothing: a file is fetched for each tenant from its own prefix, and never handed to one because
another has it.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from headway.wire import FETCH_SETTINGS

_DIGEST = re.compile(r"[0-9a-f]{64}")
_LONGEST_KEY = 1024
"""Bytes of a key in S3."""


@dataclass(frozen=True, kw_only=True, order=True)
class CachedFile:
    """One object, called by its content, of one tenant. `size` in bytes."""

    tenant: str
    sha256: str
    bucket: str
    key: str
    size: int


def files(configuration: Mapping[str, Any]) -> tuple[CachedFile, ...]:
    """The files that a ConfigMap names, below its namespace's own prefix; none for what is no release's
    configuration or reaches elsewhere."""
    tenant = configuration["metadata"]["namespace"]
    try:
        said = json.loads((configuration.get("data") or {})[FETCH_SETTINGS])
        bucket, _, prefix = said["uri"].removeprefix("s3://").partition("/")
        found = tuple(
            CachedFile(tenant=tenant, sha256=each["sha256"], bucket=bucket, key=f"{prefix}{each['path']}", size=int(each["size"]))
            for each in said["files"]
        )
    except (KeyError, TypeError, ValueError, AttributeError):
        return ()
    return found if said["uri"].startswith("s3://") and all(_own(each) for each in found) else ()


def _own(file: CachedFile) -> bool:
    inside = file.key.startswith(f"{file.tenant}/") and not {"", ".", ".."} & set(file.key.split("/"))
    return bool(file.bucket and inside and len(file.key.encode()) <= _LONGEST_KEY and _DIGEST.fullmatch(file.sha256) and file.size >= 0)


def ordered(configurations: Iterable[Mapping[str, Any]]) -> tuple[CachedFile, ...]:
    """All files, once each, in the order in which they are fetched: the newest release of every tenant, then the second
    newest, and so on.

    So no tenant takes a node's room before each other one has its turn.
    """
    releases: dict[str, list[tuple[str, str, tuple[CachedFile, ...]]]] = {}
    for each in configurations:
        if found := files(each):
            metadata = each["metadata"]
            made = (str(metadata.get("creationTimestamp") or ""), str(metadata["name"]), found)
            releases.setdefault(found[0].tenant, []).append(made)
    turns: dict[str, list[tuple[CachedFile, ...]]] = {
        tenant: [each[2] for each in sorted(made, reverse=True)] for tenant, made in sorted(releases.items())
    }
    order: dict[tuple[str, str], CachedFile] = {}
    for turn in range(max(map(len, turns.values()), default=0)):
        for made in turns.values():
            for file in made[turn] if turn < len(made) else ():
                order.setdefault((file.tenant, file.sha256), file)
    return tuple(order.values())
