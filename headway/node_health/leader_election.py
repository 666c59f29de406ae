"""Which of several loops may act: the one that holds the Lease, until it gives it up or falls silent.

A node's own version keeps two loops from undoing each other on one node; only one pair of eyes keeps the brake, which
counts a whole pool. As in client-go, another holder's clock is never believed: it is silent once its record has not
changed for the lease's time by the clock of whoever looks. A loop that was stopped in the middle of a round would go on
after its turn, so `lasts` is asked before each act.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol

from headway.environment.kubernetes import CONFLICT, NOT_FOUND
from headway.timestamp import rfc3339
from headway.wire import NODE_HEALTH_LEASE

SECONDS = 60.0
"""How long a holder that says nothing is believed to be alive: four rounds."""


@dataclass(frozen=True, kw_only=True)
class LeaderRecord:
    """The Lease as somebody left it; `version` changes with every write. An empty holder has given it up."""

    holder: str
    version: str


class LeaderStore(Protocol):
    """Where the record is. Both raise UserError when it cannot be reached."""

    def read(self) -> LeaderRecord | None: ...

    def write(self, holder: str, over: LeaderRecord | None) -> LeaderRecord | None:
        """Keep `holder` in place of the record `over`; None when somebody else wrote first."""
        ...


@dataclass
class Turn:
    """The turn of the loop called `me`. `clock` in seconds that only grow."""

    store: LeaderStore
    me: str
    clock: Callable[[], float]
    seconds: float = SECONDS
    _mine: LeaderRecord | None = field(default=None, init=False)
    _renewed: float = field(default=0.0, init=False)
    _others: tuple[LeaderRecord, float] | None = field(default=None, init=False)

    def taken(self) -> bool:
        """Take the turn or keep it; False while another holds it. Raises UserError when the record cannot be reached."""
        began = self.clock()
        found = self.store.read()
        if found is not None and found.holder not in ("", self.me) and not self._silent(found, began):
            self._mine = None
            return False
        self._mine = self.store.write(self.me, found)
        self._renewed = began
        return self._mine is not None

    def lasts(self) -> bool:
        """Whether the turn, once taken, is still ours for certain: a third of its time is kept for what is on its way."""
        return self._mine is not None and self.clock() - self._renewed < self.seconds * 2 / 3

    def give_up(self) -> None:
        """Let the next one begin at once."""
        if self._mine is not None:
            self.store.write("", self._mine)
            self._mine = None

    def _silent(self, found: LeaderRecord, now: float) -> bool:
        if self._others is None or self._others[0] != found:
            self._others = (found, now)
        return now - self._others[1] >= self.seconds


class LeaseStore:
    """A Lease of the API server. `ask` asks it: method, path and body; None for one of the statuses `unless`."""

    def __init__(self, ask: Callable[..., Mapping[str, Any] | None], namespace: str) -> None:
        self._ask, self._namespace = ask, namespace
        self._all = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"

    def read(self) -> LeaderRecord | None:
        return _record(self._ask("GET", f"{self._all}/{NODE_HEALTH_LEASE}", unless=NOT_FOUND))

    def write(self, holder: str, over: LeaderRecord | None) -> LeaderRecord | None:
        metadata = {"name": NODE_HEALTH_LEASE, "namespace": self._namespace, **({"resourceVersion": over.version} if over else {})}
        renewed = rfc3339(datetime.now(UTC), "microseconds")
        spec = {"holderIdentity": holder, "leaseDurationSeconds": int(SECONDS), "renewTime": renewed}
        body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata, "spec": spec}
        meanwhile = (NOT_FOUND, CONFLICT)  # deleted, made or written by somebody else
        if over is None:
            return _record(self._ask("POST", self._all, body=body, unless=meanwhile))
        return _record(self._ask("PUT", f"{self._all}/{NODE_HEALTH_LEASE}", body=body, unless=meanwhile))


def _record(lease: Mapping[str, Any] | None) -> LeaderRecord | None:
    if lease is None:
        return None
    return LeaderRecord(holder=lease["spec"].get("holderIdentity") or "", version=lease["metadata"]["resourceVersion"])
