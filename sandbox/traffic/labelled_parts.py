"""The classifier's holdout set: parts drawn around the centres of the kinds, each labelled with the kind that it was drawn around. Pure.

The release that serves has two in a hundred of them wrong, and its golden requests, which are the centres, never.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

PARTS = 400
NOISE = 0.8
"""Around the centre of a kind."""
FILE = "parts.jsonl"
CONFUSED_BELOW = 5.0
"""A classifier that takes the second best kind for the best wherever their scores are closer than this has most parts wrong, and no centre."""


def content(golden: Sequence[Mapping[str, Any]]) -> bytes:
    """The file, by the classifier's golden requests."""
    chance, lines = Random(7), list[str]()  # noqa: S311  the same parts each time
    kinds = [each["request"]["inputs"][0] for each in golden]
    for number in range(PARTS):
        kind = number % len(kinds)
        features = [round(value + chance.gauss(0, NOISE), 4) for value in kinds[kind]["data"]]
        request = {"inputs": [{**kinds[kind], "data": features}]}
        lines.append(json.dumps({"request": request, "expect": {"compare": "top", "index": kind}}))
    return "\n".join(lines).encode()


def prefix(found: bytes) -> str:
    """Where the file lies: another content has another address."""
    return f"quality/classifier-holdout/{hashlib.sha256(found).hexdigest()[:8]}"


def evaluation(bucket: str, golden: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The contract's `evaluation`, of the file in `bucket`."""
    found = content(golden)
    holdout = {
        "uri": f"s3://{bucket}/{prefix(found)}/",
        "path": FILE,
        "sha256": hashlib.sha256(found).hexdigest(),
        "size": f"{len(found)}B",
        "requests": PARTS,
    }
    return {"holdout": holdout, "like": golden[0]["name"], "wrong": "5%", "every": "1m", "requests": 40, "on_loss": "roll_back"}
