"""What a client of streams measures, and what it takes for lost."""

import asyncio
import json
from collections.abc import Sequence

from sandbox.traffic.load import NO_ANSWER, LoadRequest
from sandbox.traffic.token_stream import StreamAnswer, StreamClient, StreamTally

ASKED = LoadRequest(path="/v1/completions", body=b"{}", headers={"host": "a"})
STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"
PIECES = [{"choices": [{"text": " bolt"}]}, {"choices": [{"text": " nut"}]}, {"choices": [], "usage": {"completion_tokens": 2}}]
EVENTS = b"".join(f"data: {json.dumps(each)}\n\n".encode() for each in PIECES) + b"data: [DONE]\n\n"


def chunked(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts)


async def _answered(parts: Sequence[bytes], pause: float = 0.0) -> StreamAnswer:
    ended = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for part in parts:
            writer.write(part)
            await writer.drain()
            await asyncio.sleep(pause)
        writer.close()
        ended.set()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        client = StreamClient(server.sockets[0].getsockname()[1])
        found = await client.send(ASKED, client.now)
        await ended.wait()
        return found
    finally:
        server.close()


def answered(*parts: bytes, pause: float = 0.0) -> StreamAnswer:
    return asyncio.run(_answered(parts, pause))


def test_a_stream_is_read_whole_however_its_events_are_cut_into_chunks() -> None:
    for cut in (1, 7, 40, len(EVENTS)):
        parts = [EVENTS[at : at + cut] for at in range(0, len(EVENTS), cut)]
        found = answered(STREAM, chunked(*parts, b""))
        assert (found.status, found.text, found.tokens) == (200, " bolt nut", 2)


def test_the_first_token_is_timed_apart_from_the_whole_answer() -> None:
    first, *rest = EVENTS.split(b"\n\n", 1)
    found = answered(STREAM, chunked(first + b"\n\n"), chunked(*rest, b""), pause=0.2)
    assert found.first_token is not None
    assert found.latency - found.first_token > 0.1


def test_a_stream_that_breaks_off_is_lost() -> None:
    found = answered(STREAM, chunked(EVENTS[:60]))
    assert found.status == NO_ANSWER
    assert found.why.startswith("IncompleteReadError")


def test_a_refusal_is_an_answer_without_tokens() -> None:
    found = answered(b"HTTP/1.1 429 Too Many Requests\r\ncontent-length: 2\r\n\r\n{}")
    assert (found.status, found.first_token, found.tokens) == (429, None, 0)


def test_a_tally_of_streams_keeps_first_tokens_and_counts_tokens() -> None:
    tally = StreamTally("x-model-release")
    for first, tokens in ((0.1, 5), (0.3, 7), (None, 0)):
        tally.take(StreamAnswer(due=0.0, latency=1.0, status=200, headers={}, first_token=first, tokens=tokens))
    assert (tally.tokens, tally.answered, tally.first_token(0.99)) == (12, 3, 0.3)
