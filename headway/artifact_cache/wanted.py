"""Which files belong on a node, from the configurations of the releases on its pool. Pure.

A release's ConfigMap lists its artifact's files with sizes and digests; what a tenant may have is what its own
namespace's ConfigMaps name below `s3://BUCKET/NAMESPACE/`, and nothing else. Tenants' deployers write ConfigMaps, so a
digest there proves nothing: a file is fetched for each tenant from its own prefix, and never handed to one because
another has it.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from headway.bounded_json import bounded_json
from headway.wire import FETCH_SETTINGS

_DIGEST = re.compile(r"[0-9a-f]{64}")
_LONGEST_KEY = 1024
"""Bytes of a key in S3."""
_LARGEST_OBJECT = 50 * 2**40
"""Bytes of an object in S3."""
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{0,62}")
"""Its name, and no ARN, which might be of another account."""


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
    configuration or reaches elsewhere. Raises nothing, whatever it says."""
    tenant = configuration["metadata"]["namespace"]
    try:
        said = bounded_json((configuration.get("data") or {})[FETCH_SETTINGS])
        found = tuple(_file(tenant, said["uri"], each) for each in said["files"])
    except (KeyError, TypeError, ValueError):
        return ()
    return found if all(_own(each) for each in found) else ()


def _file(tenant: str, uri: Any, said: Any) -> CachedFile:
    """Raises KeyError, TypeError and ValueError for what says no file."""
    path, sha256, size = said["path"], said["sha256"], said["size"]
    if not (isinstance(uri, str) and isinstance(path, str) and isinstance(sha256, str)) or type(size) is not int:
        raise TypeError("a field of it has not the type that it has in a release")
    if not uri.startswith("s3://"):
        raise ValueError("it is in no bucket")
    bucket, _, prefix = uri.removeprefix("s3://").partition("/")
    return CachedFile(tenant=tenant, sha256=sha256, bucket=bucket, key=f"{prefix}{path}", size=size)


def _own(file: CachedFile) -> bool:
    inside = file.key.startswith(f"{file.tenant}/") and not {"", ".", ".."} & set(file.key.split("/"))
    sound = _DIGEST.fullmatch(file.sha256) and 0 <= file.size <= _LARGEST_OBJECT and len(file.key.encode()) <= _LONGEST_KEY
    return bool(inside and sound and _BUCKET.fullmatch(file.bucket))


def ordered(configurations: Iterable[Mapping[str, Any]]) -> tuple[CachedFile, ...]:
    """All files, once each, in the order in which they have a right to a node's room: next is always the tenant that has the fewest bytes with
    its next file, and of each tenant the newest release comes first.

    So no tenant, whatever it names, takes room before others have as much.
    """
    releases: dict[str, list[tuple[str, str, tuple[CachedFile, ...]]]] = {}
    for each in configurations:
        if found := files(each):
            metadata = each["metadata"]
            made = (str(metadata.get("creationTimestamp") or ""), str(metadata["name"]), found)
            releases.setdefault(found[0].tenant, []).append(made)
    order: list[tuple[int, str, int, CachedFile]] = []
    for tenant, made in releases.items():
        own: dict[str, CachedFile] = {}
        for _, _, found in sorted(made, reverse=True):
            for file in found:
                own.setdefault(file.sha256, file)
        taken = accumulate(file.size for file in own.values())
        order += [(so_far, tenant, place, file) for place, (so_far, file) in enumerate(zip(taken, own.values(), strict=True))]
    return tuple(file for *_, file in sorted(order))
