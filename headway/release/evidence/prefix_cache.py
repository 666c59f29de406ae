"""Whether first tokens of two versions can be compared: only where their prefix caches are about as warm. Pure.

A server computes of a prompt what its cache does not have, so a replica that is new answers later than one that has seen the same users for a
day, and a version that was warmed by copies sooner than its baseline. Neither says anything of the version. While the caches differ, the
new version's first tokens are no evidence, for it or against it: a release waits, and one whose cache never becomes as warm is held.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from headway.release.evidence.queries import FIRST
from headway.release.gate.tick import Bools

MOST_UNLIKE = 1.15
"""Of two versions' shares of tokens that had to be computed, the one by the other. What is left is a part of a first token's time, beside
queues and networks, and about what a contract tolerates."""
_NEW = ("canary", "mirrored")


def alike(one: ArrayLike, other: ArrayLike) -> Bools:
    """By shares of prompts' tokens that had to be computed, 0 to 1; not-a-number: nobody knows, which is no reason to wait."""
    first, second = np.asarray(one, dtype=np.float64), np.asarray(other, dtype=np.float64)
    return ~((first > MOST_UNLIKE * second) | (second > MOST_UNLIKE * first))


def compared(arms: Mapping[str, Any], said: Mapping[str, Mapping[str, float]]) -> tuple[Mapping[str, Any], dict[str, float]]:
    """The arms of a raw reading without the first tokens that are no evidence; and where there are such, the share of prompts' tokens that each
    arm's cache had. `said`: what servers say of tokens (`tokens.of_tick`)."""
    computed = {part: _computed(each) for part, each in said.items()}
    control = computed.get("baseline", computed.get("stable", float("nan")))
    cold = [
        part for part in _NEW if part in arms and FIRST in arms[part]["buckets"] and not alike(computed.get(part, float("nan")), control)
    ]
    if not cold:
        return arms, {}
    known = {part: 1 - share for part, share in computed.items() if not math.isnan(share)}
    return {**arms, **{part: _without(arms[part]) for part in cold}}, known


def _computed(said: Mapping[str, float]) -> float:
    return 1 - said["cached"] / said["looked_up"] if said["looked_up"] > 0 else float("nan")


def _without(arm: Mapping[str, Any]) -> dict[str, Any]:
    def nothing(of: Mapping[str, Any]) -> dict[str, Any]:
        return {**of, FIRST: [[0] * len(row) for row in of[FIRST]]}

    pods = {"replicas": {pod: nothing(of) for pod, of in arm["replicas"].items()}} if arm.get("replicas") else {}
    return {**arm, "buckets": nothing(arm["buckets"]), **pods}
