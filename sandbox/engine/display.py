"""What a person sees of an operation. (First form: lines and a summary.)"""

from collections.abc import Callable

from sandbox.engine.model import Op, Outcome, PolicyEvent, Severity, StepEvent
from sandbox.engine.values import Properties


class Display:
    """Implements model.Events for people."""

    def __init__(self, line: Callable[[str], None], *, planning: bool, debug: bool, outputs: bool) -> None:
        self._line, self._planning, self._debug, self._outputs = line, planning, debug, outputs

    def begin(self, title: str) -> None:
        self._line(title)

    def started(self, step: StepEvent) -> None: ...

    def finished(self, step: StepEvent) -> None:
        if step.op is not Op.SAME and not step.quiet:
            self._line(f"  {step.op:20} {step.type} {step.urn.rsplit('::', 1)[-1]}")

    def failed(self, step: StepEvent) -> None:
        self._line(f"  failed: {step.op} {step.type} {step.urn.rsplit('::', 1)[-1]}")

    def status(self, urn: str, message: str) -> None: ...

    def diagnostic(self, severity: Severity, message: str, urn: str = "", *, ephemeral: bool = False, stream: int = 0) -> None:
        if not ephemeral and (severity != "debug" or self._debug):
            self._line(f"  {urn.rsplit('::', 1)[-1] or 'pulumi'}: {severity}: {message}")

    def policy(self, event: PolicyEvent) -> None:
        self._line(f"  [{event.level}] {event.pack} {event.policy}: {event.message}")

    def end(self, outcome: Outcome, before: Properties, after: Properties) -> None:
        self._line("Resources:")
        for op, count in sorted(outcome.changes.items()):
            self._line(f"    {count} {op}")
        self._line(f"Duration: {outcome.duration:.0f}s")
