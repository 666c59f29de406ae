"""Packages of charts from the repositories of their makers, proved by the digests that were recorded."""

import hashlib
import http.client
import urllib.parse
from pathlib import Path
from typing import Any

from headway.bounded_yaml import bounded_yaml
from headway.outgoing import body_of
from headway.problem import Exit, UserError, shown
from headway.registry_mirror.client import OPENER, TIMEOUT_SECONDS

LARGEST_INDEX = 64 * 2**20
LARGEST_PACKAGE = 20 * 2**20
"""Bytes; the largest of the add-ons' have some 2 MiB."""


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
    try:
        index: Any = bounded_yaml(_read(f"{base}index.yaml", LARGEST_INDEX), LARGEST_INDEX)
        versions = index["entries"].get(chart["chart"], ())
        fitting = [each for each in versions if str(each["version"]).removeprefix("v") == chart["version"].removeprefix("v")]
        where = urllib.parse.urljoin(base, str(fitting[0]["urls"][0])) if fitting else ""
    except (AttributeError, LookupError, TypeError, ValueError) as odd:
        raise _refused(f"{base}index.yaml is no index of charts: {odd}") from None
    if not where:
        raise _refused(f"{base} has no {chart['chart']} {chart['version']}")
    if urllib.parse.urlsplit(where).scheme not in ("https", urllib.parse.urlsplit(base).scheme):
        raise _refused(f"{base}index.yaml leads to {shown(where)}, which is no https address")
    return _read(where, LARGEST_PACKAGE)


def _read(url: str, most: int) -> bytes:
    try:
        with OPENER.open(url, timeout=TIMEOUT_SECONDS) as answer:
            return body_of(answer, most)
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _refused(f"{shown(url)} cannot be read: {error}") from None


def _refused(fact: str) -> UserError:
    return UserError(
        f"{fact}.", "This chart was not copied.", "Pull it yourself (`helm pull`), and name the folder with --charts.", Exit.REFUSED
    )
