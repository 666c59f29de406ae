"""What is known of each endpoint between two prompts: what was sent there, and what has begun to answer or has ended since."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from headway.endpoint_picker.picking import EngineState, pick, worth
from headway.endpoint_picker.prefixes import PrefixMemory

FIRST_RATE = 20_000.0
"""Tokens of prefill a second, until first tokens have shown more: an 8B model on an H100."""
CAPACITY = 100_000
"""Tokens of a KV cache whose endpoint has not said its size."""


@dataclass
class _Endpoint:
    memory: PrefixMemory
    capacity: int | None
    queued: int = 0
    since: float = 0.0
    """When the queue was last seen to move."""
    running: int = 0
    held: int = 0
    turn: int = 0


@dataclass
class _Sent:
    endpoint: _Endpoint
    at: float
    tokens: int
    own: int
    """Tokens to compute; 0 once it answers."""
    alone: bool
    """Nothing was queued before it."""
    keys: Sequence[Hashable]


@dataclass
class Tracked:
    """A pool as its picker knows it. Times are seconds of the caller's clock, requests any names of theirs."""

    block: int
    """Tokens of a block of keys."""
    _endpoints: dict[str, _Endpoint] = field(default_factory=dict[str, _Endpoint])
    _sent: dict[Hashable, _Sent] = field(default_factory=dict[Hashable, _Sent])
    _shared: Counter[Hashable] = field(default_factory=Counter[Hashable])
    _turn: int = 0
    _computed: float = FIRST_RATE
    _took: float = 1.0

    def endpoints(self, capacities: Mapping[str, int | None]) -> None:
        """The endpoints that there are from now on, with the tokens of their KV caches; a new one holds nothing."""
        for address, capacity in capacities.items():
            known = self._endpoints.get(address)
            if known and known.capacity == capacity:
                continue
            self._endpoints[address] = _Endpoint(PrefixMemory((capacity or CAPACITY) // self.block), capacity)
        for gone in self._endpoints.keys() - capacities.keys():
            del self._endpoints[gone]

    def send(self, now: float, request: Hashable, tokens: int, keys: Sequence[Hashable], among: Sequence[str] | None = None) -> str | None:
        """The endpoint for a prompt (of those in `among`), which is taken as sent there; none if there is none."""
        there = {address: each for address, each in self._endpoints.items() if among is None or address in among}
        matched = {address: each.memory.matched(keys) for address, each in there.items()}
        best = max(matched.values(), default=0)
        needed = [0.0, *accumulate(worth(self._shared[key]) for key in keys[:best])]
        rate = self._computed / self._took
        states = [
            EngineState(
                address,
                missing=(needed[best] - needed[matched[address]]) * self.block,
                queued=max(each.queued - rate * (now - each.since), 0),
                running=each.running,
                held=each.held,
                capacity=each.capacity,
                turn=each.turn,
            )
            for address, each in there.items()
        ]
        chosen = pick(tokens, states)
        if chosen is None:
            return None
        to, own = there[chosen.address], max(tokens - matched[chosen.address] * self.block, 1)
        self._sent[request] = _Sent(to, now, tokens, own, not to.queued, keys)
        self._turn += 1
        to.turn = self._turn
        to.since = to.since if to.queued else now
        to.queued, to.running, to.held = to.queued + own, to.running + 1, to.held + tokens
        to.memory.keep(keys)
        self._shared.update(keys)
        return chosen.address

    def answering(self, now: float, request: Hashable) -> None:
        """Its first token has come."""
        sent = self._sent.get(request)
        if sent is None or not sent.own:
            return
        if sent.alone and now > sent.at:
            self._computed, self._took = (self._computed + sent.own) * 0.99, (self._took + now - sent.at) * 0.99
        sent.endpoint.queued, sent.endpoint.since, sent.own = sent.endpoint.queued - sent.own, now, 0

    def ended(self, now: float, request: Hashable) -> None:
        """It was answered, or its caller has left."""
        sent = self._sent.pop(request, None)
        if sent is None:
            return
        if sent.own:
            sent.endpoint.queued, sent.endpoint.since = sent.endpoint.queued - sent.own, now
        sent.endpoint.running, sent.endpoint.held = sent.endpoint.running - 1, sent.endpoint.held - sent.tokens
        for key in sent.keys:
            self._shared[key] -= 1
            if not self._shared[key]:
                del self._shared[key]

    def idle(self) -> bool:
        """No request is in progress."""
        return (
            not self._sent
            and not self._shared
            and not any((each.queued, each.running, each.held) != (0, 0, 0) for each in self._endpoints.values())
        )
