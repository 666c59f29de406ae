"""Open-loop load: requests leave when they are due, whether or not earlier ones have been answered. Owns no decision
about them.

Arrivals are Poisson with a seeded generator; connections are kept and as many as are needed. Latency is counted from
the moment a request was due, so that a stall of the server or of this process is not hidden (coordinated omission). A
connection that the server has closed while idle fails its next request; such a request is sent once more on a new
connection, and only then counts as failed.
"""

import asyncio
import itertools
import random
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Protocol

_TIMEOUT_SECONDS = 10.0
NO_ANSWER = 0
"""Status of a request that was not answered at all."""


@dataclass(frozen=True, kw_only=True)
class LoadRequest:
    """What is sent: POST `body` to `path` with these headers."""

    path: str
    body: bytes
    headers: Mapping[str, str]

    @property
    def wire(self) -> bytes:
        lines = [f"POST {self.path} HTTP/1.1", *(f"{name}: {value}" for name, value in self.headers.items())]
        return "\r\n".join([*lines, f"content-length: {len(self.body)}", "", ""]).encode() + self.body


@dataclass(frozen=True, kw_only=True)
class LoadAnswer:
    """How one request went. Times in seconds: `due` since the start of the load, `latency` from when it was due."""

    due: float
    latency: float
    status: int
    headers: Mapping[str, str]
    body: bytes = b""
    why: str = ""
    """For a request without an answer."""


class AnswerListener(Protocol):
    """Whoever hears of every answer as it comes."""

    def take(self, answer: LoadAnswer) -> None: ...


@dataclass
class LoadResults:
    """All answers of a load."""

    answers: list[LoadAnswer] = field(default_factory=list[LoadAnswer])

    def take(self, answer: LoadAnswer) -> None:
        self.answers.append(answer)

    @property
    def statuses(self) -> Mapping[int, int]:
        return dict(sorted(Counter(each.status for each in self.answers).items()))

    @property
    def failed(self) -> list[LoadAnswer]:
        return [each for each in self.answers if is_lost(each.status)]

    def by(self, header: str) -> Mapping[str, int]:
        """Answers by the value of one of their headers."""
        return dict(sorted(Counter(each.headers.get(header, "") for each in self.answers).items()))

    def quantile(self, share: float) -> float:
        """Latency in seconds below which `share` of the answered requests lie."""
        return quantile((each.latency for each in self.answers if each.status != NO_ANSWER), share)


@dataclass
class LoadTally:
    """What a load of hours keeps of its answers: counts, latencies, and what was lost. `header` names by which one
    answers are told apart."""

    header: str
    statuses: Counter[int] = field(default_factory=Counter[int])
    answered_by: Counter[str] = field(default_factory=Counter[str])
    lost: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])
    """When each was due, and its status; seconds since the client was made."""
    _latencies: "array[float]" = field(default_factory=lambda: array("f"))

    def take(self, answer: LoadAnswer) -> None:
        self.statuses[answer.status] += 1
        if is_lost(answer.status):
            self.lost.append((answer.due, answer.status))
        if answer.status != NO_ANSWER:
            self.answered_by[answer.headers.get(self.header, "")] += 1
            self._latencies.append(answer.latency)

    @property
    def answered(self) -> int:
        """Requests that got an answer."""
        return len(self._latencies)

    def quantile(self, share: float, since: int = 0) -> float:
        """Latency in seconds below which `share` of the answered requests lie; of those after the first `since`."""
        return quantile(self._latencies[since:], share)


def is_lost(status: int) -> bool:
    """Whether a request got no answer, or a server's error; a refusal is an answer."""
    return status == NO_ANSWER or status >= 500


def quantile(latencies: Iterable[float], share: float) -> float:
    """NaN of nothing."""
    found = sorted(latencies)
    return found[min(len(found) - 1, int(share * len(found)))] if found else float("nan")


class Sender(Protocol):
    """Whoever asks a server, and times it."""

    @property
    def now(self) -> float: ...

    async def send(self, request: LoadRequest, due: float) -> LoadAnswer: ...


class LoadClient:
    """Keeps connections to one server on 127.0.0.1."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self._host, self._port = host, port
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._began = perf_counter()

    async def send(self, request: LoadRequest, due: float) -> LoadAnswer:
        """Send one request that was due at `due` seconds after this client was made."""
        while True:
            reused = bool(self._idle)
            try:
                status, headers, body = await asyncio.wait_for(self._exchange(request), _TIMEOUT_SECONDS)
                return LoadAnswer(due=due, latency=self.now - due, status=status, headers=headers, body=body)
            except (OSError, asyncio.IncompleteReadError, ValueError) as error:
                if reused and not isinstance(error, TimeoutError):
                    self.close()
                    continue
                return LoadAnswer(due=due, latency=self.now - due, status=NO_ANSWER, headers={}, why=f"{type(error).__name__}: {error}")

    @property
    def now(self) -> float:
        return perf_counter() - self._began

    async def _exchange(self, request: LoadRequest) -> tuple[int, Mapping[str, str], bytes]:
        if self._idle:
            reader, writer = self._idle.pop()
        else:
            reader, writer = await asyncio.open_connection(self._host, self._port)
        try:
            writer.write(request.wire)
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
        except BaseException:
            writer.close()
            raise
        if headers.get("connection") == "close":
            writer.close()
        else:
            self._idle.append((reader, writer))
        return int(head[0].split(" ")[1]), headers, body

    def close(self) -> None:
        for _, writer in self._idle:
            writer.close()
        self._idle.clear()


def arrivals(rate: float, seconds: float, seed: int) -> Iterator[float]:
    """Moments of a Poisson process of `rate` a second."""
    generator, moment = random.Random(seed), 0.0  # noqa: S311  a load, no secret
    while (moment := moment + generator.expovariate(rate)) < seconds:
        yield moment


async def run(client: Sender, requests: Sequence[LoadRequest], rate: float, seconds: float, seed: int, results: AnswerListener) -> None:
    """Send `requests` in turn at `rate` a second for `seconds`; `results` hears of every answer as it comes."""
    began, going = client.now, set[asyncio.Task[None]]()

    async def one(request: LoadRequest, due: float) -> None:
        results.take(await client.send(request, due))

    for request, moment in zip(itertools.cycle(requests), arrivals(rate, seconds, seed), strict=False):
        due = began + moment
        if (wait := due - client.now) > 0:
            await asyncio.sleep(wait)
        task = asyncio.create_task(one(request, due))
        going.add(task)
        task.add_done_callback(going.discard)
    await asyncio.gather(*going)
