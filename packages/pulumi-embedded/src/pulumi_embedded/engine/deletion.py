"""Takes resources away: those the program no longer has, those that were replaced, all of them, and those in the way of a replacement.

Always dependants first. What only the state knows (components, providers, resources that are merely read or to be retained) is dropped
without a call, and so is what disappears together with another resource (`deletedWith`).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from pulumi_embedded.engine.callbacks import Callbacks
from pulumi_embedded.engine.context import Context
from pulumi_embedded.engine.graph import dependants, ordered, provider_urn, references, walk_backwards
from pulumi_embedded.engine.halt import StepError, Stopped
from pulumi_embedded.engine.model import Op, Resource, StepEvent
from pulumi_embedded.engine.provider import Properties, ProviderStep
from pulumi_embedded.engine.provider_instances import Providers
from pulumi_embedded.engine.targets import with_requirements
from pulumi_embedded.engine.values import UNKNOWN, plain

ControlFor = Callable[[str, float], ProviderStep]


class Remover:
    def __init__(
        self, context: Context, providers: Providers, callbacks: Callbacks, control: ControlFor, cause: Callable[[Exception], str]
    ) -> None:
        self._context = context
        self._providers = providers
        self._callbacks = callbacks
        self._control = control
        self._cause = cause

    # ---- what to remove --------------------------------------------------------------------------------------------------------------

    def remove_unregistered(self) -> None:
        """After the program: everything that waits for its deletion, and every recorded resource that was not registered.

        Raises Stopped when something could not be removed; what is protected stops everything before anything is removed.
        """
        ledger = self._context.ledger
        gone = [resource for resource in ledger.recorded if not resource.delete and not ledger.claimed(resource.urn)]
        self._remove([*self._chosen([r for r in gone if r.urn not in ledger.displaced]), *ledger.replaced])
        for resource in gone:
            if resource.urn in ledger.displaced:
                self._context.state.remove(resource)

    def remove_everything(self) -> None:
        """A destroy: all resources that the selection takes, protected ones and what they stand on left out if the request says so."""
        ledger = self._context.ledger
        recorded = ledger.recorded
        chosen = self._chosen([resource for resource in recorded if not resource.delete])
        if self._context.request.exclude_protected:
            kept = with_requirements(recorded, {resource.urn for resource in recorded if resource.protect})
            chosen = [resource for resource in chosen if resource.urn not in kept]
        self._remove([*chosen, *(r for r in ledger.replaced if self._context.selection.everything or r.urn in {c.urn for c in chosen})])

    def displace(self, root: Resource) -> None:
        """Delete a resource before its replacement is made, and before it whatever would have to be replaced because of it."""
        context = self._context
        affected = self._affected(root)
        doomed = [resource for resource in context.ledger.old.values() if resource.urn in affected]
        self._refuse_protected(doomed)
        for resource in reversed(ordered(doomed)):
            self._one(resource, Op.DELETE_REPLACED, {}, to_be_made_again=True)
            context.ledger.displaced[resource.urn] = affected[resource.urn]
        self._one(root, Op.DELETE_REPLACED, {}, to_be_made_again=True)

    # ---- how -------------------------------------------------------------------------------------------------------------------------

    def _chosen(self, resources: Sequence[Resource]) -> list[Resource]:
        """What the selection takes of `resources`. Raises Stopped if that would take the ground from under something that stays."""
        context = self._context
        if context.selection.everything:
            return list(resources)
        selected = context.selection.of_state(context.ledger.recorded)
        chosen = [resource for resource in resources if resource.urn in selected]
        urns = {resource.urn for resource in chosen}
        live = [r for r in context.ledger.recorded if not r.delete and r.urn not in urns]
        if context.request.excludes:
            kept = with_requirements(context.ledger.recorded, {resource.urn for resource in live if self._as_recorded(resource.urn)})
            return [resource for resource in chosen if resource.urn not in kept]
        stranded = {r.urn: sorted(references(context.ledger.new.get(r.urn, r)) & urns) for r in live}
        for urn, needs in sorted(stranded.items()):
            if needs:
                context.report(
                    f"Cannot delete '{needs[0]}' without also deleting what depends on it, '{urn}'; "
                    "target that as well, or pass --target-dependents",
                    needs[0],
                )
        context.halt.check()
        return chosen

    def _as_recorded(self, urn: str) -> bool:
        """Whether a resource stays what it was, and so needs what it needed, its default provider too."""
        ledger = self._context.ledger
        return not ledger.claimed(urn) or ledger.current_name(urn) in ledger.untouched

    def _remove(self, resources: Sequence[Resource]) -> None:
        context = self._context
        self._refuse_protected([resource for resource in resources if not resource.delete])
        going = {resource.urn: resource for resource in resources}

        def visit(resource: Resource) -> bool:
            if context.halt.stopping:
                return False
            try:
                self._one(resource, _operation(resource), going)
            except Stopped:
                return False
            except StepError as error:
                context.report(str(error), resource.urn)
                return False
            return True

        walk_backwards(ordered(resources), context.request.parallel, visit)
        context.halt.check()

    def _refuse_protected(self, resources: Iterable[Resource]) -> None:
        protected = [resource for resource in resources if resource.protect]
        for resource in protected:
            self._context.report(
                f'resource "{resource.urn}" cannot be deleted\nbecause it is protected. To unprotect the resource, either remove the '
                "`protect` flag from the resource in your Pulumi program and run `pulumi up`, or use the command:\n"
                f"`pulumi state unprotect '{resource.urn}'`",
                resource.urn,
            )
        if protected:
            raise Stopped

    def _one(self, resource: Resource, op: Op, going: dict[str, Resource], *, to_be_made_again: bool = False) -> None:
        context = self._context
        event = StepEvent(
            op=op, urn=resource.urn, type=resource.type, provider=resource.provider, old=resource, quiet=resource.is_default_provider
        )
        context.events.started(event)
        self._callbacks.run_hooks("before_delete", resource, resource)
        if not context.preview and self._needs_call(resource, going):
            with context.slots.taken():
                context.state.begin("deleting", resource)
                try:
                    self._providers.instance(resource.provider).provider.delete(
                        resource.urn,
                        resource.type,
                        resource.id,
                        plain(resource.inputs),
                        plain(resource.outputs),
                        self._control(resource.urn, resource.custom_timeouts.get("delete", 0.0)),
                    )
                except Exception as error:
                    context.state.abandon(resource)
                    context.failed(event, f"deleting {resource.urn}: {self._cause(error)}")
                    raise Stopped from error
        if to_be_made_again:
            # Its entry holds the place, because others still refer to it.
            context.state.put(replace(resource, pending_replacement=True))
        else:
            context.state.remove(resource)
        self._callbacks.run_hooks("after_delete", resource, resource)
        context.finished(event)

    def _needs_call(self, resource: Resource, going: dict[str, Resource]) -> bool:
        """Whether there is an object of its own that only the provider can delete."""
        if not resource.custom or resource.is_provider or resource.external or resource.retain_on_delete or resource.pending_replacement:
            return False
        host = going.get(resource.deleted_with)
        # It disappears with its host, or with the host's host, but only if that really goes.
        return host is None or not (self._needs_call(host, going) or (not host.retain_on_delete and host.deleted_with in going))

    def _affected(self, root: Resource) -> dict[str, tuple[str, ...]]:
        """URN -> why, of the recorded resources that must be replaced because `root` is deleted first (pkg/resource/deploy:
        calculateDependentReplacements): those managed by a provider in the set, and those whose provider says so when told that the
        inputs which depend on the set are not known yet."""
        recorded = list(self._context.ledger.old.values())
        candidates = dependants(recorded, [root.urn])
        replaced: dict[str, tuple[str, ...]] = {root.urn: ()}
        for resource in ordered([r for r in recorded if r.urn in candidates]):
            if resource.custom and not resource.external and not self._context.ledger.claimed(resource.urn):
                reasons = self._reasons(resource, replaced)
                if reasons:
                    replaced[resource.urn] = reasons
        del replaced[root.urn]
        return replaced

    def _reasons(self, resource: Resource, replaced: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
        if provider_urn(resource.provider) in replaced:
            return ("provider",)
        inputs: Properties = plain(resource.inputs)
        unknown = {
            key: UNKNOWN for key, urns in resource.property_dependencies.items() if key in inputs and any(urn in replaced for urn in urns)
        }
        if not unknown:
            return ()
        if resource.is_provider:
            return self._providers.of_type(resource.type, resource.urn).diff_config(resource.urn, inputs, {**inputs, **unknown}).replaces
        instance = self._providers.instance(resource.provider)
        if not instance.configured:
            return ()
        return instance.provider.diff(
            resource.urn, resource.type, resource.id, inputs, plain(resource.outputs), {**inputs, **unknown}, resource.ignore_changes
        ).replaces


def _operation(resource: Resource) -> Op:
    """How the resource leaves the state: what was only read is forgotten."""
    if resource.delete:
        return Op.DELETE_REPLACED
    return Op.DISCARD if resource.external else Op.DELETE


def renamed_references(resource: Resource, names: dict[str, str]) -> Resource:
    """`resource` with its references under the present names of what it refers to; itself if none has changed."""
    if not references(resource) & names.keys():
        return resource

    def now(urn: str) -> str:
        return names.get(urn, urn)

    provider = resource.provider
    if provider_urn(provider) in names:
        provider = f"{names[provider_urn(provider)]}::{provider.rsplit('::', 1)[1]}"
    return replace(
        resource,
        parent=now(resource.parent),
        deleted_with=now(resource.deleted_with),
        provider=provider,
        dependencies=tuple(now(urn) for urn in resource.dependencies),
        property_dependencies={key: tuple(now(urn) for urn in urns) for key, urns in resource.property_dependencies.items()},
    )
