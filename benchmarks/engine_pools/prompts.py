"""Prompts that arrive: those of public traces, whose texts are not public, and bursts.

A trace says when a request came and how many tokens it and its answer had. What prompts have in common is assumed, three ways: nothing;
an opening of its application (twenty of them, the first as often as the next two together, of up to 1,536 tokens); that and conversations, in
which a request goes on from the longest earlier one of the last five minutes that fits into it.
"""

import bisect
import csv
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import count
from pathlib import Path

from benchmarks.engine_pools.engine import BLOCK, Pace

APPLICATIONS = 20
OPENING = 1536
READING = 5.0
"""Seconds from a request to the next of its conversation, at least."""
OPEN_FOR = 300.0
CONTINUES = 0.6
ANSWERS_AT_ONCE = 32
"""Of an engine that is well used: what a token of an answer costs."""


Arrival = tuple[float, int, int]
"""Seconds since the first, tokens of the prompt and of the answer."""


@dataclass(frozen=True)
class Prompt:
    arrived: float
    tokens: int
    output: int
    keys: tuple[int, ...]
    """Of the whole blocks of prompt and answer."""


@dataclass(frozen=True)
class Sharing:
    """What prompts have in common."""

    name: str
    openings: bool = False
    conversations: bool = False


SHARINGS = (Sharing("nothing"), Sharing("openings", openings=True), Sharing("conversations", openings=True, conversations=True))


def arrivals(path: Path) -> list[Arrival]:
    """Seconds since the first, tokens of the prompt and of the answer: a file of AzureLLMInferenceTrace 2023."""
    with path.open(encoding="utf-8") as file:
        rows = [
            (datetime.fromisoformat(row["TIMESTAMP"][:26]), int(row["ContextTokens"]), int(row["GeneratedTokens"]))
            for row in csv.DictReader(file)
        ]
    rows.sort(key=lambda row: row[0])
    return [((at - rows[0][0]).total_seconds(), max(tokens, 1), max(output, 1)) for at, tokens, output in rows]


def _zipf(rng: random.Random, among: int) -> int:
    return rng.choices(range(among), [1 / (rank + 1) for rank in range(among)])[0]


def shared(rows: Sequence[Arrival], sharing: Sharing, seed: int) -> list[Prompt]:
    """The rows as prompts that have so much in common."""
    rng, fresh = random.Random(seed), count()
    openings = [[next(fresh) for _ in range(rng.randint(8, OPENING // BLOCK))] for _ in range(APPLICATIONS)]
    open_now: list[tuple[int, float, list[int]]] = []
    prompts: list[Prompt] = []
    for at, tokens, output in rows:
        keys: list[int] = []
        if sharing.conversations and rng.random() < CONTINUES:
            open_now = [each for each in open_now if at - each[1] < OPEN_FOR] if len(prompts) % 64 == 0 else open_now
            place = bisect.bisect_right(open_now, (tokens, float("inf"), [])) - 1
            while place >= 0 and not READING < at - open_now[place][1] < OPEN_FOR:
                place -= 1
            if place >= 0 and open_now[place][0] >= tokens // 4:
                keys = list(open_now.pop(place)[2])
        if not keys and sharing.openings:
            keys = openings[_zipf(rng, APPLICATIONS)][: max(tokens - 16, 0) // BLOCK]
        whole = (tokens + output) // BLOCK
        keys = [*keys[:whole], *(next(fresh) for _ in range(whole - len(keys)))]
        prompts.append(Prompt(at, tokens, output, tuple(keys)))
        if sharing.conversations:
            bisect.insort(open_now, (tokens + output, at, keys))
    return prompts


def work(pace: Pace, tokens: int, output: int) -> float:
    """Seconds of an engine that a prompt takes if nothing of it is cached and others are answered beside it."""
    answer = pace.weights / ANSWERS_AT_ONCE + pace.sequence + (tokens + output / 2) * pace.context
    return tokens * pace.token + tokens**2 / 2 * pace.attended + output * answer


def at_load(rows: Sequence[Arrival], pace: Pace, engines: int, load: float) -> list[Arrival]:
    """The same rows, slower or faster, so that all together are so much work for the engines."""
    natural = sum(work(pace, tokens, output) for _, tokens, output in rows) / (rows[-1][0] * engines)
    return [(at * natural / load, tokens, output) for at, tokens, output in rows]


BURSTS = ("one opening", "different", "hot", "mixed")


def burst(kind: str, seconds: float, rate: float, seed: int) -> list[Prompt]:
    """Poisson arrivals at a rate, and every half minute of them a burst of ten times that for three seconds.

    `one opening`: every prompt of a burst begins alike, with 3,072 tokens that nobody sent before. `different`: no two prompts begin alike.
    `hot`: nine of ten prompts, always, have the same opening. `mixed`: one prompt of ten has 16,384 tokens, the others 256.
    """
    rng, fresh = random.Random(seed), count()
    hot = [next(fresh) for _ in range(192)]

    def times() -> Iterator[tuple[float, int | None]]:
        at = 0.0
        while at < seconds:
            within = at % 30.0 < 3.0
            at += rng.expovariate(rate * (10 if within else 1))
            yield at, int(at // 30) if at % 30.0 < 3.0 else None

    openings: dict[int, list[int]] = {}
    prompts: list[Prompt] = []
    for at, number in times():
        tokens, opening = rng.randint(256, 1024), list[int]()
        if kind == "one opening" and number is not None:
            opening = openings.setdefault(number, [next(fresh) for _ in range(192)])
        elif kind == "hot" and rng.random() < 0.9:
            opening = hot
        elif kind == "mixed":
            tokens = 16384 if rng.random() < 0.1 else 256
        tokens += len(opening) * BLOCK
        output = rng.randint(32, 256)
        keys = (*opening, *(next(fresh) for _ in range((tokens + output) // BLOCK - len(opening))))
        prompts.append(Prompt(at, tokens, output, keys))
    return prompts
