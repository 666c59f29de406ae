"""A language model on vLLM, played request by request: prompts that are read, tokens that are written one after the other by all sequences at
the same pace, sequences that wait where there is no place or no cache left, and are thrown out where a full cache grows. Pure; seeded.

As vLLM's scheduler does it (`vllm/v1/core/sched/scheduler.py`): first come, first served; at most `sequences` run; a sequence takes cache for
what it has so far. Coarser than it: a prompt is read beside the others, and one that is thrown out begins anew. Times in seconds.
"""

import heapq
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from benchmarks.diagnosis.played import AT, RELEASES, STEP, STEPS, Floats, PlayedIncident, Shown, pod, serial
from headway.diagnosis.facts import ServedSettings
from headway.diagnosis.observed import Observed


@dataclass(frozen=True, kw_only=True)
class EnginePlay:
    """How the service does, from one moment on. Rates a second; tokens on the average."""

    requests: float = 6.0
    prompt: float = 600.0
    answer: float = 120.0
    cached: float = 0.6
    """Of prompts' tokens, the share that is found in the cache."""
    read: float = 0.00025
    """Seconds for a token of a prompt that is not."""
    step: float = 0.008
    more: float = 0.0004
    """Seconds for a token of each sequence, and how much longer for each other that runs."""
    sequences: int = 64
    cache: float = 60_000.0
    """Tokens that a replica's cache holds."""
    way: float = 0.003
    proxy: float = 0.001
    replicas: int = 3
    promised: float = 6.0
    slower: dict[int, float] = field(default_factory=dict[int, float])
    fresh: frozenset[int] = frozenset()


@dataclass(frozen=True, kw_only=True)
class EngineIncident(PlayedIncident[EnginePlay]):
    def played(self, seed: int) -> Observed:
        """What Prometheus would say of it."""
        return Observed(
            tenant="vision",
            model="defects",
            at=AT,
            step=STEP,
            series=self.series(_steps(self, self.random(seed))),
            states=self.states,
            changes=self.changes,
            settings={
                each: ServedSettings(sequences=play.sequences) for each, play in zip(RELEASES, (self.before, self.since), strict=True)
            },
            blind=self.blind,
        )


@dataclass
class _Sequence:
    arrived: float
    prompt: float
    answer: float
    read: float
    """Seconds for its prompt."""
    began: float = 0.0
    first: float = 0.0
    """When its prompt was read."""


@dataclass
class _Seen:
    """Of one replica in one step: a value a request that ended, and what was so on the average."""

    queue: list[float] = field(default_factory=list[float])
    prefill: list[float] = field(default_factory=list[float])
    decode: list[float] = field(default_factory=list[float])
    running: float = 0.0
    used: float = 0.0
    thrown: int = 0


class _Engine:
    """One replica. `pace`: how many tokens each running sequence has been written since the beginning; one is done at a pace of its own."""

    def __init__(self) -> None:
        self.now = self.pace = self.held = 0.0
        self.waiting = deque[_Sequence]()
        self.running: list[tuple[float, int, _Sequence]] = []
        self.count = 0

    def step(self, arrivals: list[_Sequence], until: float, play: EnginePlay, slow: float) -> _Seen:
        seen, begin, at = _Seen(), self.now, 0
        while True:
            each = slow * (play.step + play.more * len(self.running))
            done = self.now + (self.running[0][0] - self.pace) * each if self.running else np.inf
            came = arrivals[at].arrived if at < len(arrivals) else np.inf
            moment = min(done, came, until)
            passed = max(moment - self.now, 0.0)
            seen.running += len(self.running) * passed
            seen.used += min(self.held / play.cache, 1.0) * passed
            self.pace += passed / each
            self.now = max(moment, self.now)
            if moment == until:
                break
            if moment == came:
                self.waiting.append(arrivals[at])
                at += 1
            else:
                self._end(seen)
            self._admit(seen, play, slow)
        seen.running /= max(until - begin, 1e-9)
        seen.used /= max(until - begin, 1e-9)
        return seen

    def _end(self, seen: _Seen) -> None:
        _, _, ended = heapq.heappop(self.running)
        self.held -= ended.prompt + ended.answer
        seen.queue.append(ended.began - ended.arrived)
        seen.prefill.append(ended.first - ended.began)
        seen.decode.append(self.now - ended.first)

    def _admit(self, seen: _Seen, play: EnginePlay, slow: float) -> None:
        """While there is a place and cache for the prompt; of the answer it turns out later."""
        while self.waiting and len(self.running) < play.sequences:
            first = self.waiting[0]
            if self.running and self.held + first.prompt > play.cache:
                return
            self.waiting.popleft()
            each = slow * (play.step + play.more * (len(self.running) + 1))
            first.began, first.first = self.now, self.now + slow * first.read
            over = self.held + first.prompt + first.answer > play.cache and bool(self.running)
            seen.thrown += int(over)
            tokens = first.answer * (1.5 if over else 1.0)  # half of it was written when it was thrown out
            self.held += first.prompt + first.answer
            self.count += 1
            heapq.heappush(self.running, (self.pace + slow * first.read / each + tokens, self.count, first))


def _steps(case: EngineIncident, random: np.random.Generator) -> Iterator[Shown]:
    wave = 1 + 0.1 * np.sin(np.linspace(0, np.pi, STEPS)) + serial(random, STEPS, 0.5) * 0.05
    engines = {number: _Engine() for number in range(max(case.before.replicas, case.since.replicas))}
    for step in range(STEPS):
        play = case.before if step < case.began else case.since
        yield _step(random, replace(play, requests=play.requests * float(wave[step])), engines, step * STEP)


def _step(random: np.random.Generator, play: EnginePlay, engines: dict[int, _Engine], begin: float) -> dict[str, dict[str, float]]:
    arrived = int(random.poisson(play.requests * STEP))
    whose = random.integers(0, play.replicas, arrived)
    seen: dict[int, _Seen] = {}
    prompts = play.prompt * random.lognormal(-0.125, 0.5, arrived)
    answers = np.maximum(play.answer * random.lognormal(-0.18, 0.6, arrived), 1.0)
    cached = np.clip(play.cached + 0.1 * random.normal(size=arrived), 0.0, 0.99)
    times = np.sort(begin + random.random(arrived) * STEP)
    for number in range(play.replicas):
        mine = [
            _Sequence(
                arrived=float(times[at]), prompt=float(prompts[at]), answer=float(answers[at]), read=_reads(play, prompts, cached, at)
            )
            for at in map(int, np.flatnonzero(whose == number))
        ]
        seen[number] = engines[number].step(mine, begin + STEP, play, play.slower.get(number, 1.0))
    queue, prefill, decode = (np.array([value for each in seen.values() for value in getattr(each, part)]) for part in _PARTS)
    noise = [float(np.exp(0.03 * random.normal())) for _ in range(3)]
    inside = _mean(queue) + _mean(prefill) + _mean(decode) + 0.002 * noise[0]
    at_replica = inside + play.proxy * noise[1]
    late = float((queue + prefill + decode > play.promised).mean()) if len(queue) else 0.0
    whole = {
        **dict.fromkeys(("errors", "unreached", "late", "left", "overflow", "limited", "unproven", "forbidden", "malformed"), 0.0),
        "requests": arrived / STEP,
        "latency": at_replica + play.way * noise[2],
        "at_replica": at_replica,
        "served": inside,
        "queue": _mean(queue),
        "prefill": _mean(prefill),
        "decode": _mean(decode),
        "prompt_tokens": _mean(prompts),
        "answer_tokens": _mean(answers),
        "request_size": 4.0 * _mean(prompts),
        "prefix_hits": _mean(cached),
        "preemptions": sum(each.thrown for each in seen.values()) / STEP,
        "kv_cache": max(each.used for each in seen.values()),
        "replicas": float(play.replicas),
        "burn": late / 0.01,
    }
    found = {name: {"": value} for name, value in whole.items()}
    for number, each in seen.items():
        name = pod(RELEASES[number in play.fresh], number)
        found.setdefault("running_by_pod", {})[name] = each.running
        for part in _PARTS:
            if values := getattr(each, part):
                found.setdefault(f"{part}_by_pod", {})[name] = float(np.mean(values))
    return found


_PARTS = ("queue", "prefill", "decode")


def _reads(play: EnginePlay, prompts: Floats, cached: Floats, at: int) -> float:
    return float(play.read * prompts[at] * (1 - cached[at]))


def _mean(values: Floats) -> float:
    return float(values.mean()) if len(values) else float("nan")
