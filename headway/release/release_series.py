"""What releases do, as series: read from each service's ledger by a loop that runs anyway, so that dashboards and alerts need no other word.

Each look reads what is new in a chain and compares it with the chain's witness. A service whose ledger cannot be read, or is not sound, has no
series but the one that says so: a state that nobody can see is none.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from threading import Event as Signal
from threading import Lock
from typing import Protocol

from prometheus_client import Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from headway.environment.port import OutOfReachError
from headway.ledger.kept import UnfinishedError
from headway.ledger.store import MissingStoreError, UnreachableError
from headway.problem import UserError, printable
from headway.release.driver.event_kinds import ReleaseOutcome
from headway.release.driver.rollout_state import ServiceState
from headway.wire import RELEASE_STATE

EVERY_SECONDS = 60.0
_WAITS_AT_MOST = 8
"""Looks until a refused ledger is looked at again."""
_SERVICE = ("tenant", "model")
_UNREAD = (UserError, OutOfReachError, UnreachableError, MissingStoreError, OSError)


class LookedAtLedger(Protocol):
    """As `headway.ledger.followed.FollowedLedger`."""

    def look(self) -> ServiceState: ...


Ledgers = Callable[[], Mapping[str, Callable[[], LookedAtLedger]]]
"""Every service of the environment now, by its chain, and what opens its ledger."""


@dataclass
class ReleaseSeries:
    """`say` hears what is said of a ledger that cannot be read, once."""

    ledgers: Ledgers
    say: Callable[[str], None]
    _opened: dict[str, LookedAtLedger] = field(default_factory=dict[str, LookedAtLedger])
    _read: dict[str, ServiceState | None] = field(default_factory=dict[str, ServiceState | None])
    """None of a service whose ledger cannot be read."""
    _refused: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    """How often a ledger was refused since it was last read, and how many looks it waits: it is read whole again, which takes time from the
    others."""
    _lock: Lock = field(default_factory=Lock)

    def follow(self, ending: Signal) -> None:
        """Look again and again until told to end. For a thread of its own."""
        while True:
            self.look()
            if ending.wait(EVERY_SECONDS):
                return

    def look(self) -> None:
        """Read what is new of every service."""
        try:
            known = self.ledgers()
        except _UNREAD as failure:
            self.say(f"which services there are cannot be read: {printable(str(failure))}")
            return
        found = {chain: self._service(chain, known[chain]) for chain in sorted(known)}
        with self._lock:
            self._read = found
        for gone in self._opened.keys() - known.keys():
            del self._opened[gone]
            self._refused.pop(gone, None)

    def _service(self, chain: str, opens: Callable[[], LookedAtLedger]) -> ServiceState | None:
        refused, left = self._refused.get(chain, (0, 0))
        if left:
            self._refused[chain] = refused, left - 1
            return None
        try:
            if chain not in self._opened:
                self._opened[chain] = opens()
            service = self._opened[chain].look()
            self._refused.pop(chain, None)
            return service
        except _UNREAD as failure:
            if isinstance(failure, UserError) and not isinstance(failure, UnfinishedError):
                self._refused[chain] = refused + 1, min(2**refused, _WAITS_AT_MOST) - 1
            if self._read.get(chain, ServiceState()) is not None:
                self.say(f"{chain}: its releases cannot be read: {printable(str(failure))}")
            return None

    def collect(self) -> Iterator[Metric]:
        """As prometheus_client asks a collector."""
        with self._lock:
            read = dict(self._read)
        state = GaugeMetricFamily(RELEASE_STATE, "The release under way.", labels=(*_SERVICE, "release", "state"))
        verdict = GaugeMetricFamily("headway_release_verdict", "The gate's newest.", labels=(*_SERVICE, "release", "phase", "reason"))
        share = GaugeMetricFamily("headway_release_users_share", "Of users' requests, by the ledger.", labels=(*_SERVICE, "release"))
        ended = CounterMetricFamily("headway_release_ended", "Releases that are over.", labels=(*_SERVICE, "outcome"))
        newest = GaugeMetricFamily("headway_release_event_timestamp_seconds", "Of the newest event of a release.", labels=_SERVICE)
        unread = GaugeMetricFamily("headway_release_unread", "Whether the ledger cannot be read.", labels=_SERVICE)
        for chain, service in read.items():
            whose = list(chain.split("/", 1))
            unread.add_metric(whose, float(service is None))
            if service is None:
                continue
            for outcome in ReleaseOutcome:
                ended.add_metric([*whose, outcome.value], sum(each.outcome == outcome for each in service.past))
            for release in dict.fromkeys(arm.release for arm in service.split.arms) if service.split else ():
                arms = (arm for arm in service.split.arms if arm.release == release) if service.split else ()
                share.add_metric([*whose, release], sum(arm.weight.fraction for arm in arms))
            if service.rollout:
                newest.add_metric(whose, datetime.fromisoformat(service.rollout.last).timestamp())
            running = service.running
            if running:
                state.add_metric([*whose, running.release, running.status], 1.0)
                if running.decision:
                    verdict.add_metric([*whose, running.release, running.phase, str(running.decision["reason"])], 1.0)
        yield from (state, verdict, share, ended, newest, unread)

    def text(self) -> str:
        """In Prometheus' text format."""
        return generate_latest(self).decode()  # pyright: ignore[reportArgumentType]  it asks for `collect` alone
