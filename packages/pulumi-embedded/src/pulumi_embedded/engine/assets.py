"""Content hashes of assets and archives: they travel as paths, and without a hash a changed file would be no change.

Also owns where a relative path starts: the folder of the program.
"""

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pulumi_embedded.engine.values import ARCHIVE, ASSET, Properties, contains, signature_of


class AssetError(Exception):
    """An asset that cannot be read."""


def has_asset(value: Any) -> bool:
    return contains(value, (ASSET, ARCHIVE))


def hashed(value: Any, root: Path) -> Any:
    """`value` with a `hash` in every asset and archive that can be read here; remote ones keep their address alone.

    Raises AssetError for a file that is not there.
    """
    kind = signature_of(value)
    if kind == ASSET:
        return _with_hash(value, _asset_digest(value, root))
    if kind == ARCHIVE:
        members = value.get("assets")
        if members is not None:
            value = {**value, "assets": hashed(members, root)}
        return _with_hash(value, _archive_digest(value, root))
    if isinstance(value, dict):
        return {key: hashed(inner, root) for key, inner in value.items()}
    if isinstance(value, list):
        return [hashed(inner, root) for inner in value]
    return value


def _with_hash(value: Properties, digest: str | None) -> Properties:
    return value if digest is None else {**value, "hash": digest}


def _asset_digest(asset: Properties, root: Path) -> str | None:
    if "text" in asset:
        return hashlib.sha256(str(asset["text"]).encode()).hexdigest()
    return _reading(asset, root, _file_digest) if "path" in asset else None


def _archive_digest(archive: Properties, root: Path) -> str | None:
    if "assets" in archive:
        total = hashlib.sha256()
        for name, member in sorted(archive["assets"].items()):
            total.update(f"{name}\0{member.get('hash') or member.get('uri', '')}\0".encode())
        return total.hexdigest()
    return _reading(archive, root, _tree_digest) if "path" in archive else None


def _reading(value: Properties, root: Path, digest: Callable[[Path], str]) -> str:
    path = root / str(value["path"])
    try:
        return digest(path)
    except OSError as error:
        raise AssetError(f"the file {path} of an asset cannot be read: {error.strerror or error}") from error


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _tree_digest(path: Path) -> str:
    if not path.is_dir():
        return _file_digest(path)
    total = hashlib.sha256()
    for member in sorted(path.rglob("*")):
        if member.is_file():
            total.update(f"{member.relative_to(path).as_posix()}\0{_file_digest(member)}\0".encode())
    return total.hexdigest()
