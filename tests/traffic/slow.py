"""Clients that take their time: those that dribble a body, those that never end their headers, those that connect and say nothing."""

import asyncio

from tests.traffic.serving import CLASSIFIER, Serving

_GIVE_UP_SECONDS = 30.0


def slow_bodies(serving: Serving, clients: int, seconds: float) -> None:
    """So many connections that send one byte of their body a second, and go away in the middle of it."""

    async def one() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", serving.addresses.gateway)
        head, body = serving.request(CLASSIFIER).wire.split(b"\r\n\r\n", 1)
        writer.write(head + b"\r\n\r\n")
        for place in range(int(seconds)):
            writer.write(body[place : place + 1])
            await asyncio.sleep(1.0)
        writer.close()
        reader.feed_eof()

    async def all_of_them() -> None:
        await asyncio.gather(*(one() for _ in range(clients)), return_exceptions=True)

    asyncio.run(all_of_them())


def slow_heads(serving: Serving, clients: int) -> list[bytes]:
    """What connections that never end their headers are told before they are cut off; waits for that."""

    async def one() -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", serving.addresses.gateway)
        writer.write(serving.request(CLASSIFIER).wire.split(b"\r\n\r\n", 1)[0] + b"\r\n")
        told = await asyncio.wait_for(reader.read(), _GIVE_UP_SECONDS)
        writer.close()
        return told

    async def all_of_them() -> list[bytes]:
        return list(await asyncio.gather(*(one() for _ in range(clients))))

    return asyncio.run(all_of_them())


def idle_connections(serving: Serving, clients: int, seconds: float) -> None:
    """So many connections that are opened and kept for a while, and carry nothing."""

    async def all_of_them() -> None:
        opened = [asyncio.open_connection("127.0.0.1", serving.addresses.gateway) for _ in range(clients)]
        writers = [writer for _, writer in await asyncio.gather(*opened)]
        await asyncio.sleep(seconds)
        for writer in writers:
            writer.close()

    asyncio.run(all_of_them())
