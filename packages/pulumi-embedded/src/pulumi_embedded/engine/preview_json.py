"""`preview --json`: one document for programs. Public definition: pkg/backend/display/json.go and sdk/go/common/display (PreviewDigest).

Steps are told in an order that follows from the plan alone: what others need before them, what goes last. Registrations that do not wait for
each other arrive in any order, and two previews of one commit would differ.
"""

import threading
from collections.abc import Mapping, Sequence

from pulumi_embedded.engine.checkpoint import to_json
from pulumi_embedded.engine.events import metadata
from pulumi_embedded.engine.graph import ordered
from pulumi_embedded.engine.model import Op, OperationOutcome, PolicyEvent, Resource, Severity, StepEvent
from pulumi_embedded.engine.values import MASK, Properties

NANOSECONDS = 1_000_000_000


class PreviewDigest:
    """Implements model.Events: gathers what the document tells. Unchanged resources are left out, the stack itself is not."""

    def __init__(self, config: Mapping[str, str]) -> None:
        self._config = dict(config)
        self._steps: list[tuple[StepEvent, Properties]] = []
        self._diagnostics: list[Properties] = []
        self._lock = threading.Lock()

    def started(self, step: StepEvent) -> None:
        if step.quiet or (step.op is Op.SAME and step.type != "pulumi:pulumi:Stack"):
            return
        fields = metadata(step)
        entry: Properties = {"op": fields["op"], "urn": step.urn}
        optional = {
            "provider": step.provider,
            "oldState": step.old and _state(step.old),
            "newState": step.new and _state(step.new),
            "diffReasons": fields["diffs"],
            "replaceReasons": fields["keys"],
        }
        entry.update((key, value) for key, value in optional.items() if value)
        entry["detailedDiff"] = {path: {"kind": kind, "inputDiff": True} for path, kind in step.details.items()} if step.details else None
        with self._lock:
            self._steps.append((step, entry))

    def finished(self, step: StepEvent) -> None: ...

    def failed(self, step: StepEvent) -> None: ...

    def status(self, urn: str, message: str) -> None: ...

    def diagnostic(self, severity: Severity, message: str, urn: str = "", *, ephemeral: bool = False, stream: int = 0) -> None:
        del stream
        if ephemeral or severity == "debug":
            return
        entry: Properties = {"urn": urn, "message": message.rstrip("\n") + "\n", "severity": severity}
        with self._lock:
            self._diagnostics.append({key: value for key, value in entry.items() if value})

    def policy(self, event: PolicyEvent) -> None: ...

    def result(self, outcome: OperationOutcome) -> Properties:
        with self._lock:
            result: Properties = {"config": self._config, "steps": [entry for _, entry in _in_order(self._steps)]}
            if self._diagnostics:
                result["diagnostics"] = list(self._diagnostics)
        result["duration"] = round(outcome.duration * NANOSECONDS)
        result["changeSummary"] = {str(op): count for op, count in sorted(outcome.changes.items())}
        result["maybeCorrupt"] = False
        return result


def _in_order(steps: Sequence[tuple[StepEvent, Properties]]) -> list[tuple[StepEvent, Properties]]:
    subjects = [resource for step, _ in steps if (resource := step.new or step.old) is not None]
    place = {resource.urn: number for number, resource in enumerate(ordered(sorted(subjects, key=lambda resource: resource.urn)))}

    def key(told: tuple[StepEvent, Properties]) -> tuple[bool, int]:
        step, _ = told
        goes, number = step.op in (Op.DELETE, Op.DISCARD), place.get(step.urn, -1)
        return goes, -number if goes else number

    return sorted(steps, key=key)


def _state(resource: Resource) -> Properties:
    return to_json(resource, lambda _: MASK)
