"""Open-loop load: what counts as lost, what is sent once more, and what a load of hours keeps."""

import asyncio
from collections.abc import Awaitable, Callable

from sandbox.traffic.load import NO_ANSWER, LoadAnswer, LoadClient, LoadRequest, LoadTally, arrivals

ASKED = LoadRequest(path="/", body=b"{}", headers={"host": "a"})
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n"

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def _sent(serve: Serve, count: int) -> list[LoadAnswer]:
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    client = LoadClient(server.sockets[0].getsockname()[1])
    try:
        return [await client.send(ASKED, client.now) for _ in range(count)]
    finally:
        client.close()
        server.close()


async def _read(reader: asyncio.StreamReader) -> None:
    await reader.readuntil(b"\r\n\r\n")
    await reader.readexactly(2)


def test_a_request_on_a_connection_that_was_closed_while_idle_is_sent_once_more() -> None:
    connections: list[int] = []

    async def one_each(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(1)
        await _read(reader)
        writer.write(OK)
        await writer.drain()
        writer.close()

    answers = asyncio.run(_sent(one_each, 3))
    assert [each.status for each in answers] == [200, 200, 200]
    assert len(connections) == 3


def test_a_request_that_a_new_connection_did_not_answer_is_lost_and_not_retried() -> None:
    asked: list[int] = []

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(1)
        await _read(reader)
        writer.close()

    (answer,) = asyncio.run(_sent(hang_up, 1))
    assert answer.status == NO_ANSWER
    assert len(asked) == 1


def test_a_tally_tells_losses_from_refusals_and_knows_who_answered() -> None:
    tally = LoadTally("x-model-release")
    for status, release in ((200, "r1"), (200, "r2"), (429, ""), (503, "r2"), (NO_ANSWER, "")):
        tally.take(LoadAnswer(due=float(status), latency=0.1 if status else 9.0, status=status, headers={"x-model-release": release}))
    assert tally.lost == [(503.0, 503), (0.0, NO_ANSWER)]
    assert tally.answered_by == {"r1": 1, "r2": 2, "": 1}
    assert round(tally.quantile(1.0), 3) == 0.1, "what was not answered has no latency"


def test_arrivals_are_the_same_for_a_seed_and_as_many_as_asked() -> None:
    found = list(arrivals(50.0, 200.0, seed=3))
    assert found == list(arrivals(50.0, 200.0, seed=3))
    assert found != list(arrivals(50.0, 200.0, seed=4))[: len(found)]
    assert 9_500 < len(found) < 10_500
    assert all(0 <= each < 200 for each in found)
