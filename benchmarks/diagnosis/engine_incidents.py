"""Faults of a language model on vLLM: each alone, beside an innocent release, beside an innocent edit; and nothing wrong."""

from collections.abc import Iterator
from dataclasses import replace

from benchmarks.diagnosis.played_engine import EngineIncident, EnginePlay
from benchmarks.diagnosis.server_incidents import wrote
from headway.diagnosis.facts import Change

_CALM = EnginePlay()
_FRESH = frozenset(range(_CALM.replicas))


def _faults() -> Iterator[EngineIncident]:
    def one(name: str, truth: str = "", changes: tuple[Change, ...] = (), before: EnginePlay = _CALM, **more: object) -> EngineIncident:
        since = replace(before, **more)  # type: ignore[arg-type]
        return EngineIncident(name=name, truth=truth or name, before=before, since=since, changes=changes)

    yield one("more-requests", requests=_CALM.requests * 4)
    yield one("longer-prompts", prompt=_CALM.prompt * 6)
    yield one("longer-answers", answer=_CALM.answer * 2)
    yield one("prefix-cache-cold", cached=0.05, before=replace(_CALM, prompt=3000.0, cache=300_000.0))
    yield one("way-longer", way=1.5)
    yield one("one-replica-slow", slower={1: 3.0})
    yield one("too-few-sequences", before=replace(_CALM, requests=12.0, sequences=16), slower=dict.fromkeys(range(3), 1.0), sequences=5)
    yield one("cache-full", cache=3_200.0)
    fewer = wrote("batching.max_sequences", "64", "3")
    yield one("concurrency-lowered", changes=fewer, fresh=_FRESH, sequences=3)
    smaller = wrote("envelope.gpu.memory", "40Gi", "20Gi")
    yield one("cache-lowered", changes=smaller, fresh=_FRESH, cache=3_200.0)
    off = wrote("optimisation.prefix_caching", "true", "false")
    yield one("prefix-caching-off", changes=off, fresh=_FRESH, cached=0.0, before=replace(_CALM, prompt=3000.0, cache=300_000.0))
    slower = wrote("artifact.digest", "a", "b")
    yield one("new-version", changes=slower, fresh=_FRESH, step=_CALM.step * 2.5, more=_CALM.more * 2.5)


_OWN = ("concurrency-lowered", "cache-lowered", "prefix-caching-off", "new-version")


def cases(*innocent: tuple[str, Change]) -> Iterator[tuple[EngineIncident, tuple[str, ...]]]:
    """`innocent`: changes beside which each fault is played as well, and what they are called."""
    for each in _faults():
        yield replace(each, name=f"streamed: {each.name}"), (each.truth,)
        for what, change in innocent if each.name not in _OWN else ():
            yield replace(each, name=f"streamed: {each.name} beside an innocent {what}", changes=(*each.changes, change)), (each.truth,)
    for number in range(6):
        changes = tuple(change for _, change in innocent[: number % 3])
        yield EngineIncident(name=f"streamed: nothing is wrong {number}", truth="", before=_CALM, since=_CALM, changes=changes), ()
