"""What people want of a release under way, written into its ledger: the runner reads it within a second or two."""

from collections.abc import Callable, Sequence

from headway.ledger.chain import Ledger, LostError
from headway.ledger.events import Event
from headway.release.driver.kinds import Kind, Wish
from headway.release.driver.rollout import Service, fold


def ask(ledger: Ledger, wish: Wish, reason: str, refuse: Callable[[Service], None] = lambda _: None) -> Sequence[Event]:
    """Append a wish; again when a race was lost. `refuse` may raise UserError for the service as it then is."""
    while True:
        refuse(fold(ledger.read()))
        try:
            ledger.append(Kind.ASKED, {"wish": wish.value, "reason": reason})
        except LostError:
            continue
        return ledger.events
