"""The endpoint picker as a server: Envoy's external processing over gRPC."""

from collections.abc import AsyncIterator, Callable
from itertools import count
from typing import Any

import grpc
import grpc.aio

from headway.endpoint_picker.exchange import Exchange
from headway.endpoint_picker.messages import ProcessingRequest, ProcessingResponse
from headway.endpoint_picker.tracking import Tracked

SERVICE = "envoy.service.ext_proc.v3.ExternalProcessor"


def handlers(pool: Tracked, clock: Callable[[], float]) -> Any:
    """What a gRPC server answers with. Everything runs in one loop: the pool needs no lock."""
    numbers = count()

    async def process(asked: AsyncIterator[Any], _: Any) -> AsyncIterator[Any]:
        exchange = Exchange(pool, next(numbers))
        try:
            async for message in asked:
                for answer in exchange.hear(clock(), message):
                    yield answer
        finally:
            exchange.close(clock())

    method = grpc.stream_stream_rpc_method_handler(
        process, request_deserializer=ProcessingRequest.FromString, response_serializer=ProcessingResponse.SerializeToString
    )
    return grpc.method_handlers_generic_handler(SERVICE, {"Process": method})


async def started(pool: Tracked, clock: Callable[[], float], address: str) -> tuple[grpc.aio.Server, int]:
    """A server that listens, and its port."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((handlers(pool, clock),))
    port = server.add_insecure_port(address)
    await server.start()
    return server, port
