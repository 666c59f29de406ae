"""The endpoint picker as a gRPC server: Envoy's external processing, and gRPC's health checks as the endpoint picker protocol names them.

It ends gracefully: answers pass through it, so those in progress may last as long as their drain. Envoy asks nobody while no picker is ready, and
then sends by turns, if the pool says FailOpen; a picker that is killed cuts the answers in progress (tests/traffic/test_endpoint_picker.py).
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import grpc
import grpc.aio

from headway.endpoint_picker.exchange import Exchange, PickerCounts
from headway.endpoint_picker.messages import HealthCheckRequest, HealthCheckResponse, ProcessingRequest, ProcessingResponse
from headway.endpoint_picker.tracking import Tracked

SERVICE, HEALTH = "envoy.service.ext_proc.v3.ExternalProcessor", "grpc.health.v1.Health"
LIVENESS, READINESS = "liveness", "readiness"
SERVING, NOT_SERVING = 1, 2
MOST_AT_ONCE = 20_000
"""Requests in progress; more are refused, and Envoy does with them what it does without a picker."""
LARGEST_MESSAGE = 4 << 20
UNREADY_SECONDS = 5.0
"""After a picker said that it ends, until it takes no new request: gateways hear of it by then."""


@dataclass
class PickerState:
    """All that one picker knows. Only its loop changes it."""

    clock: Callable[[], float]
    pool: Tracked
    counts: PickerCounts = field(default_factory=PickerCounts)
    heard: bool = False
    """Whether the API server has said which endpoints there are."""
    ending: bool = False

    @property
    def ready(self) -> bool:
        return self.heard and not self.ending


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

    async def check(asked: Any, context: Any) -> Any:
        known = {"": state.ready, LIVENESS: True, READINESS: state.ready, SERVICE: state.ready}
        if asked.service not in known:
            await context.abort(grpc.StatusCode.NOT_FOUND, "unknown service")
        return HealthCheckResponse(status=SERVING if known[asked.service] else NOT_SERVING)

    processing = grpc.stream_stream_rpc_method_handler(
        process, request_deserializer=ProcessingRequest.FromString, response_serializer=ProcessingResponse.SerializeToString
    )
    health = grpc.unary_unary_rpc_method_handler(
        check, request_deserializer=HealthCheckRequest.FromString, response_serializer=HealthCheckResponse.SerializeToString
    )
    return (
        grpc.method_handlers_generic_handler(SERVICE, {"Process": processing}),
        grpc.method_handlers_generic_handler(HEALTH, {"Check": health}),
    )


async def started(state: PickerState, address: str) -> tuple[grpc.aio.Server, int]:
    """A server that listens, and its port. Raises RuntimeError where it cannot."""
    options = (("grpc.max_receive_message_length", LARGEST_MESSAGE), ("grpc.so_reuseport", 0))
    server = grpc.aio.server(maximum_concurrent_rpcs=MOST_AT_ONCE, options=options)
    server.add_generic_rpc_handlers(handlers(state))
    port = server.add_insecure_port(address)
    await server.start()
    return server, port


async def ended(state: PickerState, server: grpc.aio.Server, grace: float, unready: float = UNREADY_SECONDS) -> None:
    """Take nothing new, and let what is in progress end within `grace` seconds."""
    state.ending = True
    await asyncio.sleep(unready)
    await server.stop(grace)
