"""What every part of one operation shares: the request, the ports to state and events, and what has happened so far."""

import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from pulumi_embedded.engine.halt import Halt
from pulumi_embedded.engine.model import Events, OperationRequest, PendingKind, PendingOperation, Resource, State, StepEvent
from pulumi_embedded.engine.resources import OperationResources
from pulumi_embedded.engine.targets import Selection
from pulumi_embedded.engine.urns import Namer

_POLL_SECONDS = 0.2


class Slots:
    """At most `parallel` provider operations at once. Whoever waits for a slot notices a cancellation."""

    def __init__(self, parallel: int, halt: Halt) -> None:
        self._slots = threading.BoundedSemaphore(max(1, parallel))
        self._halt = halt

    @contextmanager
    def taken(self) -> Generator[None]:
        """Raises Stopped if nothing new may begin."""
        self._halt.check()
        while not self._slots.acquire(timeout=_POLL_SECONDS):
            self._halt.check()
        try:
            yield
        finally:
            self._slots.release()


class Unwritten:
    """State in a preview: read, and never written."""

    def __init__(self, state: State) -> None:
        self.resources: Sequence[Resource] = state.resources
        self.pending: Sequence[PendingOperation] = state.pending

    def begin(self, kind: PendingKind, resource: Resource) -> None: ...

    def abandon(self, resource: Resource) -> None: ...

    def put(self, resource: Resource, was: Resource | None = None) -> None: ...

    def remove(self, resource: Resource) -> None: ...

    def clear_pending(self, kinds: Sequence[PendingKind]) -> None: ...


@dataclass(frozen=True)
class Context:
    """One operation. `clock` answers RFC 3339 time in UTC."""

    request: OperationRequest
    state: State
    events: Events
    halt: Halt
    ledger: OperationResources
    selection: Selection
    slots: Slots
    namer: Namer
    clock: Callable[[], str]
    directory: Path
    """Where relative paths of assets start."""
    interrupted: Mapping[str, Resource] = field(default_factory=dict)
    """What an earlier, killed operation was creating, by URN: the object may exist under the name that was made up for it."""
    root: list[str] = field(default_factory=list)
    """URN of the stack's own resource once it is registered: none or one."""

    @property
    def preview(self) -> bool:
        return self.request.dry_run

    def failed(self, step: StepEvent, message: str) -> None:
        """A step ended badly: tell everyone, and let nothing new begin."""
        self.ledger.failed.add(step.urn)
        self.events.failed(step)
        self.report(message, step.urn)

    def report(self, message: str, urn: str = "", *, fatal: bool = False) -> None:
        """An error without a step."""
        if urn:
            self.ledger.failed.add(urn)
        self.events.diagnostic("error", message, urn)
        self.halt.fail(message, fatal=fatal)

    def finished(self, step: StepEvent) -> None:
        if not step.quiet:
            self.ledger.count(step.op)
        self.events.finished(step)
