"""What is kept of an incident: each part as bytes, redacted, with a manifest by which a changed or missing file is found. Pure.

Secrets are masked by the patterns of `contract.secret_names`, beside what a node has already masked in printed lines.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any, cast

from headway.bounded_json import bounded_json
from headway.contract.secret_names import masked, names_a_secret
from headway.diagnosis.measures import MEASURES
from headway.diagnosis.observed import Observed
from headway.problem import Exit, UserError

MANIFEST = "manifest.json"
LARGEST_FILE = 16 * 2**20
"""Bytes of one file; a larger part is left out, and the manifest says so."""


def redacted(value: Any) -> Any:
    """The same value; texts without what opens something, and texts under a name of a secret masked whole."""
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, Mapping):
        pairs = cast(Mapping[str, Any], value).items()
        return {masked(key): "****" if isinstance(each, str) and names_a_secret(key) else redacted(each) for key, each in pairs}
    if isinstance(value, list | tuple):
        return [redacted(each) for each in cast(Sequence[Any], value)]
    return value


def encoded(value: Any) -> bytes:
    return (json.dumps(redacted(value), indent=1, allow_nan=False) + "\n").encode()


def series_record(observed: Observed) -> dict[str, Any]:
    """Every series with its unit: pairs of Unix seconds and a value, about the `step` seconds before; null where it is no number."""
    return {
        "service": f"{observed.tenant}/{observed.model}",
        "at": observed.at,
        "step": observed.step,
        "series": [
            {
                "measure": name,
                "says": MEASURES[name].says,
                "unit": MEASURES[name].unit,
                "of": label,
                "samples": [[moment, value if isfinite(value) else None] for moment, value in found],
            }
            for name, by_label in sorted(observed.series.items())
            for label, found in sorted(by_label.items())
        ],
    }


def objects_record(observed: Observed) -> dict[str, Any]:
    return {
        "states": [{"kind": e.kind, "subject": e.subject, "says": e.words, "since": e.since} for e in observed.states],
        "changes": [{"kind": e.kind, "time": e.time, "who": e.who, "says": e.words} for e in observed.changes],
    }


def manifest(about: Mapping[str, Any], files: Mapping[str, bytes], missing: Mapping[str, str]) -> bytes:
    """`missing`: what could not be captured, and why."""
    listed = [{"file": name, "bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()} for name, body in sorted(files.items())]
    return encoded({**about, "files": listed, "missing": [{"what": what, "why": why} for what, why in sorted(missing.items())]})


def listed(content: bytes) -> dict[str, tuple[int, str]]:
    """Size and SHA-256 of each file that a manifest names. Raises UserError for what is no manifest."""
    try:
        found = {each["file"]: (each["bytes"], each["sha256"]) for each in bounded_json(content)["files"]}
        if not all(type(n) is str and type(s) is int and type(h) is str and _plain(n) for n, (s, h) in found.items()):
            raise ValueError("it names a file outside of its folder, or no size and digest")
        return found
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise UserError(
            f"{MANIFEST} is no manifest of an incident: {error}.",
            "Nobody can say whether the folder is whole.",
            "Name a folder that `headway incident capture` has written.",
            Exit.REFUSED,
        ) from None


def _plain(name: str) -> bool:
    return bool(name) and name.isprintable() and not set(name) & set("/\\") and not name.startswith(".")
