"""A release: the part of a contract that decides what runs, addressed by its content.

What `headway.contract.difference.RELEASED` lists enters a replica's pods; a change of it is a new release with
objects of its own. Everything else (objectives, bounds of scaling, rollout policy) belongs to the service and
changes in place. If a field outside RELEASED ever reached a pod template, a contract change would restart a release
that the ledger calls immutable; a test walks all fields against this.
"""

from dataclasses import dataclass

from headway.contract.model import Model
from headway.contract.released import release_id


@dataclass(frozen=True, kw_only=True)
class Release:
    """An immutable version of a model: its contract as it was when the release was registered."""

    model: Model
    registered: str | None = None
    """The name under which the ledger keeps it; None for a release that no ledger knows yet."""

    @property
    def id(self) -> str:
        """Content address as a name part, a legal label value and DNS name."""
        return self.registered or release_id(self.model)
