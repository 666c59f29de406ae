"""What identifies a release: the sections of a contract that decide what runs, under the hash of their content.

Components name objects by it, the ledger keeps it. The trap: a snapshot that was kept by an earlier Headway may hash differently today,
because a field was added since; so a kept release keeps the name it was given, and two contracts are compared by value.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from headway.contract.difference import RELEASED
from headway.contract.model import Model

DIGEST_CHARACTERS = 10
"""40 bits: of 1,000 releases of one model two meet with a chance of 5 in 10,000,000; the ledger keeps the whole digest."""

REMOVED_VALUES: Mapping[tuple[str, str], Mapping[str, str]] = {("scaling", "policy"): {"threshold_table": "target"}}
"""Values of earlier Headways that no contract may have any more, by section and field -> what they are read as.

Only outside of RELEASED: what runs is what was registered, so a section that decides it is never read as another one."""


def read_snapshot(contract: Mapping[str, Any]) -> Model:
    """A contract as the ledger keeps it, also from an earlier Headway. Raises ValidationError for what no Headway up to this one wrote."""
    today = dict(contract)
    for (section, field), replacements in REMOVED_VALUES.items():
        part = today.get(section)
        if isinstance(part, Mapping) and part.get(field) in replacements:
            today[section] = {**part, field: replacements[part[field]]}
    return Model.model_validate(today)


def released_digest(model: Model) -> str:
    """SHA-256 of the released fields in canonical JSON."""
    fields = model.model_dump(mode="json", include=set(RELEASED))
    return hashlib.sha256(json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def release_id(model: Model) -> str:
    """Content address as a name part: `r` and the digest's first characters, a legal label value and DNS name."""
    return f"r{released_digest(model)[:DIGEST_CHARACTERS]}"


def same_release(one: Model, other: Model) -> bool:
    """Whether both contracts run the very same thing."""
    return all(getattr(one, section) == getattr(other, section) for section in RELEASED)


def with_released(model: Model, release: Model) -> Model:
    """`model` as it would read if it released what `release` does: the contract of a service whose newest version is not live yet."""
    return model.model_copy(update={section: getattr(release, section) for section in RELEASED})
