"""Evidence from one number a tick for each arm: mean time in queue, GPU time of a request.

Such a number has no counts behind it, and it stays high or low for minutes: a queue that is long is long in the next minute too, whatever
the version. That it is high says no more after an hour than after a minute, so a number that is high all the time holds a version and
takes nothing back; a regression that shows in counts is found there. What can be bet on is that it comes back. Once the canary's number
was beyond the tolerated one and has come back to the control's or below, the arms have exchanged places: while they are alike, the
control is now at least as likely to be the next beyond the tolerated one. So a bet is made there and decided by whichever is next, and
the bets are an e-process however the numbers depend on their past, as long as the past favours who was last below.
"""

from typing import NamedTuple

import numpy as np

from headway.release.earlier_gates.gate_fc4f452ae5f1.evidence import Mixture, TickStake, alternatives
from headway.release.earlier_gates.gate_fc4f452ae5f1.state import Stateful
from headway.release.earlier_gates.gate_fc4f452ae5f1.tick import Bools, Floats

_BETS = (0.3, 0.6, 0.9)
"""Shares of the wealth staked on who is next."""
_WAS_BEYOND, _CAME_BACK = 1, 2
_PROOF_BET = 0.9
_REQUESTS = 5.0
"""Of each arm; with fewer the mean says nothing."""
_ENOUGH = 1e6


class LevelLimits(NamedTuple):
    """What is accepted, and what a step must rule out, as multiple of the control's value plus a constant."""

    tolerated: float
    ruled_out: float
    floor: float = 0.0


class LevelTest(Stateful):
    """A number of which more is worse."""

    def __init__(self, limits: LevelLimits, rollouts: int) -> None:
        self._limits = limits
        self.bets = Mixture((len(_BETS), rollouts))
        self.since = np.zeros(rollouts, dtype=np.int64)
        """What the canary did last: it was beyond the tolerated number, came back since, or neither."""
        self.proof = np.ones(rollouts)
        self.known = np.zeros(rollouts, dtype=bool)
        """Whether both arms had the number, at this weight."""

    def compare(self, value: Floats, control: Floats, requests: Floats, requests_control: Floats, at: TickStake) -> None:
        """One tick's numbers; not-a-number is no number."""
        limits = self._limits
        there: Bools = np.isfinite(value) & np.isfinite(control) & (requests >= _REQUESTS) & (requests_control >= _REQUESTS) & at.counts
        value, control = np.where(there, value, 0.0), np.where(there, control, 0.0)
        worse = value > control * limits.tolerated + limits.floor
        better = control > value * limits.tolerated + limits.floor
        outcome = np.where(self.since == _CAME_BACK, worse.astype(np.float64) - better, 0.0)
        stake = np.where(there, at.stake, -1.0)
        self.bets.update(np.log1p(alternatives(_BETS, 2) * outcome), stake, at.largest, at.largest)
        back = np.where((self.since == _WAS_BEYOND) & (value <= control), _CAME_BACK, self.since)
        self.since = np.where(there, np.where(worse, _WAS_BEYOND, np.where(better, 0, back)), self.since)
        fine = np.where(value <= control * limits.ruled_out + 2 * limits.floor, 1.0, -1.0)
        self.proof = np.where(there, np.clip(self.proof * (1 + _PROOF_BET * fine), 1 / _ENOUGH, _ENOUGH), self.proof)
        self.known = self.known | there

    def restart_proof(self, where: Bools) -> None:
        """Forget what was proven at the last weight."""
        self.proof, self.known = np.where(where, 1.0, self.proof), self.known & ~where

    def high(self) -> Bools:
        """Whether the number was beyond what this weight must rule out in most ticks."""
        return self.known & (self.proof < 1.0)

    def evidence(self) -> Floats:
        """Against the canary."""
        return self.bets.value()

    def proven(self) -> Floats:
        """For the canary at this weight. Where nobody measures the number there, nothing is asked: not-a-number."""
        return np.where(self.known, self.proof, np.nan)


class Saturation(Stateful):
    """How busy the canary's GPUs will be at the next weight, from what its requests cost in the latest ticks.

    A projection, not a test: it blocks an advance and rolls nothing back.
    """

    LIMIT = 0.85
    _KEEP = 0.9
    """Of the sums, from minute to minute: about the latest ten."""

    def __init__(self, rollouts: int, tick_minutes: float = 1.0) -> None:
        self._keep = self._KEEP**tick_minutes
        self.busy, self.requests = np.zeros(rollouts), np.zeros(rollouts)

    def observe(self, busy: Floats, requests: Floats, counted: Bools) -> None:
        """GPU seconds that `requests` kept the canary's GPUs busy."""
        there = counted & np.isfinite(busy)
        self.busy = np.where(there, self._keep * self.busy + np.where(there, busy, 0.0), self.busy)
        self.requests = np.where(there, self._keep * self.requests + requests, self.requests)

    def projected(self, requests: Floats, capacity: Floats) -> Floats:
        """Share of `capacity` GPU seconds that `requests` will take; not-a-number where either is unknown."""
        known = (self.requests > 0) & np.isfinite(capacity) & (capacity > 0)
        return np.where(known, self.busy / np.maximum(self.requests, 1e-9) * requests / np.where(known, capacity, 1.0), np.nan)
