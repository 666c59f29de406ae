"""The decision: which endpoint of a pool of engines a prompt goes to. A pure function of what is known about each.

Everything is weighed in tokens of prefill that somebody waits for. That is what a cached prefix saves and what a queue costs, so that neither
needs a threshold: a cache is worth waiting for as long as the wait is shorter than what is saved. A conversation that moves is computed twice;
this delays whoever comes next, and takes a place in that cache. An opening that others need just now is worth computing at each endpoint.
"""

from collections.abc import Sequence
from dataclasses import dataclass

MOVED = 12
"""What a token costs all together that another endpoint holds for this prompt alone, and this one would compute again."""
RUNNING = 24
"""Tokens of prefill that one request in progress costs a newcomer: its part in the steps that the newcomer waits for."""
OVERFLOW = 4
"""For each token of KV cache that is not free: the request waits until answers in progress have ended."""


@dataclass(frozen=True)
class EngineState:
    """What is known of one endpoint when a prompt arrives. All but the address and the turn are tokens or requests."""

    address: str
    """`ip:port`."""
    missing: float = 0
    """Tokens of this prompt that another endpoint holds and this one does not, each as `worth` says."""
    queued: float = 0
    """Tokens of prompts sent there that it has still to compute."""
    running: int = 0
    """Requests sent there that have not ended."""
    held: int = 0
    """Tokens of its KV cache that requests in progress take."""
    capacity: int | None = None
    """Tokens of its KV cache, once it has said so."""
    turn: int = 0
    """When it was last picked; of equals the one that waited longest is next."""


def worth(sharers: int) -> float:
    """What computing a token anew costs, which another endpoint holds, if so many requests in progress begin with it too.

    With none it is a conversation, which moves for nothing. With some it is an opening: the next of them will find it there.
    """
    return 1 / (1 + sharers) if sharers else MOVED


def cost(prompt: int, engine: EngineState) -> float:
    """Tokens of prefill that the prompt waits for there, and what it costs the others; less what it costs anywhere."""
    overflow = 0 if engine.capacity is None else max(engine.held + prompt - engine.capacity, 0)
    return engine.queued + engine.missing + RUNNING * engine.running + OVERFLOW * overflow


def pick(prompt: int, engines: Sequence[EngineState]) -> EngineState:
    """The cheapest endpoint for a prompt of so many tokens. ValueError without endpoints."""
    return min(engines, key=lambda engine: (cost(prompt, engine), engine.turn, engine.address))
