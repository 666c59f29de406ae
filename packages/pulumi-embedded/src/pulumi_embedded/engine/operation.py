"""Preview, update, refresh and destroy: from a command line to `deployment.execute` and back to lines, events, history and an end.

Order matters: the passphrase and the configuration are read before anything is changed; the state is saved and the history written
before the summary is sent, because a client asks for both as soon as it has seen the end.
"""

import contextlib
import threading
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from pulumi_embedded.engine import history
from pulumi_embedded.engine.arguments import Arguments, UsageError
from pulumi_embedded.engine.backend import ORGANIZATION
from pulumi_embedded.engine.config import StackValue
from pulumi_embedded.engine.display import DisplayOptions, OperationDisplay
from pulumi_embedded.engine.errors import EngineError
from pulumi_embedded.engine.events import EventStream, Fanout
from pulumi_embedded.engine.interrupt import graceful
from pulumi_embedded.engine.model import Events, Op, OperationOutcome, OperationRequest, PolicyPack, Program
from pulumi_embedded.engine.preview_json import PreviewDigest
from pulumi_embedded.engine.redact import Redactor
from pulumi_embedded.engine.session import EngineHost, SessionStack
from pulumi_embedded.engine.state import StackState
from pulumi_embedded.engine.values import MASK, Properties

Kind = Literal["update", "refresh", "destroy"]
End = Callable[[OperationOutcome, Properties, Properties], None]
"""Called with the outcome, and the stack's outputs before and after."""
Announce = Callable[[str], None]
"""Tells a person something at once."""

CANCELLING = (
    "cancelling: no new step starts; press Ctrl-C again to stop at once (the state is safe, and what is interrupted is repeated by the "
    "next run). Waiting for the running steps to end:"
)
UNCHANGED = frozenset({Op.SAME, Op.READ, Op.REFRESH})
_TITLES = {"update": "Updating", "refresh": "Refreshing", "destroy": "Destroying"}


class OperationFailedError(EngineError):
    """An operation ended badly; its causes have been shown."""


@dataclass(frozen=True)
class OperationRun:
    """One operation on one stack."""

    stack: SessionStack
    arguments: Arguments
    kind: Kind
    dry_run: bool

    @property
    def label(self) -> str:
        return "preview" if self.dry_run and self.kind == "update" else self.kind

    @property
    def title(self) -> str:
        verb = f"Previewing {self.kind}" if self.dry_run else _TITLES[self.kind]
        return f"{verb} ({self.stack.name.stack})"

    def perform(self) -> OperationOutcome:
        """Raises OperationFailedError when it failed."""
        host, arguments = self.stack.host, self.arguments
        config = self.stack.config(show_secrets=True)
        cancel = host.cancellation()
        with self._state(cancel) as state, self._sinks(config) as (events, ends, announce):
            before = state.outputs
            program = self._program(host)

            def first() -> None:
                cancel.set()
                announce(CANCELLING)

            def last() -> None:
                if program is not None:
                    program.stop()

            started = host.now()
            with graceful(first, last, host.abort):
                from pulumi_embedded.engine.deployment import execute

                outcome = execute(
                    self._request(config),
                    state=state,
                    program=program,
                    providers=host.providers(),
                    events=events,
                    stack_outputs=self.stack.outputs_of,
                    cancel=cancel,
                )
            after = before if self.dry_run else state.outputs
            if not self.dry_run:
                state.save()
                self._record(config, outcome, started)
            for end in ends:
                end(outcome, before, after)
        if outcome.error is not None:
            raise OperationFailedError(f"{self.label} failed")
        if arguments.switch("expect-no-changes") and any(count for op, count in outcome.changes.items() if op not in UNCHANGED):
            raise OperationFailedError("no changes were expected but changes " + ("were proposed" if self.dry_run else "occurred"))
        return outcome

    # ---- what it needs ---------------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _state(self, cancel: threading.Event) -> Generator[StackState]:
        if self.dry_run:
            stack = self.stack
            yield StackState.read(stack.path, stack.checked_passphrase, stack.host.now)
        else:
            with self.stack.editing(self.label, cancel.set) as state:
                yield state

    def _request(self, config: Mapping[str, StackValue]) -> OperationRequest:
        arguments, name = self.arguments, self.stack.name
        return OperationRequest(
            kind=self.kind,
            dry_run=self.dry_run,
            organization=ORGANIZATION,
            project=name.project,
            stack=name.stack,
            config={key: value.text for key, value in config.items()},
            secret_keys=tuple(key for key, value in config.items() if value.secret),
            environment=self.stack.host.environment,
            parallel=arguments.number("parallel", 16),
            targets=(*arguments.texts("target"), *arguments.texts("target-replace")),
            target_dependents=arguments.switch("target-dependents"),
            excludes=arguments.texts("exclude"),
            exclude_dependents=arguments.switch("exclude-dependents"),
            replaces=(*arguments.texts("replace"), *arguments.texts("target-replace")),
            refresh=arguments.switch("refresh", default=self.stack.project.refresh_always) and self.kind != "refresh",
            continue_on_error=arguments.switch("continue-on-error"),
            exclude_protected=arguments.switch("exclude-protected"),
            clear_pending_creates=arguments.switch("clear-pending-creates"),
            policy_packs=self._packs(),
            debug=arguments.switch("debug"),
        )

    def _packs(self) -> tuple[PolicyPack, ...]:
        cwd = self.stack.host.cwd
        folders = [Path(cwd, folder).resolve() for folder in self.arguments.texts("policy-pack")]
        configs = [Path(cwd, file).resolve() for file in self.arguments.texts("policy-pack-config")]
        if len(configs) > len(folders):
            raise UsageError("more --policy-pack-config than --policy-pack: they belong together in the order given")
        missing = [str(path) for path in (*folders, *configs) if not path.exists()]
        if missing:
            raise EngineError(f"policy pack or configuration not found: {', '.join(missing)}")
        return tuple(PolicyPack(folder, configs[index] if index < len(configs) else None) for index, folder in enumerate(folders))

    def _program(self, host: EngineHost) -> Program | None:
        if self.kind != "update":
            return None
        from pulumi_embedded.engine import program

        client = self.arguments.text("client")
        if client:
            return program.Inline(client)
        return program.ChildProgram(self.stack.project, host.environment)

    @contextlib.contextmanager
    def _sinks(self, config: Mapping[str, StackValue]) -> Generator[tuple[Events, list[End], Announce]]:
        """Where the events of this operation go, what to call with its outcome, and how to tell something at once."""
        host, arguments = self.stack.host, self.arguments
        shown = {key: MASK if value.secret else value.text for key, value in config.items()}
        debug = arguments.switch("debug")
        sinks: list[Events] = []
        ends: list[End] = []
        streams: list[EventStream] = []
        display: OperationDisplay | None = None
        if arguments.switch("json") and self.dry_run and self.kind == "update":
            digest = PreviewDigest(shown)
            sinks.append(digest)
            ends.append(lambda outcome, before, after: host.json(digest.result(outcome)))
        elif arguments.switch("json"):
            streams.append(EventStream(host.console.line, lambda: None, lambda: host.now().timestamp(), planning=self.dry_run, debug=debug))
        else:
            display = self._display(host, arguments)
            display.begin(self.title, shown if arguments.switch("show-config") else {})
            sinks.append(display)
            ends.append(display.end)
        if arguments.text("event-log"):
            target = arguments.text("event-log")
            streams.append(EventStream.open(target, lambda: host.now().timestamp(), planning=self.dry_run, debug=debug))
        for stream in streams:
            stream.prelude(shown)
            ends.append(lambda outcome, before, after, stream=stream: stream.summary(outcome))
        secrets = [value.text for value in config.values() if value.secret]
        try:
            yield Redactor(Fanout([*sinks, *streams]), secrets), ends, display.announce if display is not None else host.console.error
        finally:
            if display is not None:
                display.stop()
            for stream in streams:
                stream.close()

    def _display(self, host: EngineHost, arguments: Arguments) -> OperationDisplay:
        options = DisplayOptions(
            planning=self.dry_run,
            debug=arguments.switch("debug"),
            diff=arguments.switch("diff"),
            outputs=not arguments.switch("suppress-outputs"),
            progress=not arguments.switch("suppress-progress"),
            show_sames=arguments.switch("show-sames"),
            show_reads=arguments.switch("show-reads"),
        )
        return OperationDisplay(host.console, options)

    def _record(self, config: Mapping[str, StackValue], outcome: OperationOutcome, started: datetime) -> None:
        stack, arguments = self.stack, self.arguments
        seal = stack.config_passphrase().encrypt if any(value.secret for value in config.values()) else str
        update = history.RecordedUpdate(
            kind=self.kind,
            start=started,
            end=stack.host.now(),
            message=arguments.text("message"),
            environment={"exec.kind": arguments.text("exec-kind", "cli")},
            config={
                key: history.ConfigEntry(seal(value.text) if value.secret else value.text, value.secret, value.structured)
                for key, value in config.items()
            },
            result="succeeded" if outcome.error is None else "failed",
            changes={str(op): count for op, count in outcome.changes.items()},
        )
        history.record(stack.backend.history(stack.name), update)


def up(host: EngineHost, arguments: Arguments) -> None:
    _change(host, arguments, "update")


def preview(host: EngineHost, arguments: Arguments) -> None:
    OperationRun(host.stack(arguments), arguments, "update", dry_run=True).perform()


def refresh(host: EngineHost, arguments: Arguments) -> None:
    _change(host, arguments, "refresh")


def destroy(host: EngineHost, arguments: Arguments) -> None:
    stack = _change(host, arguments, "destroy")
    if stack is not None and arguments.switch("remove") and not arguments.switch("preview-only"):
        from pulumi_embedded.engine.verbs_stack import delete

        delete(stack, force=False, keep_config=False)
        host.console.line(f"Stack '{stack.name.stack}' has been removed!")


def _change(host: EngineHost, arguments: Arguments, kind: Kind) -> SessionStack | None:
    """Preview, ask, and carry out, as far as the flags say; None if the person said no."""
    if kind != "update" and arguments.switch("run-program"):
        raise UsageError(f"--run-program is not supported by the embedded engine: a {kind} works on the recorded state alone; leave it out")
    stack = host.stack(arguments)
    if arguments.switch("preview-only"):
        OperationRun(stack, arguments, kind, dry_run=True).perform()
        return stack
    sure, skip = arguments.switch("yes") or arguments.switch("skip-preview"), arguments.switch("skip-preview")
    if not sure and not host.interactive(arguments):
        raise UsageError("--yes or --skip-preview must be passed in to proceed when running in non-interactive mode")
    if not skip:
        OperationRun(stack, arguments, kind, dry_run=True).perform()
    if not sure and not _confirmed(host, kind):
        host.console.line("confirmation declined; nothing was changed")
        return None
    OperationRun(stack, arguments, kind, dry_run=False).perform()
    return stack


def _confirmed(host: EngineHost, kind: Kind) -> bool:
    while True:
        answer = host.console.ask(f"\nDo you want to perform this {kind}? [yes/no] ").lower()
        if answer in ("yes", "y"):
            return True
        if answer in ("no", "n", ""):
            return False
