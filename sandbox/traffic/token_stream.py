"""A client of streamed completions: when the first token came, and how many did. Open-loop load by it is `load.run`.

One connection a request, as most clients of language models do. Reads server-sent events in chunked encoding, which is what vLLM and Envoy
write; anything else is an answer without tokens.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from sandbox.traffic.load import NO_ANSWER, LoadAnswer, LoadRequest, LoadTally, quantile

_TIMEOUT_SECONDS = 120.0
_DATA = b"data: "


@dataclass(frozen=True, kw_only=True)
class StreamAnswer(LoadAnswer):
    """How one stream went."""

    first_token: float | None = None
    """Seconds from when it was due to its first event; None where none came."""
    tokens: int = 0
    """As its usage says."""
    text: str = ""


@dataclass
class StreamTally(LoadTally):
    """What a load of streams keeps beside the rest."""

    first_tokens: list[float] = field(default_factory=list[float])
    tokens: int = 0

    def take(self, answer: LoadAnswer) -> None:
        super().take(answer)
        if isinstance(answer, StreamAnswer) and answer.first_token is not None:
            self.first_tokens.append(answer.first_token)
            self.tokens += answer.tokens

    def first_token(self, share: float) -> float:
        """Seconds to the first token below which `share` of the streams lie."""
        return quantile(self.first_tokens, share)


class StreamClient:
    """Asks one server on 127.0.0.1; each request on a connection of its own."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self._host, self._port, self._began = host, port, perf_counter()

    @property
    def now(self) -> float:
        return perf_counter() - self._began

    async def send(self, request: LoadRequest, due: float) -> StreamAnswer:
        """Send one request that was due at `due` seconds after this client was made, and read its stream to the end."""
        try:
            return await asyncio.wait_for(self._exchange(request, due), _TIMEOUT_SECONDS)
        except (OSError, EOFError, ValueError) as error:
            return StreamAnswer(due=due, latency=self.now - due, status=NO_ANSWER, headers={}, why=f"{type(error).__name__}: {error}")

    async def _exchange(self, request: LoadRequest, due: float) -> StreamAnswer:
        reader, writer = await asyncio.open_connection(self._host, self._port)
        try:
            writer.write(request.wire)
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
            first, tokens, said = None, 0, list[str]()
            async for event in _events(reader, headers):
                first = self.now - due if first is None else first
                tokens = int((event.get("usage") or {}).get("completion_tokens", tokens))
                said += [choice.get("text") or "" for choice in event.get("choices") or ()]
            status = int(head[0].split(" ")[1])
            return StreamAnswer(
                due=due, latency=self.now - due, status=status, headers=headers, first_token=first, tokens=tokens, text="".join(said)
            )
        finally:
            writer.close()


async def _events(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> AsyncIterator[Mapping[str, Any]]:
    """Each event of a stream as it comes; an answer that is none is read and gives none. Raises EOFError where it breaks off."""
    if headers.get("transfer-encoding") != "chunked":
        await reader.readexactly(int(headers.get("content-length", "0")))
        return
    streamed, held = headers.get("content-type", "").startswith("text/event-stream"), b""
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        held += await reader.readexactly(size)
        await reader.readexactly(2)
        *whole, held = held.split(b"\n\n") if streamed else (b"",)
        for each in whole:
            if each.startswith(_DATA) and each != _DATA + b"[DONE]":
                yield json.loads(each.removeprefix(_DATA))
    await reader.readexactly(2)
