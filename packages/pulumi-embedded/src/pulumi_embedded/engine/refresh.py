"""Reads every live object and makes the state say what is there: drift is recorded, what is gone is forgotten.

Objects are read in parallel; the state is written in its own order afterwards. The trap: forgetting a resource must also remove it from
what others say they depend on, or the state would no longer be whole.

What counts as a change is what an update of an unchanged program would undo, as the provider's diff tells it with the recorded ignoreChanges
(pulumi/pulumi, pkg/resource/deploy/step.go, RefreshStep): neither a new report of an object about itself, nor what its program leaves to others.
Both are recorded all the same.
"""

import contextlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

from pulumi_embedded.engine.context import Context
from pulumi_embedded.engine.goals import with_ignored
from pulumi_embedded.engine.graph import provider_urn, references
from pulumi_embedded.engine.halt import StepError, Stopped
from pulumi_embedded.engine.model import Op, PendingKind, Resource, StepEvent
from pulumi_embedded.engine.provider import DiffKind, LiveResource, Provider
from pulumi_embedded.engine.provider_instances import Providers
from pulumi_embedded.engine.values import marked_like, plain

_INVERSE: dict[str, DiffKind] = {"add": "delete", "delete": "add"}
_FINISHED_ELSEWHERE: tuple[PendingKind, ...] = ("updating", "deleting", "reading", "importing")


def refresh(context: Context, providers: Providers, cause: Callable[[Exception], str]) -> list[Resource]:
    """All resources as they are now, in the recorded order. Raises Stopped if one could not be read."""
    recorded = context.ledger.recorded
    selected = context.selection.of_state(recorded)
    asked = [resource for resource in recorded if resource.urn in selected and _is_live(resource)]
    with ThreadPoolExecutor(max_workers=max(1, min(context.request.parallel, len(asked) or 1)), thread_name_prefix="refresh") as pool:
        found = dict(zip((resource.key for resource in asked), pool.map(partial(_read, context, providers, cause), asked), strict=True))
    context.halt.check()
    # What was read is the truth now, so of the interrupted operations only creations are still in doubt.
    context.state.clear_pending(_FINISHED_ELSEWHERE)
    kept: list[Resource] = []
    gone: set[str] = set()
    for resource in recorded:
        now = found.get(resource.key, resource)
        if now is None:
            gone.add(resource.urn)
        else:
            kept.append(now)
    return [_written(context, resource, gone) for resource in kept] if gone else kept


def _read(context: Context, providers: Providers, cause: Callable[[Exception], str], resource: Resource) -> Resource | None:
    if context.halt.stopping:
        return resource
    event = StepEvent(op=Op.REFRESH, urn=resource.urn, type=resource.type, provider=resource.provider, old=resource, new=resource)
    context.events.started(event)
    try:
        instance = providers.instance(resource.provider)
        if not instance.configured:
            context.finished(replace(event, op=Op.SAME))
            return resource
        before_inputs, before_outputs = plain(resource.inputs), plain(resource.outputs)
        with context.slots.taken():
            live = instance.provider.read(resource.urn, resource.type, resource.id, before_inputs, before_outputs)
        details = _undone(instance.provider, resource, live) if live else {}
    except Stopped:
        return resource
    except Exception as error:
        context.failed(event, f"refreshing {resource.urn}: {cause(error)}")
        return resource
    if live is None:
        context.state.remove(resource)
        context.finished(replace(event, op=Op.DELETE, new=None))
        return None
    for reason in live.init_errors:
        context.events.diagnostic("warning", f"the refresh found {resource.type} {live.id} unready: {reason}", resource.urn)
    unchanged = live.id == resource.id and live.outputs == before_outputs and live.inputs == before_inputs
    if unchanged and live.init_errors == resource.init_errors:
        context.finished(replace(event, op=Op.SAME))
        return resource
    now = replace(
        resource,
        id=live.id,
        inputs=marked_like(live.inputs, resource.inputs),
        outputs=marked_like(live.outputs, resource.outputs),
        init_errors=live.init_errors,
        modified=context.clock(),
    )
    context.state.put(now)
    context.finished(replace(event, op=Op.UPDATE, new=now, details=details) if details else replace(event, op=Op.SAME, new=now))
    return now


def _undone(provider: Provider, resource: Resource, live: LiveResource) -> dict[str, DiffKind]:
    """What an update would change back, told as what was changed: paths with their kinds."""
    recorded = plain(resource.inputs)
    with contextlib.suppress(StepError):  # what is ignored may be gone
        recorded = with_ignored(recorded, live.inputs, resource)
    diff = provider.diff(resource.urn, resource.type, live.id, live.inputs, live.outputs, recorded, resource.ignore_changes)
    kinds = {path: kind.removesuffix("-replace") for path, kind in sorted(diff.details.items())}
    return {path: _INVERSE.get(kind, "update") for path, kind in kinds.items()}


def _is_live(resource: Resource) -> bool:
    return resource.custom and not (resource.is_provider or resource.external or resource.delete or resource.pending_replacement)


def _written(context: Context, resource: Resource, gone: set[str]) -> Resource:
    """`resource` without references to what is gone."""
    if not references(resource) & gone:
        return resource
    new = replace(
        resource,
        parent="" if resource.parent in gone else resource.parent,
        deleted_with="" if resource.deleted_with in gone else resource.deleted_with,
        dependencies=_without(resource.dependencies, gone),
        property_dependencies={key: _without(urns, gone) for key, urns in resource.property_dependencies.items()},
    )
    if provider_urn(resource.provider) not in gone:
        context.state.put(new)
    return new


def _without(urns: Sequence[str], gone: set[str]) -> tuple[str, ...]:
    return tuple(urn for urn in urns if urn not in gone)
