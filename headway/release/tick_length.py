"""How long a tick of a release lasts.

A service of few requests has few in each arm, and a tick in which an arm had none proves nothing; so its ticks are longer.
"""

import math

from headway.contract.rollout import Rollout
from headway.release.gate import GatePolicy

TICK_SECONDS, LONGEST_TICK_SECONDS = 60.0, 300.0
_TICKS_OF_PATIENCE = 3
"""So many ticks are within the times that a contract allows a version to be blind; two within those to be unwatched."""
_REQUESTS = 2
"""So many the smallest arm has in a tick, in the mean: with fewer, releases of the published worlds took up to twice as long."""
ENOUGH = 1.0
"""Requests a second from which on every release is proven within hours; the published figures begin there."""


def tick_seconds(rollout: Rollout, requests_a_second: float | None = None, smallest_share: float = 1.0) -> float:
    """How long a tick lasts outside of experiments: a minute, and where traffic is low as long as the smallest arm needs for two requests.

    Whole minutes, five at most, and short enough for `blind_at_most` and `unwatched_at_most`.
    """
    if not requests_a_second:
        return TICK_SECONDS
    patience = min(rollout.blind_at_most.seconds / _TICKS_OF_PATIENCE, rollout.unwatched_at_most.seconds / 2, LONGEST_TICK_SECONDS)
    most = max(1, math.floor(patience / TICK_SECONDS))
    return TICK_SECONDS * min(most, max(1, math.ceil(_REQUESTS / (requests_a_second * smallest_share) / TICK_SECONDS)))


def smallest_share(policy: GatePolicy) -> float:
    """Of requests that the new version gets in a step."""
    return min((*policy.weights, *filter(None, (policy.mirror,))), default=1.0)
