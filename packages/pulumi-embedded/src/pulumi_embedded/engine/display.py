"""What a person sees of an operation: progress while it runs, then the tree of changes, policies, diagnostics, outputs and counts.

A plain line tells every few seconds what is being waited for, so that no log is silent for a minute. Everything else is printed once, at
the end, in an order that does not depend on timing.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from pulumi_embedded.engine.console import Console
from pulumi_embedded.engine.model import Op, OperationOutcome, PolicyEvent, Severity, StepEvent
from pulumi_embedded.engine.progress import PlainProgress, RunningStep, Snapshot, describe
from pulumi_embedded.engine.property_diff import between, lines, printed, whole
from pulumi_embedded.engine.style import SYMBOLS, WORDS, duration, shown_type
from pulumi_embedded.engine.tree import TreeRow, render
from pulumi_embedded.engine.values import Properties

NAME: Final = "embedded engine, Pulumi-compatible subset"
MOST_CHANGES: Final = 12
"""Changed properties shown for each object unless --diff is given."""
ROOT: Final = "pulumi:pulumi:Stack"

_REPLACEMENT: Final = {Op.REPLACE, Op.CREATE_REPLACEMENT, Op.DELETE_REPLACED}


@dataclass(frozen=True, kw_only=True)
class DisplayOptions:
    planning: bool
    debug: bool = False
    diff: bool = False
    outputs: bool = True
    progress: bool = True
    show_sames: bool = False
    show_reads: bool = False


@dataclass(frozen=True, slots=True)
class _Diagnostic:
    severity: Severity
    message: str
    stream: int


class OperationDisplay:
    """Implements model.Events for people."""

    def __init__(self, console: Console, options: DisplayOptions, *, now: Callable[[], float] = time.monotonic) -> None:
        self._console, self._options, self._now = console, options, now
        self._lock = threading.Lock()
        self._rows: dict[str, TreeRow] = {}
        self._steps: dict[str, StepEvent] = {}
        self._diagnostics: dict[str, list[_Diagnostic]] = {}
        self._policies: list[PolicyEvent] = []
        self._done = 0
        self._planned: Properties | None = None
        self._begun = now()
        self._progress = PlainProgress(console, self._snapshot) if options.progress else None

    # ---- while it runs ---------------------------------------------------------------------------------------------------------------

    def begin(self, title: str, config: Mapping[str, str] | None = None) -> None:
        """Say what begins, and with which configuration if it is given; its secrets are masked by the caller."""
        self._console.line(f"{title}: {NAME}\n")
        if config:
            rows = [f"    {key}: {value}" for key, value in sorted(config.items())]
            self._console.line("\n".join(["Configuration:", *rows, ""]))
        if self._progress:
            self._progress.start()

    def stop(self) -> None:
        """End the progress; safe to call twice."""
        if self._progress:
            self._progress.stop()

    def announce(self, text: str) -> None:
        """Something for now, and what is running at this moment."""
        running = [f"  {describe(entry)}" for entry in self._snapshot().running]
        self._console.line("\n".join([text, *running]))

    def started(self, step: StepEvent) -> None:
        if step.quiet:
            return
        with self._lock:
            row = self._row(step)
            row.running, row.begun = True, self._now()
            row.op = Op.REPLACE if step.op in _REPLACEMENT else step.op

    def finished(self, step: StepEvent) -> None:
        if step.quiet:
            return
        with self._lock:
            row = self._row(step)
            row.op = Op.REPLACE if step.op in _REPLACEMENT else step.op
            if row.running:
                row.seconds += self._now() - row.begun
            row.running, row.message = False, ""
            # Of the three steps of a replacement, the one that knows what differs is kept.
            kept = self._steps.get(step.urn)
            if kept is None or kept.op not in _REPLACEMENT or (step.details and step.old and step.new):
                self._steps[step.urn] = step
            self._done += 1
            if step.type == ROOT and step.new is not None:
                self._planned = step.new.outputs

    def failed(self, step: StepEvent) -> None:
        with self._lock:
            row = self._row(step)
            row.op, row.failed, row.running, row.message = step.op, True, False, ""
            self._steps[step.urn] = step

    def status(self, urn: str, message: str) -> None:
        with self._lock:
            row = self._rows.get(urn)
            if row is not None:
                row.message = message

    def diagnostic(self, severity: Severity, message: str, urn: str = "", *, ephemeral: bool = False, stream: int = 0) -> None:
        if severity == "debug" and not self._options.debug:
            return
        if ephemeral:
            self.status(urn, message)
            return
        with self._lock:
            self._diagnostics.setdefault(urn, []).append(_Diagnostic(severity, message.rstrip("\n"), stream))

    def policy(self, event: PolicyEvent) -> None:
        with self._lock:
            self._policies.append(event)

    # ---- at the end ------------------------------------------------------------------------------------------------------------------

    def end(self, outcome: OperationOutcome, before: Properties, after: Properties) -> None:
        """Print everything. `before` and `after` are the recorded outputs of the stack; a plan knows better than `after`."""
        self.stop()
        with self._lock:
            if self._options.planning and self._planned is not None:
                after = self._planned
            sections = [
                self._tree(),
                self._policy_lines(outcome),
                self._diagnostic_lines(),
                self._output_lines(before, after) if self._options.outputs and outcome.error is None else [],
                self._counts(outcome),
            ]
        for section in sections:
            if section:
                self._console.line("\n".join(section) + "\n")
        self._console.line(f"Duration: {duration(outcome.duration)}")

    def _tree(self) -> list[str]:
        quiet = {Op.SAME} if not self._options.show_sames else set[Op]()
        quiet |= {Op.READ} if not self._options.show_reads else set()
        for urn, diagnostics in self._diagnostics.items():
            row = self._rows.get(urn)
            if row is not None:
                row.notes = _tally([diagnostic.severity for diagnostic in diagnostics])
        for urn in {event.urn for event in self._policies if event.level == "mandatory"}:
            if urn in self._rows:
                self._rows[urn].notes.append("violates a policy")
        shown = [urn for urn, row in self._rows.items() if row.failed or row.op not in quiet or (row.notes and row.type != ROOT)]
        return render(self._rows, shown, self._details, planning=self._options.planning)

    def _details(self, row: TreeRow) -> list[str]:
        step = self._steps.get(row.urn)
        if step is None:
            return []
        if self._options.diff and row.op in (Op.CREATE, Op.DELETE, Op.IMPORT) and row.type != ROOT:
            resource = step.new or step.old
            return whole(resource.inputs, row.op) if resource else []
        return lines(step, limit=None if self._options.diff else MOST_CHANGES)

    def _policy_lines(self, outcome: OperationOutcome) -> list[str]:
        if not outcome.policy_packs and not self._policies:
            return []
        result = ["Policies:"]
        packs = {**{event.pack: event.version for event in self._policies}, **outcome.policy_packs}
        for pack, version in sorted(packs.items()):
            events = sorted(
                {event for event in self._policies if event.pack == pack},
                key=lambda event: (event.level, event.policy, event.urn, event.message),
            )
            broken = any(event.level == "mandatory" for event in events)
            mark = "✗" if broken else "!" if events else "✓"
            result.append(f"    {mark} {pack} v{version.removeprefix('v')}{'' if events else ': no violations'}")
            for event in events:
                where = f"{shown_type(_type_of(event.urn))} ({_name_of(event.urn)})" if event.urn else "the stack"
                result.append(f"        [{event.level}] {event.policy}  {where}")
                result += [f"            {line}" for line in event.message.strip().splitlines()]
        return result

    def _diagnostic_lines(self) -> list[str]:
        if not self._diagnostics:
            return []
        result = ["Diagnostics:"]
        # What names no resource was said by the program, or about the whole: it belongs to the stack.
        root = next((urn for urn, row in self._rows.items() if row.type == ROOT), "")
        groups: dict[str, list[_Diagnostic]] = {}
        for urn, diagnostics in self._diagnostics.items():
            groups.setdefault(urn or root, []).extend(diagnostics)
        for urn, diagnostics in sorted(groups.items()):
            result.append(f"  {shown_type(_type_of(urn))} ({_name_of(urn)}):" if urn else "  the stack:")
            for diagnostic in diagnostics:
                label = "" if diagnostic.severity == "info" else f"{diagnostic.severity}: "
                first, *others = diagnostic.message.split("\n")
                result += [f"    {label}{first}", *(f"    {line}" for line in others)]
        return result

    def _output_lines(self, before: Properties, after: Properties) -> list[str]:
        result: list[str] = []
        for key in sorted({*before, *after}):
            changed = between({key: before[key]} if key in before else {}, {key: after[key]} if key in after else {})
            result += [f"  {line}" for line in changed] or [f"    {key}: {printed(after[key])}"]
        return ["Outputs:", *result] if result else []

    def _counts(self, outcome: OperationOutcome) -> list[str]:
        planning = self._options.planning
        counts = {Op(op): count for op, count in outcome.changes.items() if count}
        replaced = counts.pop(Op.CREATE_REPLACEMENT, 0), counts.pop(Op.DELETE_REPLACED, 0)
        if any(replaced) and Op.REPLACE not in counts:
            counts[Op.REPLACE] = max(replaced)
        result = ["Resources:"]
        for op in Op:
            if op in counts and op is not Op.SAME:
                _, planned, _, done = WORDS[op]
                words = f"to {planned}" if planning else done
                result.append(f"    {SYMBOLS[op]} {counts[op]} {words}")
        if Op.SAME in counts:
            alone = len(counts) == 1 and outcome.error is None
            nothing = "; nothing to change" if planning else "; nothing was changed"
            result.append(f"    {counts[Op.SAME]} unchanged{nothing if alone else ''}")
        if outcome.error is not None:
            after = "nothing was changed" if planning else "what is done is recorded: run it again to go on"
            result.append(f"    failed; {after}")
        return result if len(result) > 1 else [*result, "    none"]

    # ---- inside ----------------------------------------------------------------------------------------------------------------------

    def _row(self, step: StepEvent) -> TreeRow:
        row = self._rows.get(step.urn)
        if row is None:
            row = self._rows[step.urn] = TreeRow(step.urn, step.type)
        resource = step.new or step.old
        if resource is not None:
            row.parent, row.custom = resource.parent, resource.custom
        return row

    def _snapshot(self) -> Snapshot:
        with self._lock:
            now = self._now()
            running = [
                RunningStep(row.op, shown_type(row.type), row.name, row.message, now - row.begun)
                for row in self._rows.values()
                if row.running and row.custom and row.op is not Op.SAME  # a component only waits for what is in it
            ]
            return Snapshot(now - self._begun, self._done, tuple(sorted(running, key=lambda entry: -entry.seconds)))


def _tally(severities: list[Severity]) -> list[str]:
    counts = [(severities.count(severity), severity) for severity in ("error", "warning")]
    return [f"{count} {severity}{'s' if count > 1 else ''}" for count, severity in counts if count]


def _type_of(urn: str) -> str:
    parts = urn.split("::")
    return parts[2].rsplit("$", 1)[-1] if len(parts) > 3 else ""


def _name_of(urn: str) -> str:
    return urn.rsplit("::", 1)[-1]
