"""Packages of charts from the repositories of their makers, proved by the digests that were recorded."""

import hashlib
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import yaml

from headway.problem import Exit, UserError
from headway.registry_mirror.client import TIMEOUT_SECONDS


def package_of(chart: dict[str, Any], folder: Path | None) -> bytes:
    """The package, from `folder` or from the chart's repository. Raises UserError where it is not what was recorded."""
    name = f"{chart['chart']}-{chart['version']}.tgz"
    if folder is not None:
        file = folder / name
        if not file.is_file():
            raise _refused(f"{name} is not in {folder}")
        found = file.read_bytes()
    else:
        found = _downloaded(chart)
    digest = f"sha256:{hashlib.sha256(found).hexdigest()}"
    if chart["digest"] not in (None, digest):
        raise _refused(f"{name} is {digest}, and {chart['digest']} is recorded")
    return found


def _downloaded(chart: dict[str, Any]) -> bytes:
    base = f"{chart['repository'].rstrip('/')}/"
    index = yaml.load(_read(f"{base}index.yaml"), Loader=yaml.CSafeLoader)
    entries = [
        each for each in index["entries"].get(chart["chart"], ()) if each["version"].removeprefix("v") == chart["version"].removeprefix("v")
    ]
    if not entries:
        raise _refused(f"{base} has no {chart['chart']} {chart['version']}")
    return _read(urllib.parse.urljoin(base, entries[0]["urls"][0]))


def _read(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310 - addresses of components/versions.py
            return answer.read()
    except OSError as error:
        raise _refused(f"{url} cannot be read: {error}") from None


def _refused(fact: str) -> UserError:
    return UserError(
        f"{fact}.", "This chart was not copied.", "Pull it yourself (`helm pull`), and name the folder with --charts.", Exit.REFUSED
    )
