"""Carries out one decision: hooks, the provider's call, the state before and after it, and the events around it.

The state learns of a provider call before it begins and of its end before anyone else does, so that a kill at any moment leaves either
the old entry, the new one, or a pending operation.
"""

import logging
import threading
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from pulumi_embedded.engine.callbacks import Callbacks
from pulumi_embedded.engine.context import Context
from pulumi_embedded.engine.deletion import Remover
from pulumi_embedded.engine.goals import Goal
from pulumi_embedded.engine.halt import StepError, Stopped, UnsupportedError
from pulumi_embedded.engine.model import Op, PendingKind, Resource, StepEvent
from pulumi_embedded.engine.provider import PartialFailureError, Properties, ProviderError
from pulumi_embedded.engine.provider_instances import Instance
from pulumi_embedded.engine.steps import StepDecision
from pulumi_embedded.engine.values import UNKNOWN, marked_like, plain, with_secret_keys

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Control:
    """What a provider may use while it works on one resource: implements provider.Step."""

    context: Context
    urn: str
    timeout: float = 0.0

    @property
    def preview(self) -> bool:
        return self.context.preview

    @property
    def repeated(self) -> bool:
        return self.urn in self.context.interrupted

    def status(self, message: str) -> None:
        self.context.events.status(self.urn, message)

    def warn(self, message: str) -> None:
        self.context.events.diagnostic("warning", message, self.urn)

    def cancelled(self) -> bool:
        return self.context.halt.cancel.is_set()


@dataclass(frozen=True, slots=True)
class Made:
    """What a provider's call has left: the object's id, its outputs, and why it is not what was asked for, if it is not."""

    id: str
    outputs: Properties
    init_errors: tuple[str, ...] = ()


class Executor:
    def __init__(self, context: Context, callbacks: Callbacks, remover: Remover) -> None:
        self._context = context
        self._callbacks = callbacks
        self._remover = remover
        self._lock = threading.Lock()
        self._open: dict[str, StepEvent] = {}

    def carry_out(self, decision: StepDecision, goal: Goal, old: Resource | None, instance: Instance | None) -> Resource:
        """Answers the resource as it is now. Raises Stopped when it failed (which has been reported) and StepError when it must not be."""
        if decision.op is Op.SAME and old is not None:
            return self._same(goal, old)
        if decision.op is Op.UPDATE and old is not None:
            return self._update(decision, goal, old, instance)
        if decision.op is Op.REPLACE and old is not None:
            return self._replace(decision, goal, old, instance)
        if decision.op is Op.IMPORT:
            return self._import(goal, instance)
        event = self._event(Op.CREATE, goal, old)
        return self._create(event, goal, old, instance)

    def leave(self, goal: Goal, old: Resource) -> Resource:
        """A resource that the selection leaves alone: the recorded entry, under its present name."""
        kept = old if old.urn == goal.wanted.urn else replace(old, urn=goal.wanted.urn, parent=goal.wanted.parent)
        if kept is not old:
            self._context.state.put(kept, was=old)
        event = self._event(Op.SAME, Goal(kept, quiet=goal.quiet), old)
        self._context.events.started(event)
        self._context.finished(replace(event, new=kept))
        self._context.ledger.record(kept)
        return kept

    def register_outputs(self, urn: str, outputs: Properties) -> None:
        context = self._context
        if urn in context.ledger.skipped:
            return
        resource = context.ledger.new.get(urn)
        if resource is None:
            raise StepError(f"outputs were registered for {urn}, which this program has not registered", urn)
        if urn not in context.ledger.untouched and outputs != resource.outputs:
            resource = replace(resource, outputs=outputs, modified=context.clock())
            context.ledger.record(resource)
            context.state.put(resource)
        self._close(urn, resource)

    def close_components(self) -> None:
        """Components that never register outputs are finished when the program is."""
        for urn in list(self._open):
            self._close(urn, self._context.ledger.new[urn])

    # ---- operations ------------------------------------------------------------------------------------------------------------------

    def _same(self, goal: Goal, old: Resource) -> Resource:
        new = replace(
            goal.wanted,
            id=old.id,
            outputs=old.outputs,
            import_id=goal.wanted.import_id or old.import_id,
            created=old.created,
            modified=old.modified,
        )
        event = self._event(Op.SAME, goal, old)
        self._context.events.started(event)
        if new != old:
            self._context.state.put(new, was=old if old.urn != new.urn else None)
        return self._finish(event, new)

    def _create(self, event: StepEvent, goal: Goal, old: Resource | None, instance: Instance | None) -> Resource:
        wanted, context = goal.wanted, self._context
        context.events.started(event)
        if not wanted.custom:
            made = Made("", old.outputs if old is not None else {})
        elif wanted.is_provider:
            made = Made(UNKNOWN if context.preview else str(uuid.uuid4()), wanted.inputs)
        elif not self._usable(wanted, instance):
            made = Made("", _provider(instance).provider.plan(wanted.type, plain(wanted.inputs), None))
        else:
            provider, control = _provider(instance).provider, Control(context, wanted.urn, wanted.custom_timeouts.get("create", 0.0))

            def call() -> Made:
                return Made(*provider.create(wanted.urn, wanted.type, wanted.name, plain(wanted.inputs), control))

            made = self._operate("creating", "create", event, wanted, old, call)
        return self._made(event, goal, old, made, "create", created=True)

    def _update(self, decision: StepDecision, goal: Goal, old: Resource, instance: Instance | None) -> Resource:
        wanted, context = goal.wanted, self._context
        event = self._event(Op.UPDATE, goal, old, decision)
        context.events.started(event)
        if not wanted.custom:
            made = Made("", old.outputs)
        elif wanted.is_provider:
            made = Made(old.id, wanted.inputs)
        elif not self._usable(wanted, instance):
            made = Made(old.id, _provider(instance).provider.plan(wanted.type, plain(wanted.inputs), plain(old.outputs)))
        else:
            provider, control = _provider(instance).provider, Control(context, wanted.urn, wanted.custom_timeouts.get("update", 0.0))

            def call() -> Made:
                outputs = provider.update(
                    wanted.urn, wanted.type, old.id, plain(old.inputs), plain(old.outputs), plain(wanted.inputs), control
                )
                return Made(old.id, outputs)

            made = self._operate("updating", "update", event, replace(wanted, id=old.id, outputs=old.outputs), old, call)
        return self._made(event, goal, old, made, "update")

    def _replace(self, decision: StepDecision, goal: Goal, old: Resource, instance: Instance | None) -> Resource:
        context = self._context
        displaced = goal.wanted.urn in context.ledger.displaced
        if old.protect and not displaced:
            raise StepError(
                f'unable to replace resource "{goal.wanted.urn}"\nas it is currently marked for protection. To unprotect the resource, '
                "remove the `protect` flag from the resource in your Pulumi program and run `pulumi up`",
                goal.wanted.urn,
            )
        whole = self._event(Op.REPLACE, goal, old, decision)
        part = replace(whole, op=Op.CREATE_REPLACEMENT)
        if decision.delete_first:
            if not displaced:
                self._remover.displace(old)
            self._around(whole)
            return self._create(part, goal, replace(old, pending_replacement=True), instance)
        new = self._create(part, goal, old, instance)
        self._around(replace(whole, new=new))
        return new

    def _import(self, goal: Goal, instance: Instance | None) -> Resource:
        wanted, context = goal.wanted, self._context
        event = self._event(Op.IMPORT, goal, None)
        context.events.started(event)
        if not wanted.custom or wanted.is_provider:
            raise UnsupportedError("the import of a component or provider", wanted.urn)
        if not self._usable(wanted, instance):
            raise StepError(f"{wanted.name} cannot be imported: the configuration of its provider is not known yet", wanted.urn)
        provider, inputs = _provider(instance).provider, plain(wanted.inputs)

        def call() -> Made:
            live = provider.read(wanted.urn, wanted.type, wanted.import_id, inputs, {})
            if live is None:
                raise ProviderError(f"resource '{wanted.import_id}' does not exist")
            diff = provider.diff(wanted.urn, wanted.type, live.id, live.inputs, live.outputs, inputs, wanted.ignore_changes)
            if diff.details:
                paths = ", ".join(sorted(diff.details))
                raise ProviderError(
                    f"inputs to import do not match the existing resource '{wanted.import_id}' (they differ at {paths}); "
                    "importing must not change it: make the program say what exists, and change it by a later update"
                )
            return Made(live.id, live.outputs)

        made = self._operate("importing", "", event, replace(wanted, id=wanted.import_id), None, call)
        return self._made(event, goal, None, made, "", created=True)

    # ---- around a provider's call ----------------------------------------------------------------------------------------------------

    def _operate(
        self, pending: PendingKind, hook: str, event: StepEvent, resource: Resource, old: Resource | None, call: Callable[[], Made]
    ) -> Made:
        context = self._context
        if hook:
            try:
                self._callbacks.run_hooks(f"before_{hook}", resource, old if hook == "update" else None)
            except StepError as error:
                context.failed(event, str(error))
                raise Stopped from error
        with context.slots.taken():
            context.state.begin(pending, resource)
            try:
                return call()
            except PartialFailureError as error:
                return Made(error.id, error.outputs, error.reasons)
            except Exception as error:
                # A creation that was interrupted before stays known: what it made may be why this one failed (pulumi/pulumi keeps it, too:
                # pkg/engine/journal.go, snap).
                if not (pending == "creating" and resource.urn in context.interrupted):
                    context.state.abandon(resource)
                context.failed(event, f"{pending} urn:{resource.urn.removeprefix('urn:')}: {cause(error)}")
                raise Stopped from error

    def _made(self, event: StepEvent, goal: Goal, old: Resource | None, made: Made, hook: str, *, created: bool = False) -> Resource:
        wanted, context = goal.wanted, self._context
        now = "" if context.preview else context.clock()
        outputs = made.outputs if made.outputs is wanted.inputs else marked_like(made.outputs, wanted.inputs)
        new = replace(
            wanted,
            id=made.id,
            outputs=with_secret_keys(outputs, wanted.additional_secret_outputs),
            init_errors=made.init_errors,
            created=now if created or old is None else old.created,
            modified=now,
        )
        if event.op is Op.CREATE_REPLACEMENT and old is not None and not old.pending_replacement:
            doomed = replace(old, delete=True)
            context.state.put(doomed, was=old)
            context.ledger.replace(doomed)
            context.state.put(new)
        else:
            context.state.put(new, was=old if old is not None and old.urn != new.urn else None)
        if made.init_errors:
            context.ledger.record(new)
            context.failed(replace(event, new=new), _partly(new, made.init_errors))
            raise Stopped
        if hook and wanted.custom:
            self._callbacks.run_hooks(f"after_{hook}", new, old if hook == "update" else None)
        return self._finish(event, new)

    def _finish(self, event: StepEvent, new: Resource) -> Resource:
        event = replace(event, new=new)
        self._context.ledger.record(new)
        if new.custom:
            self._context.finished(event)
        else:
            with self._lock:
                self._open[new.urn] = event
        return new

    def _close(self, urn: str, resource: Resource) -> None:
        with self._lock:
            event = self._open.pop(urn, None)
        if event is not None:
            self._context.finished(replace(event, new=resource))

    def _around(self, event: StepEvent) -> None:
        self._context.events.started(event)
        self._context.finished(event)

    def _usable(self, wanted: Resource, instance: Instance | None) -> bool:
        """Whether the provider may be asked to act. Outside a preview everything is known, so it always must be."""
        if _provider(instance).configured:
            return True
        if self._context.preview:
            return False
        raise StepError(f"the provider of {wanted.name} is not configured: its configuration holds values that are not known", wanted.urn)

    def _event(self, op: Op, goal: Goal, old: Resource | None, decision: StepDecision | None = None) -> StepEvent:
        wanted = goal.wanted
        return StepEvent(
            op=op,
            urn=wanted.urn,
            type=wanted.type,
            provider=wanted.provider,
            old=old,
            new=wanted,
            details=decision.diff.details if decision is not None else {},
            replaces=decision.replaces if decision is not None else (),
            quiet=goal.quiet,
        )


def cause(error: Exception) -> str:
    """The text of a failure; what is not a provider's own message names its kind, and its trace goes to the debug log."""
    if isinstance(error, ProviderError | StepError):
        return str(error)
    log.debug("provider failed", exc_info=error)
    return f"{type(error).__name__}: {error}"


def _partly(resource: Resource, reasons: Sequence[str]) -> str:
    return f"{resource.name} was created or updated but is not ready, and is updated again by the next run: " + "; ".join(reasons)


def _provider(instance: Instance | None) -> Instance:
    if instance is None:
        raise StepError("a custom resource without a provider")
    return instance
