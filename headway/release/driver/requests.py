"""What people want of a release under way, written into its ledger: the runner reads it within a second or two."""

from collections.abc import Callable, Sequence

from headway.ledger.chain import Ledger, LostError
from headway.ledger.events import Event
from headway.release.driver.event_kinds import EventKind, OperatorRequest
from headway.release.driver.rollout_state import ServiceState, fold


def ask(ledger: Ledger, request: OperatorRequest, reason: str, refuse: Callable[[ServiceState], None] = lambda _: None) -> Sequence[Event]:
    """Append a wish; again when a race was lost. `refuse` may raise UserError for the service as it then is."""
    while True:
        refuse(fold(ledger.read()))
        try:
            ledger.append(EventKind.ASKED, {"wish": request.value, "reason": reason})
        except LostError:
            continue
        return ledger.events
