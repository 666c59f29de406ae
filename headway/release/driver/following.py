"""A service as a loop follows it: by its chain, and without the events of it."""

import math
from collections.abc import Iterable
from dataclasses import replace

from headway.ledger.chain import Ledger
from headway.ledger.events import Event
from headway.ledger.followed import FollowedLedger
from headway.release.driver.rollout_state import ServiceState, fold

_EXPLAINED = 100
"""So many releases back a loop knows what each changed in the contract."""


def followed(ledger: Ledger, at_most: float = math.inf) -> FollowedLedger[ServiceState]:
    """The service of that chain; of releases before the newest one no decision, no plan's document and nothing learned. `at_most`: bytes that
    are read at one look."""
    return FollowedLedger(ledger, after, ServiceState(), at_most)


def after(events: Iterable[Event], service: ServiceState) -> ServiceState:
    for event in events:
        before, service = len(service.past), fold((event,), service)
        if len(service.past) > before:
            past = list(service.past)
            if len(past) > 1:
                old = past[-2]
                body = {"difference": old.body["difference"]} if "difference" in old.body else {}
                plan = past[-3].plan if len(past) > 2 and past[-3].plan == old.plan else old.plan  # the same one takes no memory again
                past[-2] = replace(old, body=body, plan=plan, decision=None, learned=None, compared=frozenset(), ended=None)
            if len(past) > _EXPLAINED:
                past[-_EXPLAINED - 1] = replace(past[-_EXPLAINED - 1], body={}, grown=())
            service = replace(service, past=tuple(past))
    return service
