"""The first release of a service: what serves already, before any ledger knew it. Needs no gate, so that an update can
do it quickly."""

from collections.abc import Mapping
from typing import Any

from headway.ledger.chain import Ledger, register
from headway.ledger.events import Event
from headway.ledger.store import LedgerStore
from headway.ledger.traffic_split import TrafficSplit
from headway.release.driver.event_kinds import EventKind


def adopt(ledger: Ledger, store: LedgerStore, contract: Mapping[str, Any], name: str) -> Event | None:
    """Register what serves as the first release of a service that the ledger does not know; None where it does."""
    if ledger.read():
        return None
    content = register(store, ledger.chain, {"id": name, "contract": dict(contract)})
    return ledger.append(EventKind.ADOPTED, {"release": name, "division": TrafficSplit.only(name, content).document()})
