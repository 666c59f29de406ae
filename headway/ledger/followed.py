"""A chain as a loop reads it: by turns, and without keeping its events."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic

from headway.ledger.chain import Ledger
from headway.ledger.events import Event
from headway.ledger.kept import State, StateKept


class FollowedLedger(Generic[State]):
    """What `step` makes of the chain of `ledger`, from `state` on. `at_most`: bytes that are read at one look. Methods as those of `Ledger`,
    which raise the same."""

    def __init__(self, ledger: Ledger, step: Callable[[Iterable[Event], State], State], state: State, at_most: float = math.inf) -> None:
        self._kept = StateKept(ledger.chain, state, step)
        self._ledger, self._step, self._at_most = ledger.keeping(self._kept, at_most), step, at_most
        self.chain = ledger.chain

    def anew(self, state: State) -> "FollowedLedger[State]":
        """The same chain from its first event on, which must have what was read of it so far."""
        return FollowedLedger(self._ledger, self._step, state, self._at_most)

    def look(self) -> State:
        self._ledger.look()
        return self._kept.state

    def read(self) -> State:
        self._ledger.read()
        return self._kept.state

    def attest(self) -> None:
        self._ledger.attest()

    def append(self, kind: str, body: Mapping[str, Any]) -> None:
        self._ledger.append(kind, body)
