"""Whether a tick is evidence at all, and what shows within a few ticks or not at all.

The trap: a dead exporter, a dead Prometheus and an idle night all look like zeros. Only `up` and the other arm tell them from a canary
that cannot be reached.
"""

import numpy as np

from headway.release.earlier_gates.gate_fc4f452ae5f1.evidence import AnyOnset, share_log
from headway.release.earlier_gates.gate_fc4f452ae5f1.state import Stateful
from headway.release.earlier_gates.gate_fc4f452ae5f1.tick import ArmCounts, Bools, Floats

_MOST_FAILING = 0.15
"""Of the requests of a minute: a healthy version's worst."""
_CATASTROPHES = (0.5, 0.95)
"""Alternatives."""
_CONTROL_RATE = 0.05
"""Of failed requests, from which on the control has its own trouble, so that the canary's is not its own."""
_RESTARTS_A_DAY = 1.0
"""Minutes with restarts that are tolerated in all containers of the canary together."""
_CRASHES_A_MINUTE = (1 / 60, 1 / 6, 0.6)
"""Alternatives."""
_MINUTES_A_DAY = 1440.0
_EXPECTED_REQUESTS = 20.0
_LARGEST_CLUSTER = 30.0
"""Requests that may all go to one arm together, such as those of a caller that keeps to a connection, or tries again."""
_REACH_STAKE = 0.9
_REACH_FLOOR = 1e-4
"""Evidence is kept above this, so that a canary that stops being reached is found too; a day of minutes adds a seventh to the error."""
_SHARE_TOLERANCE = 1.25
_SHARE_ALTERNATIVE = 1.6
_SHARE_BOUND = 1000.0
"""1 / alpha of the share test; outside the budget of false rollbacks, because it never rolls back."""
_SHARE_FLOOR = -8.0
"""Log evidence is kept above this, so that a share that goes wrong late is found; adds at most exp(-8) a tick to the error."""
_SHARE_CEILING = 12.0
_NEAR_ENOUGH, _SIGMAS = 0.25, 4.0


class ShareTest(Stateful):
    """Whether the canary gets the share of requests that it should."""

    def __init__(self, rollouts: int) -> None:
        self.settled = np.zeros(rollouts, dtype=bool)
        self.too_much, self.too_little = np.zeros(rollouts), np.zeros(rollouts)

    def restart(self, where: Bools) -> None:
        """The weight was changed."""
        self.settled = self.settled & ~where
        self.too_much, self.too_little = np.where(where, 0.0, self.too_much), np.where(where, 0.0, self.too_little)

    def observe(self, canary: Floats, all_arms: Floats, weight: Floats, judged: Bools) -> None:
        """`canary` of `all_arms` requests, where `weight` was wanted."""
        expected = weight * all_arms
        slack = _SIGMAS * np.sqrt(expected * (1 - weight)) + _NEAR_ENOUGH * expected + 2.0
        # The tick that settles it may hold requests that were divided by the weight before, and says nothing about this one.
        watched = judged & self.settled & (weight > 0) & (weight < 1)
        # Where few requests are expected none of them lies within the slack, and tells nothing of a weight that is late.
        self.settled = self.settled | (judged & (canary > 0) & (np.abs(canary - expected) <= slack))
        high, higher = np.minimum(weight * _SHARE_TOLERANCE, 0.95), np.minimum(weight * _SHARE_ALTERNATIVE, 0.97)
        low, lower = weight / _SHARE_TOLERANCE, weight / _SHARE_ALTERNATIVE
        safe = [np.where(watched, share, fallback) for share, fallback in ((high, 0.5), (higher, 0.6), (low, 0.5), (lower, 0.4))]
        canary = np.minimum(canary, all_arms)
        much, little = share_log(canary, all_arms, safe[0], safe[1]), share_log(canary, all_arms, safe[2], safe[3])
        self.too_much = np.where(watched, np.clip(self.too_much + much, _SHARE_FLOOR, _SHARE_CEILING), self.too_much)
        self.too_little = np.where(watched, np.clip(self.too_little + little, _SHARE_FLOOR, _SHARE_CEILING), self.too_little)

    def evidence(self) -> Floats:
        """That the share is more than a quarter off."""
        return (np.exp(self.too_much) + np.exp(self.too_little)) / 2

    def wrong(self) -> Bools:
        return self.evidence() >= _SHARE_BOUND

    @property
    def bound(self) -> float:
        return _SHARE_BOUND


class ReachTest(Stateful):
    """Whether requests reach the canary at all, beside a baseline that has at most its weight, in the same route.

    A route that is late is late for both arms, and then neither has requests and nothing is bet. Null hypothesis: each cluster of
    requests that comes to one of the two goes to the canary with probability 1/2 or more, whatever was before. Then the canary has none
    of m clusters with probability 2^-m at most, and 1 + s (2^m - 1) where it has none, 1 - s where it has some, is an e-value for any s.
    """

    def __init__(self, rollouts: int) -> None:
        self.evidence = np.ones(rollouts)

    def observe(self, canary: Floats, baseline: Floats, judged: Bools, largest: float) -> None:
        """Requests of a tick; `largest`: what it may multiply the evidence by, for one bad minute proves nothing."""
        watched = judged & (canary + baseline > 0)
        gain = 2.0 ** np.clip(np.floor((canary + baseline) / _LARGEST_CLUSTER), 1.0, 30.0) - 1.0
        stake = np.minimum(_REACH_STAKE, (largest - 1.0) / gain)
        factor = np.where(canary > 0, 1.0 - stake, 1.0 + stake * gain)
        self.evidence = np.where(watched, np.maximum(self.evidence, _REACH_FLOOR) * factor, self.evidence)


class Catastrophe(Stateful):
    """Whether so many requests fail that nothing else matters.

    Null hypothesis: given the past, each request of a minute fails with probability 15 % at most; up to 30 requests of one caller may fail
    together, in whatever way. Then the likelihood ratio to the power 1/30 has a mean of 1 at most: by Hölder's inequality that of a
    cluster of k requests is at most the product of E[L^(k/30)]^(1/k), and each of these is at most 1 (Jensen). A tick in which the control
    fails too may only speak for the canary, which lowers the mean.
    """

    def __init__(self, rollouts: int) -> None:
        self.failing = AnyOnset(len(_CATASTROPHES), rollouts)

    def observe(self, canary: ArmCounts, control: ArmCounts, judged: Bools) -> None:
        """A tick; without a control the canary's own errors decide."""
        n, bad = canary.total(), canary.total_errors()
        fine = control.total_errors() <= _CONTROL_RATE * control.total()
        logs = [share_log(bad, n, _MOST_FAILING, rate) / _LARGEST_CLUSTER for rate in _CATASTROPHES]
        self.failing.multiply([np.exp(np.minimum(log, np.where(fine, 30.0, 0.0))) for log in logs], judged & (n > 0))


class RestartTest(Stateful):
    """Whether containers restart again and again.

    Null hypothesis: given the past, a minute holds restarts with probability 1 / 1,440 at most. How many there are in it does not matter,
    because a node that fails takes all its pods. Then 1 + p (X / q - 1) is an e-value for any p, with q the probability and X whether
    there were restarts.
    """

    def __init__(self, rollouts: int, tick_minutes: float = 1.0) -> None:
        self._minutes = tick_minutes
        self._tolerated = min(_RESTARTS_A_DAY * tick_minutes / _MINUTES_A_DAY, 0.5)
        self.crashes = AnyOnset(len(_CRASHES_A_MINUTE), rollouts)
        self.since = np.ones(rollouts)
        """Minutes since the restarts that counted last."""

    def observe(self, restarts: Floats, judged: Bools) -> None:
        """Restarts of a tick. In ticks shorter than a minute, those of the minute after one that counted are the same event."""
        self.since = np.where(judged, self.since + self._minutes, self.since)
        event = judged & (restarts > 0) & (self.since >= 1.0)
        self.since = np.where(event, 0.0, self.since)
        bets = [min(rate * self._minutes, 0.9) for rate in _CRASHES_A_MINUTE]
        self.crashes.multiply([np.where(event, 1 + bet * (1 / self._tolerated - 1), 1 - bet) for bet in bets], judged)


def unreached(canary: Floats, others: Floats, weight: Floats) -> Bools:
    """No request where many were expected. Weights that are late look the same, so this proves nothing."""
    expected = others * weight / np.maximum(1 - weight, 1e-9)
    return (canary == 0) & (weight > 0) & (weight < 1) & (expected >= _EXPECTED_REQUESTS)
