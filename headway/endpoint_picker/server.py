"""The endpoint picker as a gRPC server of Envoy's external processing.

Nobody waits for it longer than Envoy's timeout for one message; a request whose picker is away, or goes away, reaches an engine by Envoy's own
balancer (tests/traffic/test_endpoint_picker.py). So it ends at once.
"""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import grpc
import grpc.aio

from headway.endpoint_picker.exchange import Exchange, PickerCounts
from headway.endpoint_picker.messages import ProcessingRequest, ProcessingResponse
from headway.endpoint_picker.prompts import LARGEST
from headway.endpoint_picker.tracking import Tracked

SERVICE = "envoy.service.ext_proc.v3.ExternalProcessor"
MOST_AT_ONCE = 20_000
"""Requests in progress; more are refused, and Envoy does with them what it does without a picker."""
LARGEST_MESSAGE = LARGEST + (1 << 20)
"""Bytes. Envoy sends of a body what its buffer takes: 1 MiB, or for a host whose requests may wait, 8."""
GRACE_SECONDS = 1.0
"""For questions that are being answered when it ends."""


@dataclass
class PickerState:
    """All that one picker knows. Only its loop changes it."""

    clock: Callable[[], float]
    pool: Tracked
    counts: PickerCounts = field(default_factory=PickerCounts)
    heard: bool = False
    """Whether the API server has said which endpoints there are."""


def handlers(state: PickerState) -> tuple[Any, ...]:
    """What a gRPC server answers with. Everything runs in one loop: the pool needs no lock."""
    numbers = count()

    async def process(asked: AsyncIterator[Any], _: Any) -> AsyncIterator[Any]:
        exchange = Exchange(state.pool, next(numbers), state.counts)
        try:
            async for message in asked:
                for answer in exchange.hear(state.clock(), message):
                    yield answer
        finally:
            exchange.close(state.clock())

    processing = grpc.stream_stream_rpc_method_handler(
        process, request_deserializer=ProcessingRequest.FromString, response_serializer=ProcessingResponse.SerializeToString
    )
    return (grpc.method_handlers_generic_handler(SERVICE, {"Process": processing}),)


async def started(state: PickerState, address: str) -> tuple[grpc.aio.Server, int]:
    """A server that listens, and its port. Raises RuntimeError where it cannot."""
    options = (("grpc.max_receive_message_length", LARGEST_MESSAGE), ("grpc.so_reuseport", 0))
    server = grpc.aio.server(maximum_concurrent_rpcs=MOST_AT_ONCE, options=options)
    server.add_generic_rpc_handlers(handlers(state))
    port = server.add_insecure_port(address)
    await server.start()
    return server, port
