"""Open-loop load: requests leave when they are due, whether or not earlier ones have been answered. Owns no decision about them.

Arrivals are Poisson with a seeded generator; connections are kept and as many as are needed. Latency is counted from the moment a request
was due, so that a stall of the server or of this process is not hidden (coordinated omission). The trap: a connection that the server has
closed while idle fails its next request; such a request is sent once more on a new connection, and only then counts as failed.
"""

import asyncio
import itertools
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter

_TIMEOUT_SECONDS = 10.0
NO_ANSWER = 0
"""Status of a request that was not answered at all."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What is sent: POST `body` to `path` with these headers."""

    path: str
    body: bytes
    headers: Mapping[str, str]

    @property
    def wire(self) -> bytes:
        lines = [f"POST {self.path} HTTP/1.1", *(f"{name}: {value}" for name, value in self.headers.items())]
        return "\r\n".join([*lines, f"content-length: {len(self.body)}", "", ""]).encode() + self.body


@dataclass(frozen=True, kw_only=True)
class Answer:
    """How one request went. Times in seconds: `due` since the start of the load, `latency` from when it was due."""

    due: float
    latency: float
    status: int
    headers: Mapping[str, str]
    body: bytes = b""
    why: str = ""
    """For a request without an answer."""


@dataclass
class Results:
    """All answers of a load."""

    answers: list[Answer] = field(default_factory=list[Answer])

    @property
    def statuses(self) -> Mapping[int, int]:
        return dict(sorted(Counter(each.status for each in self.answers).items()))

    @property
    def failed(self) -> list[Answer]:
        return [each for each in self.answers if each.status == NO_ANSWER or each.status >= 500]

    def by(self, header: str) -> Mapping[str, int]:
        """Answers by the value of one of their headers."""
        return dict(sorted(Counter(each.headers.get(header, "") for each in self.answers).items()))

    def quantile(self, share: float) -> float:
        """Latency in seconds below which `share` of the answered requests lie."""
        found = sorted(each.latency for each in self.answers if each.status != NO_ANSWER)
        return found[min(len(found) - 1, int(share * len(found)))] if found else float("nan")


Sender = Callable[[Request, float], Awaitable[Answer]]


class Client:
    """Keeps connections to one server on 127.0.0.1."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self._host, self._port = host, port
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._began = perf_counter()

    async def send(self, request: Request, due: float) -> Answer:
        """Send one request that was due at `due` seconds after this client was made."""
        for fresh in (False, True):
            try:
                status, headers, body = await asyncio.wait_for(self._exchange(request, fresh=fresh), _TIMEOUT_SECONDS)
                return Answer(due=due, latency=self.now - due, status=status, headers=headers, body=body)
            except (OSError, asyncio.IncompleteReadError, ValueError) as error:
                if fresh:
                    return Answer(due=due, latency=self.now - due, status=NO_ANSWER, headers={}, why=f"{type(error).__name__}: {error}")
        raise AssertionError("unreachable")

    @property
    def now(self) -> float:
        return perf_counter() - self._began

    async def _exchange(self, request: Request, *, fresh: bool) -> tuple[int, Mapping[str, str], bytes]:
        if self._idle and not fresh:
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


async def run(client: Client, requests: Sequence[Request], rate: float, seconds: float, seed: int, results: Results) -> None:
    """Send `requests` in turn at `rate` a second for `seconds`; every answer is added to `results` as it comes."""
    began, going = client.now, set[asyncio.Task[None]]()

    async def one(request: Request, due: float) -> None:
        results.answers.append(await client.send(request, due))

    for request, moment in zip(itertools.cycle(requests), arrivals(rate, seconds, seed), strict=False):
        due = began + moment
        if (wait := due - client.now) > 0:
            await asyncio.sleep(wait)
        task = asyncio.create_task(one(request, due))
        going.add(task)
        task.add_done_callback(going.discard)
    await asyncio.gather(*going)
