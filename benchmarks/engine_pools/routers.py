"""Who sends which prompt where. Each knows what such a router would: what it sent, what has ended, and what engines show."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Protocol

from benchmarks.engine_pools.engine import BLOCK, Pace
from benchmarks.engine_pools.prompts import Prompt
from headway.endpoint_picker.tracking import EngineFacts, Tracked


class Router(Protocol):
    def route(self, now: float, number: int, prompt: Prompt) -> int:
        """The engine that gets it."""
        ...

    def ended(self, now: float, number: int) -> None: ...

    def page(self, engine: int, in_progress: int, computed: int, took: float) -> None:
        """What an engine's metrics page says."""


class RoundRobin:
    def __init__(self, engines: int, pace: Pace) -> None:
        self._engines, self._next = engines, 0

    def route(self, now: float, number: int, prompt: Prompt) -> int:
        self._next += 1
        return (self._next - 1) % self._engines

    def ended(self, now: float, number: int) -> None:
        pass

    def page(self, engine: int, in_progress: int, computed: int, took: float) -> None:
        pass


class LeastLoaded:
    """The engine with the fewest requests that have not ended; of equals the one that waited longest."""

    def __init__(self, engines: int, pace: Pace) -> None:
        self._at: dict[int, int] = {}
        self._loads, self._turns, self._turn = [0] * engines, [0] * engines, 0

    def route(self, now: float, number: int, prompt: Prompt) -> int:
        return self._send(number, min(range(len(self._loads)), key=lambda each: (self._loads[each], self._turns[each])))

    def _send(self, number: int, chosen: int) -> int:
        self._turn += 1
        self._turns[chosen], self._at[number] = self._turn, chosen
        self._loads[chosen] += 1
        return chosen

    def page(self, engine: int, in_progress: int, computed: int, took: float) -> None:
        pass

    def ended(self, now: float, number: int) -> None:
        self._loads[self._at.pop(number)] -= 1


class CacheAware(LeastLoaded):
    """`cache_aware` of sglang-router 0.3 (sgl-router/src/policies/cache_aware.rs, tree.rs) with its defaults.

    One tree of all prompts, with the engines that each part was sent to. The part that is known decides: above 30 % the first of its engines
    that the tree names, else the engine with the smallest tree. If loads differ by more than 64 and by more than half, the least loaded one.
    What is evicted from the tree, above 67 million characters, is never reached here. Blocks stand for characters.
    """

    THRESHOLD, APART, TIMES = 0.3, 64, 1.5

    def __init__(self, engines: int, pace: Pace) -> None:
        super().__init__(engines, pace)
        self._owners: defaultdict[int, list[int]] = defaultdict(list)
        self._sizes = [0] * engines

    def route(self, now: float, number: int, prompt: Prompt) -> int:
        keys = prompt.keys[: prompt.tokens // BLOCK]
        if max(self._loads) - min(self._loads) > self.APART and max(self._loads) > min(self._loads) * self.TIMES:
            chosen = self._loads.index(min(self._loads))
        else:
            known, owner = 0, 0
            for key in keys:
                if key not in self._owners:
                    break
                known, owner = known + 1, self._owners[key][0]
            chosen = owner if keys and known / len(keys) > self.THRESHOLD else self._unknown()
        for key in keys:
            if chosen not in self._owners[key]:
                self._owners[key].append(chosen)
                self._sizes[chosen] += 1
        return self._send(number, chosen)

    def _unknown(self) -> int:
        return self._sizes.index(min(self._sizes))


class CacheAwareOfVllm(CacheAware):
    """`cache_aware` of vllm-router 0.1.17 (src/policies/cache_aware.rs): an unknown prompt goes to the least loaded engine instead."""

    def _unknown(self) -> int:
        return self._loads.index(min(self._loads))


class Headway:
    """`headway.endpoint_picker`."""

    def __init__(self, engines: int, pace: Pace) -> None:
        self._pool = Tracked(BLOCK)
        self._pool.endpoints({str(each): EngineFacts(capacity=pace.capacity) for each in range(engines)})
        self._said = [(0, 0.0)] * engines

    def route(self, now: float, number: int, prompt: Prompt) -> int:
        chosen = self._pool.send(now, number, "", prompt.tokens, prompt.keys[: prompt.tokens // BLOCK])
        return int(chosen or 0)

    def ended(self, now: float, number: int) -> None:
        self._pool.ended(now, number)

    def page(self, engine: int, in_progress: int, computed: int, took: float) -> None:
        before = self._said[engine]
        self._said[engine] = computed, took
        self._pool.reported(str(engine), in_progress, computed - before[0], took - before[1])


ROUTERS: Mapping[str, Callable[[int, Pace], Router]] = {
    "round robin": RoundRobin,
    "least loaded": LeastLoaded,
    "sglang-router": CacheAware,
    "vllm-router": CacheAwareOfVllm,
    "Headway": Headway,
}
