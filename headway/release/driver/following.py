"""A service as a loop follows it: by its chain, and without the events of it."""

from headway.ledger.chain import Ledger
from headway.ledger.followed import FollowedLedger
from headway.release.driver.rollout_state import ServiceState, fold


def followed(ledger: Ledger) -> FollowedLedger[ServiceState]:
    return FollowedLedger(ledger, fold, ServiceState())
