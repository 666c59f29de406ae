"""What a verification leaves behind: one JSON document with who, when, versions, every check's evidence, and its own
digest. Pure.

It is kept beside the release ledger, written once. The digest finds a document that was changed or cut; who may write into
the bucket is said by its policy and not by the digest.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from headway.bounded_json import bounded_json
from headway.problem import Exit, UserError
from headway.verify.outcome import VerifyResult, VerifyState
from headway.wire import LEDGER_VERIFICATIONS

KIND = "headway-verification/v1"
LARGEST_DOCUMENT = 16 << 20
"""Bytes: what is read of an object of the ledger."""


def document(
    *, environment: str, actor: str, commit: str, began: str, ended: str, versions: Mapping[str, Any], results: Sequence[VerifyResult]
) -> dict[str, Any]:
    """The whole, with its digest. Moments are UTC in ISO 8601."""
    body: dict[str, Any] = {
        "kind": KIND,
        "environment": environment,
        "by": actor,
        "commit": commit,
        "began": began,
        "ended": ended,
        "state": verdict(results).value,
        "versions": dict(versions),
        "checks": [_check(result) for result in results],
    }
    return {**body, "digest": digest(body)}


def verdict(results: Sequence[VerifyResult]) -> VerifyState:
    """The worst of all checks: what failed, then what nobody answered, then what could not be shown."""
    states = {result.state for result in results}
    order = (VerifyState.FAILED, VerifyState.UNANSWERED, VerifyState.NOT_SHOWN, VerifyState.PASSED)
    return next((state for state in order if state in states), VerifyState.NOTHING)


def _check(result: VerifyResult) -> dict[str, Any]:
    seen = result.sighting
    return {
        "check": result.check,
        "state": result.state.value,
        "began": result.began,
        "seconds": round(result.seconds, 1),
        "evidence": list(seen.evidence),
        "notShown": list(seen.not_shown),
        "unanswered": list(seen.unanswered),
        "problems": [each.record("level", "subject") for each in seen.problems],
    }


def digest(body: Mapping[str, Any]) -> str:
    """SHA-256 of the document without its digest: sorted keys, no spaces."""
    bare = {key: value for key, value in body.items() if key != "digest"}
    return "sha256:" + hashlib.sha256(json.dumps(bare, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def key(environment: str, began: str) -> str:
    """Where it lies in the ledger's bucket; names sort by time."""
    return f"{LEDGER_VERIFICATIONS}{environment}/{began.replace(':', '')}.json"


def read(text: bytes, name: str) -> dict[str, Any]:
    """A document that is whole. Raises UserError for one that is not what was written."""
    try:
        found = bounded_json(text, LARGEST_DOCUMENT)
    except ValueError:
        found = None
    if not isinstance(found, dict) or found.get("kind") != KIND:
        raise UserError(f"{name} is no verification.", "Nothing can be said of it.", "Name a file of `headway verify --keep`.", Exit.USAGE)
    if found.get("digest") != digest(found):
        raise UserError(
            f"{name} is not as it was written: its digest is {digest(found)}, and it says {found.get('digest')}.",
            "Nobody can say what that verification saw.",
            "Verify again: `headway verify`; find out who may write there.",
            Exit.REFUSED,
        )
    return found
