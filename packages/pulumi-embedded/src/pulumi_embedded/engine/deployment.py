"""One operation from its request to its outcome: puts the parts together and decides the order in which they act.

Update: refresh if asked, then the program registers while the packs look on, then the packs see the whole, then what is left over is
removed (while the program still waits, because delete hooks are its functions), then the program is released. Nothing is removed after
an error of any kind.
"""

import gc
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pulumi_embedded.engine.callbacks import Callbacks
from pulumi_embedded.engine.construct import Components, Functions
from pulumi_embedded.engine.context import Context, Slots, Unwritten
from pulumi_embedded.engine.deletion import Remover, renamed_references
from pulumi_embedded.engine.execution import Control, Executor, cause
from pulumi_embedded.engine.halt import Halt, StepError, Stopped
from pulumi_embedded.engine.model import (
    Events,
    Op,
    OperationOutcome,
    OperationRequest,
    Program,
    ProgramResult,
    ProviderFactories,
    Resource,
    StackOutputs,
    State,
)
from pulumi_embedded.engine.monitor import EngineService, Monitor, MonitorServer
from pulumi_embedded.engine.policy import Policies
from pulumi_embedded.engine.provider_instances import Providers
from pulumi_embedded.engine.refresh import refresh
from pulumi_embedded.engine.registration import Registrar
from pulumi_embedded.engine.resources import OperationResources
from pulumi_embedded.engine.targets import Selection, absent
from pulumi_embedded.engine.urns import Namer

# An operation makes many objects that live to its end; collecting rarely saves a fifth of the CPU time (docs/benchmarks.md).
_COLLECTION: Final = (20_000, 20, 20)
_POLL_SECONDS: Final = 0.1
_RELEASE_SECONDS: Final = 30


def execute(
    request: OperationRequest,
    *,
    state: State,
    program: Program | None,
    providers: ProviderFactories,
    events: Events,
    stack_outputs: StackOutputs,
    cancel: threading.Event,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> OperationOutcome:
    """Perform the operation. Never raises for a failure of the stack: that is in the outcome, its causes in the events.

    `cancel` may be set at any time by anyone: no new step starts, steps under way are told, the program is stopped, the state is whole.
    """
    started = time.monotonic()
    context = Context(
        request=request,
        state=Unwritten(state) if request.dry_run else state,
        events=events,
        halt=(halt := Halt(cancel, continue_on_error=request.continue_on_error)),
        ledger=OperationResources(state.resources),
        selection=Selection.of(request),
        slots=Slots(request.parallel, halt),
        namer=Namer(request.stack, request.project),
        clock=lambda: clock().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        directory=program.directory if program is not None else Path.cwd(),
    )
    versions: dict[str, str] = {}
    loaded = Providers(providers, context.ledger)
    with _collecting_rarely():
        try:
            _warn_of_pending(context)
            context = replace(context, interrupted=_interrupted(state))
            if request.refresh or request.kind == "refresh":
                context = _refreshed(context, loaded)
                loaded.follow(context.ledger)
            if request.kind == "update":
                if program is None:
                    raise StepError("an update needs a program")
                _refuse_missing(context, absent(request.replaces, (resource.urn for resource in context.ledger.recorded)))
                versions = _Update(context, loaded, program, stack_outputs).run()
            elif request.kind == "destroy":
                _destroy(context, loaded)
        except Stopped:
            pass
        except StepError as error:
            context.report(str(error), error.urn)
        finally:
            _follow_renames(context)
            loaded.close()
    return OperationOutcome(
        error=context.halt.error,
        changes=context.ledger.counts,
        policy_packs=dict(sorted(versions.items())),
        duration=time.monotonic() - started,
    )


class _Update:
    """The program's part of an operation."""

    def __init__(self, context: Context, providers: Providers, program: Program, stack_outputs: StackOutputs) -> None:
        self._context = context
        self._program = program
        self._server = MonitorServer(context.request.parallel)
        self._callbacks = Callbacks(context)
        self._policies = Policies(context, self._server.address)
        self._remover = _remover(context, providers, self._callbacks)
        self._executor = Executor(context, self._callbacks, self._remover)
        registrar = Registrar(context, providers, self._callbacks, self._policies, self._executor, stack_outputs)
        self._monitor = Monitor(
            context,
            registrar,
            Components(context, providers, registrar),
            Functions(context, providers, registrar),
            self._callbacks,
        )
        self._server.serve(self._monitor, EngineService(context))

    def run(self) -> dict[str, str]:
        """Name -> version of the policy packs. Raises Stopped after a failure."""
        with ExitStack() as ending:
            ending.callback(self._policies.close)
            ending.callback(self._server.stop)
            running = _Running(self._program, self._server.address, self._context, self._monitor.finished)
            ending.callback(running.join)
            ending.callback(self._monitor.released.set)
            ending.callback(self._callbacks.close)
            ending.callback(self._monitor.drain)
            running.wait()
            self._executor.close_components()
            self._after_the_program(running.result)
            return self._policies.versions

    def _after_the_program(self, result: ProgramResult | None) -> None:
        context = self._context
        if result is not None and result.error is not None:
            context.halt.fail("the program failed" if context.halt.error is None else context.halt.error, fatal=True)
        # With --continue-on-error a failure lets registrations go on, but nothing is judged or removed after one.
        if context.halt.error is not None:
            raise Stopped
        known = [*(resource.urn for resource in context.ledger.recorded), *context.ledger.new, *context.ledger.skipped]
        _refuse_missing(context, context.selection.missing(known))
        self._policies.review_stack(list(context.ledger.new.values()), next(iter(context.root), ""))
        self._remover.remove_unregistered()


class _Running:
    """The program on a thread of its own, and who waits for it."""

    def __init__(self, program: Program, address: str, context: Context, finished: threading.Event) -> None:
        self.result: ProgramResult | None = None
        self._program = program
        self._context = context
        self._finished = finished
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(address,), name="program", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Until the program has registered everything, has ended, or is to be stopped."""
        while not self._finished.wait(_POLL_SECONDS):
            if self._context.halt.cancel.is_set():
                self._program.stop()
                return

    def join(self) -> None:
        """Until it has ended; one that does not, although it was released, is stopped."""
        if not self._ended.wait(0 if self._context.halt.cancel.is_set() else _RELEASE_SECONDS):
            self._program.stop()
            self._ended.wait(_RELEASE_SECONDS)

    def _run(self, address: str) -> None:
        try:
            self.result = self._program.run(address, self._context.request, self._context.events)
        except Exception as error:
            self._context.report(f"the program could not be run: {type(error).__name__}: {error}", fatal=True)
            self.result = ProgramResult(str(error))
        finally:
            self._ended.set()
            self._finished.set()


def _refuse_missing(context: Context, urns: Sequence[str]) -> None:
    """Raises Stopped where the user named resources that there are not."""
    for urn in urns:
        context.report(f"Target '{urn}' could not be found in the stack. Did you forget to escape $ in your shell?", fatal=True)
    if urns:
        raise Stopped


def _destroy(context: Context, providers: Providers) -> None:
    _refuse_missing(context, context.selection.missing(resource.urn for resource in context.ledger.recorded))
    _remover(context, providers, Callbacks(context)).remove_everything()


def _remover(context: Context, providers: Providers, callbacks: Callbacks) -> Remover:
    return Remover(context, providers, callbacks, lambda urn, timeout: Control(context, urn, timeout), cause)


def _refreshed(context: Context, providers: Providers) -> Context:
    """The context of what comes after a refresh: it starts from what was found, and goes on counting.

    Before an update or a destroy only what is gone is counted here. What is the same would count twice; what has other inputs is counted
    by the step that repairs it; and what merely reports another status needs no step: an update that has nothing to do must say so.
    """
    ledger = OperationResources(refresh(context, providers, cause))
    uncounted = () if context.request.kind == "refresh" else (Op.SAME, Op.UPDATE)
    ledger.count_all({op: count for op, count in context.ledger.counts.items() if op not in uncounted})
    return replace(context, ledger=ledger)


def _warn_of_pending(context: Context) -> None:
    if context.request.clear_pending_creates:
        context.state.clear_pending(["creating"])
    pending = [
        operation for operation in context.state.pending if not (context.request.clear_pending_creates and operation.kind == "creating")
    ]
    if pending:
        lines = "\n".join(f"  * {operation.resource.urn}, interrupted while {operation.kind}" for operation in pending)
        context.events.diagnostic(
            "warning",
            f"Attempting to deploy or update resources with {len(pending)} pending operations from previous deployment.\n{lines}\n"
            "These resources are in an unknown state because the previous run was interrupted while changing them. Creations are "
            "repeated, and a provider may refuse what exists; a refresh with --clear-pending-creates forgets those that are not wanted any "
            "more.",
        )


def _interrupted(state: State) -> dict[str, Resource]:
    return {operation.resource.urn: operation.resource for operation in state.pending if operation.kind == "creating"}


def _follow_renames(context: Context) -> None:
    """Resources that this operation left alone must refer to renamed ones by their present names."""
    names = {old: new for old, new in context.ledger.renamed.items() if new in context.ledger.new}
    if not names:
        return
    for resource in context.state.resources:
        now = renamed_references(resource, names)
        if now is not resource:
            context.state.put(now)


@contextmanager
def _collecting_rarely() -> Generator[None]:
    before = gc.get_threshold()
    gc.set_threshold(*(max(pair) for pair in zip(before, _COLLECTION, strict=True)))
    try:
        yield
    finally:
        gc.set_threshold(*before)
