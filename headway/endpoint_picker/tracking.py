"""What is known of each endpoint between two prompts: what was sent there, what has ended since, and how fast engines compute.

Nobody says when a prompt has been computed: answers do not pass here. A queue is believed to shorten at the best pace that engines' pages have
shown of late: they count the time of prompts that were computed together for each, so a mean is too slow, and then p99 was up to four times
that of round robin (`benchmarks/engine_pools`).
"""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from headway.endpoint_picker.picking import EngineState, pick, worth
from headway.endpoint_picker.prefixes import PrefixMemory

FIRST_RATE = 20_000.0
"""Tokens of prefill a second, until engines have shown theirs: an 8B model on an H100, carefully."""
FADING, FASTEST = 0.999, 1e6
"""What is left of a pool's pace after a slower report; and no engine has more tokens a second."""
PART = 0.75
"""Of that pace, what prompts are believed to get: beside answers in progress, and behind long prompts, which take longer a token."""
CAPACITY = 100_000
"""Tokens of a KV cache whose endpoint has not said its size."""
MOST_HELD, MOST_ASKED = 2_000_000, 1_500_000
"""Blocks that all endpoints are believed to hold, of 175 bytes each, and of all requests in progress, of 140. Of the first, namespaces have equal
parts, and a namespace's endpoints of its own: a tenant's engines say of their caches what they want. Of the second, each has what others leave,
and its equal part whatever they do, so there are twice as many at worst: a tenant's callers keep requests open."""


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
    queued: float = 0.0
    """Tokens to compute, as of `since`."""
    since: float = 0.0
    running: int = 0
    others: int = 0
    """Requests there that were not sent from here."""
    held: int = 0
    turn: int = 0

    def drained(self, now: float, rate: float) -> float:
        """Tokens to compute now, at `rate` tokens a second."""
        self.queued, self.since = max(self.queued - rate * max(now - self.since, 0.0), 0.0), now
        return self.queued


@dataclass(frozen=True)
class _Request:
    keys: Sequence[Hashable]
    endpoint: _Endpoint
    tokens: int


@dataclass
class Tracked:
    """All pools, as their picker knows them. Times are seconds of the caller's clock, requests any names of theirs."""

    block: int
    """Tokens of a block of keys."""
    _endpoints: dict[str, _Endpoint] = field(default_factory=dict[str, _Endpoint])
    _pools: dict[str, dict[str, _Endpoint]] = field(default_factory=dict[str, dict[str, _Endpoint]])
    _paces: dict[str, float] = field(default_factory=dict[str, float])
    _requests: dict[Hashable, _Request] = field(default_factory=dict[Hashable, _Request])
    _shared: Counter[Hashable] = field(default_factory=Counter[Hashable])
    _owned: Counter[str] = field(default_factory=Counter[str])
    """Endpoints by namespace."""
    _asked: Counter[str] = field(default_factory=Counter[str])
    """Blocks of requests in progress, by namespace."""
    _turn: int = 0
    forgone: int = 0
    """Prompts of which nothing was remembered, because requests in progress took their room."""

    def endpoints(self, there: Mapping[str, EngineFacts]) -> None:
        """The endpoints that there are from now on; a new one holds nothing."""
        self._owned = Counter(namespace(facts.pool) for facts in there.values())
        for address, facts in there.items():
            known = self._endpoints.get(address)
            room = MOST_HELD // (len(self._owned) * self._owned[namespace(facts.pool)])
            blocks = min((facts.capacity or CAPACITY) // self.block, room)
            if known and (known.facts.pool, known.facts.life) == (facts.pool, facts.life):
                known.facts = facts
                known.memory.resize(blocks)
            else:
                self._endpoints[address] = _Endpoint(facts, PrefixMemory(blocks))
        for gone in self._endpoints.keys() - there.keys():
            del self._endpoints[gone]
        self._pools = {}
        for address, each in self._endpoints.items():
            self._pools.setdefault(each.facts.pool, {})[address] = each
        self._paces = {pool: pace for pool, pace in self._paces.items() if pool in self._pools}

    def reported(self, address: str, in_progress: int | None, computed: float = 0.0, took: float = 0.0) -> None:
        """An endpoint says how many requests it has, whoever sent them, and how many tokens of prompts it has computed since it last said
        so, in how many seconds."""
        if (known := self._endpoints.get(address)) is not None:
            if in_progress is not None:
                known.others = max(in_progress - known.running, 0)
            if computed > 0 and took > 0:
                pace, pool = min(computed / took, FASTEST), known.facts.pool
                self._paces[pool] = max(pace, self._paces.get(pool, 0.0) * FADING)

    def send(self, now: float, request: Hashable, pool: str, tokens: int, keys: Sequence[Hashable]) -> str | None:
        """The endpoint of a pool for a prompt, which is taken as sent there; None if there is none."""
        if not (there := self._pools.get(pool)):
            return None
        rate, owner = self._paces[pool] * PART if pool in self._paces else FIRST_RATE, namespace(pool)
        full = bool(keys) and self._asked.total() + len(keys) > MOST_ASKED
        if full and self._asked[owner] + len(keys) > MOST_ASKED // len(self._owned):
            keys = ()  # by load alone
            self.forgone += 1
        matched = {address: each.memory.matched(keys) for address, each in there.items()}
        best = max(matched.values())
        needed = [0.0, *accumulate(worth(self._shared[key]) for key in keys[:best])]
        states = [
            EngineState(
                address,
                missing=(needed[best] - needed[matched[address]]) * self.block,
                queued=each.drained(now, rate),
                running=each.running + each.others,
                held=each.held,
                capacity=each.facts.capacity,
                turn=each.turn,
            )
            for address, each in there.items()
        ]
        chosen = pick(tokens, states)
        to = there[chosen.address]
        self._turn += 1
        to.turn = self._turn
        to.queued += max(tokens - matched[chosen.address] * self.block, 1)
        to.running, to.held = to.running + 1, to.held + tokens
        to.memory.keep(keys)
        self._shared.update(keys)
        self._asked[owner] += len(keys)
        self._requests[request] = _Request(keys, to, tokens)
        return chosen.address

    def ended(self, now: float, request: Hashable) -> None:
        """It was answered, or its caller has left."""
        known = self._requests.pop(request, None)
        if known is None:
            return
        known.endpoint.running, known.endpoint.held = known.endpoint.running - 1, known.endpoint.held - known.tokens
        if not known.endpoint.running:
            known.endpoint.queued, known.endpoint.since = 0.0, now
        self._asked[namespace(known.endpoint.facts.pool)] -= len(known.keys)
        self._asked = +self._asked
        for key in known.keys:
            self._shared[key] -= 1
            if not self._shared[key]:
                del self._shared[key]

    def counts(self) -> tuple[int, int]:
        """Endpoints, and requests in progress."""
        return len(self._endpoints), len(self._requests)

    def held(self) -> Mapping[str, int]:
        """Blocks that each endpoint is believed to hold."""
        return {address: len(each.memory) for address, each in self._endpoints.items()}

    def idle(self) -> bool:
        """No request is in progress."""
        return (
            not self._requests
            and not self._shared
            and not self._asked
            and not any((each.queued, each.running, each.held) != (0, 0, 0) for each in self._endpoints.values())
        )


def namespace(pool: str) -> str:
    """Of a pool, which is called `<Service>.<namespace>`."""
    return pool.rpartition(".")[2]
