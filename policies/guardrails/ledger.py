"""The ledger of releases decides what serves; who writes it writes one tenant's part."""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from headway.wire import LEDGER_LEASES
from policies.guardrails.identity import IAM, allows, documents, many, statements
from policies.guardrails.rule import Breaches, Domain, PolicyRule, PolicySeverity, breach
from policies.guardrails.view import ResourceView

_WRITES = [
    f"s3:{action}"
    for action in (
        "BypassGovernanceRetention",
        "DeleteObject",
        "DeleteObjectVersion",
        "PutObject",
        "PutObjectLegalHold",
        "PutObjectRetention",
        "ReplicateObject",
        "RestoreObject",
    )
]
"""What changes an object, its versions or how long they are kept."""


_KEYS = ("nobody/00000001.json", f"{LEDGER_LEASES}nobody/service.json")
"""An event and a lease of a tenant that there is not: whoever may write these may write everybody's."""
_VARIABLE = re.compile(r"\$\{[^}]*\}")


def _takes_in(resource: str, word: str, key: str) -> bool:
    """Whether an ARN's pattern can mean `key` of a bucket with `word` in its name. A policy variable means one value of who asks."""
    return _meet(_VARIABLE.sub("(one)", resource.rpartition(":::")[2]), f"*{word}*/{key}")


@lru_cache(maxsize=1 << 14)
def _meet(pattern: str, other: str) -> bool:
    """Whether some text fits both patterns. A star of the first takes anything, one of the second no slash."""
    if not pattern or not other:
        return not (pattern + other).strip("*")
    if pattern[0] == "*":
        return _meet(pattern[1:], other) or _meet(pattern, other[1:])
    if other[0] == "*":
        return _meet(pattern, other[1:]) or (pattern[0] != "/" and _meet(pattern[1:], other))
    return pattern[0] in ("?", other[0]) and _meet(pattern[1:], other[1:])


def _ledger(r: ResourceView, c: Mapping[str, Any]) -> Breaches:
    for path, node in documents(r):
        for i, s in enumerate(statements(node.value)):
            if s.get("Effect") != "Allow" or not (writes := allows(s, _WRITES)):
                continue
            for resource in many(s.get("Resource")):
                if any(_takes_in(resource, c["ledger"], key) for key in _KEYS):
                    yield breach(
                        f"{path}.Statement[{s.get('Sid') or i}].Resource", f"allows {', '.join(writes)} for every tenant by {resource}"
                    )


RULES = (
    PolicyRule(
        id="ledger-written-by-prefix",
        domain=Domain.IDENTITY,
        title="Who writes the ledger of releases writes one tenant's part of it.",
        rationale="The ledger decides what serves; whoever writes all of it can take back, or make up, the releases of every tenant.",
        remedy="End the ARN with the tenant: <bucket>/<tenant>/* and <bucket>/leases/<tenant>/*; name the bucket without a wildcard.",
        applies=(*IAM, "aws:s3/bucketPolicy:BucketPolicy"),
        check=_ledger,
        severity=PolicySeverity.CRITICAL,
        settings={"ledger": {"type": "string", "default": "ledger"}},
    ),
)
