"""Names and ids that a double makes up where the inputs give none."""

import hashlib
import re
from dataclasses import replace
from typing import Any

from pulumi_embedded.providers.aws.kind import AwsKind, Facts, Naming


def identified(kind: AwsKind, facts: Facts) -> Facts:
    """`facts` with the id and ARN of a new object."""
    facts = replace(facts, id="-")  # known from here on, so that texts are filled
    arn_first = isinstance(kind.id, str) and "{arn}" in kind.id
    if arn_first:
        facts = replace(facts, arn=_filled(kind.arn, facts))
    facts = replace(facts, id=kind.identify(facts))
    return facts if arn_first else replace(facts, arn=_filled(kind.arn, facts))


def _filled(value: Any, facts: Facts) -> str:
    # IAM paths are part of an ARN and default to a slash.
    facts = replace(facts, inputs={"path": "/", **facts.inputs})
    return facts.text(value) if isinstance(value, str) else str(value(facts))


def made_up_name(named: Naming, name: str, seed: str) -> str:
    """Pulumi's automatic name: the logical one and seven hex digits, shortened in the middle rather than refused."""
    suffix = f"-{hashlib.sha256(seed.encode()).hexdigest()[:7]}"
    base = f"{named.lead}{name.lower() if named.lower else name}"
    return base[: named.longest - len(suffix)] + suffix


def is_made_up(named: Naming, name: str, value: str) -> bool:
    base = f"{named.lead}{name.lower() if named.lower else name}"[: named.longest - 8]
    return re.fullmatch(re.escape(base) + r"-[0-9a-f]{7}", value) is not None
