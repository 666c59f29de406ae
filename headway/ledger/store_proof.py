"""Whether a store keeps the two promises of a ledger, tried before anything relies on it."""

import secrets
from collections.abc import Callable

from headway.ledger.store import LedgerStore, TakenError
from headway.problem import UserError
from headway.wire import LEDGER_LEASES


def prove(store: LedgerStore, token: Callable[[], str] = lambda: secrets.token_hex(8)) -> None:
    """Make sure that the store enforces conditional writes. Raises UserError when it lets a second writer through."""
    key = f"{LEDGER_LEASES}probe/{token()}"
    first = store.replace(key, b"first", None)
    lets = "overwrite an object"
    try:
        store.replace(key, b"second", None)
    except TakenError:
        store.replace(key, b"second", first)
        lets = "replace an object whose newest writing it had not seen"
        try:
            store.replace(key, b"third", first)
        except TakenError:
            return
    raise UserError(
        f"The ledger's store let a second writer {lets}: it does not enforce conditional writes.",
        "Two runners could both believe that they own a rollout, and the audit trail could be rewritten; nothing was started.",
        "Use S3, or a store that honours If-None-Match: * and If-Match on PutObject.",
    )
