"""The engine event stream: JSON events to a client of the Automation API, by gRPC (`tcp://HOST:PORT`) or into a file, and several sinks as one.

Public definition: sdk/go/common/apitype/events.go. Secrets are masked before they leave here.

The traps: a client tests most events for truth, so an empty object is an event lost; it stops its server as soon as the verb returns, so
`close` waits until everything has been delivered.
"""

import contextlib
import json
import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TextIO

from pulumi_embedded.engine.errors import EngineError
from pulumi_embedded.engine.model import Events, Op, OperationOutcome, PolicyEvent, Resource, Severity, StepEvent
from pulumi_embedded.engine.values import Properties, masked

DELIVERY_SECONDS: Final = 30
_MESSAGE_BYTES: Final = 400 * 1024 * 1024  # as the SDK's own channels


class Fanout:
    """Implements model.Events: everything that happens, to each of several sinks in turn."""

    def __init__(self, sinks: Sequence[Events]) -> None:
        self._sinks = tuple(sinks)

    def started(self, step: StepEvent) -> None:
        for sink in self._sinks:
            sink.started(step)

    def finished(self, step: StepEvent) -> None:
        for sink in self._sinks:
            sink.finished(step)

    def failed(self, step: StepEvent) -> None:
        for sink in self._sinks:
            sink.failed(step)

    def status(self, urn: str, message: str) -> None:
        for sink in self._sinks:
            sink.status(urn, message)

    def diagnostic(self, severity: Severity, message: str, urn: str = "", *, ephemeral: bool = False, stream: int = 0) -> None:
        for sink in self._sinks:
            sink.diagnostic(severity, message, urn, ephemeral=ephemeral, stream=stream)

    def policy(self, event: PolicyEvent) -> None:
        for sink in self._sinks:
            sink.policy(event)


class EventStream:
    """Implements model.Events for a client that asked for `--event-log`."""

    def __init__(
        self, send: Callable[[str], None], finish: Callable[[], None], now: Callable[[], float], *, planning: bool, debug: bool
    ) -> None:
        self._send, self._finish, self._now = send, finish, now
        self._planning, self._debug = planning, debug
        self._lock = threading.Lock()
        self._sequence = 0

    @classmethod
    def open(cls, target: str, now: Callable[[], float], *, planning: bool, debug: bool) -> "EventStream":
        """`tcp://HOST:PORT`, or the path of a file that events are appended to."""
        if target.startswith("tcp://"):
            stream = _GrpcStream(target.removeprefix("tcp://"))
            return cls(stream.send, stream.finish, now, planning=planning, debug=debug)
        try:
            file = Path(target).open("a", encoding="utf-8")  # noqa: SIM115 closed by `close`
        except OSError as error:
            raise EngineError(f"cannot write the event log {target}: {error.strerror}") from None
        return cls(lambda text: _write(file, text), file.close, now, planning=planning, debug=debug)

    def prelude(self, config: Mapping[str, str]) -> None:
        self._emit("preludeEvent", {"config": dict(config)})

    def started(self, step: StepEvent) -> None:
        if not step.quiet:
            self._emit("resourcePreEvent", {"metadata": metadata(step), "planning": self._planning})

    def finished(self, step: StepEvent) -> None:
        if not step.quiet:
            self._emit("resOutputsEvent", {"metadata": metadata(step), "planning": self._planning})

    def failed(self, step: StepEvent) -> None:
        self._emit("resOpFailedEvent", {"metadata": metadata(step), "status": 1, "steps": 1})

    def status(self, urn: str, message: str) -> None:
        self.diagnostic("info", message, urn, ephemeral=True)

    def diagnostic(self, severity: Severity, message: str, urn: str = "", *, ephemeral: bool = False, stream: int = 0) -> None:
        if severity == "debug" and not self._debug:
            return  # the SDK logs every step at this level
        fields: Properties = {"message": message.rstrip("\n") + "\n", "color": "never", "severity": severity}
        if urn:
            fields["urn"] = urn
        if ephemeral:
            fields["ephemeral"] = True
        if stream:
            fields["streamID"] = stream
        self._emit("diagnosticEvent", fields)

    def policy(self, event: PolicyEvent) -> None:
        fields: Properties = {
            "message": event.message,
            "color": "never",
            "policyName": event.policy,
            "policyPackName": event.pack,
            "policyPackVersion": event.version,
            "policyPackVersionTag": event.version,
            "enforcementLevel": event.level,
        }
        if event.urn:
            fields["resourceUrn"] = event.urn
        self._emit("policyEvent", fields)

    def summary(self, outcome: OperationOutcome) -> None:
        self._emit(
            "summaryEvent",
            {
                "maybeCorrupt": False,
                "durationSeconds": round(outcome.duration),
                "resourceChanges": {str(op): count for op, count in outcome.changes.items()},
                "PolicyPacks": dict(outcome.policy_packs),
                "isPreview": self._planning,
            },
        )

    def close(self) -> None:
        """Send the last event and wait until all have arrived."""
        self._emit("cancelEvent", {})
        with contextlib.suppress(OSError):
            self._finish()

    def _emit(self, kind: str, fields: Properties) -> None:
        with self._lock:
            # An event log that cannot be written (a full disk) costs its events, never the operation.
            with contextlib.suppress(OSError):
                self._send(json.dumps({"sequence": self._sequence, "timestamp": int(self._now()), kind: fields}))
            self._sequence += 1


def metadata(step: StepEvent) -> Properties:
    """apitype.StepEventMetadata."""
    return {
        "op": str(step.op),
        "urn": step.urn,
        "type": step.type,
        "old": step.old and _state(step.old),
        "new": step.new and _state(step.new),
        "keys": list(step.replaces),
        "diffs": sorted({top_key(path) for path in step.details}),
        "detailedDiff": {path: {"diffKind": kind, "inputDiff": True} for path, kind in step.details.items()} or None,
        "logical": step.op not in (Op.CREATE_REPLACEMENT, Op.DELETE_REPLACED),
        "provider": step.provider,
    }


def top_key(path: str) -> str:
    """`spec.replicas` -> `spec`: diffs are told by top-level property."""
    if path.startswith('["'):
        return path[2:].partition('"]')[0]
    return path.partition(".")[0].partition("[")[0]


def _state(resource: Resource) -> Properties:
    fields: Properties = {
        "type": resource.type,
        "urn": resource.urn,
        "id": resource.id,
        "parent": resource.parent,
        "provider": resource.provider,
        "custom": resource.custom,
        "inputs": masked(resource.inputs),
        "outputs": masked(resource.outputs),
    }
    flags = {"delete": resource.delete, "protect": resource.protect, "retainOnDelete": resource.retain_on_delete}
    fields.update((key, value) for key, value in flags.items() if value)
    if resource.init_errors:
        fields["initErrors"] = list(resource.init_errors)
    return fields


class _GrpcStream:
    """One client stream of pulumirpc.Events. A client that has gone away costs its events, never the operation."""

    def __init__(self, address: str) -> None:
        import grpc
        from pulumi.runtime.proto import events_pb2, events_pb2_grpc

        self._request = events_pb2.EventRequest
        self._queue: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        limits = [("grpc.max_send_message_length", _MESSAGE_BYTES), ("grpc.max_receive_message_length", _MESSAGE_BYTES)]
        self._channel = grpc.insecure_channel(address, options=limits)
        stub: Any = events_pb2_grpc.EventsStub(self._channel)
        self._reply = stub.StreamEvents.future(self._requests())

    def send(self, text: str) -> None:
        self._queue.put(text)

    def finish(self) -> None:
        import grpc

        self._queue.put(None)
        try:
            self._reply.result(timeout=DELIVERY_SECONDS)
        except (grpc.RpcError, grpc.FutureTimeoutError, grpc.FutureCancelledError):
            pass
        finally:
            self._channel.close()

    def _requests(self) -> Iterator[Any]:
        while (text := self._queue.get()) is not None:
            yield self._request(event=text)


def _write(file: TextIO, text: str) -> None:
    file.write(text + "\n")
    file.flush()
