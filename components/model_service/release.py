"""A release: the part of a contract that decides what runs, addressed by its content.

What is listed in RELEASED enters a replica's pods; a change of it is a new release with objects of its own. Everything else (objectives,
bounds of scaling, rollout policy) belongs to the service and changes in place. The trap: if a field outside RELEASED ever reached a pod
template, a contract change would restart a release that the ledger calls immutable; a test walks all fields against this.
"""

import hashlib
import json
from dataclasses import dataclass

from headway.contract.difference import RELEASED
from headway.contract.model import Model

DIGEST_CHARACTERS = 10
"""40 bits: of 1,000 releases of one model two meet with a chance of 5 in 10,000,000; the ledger keeps the whole digest."""


@dataclass(frozen=True, kw_only=True)
class Release:
    """An immutable version of a model: its contract as it was when the release was registered."""

    model: Model

    @property
    def digest(self) -> str:
        """SHA-256 of the released fields in canonical JSON."""
        fields = self.model.model_dump(mode="json", include=set(RELEASED))
        return hashlib.sha256(json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()).hexdigest()

    @property
    def id(self) -> str:
        """Content address as a name part: `r` and the digest's first characters, a legal label value and DNS name."""
        return f"r{self.digest[:DIGEST_CHARACTERS]}"
