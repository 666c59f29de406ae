"""A chain as a loop reads it: by turns, and without keeping its events."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic

from headway.ledger.chain import Ledger
from headway.ledger.events import Event
from headway.ledger.kept import State, StateKept, TooMuchKeptError


class FollowedLedger(Generic[State]):
    """What `step` makes of the chain of `ledger`, from `state` on. `at_most`: bytes that are read at one look. Methods as those of `Ledger`,
    which raise the same."""

    def __init__(self, ledger: Ledger, step: Callable[[Iterable[Event], State], State], state: State, at_most: float = math.inf) -> None:
        self.chain, self._step, self._start, self._at_most = ledger.chain, step, state, at_most
        self._begin(ledger)

    def _begin(self, ledger: Ledger) -> None:
        self._kept = StateKept(self.chain, self._start, self._step)
        self._ledger = ledger.keeping(self._kept, self._at_most)

    def anew(self, state: State) -> "FollowedLedger[State]":
        """The same chain from its first event on, which must have what was read of it so far."""
        return FollowedLedger(self._ledger, self._step, state, self._at_most)

    def look(self) -> State:
        return self._weighed(self._ledger.look)

    def read(self) -> State:
        return self._weighed(self._ledger.read)

    def attest(self) -> None:
        self._weighed(self._ledger.attest)

    def append(self, kind: str, body: Mapping[str, Any]) -> None:
        self._ledger.append(kind, body)

    def _weighed(self, act: Callable[[], object]) -> State:
        """Nothing is held of a chain of which too much would have to be."""
        try:
            try:
                act()
            finally:
                self._kept.weigh()
        except TooMuchKeptError:
            self._begin(self._ledger)
            raise
        return self._kept.state
