"""What is known of each endpoint between two prompts: what was sent there, and what has begun to answer or has ended since.

A route may divide a service's prompts among pools by weight. Whoever divides says only with the answer which one it was, so a prompt counts at
the endpoint that was picked of each pool until then.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from headway.endpoint_picker.picking import EngineState, pick, worth
from headway.endpoint_picker.prefixes import PrefixMemory

FIRST_RATE = 20_000.0
"""Tokens of prefill a second, until first tokens have shown more: an 8B model on an H100."""
CAPACITY = 100_000
"""Tokens of a KV cache whose endpoint has not said its size."""


@dataclass(frozen=True)
class EngineFacts:
    """What others say of an endpoint."""

    pool: str = ""
    capacity: int | None = None
    """Tokens of its KV cache, once it has said so."""
    life: str = ""
    """Another one has begun anew, and holds nothing."""


@dataclass
class _Endpoint:
    facts: EngineFacts
    memory: PrefixMemory
    queued: int = 0
    since: float = 0.0
    """When the queue was last seen to move."""
    running: int = 0
    others: int = 0
    """Requests there that were not sent from here."""
    held: int = 0
    turn: int = 0


@dataclass
class _Sent:
    address: str
    endpoint: _Endpoint
    at: float
    tokens: int
    own: int
    """Tokens to compute; 0 once it answers."""
    alone: bool
    """Nothing was queued before it."""


@dataclass
class _Request:
    keys: Sequence[Hashable]
    sent: list[_Sent]


@dataclass
class Tracked:
    """A service's pools as their picker knows them. Times are seconds of the caller's clock, requests any names of theirs."""

    block: int
    """Tokens of a block of keys."""
    _endpoints: dict[str, _Endpoint] = field(default_factory=dict[str, _Endpoint])
    _requests: dict[Hashable, _Request] = field(default_factory=dict[Hashable, _Request])
    _shared: Counter[Hashable] = field(default_factory=Counter[Hashable])
    _turn: int = 0
    _computed: float = FIRST_RATE
    _took: float = 1.0

    def endpoints(self, there: Mapping[str, EngineFacts]) -> None:
        """The endpoints that there are from now on; a new one holds nothing."""
        for address, facts in there.items():
            known = self._endpoints.get(address)
            if known and known.facts == facts:
                continue
            blocks = (facts.capacity or CAPACITY) // self.block
            if known and (known.facts.pool, known.facts.life) == (facts.pool, facts.life):
                known.facts = facts
                known.memory.resize(blocks)
            else:
                self._endpoints[address] = _Endpoint(facts, PrefixMemory(blocks))
        for gone in self._endpoints.keys() - there.keys():
            del self._endpoints[gone]

    def reported(self, address: str, in_progress: int) -> None:
        """An endpoint says how many requests it has, whoever sent them."""
        if (known := self._endpoints.get(address)) is not None:
            known.others = max(in_progress - known.running, 0)

    def send(
        self, now: float, request: Hashable, tokens: int, keys: Sequence[Hashable], among: Iterable[str] | None = None
    ) -> tuple[str, ...]:
        """The endpoint of each pool for a prompt (of those in `among`), which is taken as sent there; none if there is none."""
        there = {
            address: each
            for address in (self._endpoints if among is None else dict.fromkeys(among))
            if (each := self._endpoints.get(address))
        }
        matched = {address: each.memory.matched(keys) for address, each in there.items()}
        rate = self._computed / self._took
        sent = list[_Sent]()
        for pool in sorted({each.facts.pool for each in there.values()}):
            best = max(matched[address] for address, each in there.items() if each.facts.pool == pool)
            needed = [0.0, *accumulate(worth(self._shared[key]) for key in keys[:best])]
            states = [
                EngineState(
                    address,
                    missing=(needed[best] - needed[matched[address]]) * self.block,
                    queued=max(each.queued - rate * (now - each.since), 0),
                    running=each.running + each.others,
                    held=each.held,
                    capacity=each.facts.capacity,
                    turn=each.turn,
                )
                for address, each in there.items()
                if each.facts.pool == pool
            ]
            if (chosen := pick(tokens, states)) is not None:
                to, own = there[chosen.address], max(tokens - matched[chosen.address] * self.block, 1)
                sent.append(_Sent(chosen.address, to, now, tokens, own, not to.queued))
                self._turn += 1
                to.turn = self._turn
                to.since = to.since if to.queued else now
                to.queued, to.running, to.held = to.queued + own, to.running + 1, to.held + tokens
        if sent:
            self._requests[request] = _Request(keys, sent)
            self._shared.update(keys)
            if len(sent) == 1:
                sent[0].endpoint.memory.keep(keys)
        return tuple(each.address for each in sent)

    def served(self, now: float, request: Hashable, address: str) -> bool:
        """By whom it is answered; whether that is one of those that were picked."""
        known = self._requests.get(request)
        if known is None:
            return True
        several = len(known.sent) > 1
        for each in [each for each in known.sent if each.address != address]:
            known.sent.remove(each)
            self._forget(now, each)
        if known.sent and several:
            known.sent[0].endpoint.memory.keep(known.keys)
        return bool(known.sent)

    def answering(self, now: float, request: Hashable) -> None:
        """Its first token has come."""
        known = self._requests.get(request)
        for sent in known.sent if known else ():
            if not sent.own:
                continue
            if sent.alone and now > sent.at:
                self._computed, self._took = (self._computed + sent.own) * 0.99, (self._took + now - sent.at) * 0.99
            sent.endpoint.queued, sent.endpoint.since, sent.own = sent.endpoint.queued - sent.own, now, 0

    def ended(self, now: float, request: Hashable) -> None:
        """It was answered, or its caller has left."""
        known = self._requests.pop(request, None)
        if known is None:
            return
        for each in known.sent:
            self._forget(now, each)
        for key in known.keys:
            self._shared[key] -= 1
            if not self._shared[key]:
                del self._shared[key]

    def _forget(self, now: float, sent: _Sent) -> None:
        if sent.own:
            sent.endpoint.queued, sent.endpoint.since = sent.endpoint.queued - sent.own, now
        sent.endpoint.running, sent.endpoint.held = sent.endpoint.running - 1, sent.endpoint.held - sent.tokens

    def counts(self) -> tuple[int, int]:
        """Endpoints, and requests in progress."""
        return len(self._endpoints), len(self._requests)

    def idle(self) -> bool:
        """No request is in progress."""
        return (
            not self._requests
            and not self._shared
            and not any((each.queued, each.running, each.held) != (0, 0, 0) for each in self._endpoints.values())
        )
