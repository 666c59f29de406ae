"""One pool answers the prompts: what a router sends where, and when each first token comes."""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.engine_pools.engine import Job, Pace, SimulatedEngine
from benchmarks.engine_pools.prompts import Prompt
from benchmarks.engine_pools.routers import Router
from headway.endpoint_picker.rounds import PAUSE_SECONDS


@dataclass(frozen=True)
class Answered:
    """What became of a prompt."""

    arrived: float
    tokens: int
    first: float
    """Seconds to the first token."""
    whole: float
    """Seconds to the last."""
    engine: int


@dataclass(frozen=True)
class Replayed:
    answers: tuple[Answered, ...]
    preempted: int
    hit: float
    """Share of prompt tokens that a cache held."""


def replay(prompts: Sequence[Prompt], pace: Pace, engines: int, made: Callable[[int, Pace], Router]) -> Replayed:
    pool = [SimulatedEngine(pace) for _ in range(engines)]
    router = made(engines, pace)
    news: list[tuple[float, int]] = []
    jobs: list[tuple[Job, int]] = []
    paged = 0.0

    def tell(until: float) -> None:
        for engine in pool:
            engine.advance(until)
            for job in engine.news:
                heapq.heappush(news, (job.ended or 0.0, job.number))
            engine.news.clear()
        while news and news[0][0] <= until:
            router.ended(*heapq.heappop(news))

    for number, prompt in enumerate(prompts):
        while (paged := paged + PAUSE_SECONDS) <= prompt.arrived:
            tell(paged)
            for place, engine in enumerate(pool):
                router.page(place, len(engine.waiting) + len(engine.running), engine.computed, engine.took)
        paged -= PAUSE_SECONDS
        tell(prompt.arrived)
        to = router.route(prompt.arrived, number, prompt)
        job = Job(number, prompt.tokens, prompt.output, prompt.keys, prompt.arrived)
        jobs.append((job, to))
        pool[to].take(job)
    tell(float("inf"))
    answers = tuple(
        Answered(job.arrived, job.prompt, (job.first or 0.0) - job.arrived, (job.ended or 0.0) - job.arrived, to) for job, to in jobs
    )
    return Replayed(answers, sum(each.preempted for each in pool), sum(each.found for each in pool) / sum(p.tokens for p in prompts))
