"""Registering resources: from a request to the resource as it is afterwards. Everything that makes resources comes through here:
the program, component providers, and the engine itself for default providers.

Called from many threads at once, each holding one request. The trap: a failure that has been reported travels on as Stopped, and must
not be reported again.
"""

from dataclasses import dataclass, replace

from pulumi.runtime.proto import resource_pb2

from pulumi_embedded.engine.callbacks import Callbacks
from pulumi_embedded.engine.changes import changes
from pulumi_embedded.engine.context import Context
from pulumi_embedded.engine.execution import Executor, cause
from pulumi_embedded.engine.goals import Goal, goal_of, refuse_unsupported, with_ignored
from pulumi_embedded.engine.graph import provider_urn, references
from pulumi_embedded.engine.halt import StepError, Stopped, UnsupportedError
from pulumi_embedded.engine.model import Op, Resource, StackOutputs, StepEvent
from pulumi_embedded.engine.paths import PathError
from pulumi_embedded.engine.policy import Policies
from pulumi_embedded.engine.provider import CheckResult, DiffResult, Properties, ProviderError
from pulumi_embedded.engine.provider_instances import Defaults, Instance, Providers, default_name
from pulumi_embedded.engine.steps import NO_CHANGE, Forced, decide
from pulumi_embedded.engine.targets import matcher
from pulumi_embedded.engine.urns import PROVIDER_PREFIX, ROOT_TYPE, STACK_REFERENCE_TYPE, package_of
from pulumi_embedded.engine.values import (
    UNKNOWN,
    copied,
    from_struct,
    has_secret,
    has_unknown,
    marked_like,
    plain,
    secret,
    to_struct,
    with_secret_keys,
)

Request = resource_pb2.RegisterResourceRequest


@dataclass(frozen=True, slots=True)
class RegisteredResource:
    """`skipped`: the selection left its creation out, so nothing about it is known."""

    resource: Resource
    skipped: bool = False


class Registrar:
    def __init__(
        self,
        context: Context,
        providers: Providers,
        callbacks: Callbacks,
        policies: Policies,
        executor: Executor,
        stack_outputs: StackOutputs,
    ) -> None:
        self._context = context
        self._providers = providers
        self._callbacks = callbacks
        self._policies = policies
        self._executor = executor
        self._stack_outputs = stack_outputs
        self._defaults = Defaults(self._register_default)
        self._component_providers: dict[str, dict[str, str]] = {}
        self._asked_to_replace = matcher(context.request.replaces)

    # ---- the program's requests ------------------------------------------------------------------------------------------------------

    def urn_of(self, request: Request) -> str:
        return self._context.namer.urn(request.type, request.name, self._parent_of(request))

    def register(self, request: Request, *, transformed: bool = False) -> RegisteredResource:
        """Raises Stopped when it failed or nothing new may begin, StepError for a failure that has not been reported yet."""
        self._context.halt.check()
        request.parent = self._parent_of(request)
        urn = self._context.namer.urn(request.type, request.name, request.parent)
        if not transformed:
            self._callbacks.transform(request, urn)
        refuse_unsupported(request, urn)
        return self._claimed(request, urn)

    def prepare_remote(self, request: Request) -> str:
        """What comes before a remote component is constructed: its transforms and its refusals. Answers its URN."""
        self._context.halt.check()
        request.parent = self._parent_of(request)
        urn = self.urn_of(request)
        self._callbacks.transform(request, urn)
        refuse_unsupported(request, urn)
        return urn

    def read(self, request: resource_pb2.ReadResourceRequest) -> Resource:
        """`Resource.get` and stack references: an entry of the state that this stack does not manage."""
        context = self._context
        context.halt.check()
        parent = request.parent or self._root
        urn = context.namer.urn(request.type, request.name, parent)
        if request.packageRef:
            raise UnsupportedError("a parameterized package", urn)
        if not context.ledger.claim(urn):
            raise _duplicate(urn)
        inputs = from_struct(request.properties)
        wanted = Resource(
            urn=urn,
            type=request.type,
            custom=True,
            external=True,
            id=request.id,
            inputs=inputs,
            parent=parent,
            dependencies=tuple(sorted(set(request.dependencies))),
            additional_secret_outputs=tuple(sorted(set(request.additionalSecretOutputs))),
        )
        old = context.ledger.old.get(urn)
        if old is not None and not old.external and old.id != request.id:
            raise StepError(
                f"{request.name} is managed by this stack as '{old.id}' and cannot be read as '{request.id}' at the same time; "
                "remove it in one update, or give what is read another name",
                urn,
            )
        if request.type == STACK_REFERENCE_TYPE:
            wanted = self._referenced_stack(wanted)
        else:
            package = package_of(request.type)
            reference = request.provider or self.provider_below(parent, package) or self.default_provider(package, request.version)
            wanted = self._read_live(replace(wanted, provider=reference))
        event = StepEvent(op=Op.READ, urn=urn, type=request.type, provider=wanted.provider, old=old, new=wanted)
        context.events.started(event)
        context.ledger.record(wanted)
        if old is None or replace(old, created="", modified="") != wanted:
            now = context.clock()
            context.state.put(replace(wanted, created=old.created if old is not None else now, modified=now))
        context.finished(event)
        return wanted

    def outputs(self, urn: str, outputs: Properties) -> None:
        self._executor.register_outputs(urn, outputs)

    def default_provider(self, package: str, version: str) -> str:
        """The reference of the default provider of a package, which is registered if it is the first to be asked for."""
        return self._defaults.reference(package, version)

    def provider_below(self, parent: str, package: str) -> str:
        """The reference of the provider that components above have been given for `package`, or nothing."""
        while parent:
            found = self._component_providers.get(parent, {}).get(package)
            if found:
                return found
            above = self._context.ledger.new.get(parent)
            parent = above.parent if above is not None else ""
        return ""

    # ---- one registration ------------------------------------------------------------------------------------------------------------

    def _claimed(self, request: Request, urn: str, *, quiet: bool = False) -> RegisteredResource:
        context = self._context
        if not context.ledger.claim(urn):
            raise _duplicate(urn)
        if request.type == ROOT_TYPE:
            context.root.append(urn)
        if request.providers:
            self._component_providers[urn] = dict(request.providers)
        goal = replace(goal_of(request, urn, context), quiet=quiet)
        old = context.ledger.predecessor(urn, goal.wanted.aliases)
        needed = references(goal.wanted)
        if needed & context.ledger.failed:
            context.ledger.failed.add(urn)
            raise Stopped
        if not self._acts(goal.wanted):
            return self._left_alone(goal, old)
        goal, instance = self._with_provider(goal, request)
        return RegisteredResource(self._perform(goal, old, instance))

    def _perform(self, goal: Goal, old: Resource | None, instance: Instance | None) -> Resource:
        """`old` may be an entry whose object is gone already; it then lends nothing but its place in the state."""
        predecessor = old if old is not None and not old.pending_replacement else None
        unchecked = goal.wanted
        if predecessor is not None and unchecked.ignore_changes:
            unchecked = replace(unchecked, inputs=with_ignored(unchecked.inputs, predecessor.inputs, unchecked))
        wanted = self._checked(unchecked, predecessor, instance)
        remediated = self._policies.review(wanted, self._context.ledger.new.get(provider_urn(wanted.provider)), goal.delete_before_replace)
        if remediated is not wanted:
            unchecked = remediated
            wanted = self._checked(unchecked, predecessor, instance)
        decision = decide(
            old,
            wanted,
            self._diff(wanted, predecessor, instance) if predecessor is not None else NO_CHANGE,
            self._forced(wanted, predecessor) if predecessor is not None else Forced(),
            goal.delete_before_replace,
        )
        if predecessor is not None and wanted.import_id and wanted.import_id not in (predecessor.id, predecessor.import_id):
            raise UnsupportedError(f"importing '{wanted.import_id}' over the existing '{predecessor.id}'", wanted.urn)
        if decision.op is Op.REPLACE and not wanted.is_provider:
            # A replacement is a new object: names that were made up for the old one must not be carried over.
            wanted = self._checked(unchecked, None, instance)
        if decision.op is not Op.SAME:
            self._refuse_skipped(wanted)
        resource = self._executor.carry_out(decision, replace(goal, wanted=wanted), old, instance)
        if resource.is_provider:
            self._providers.load(resource)
        return resource

    def _with_provider(self, goal: Goal, request: Request) -> tuple[Goal, Instance | None]:
        wanted = goal.wanted
        if not wanted.custom or wanted.is_provider:
            return goal, None
        package = package_of(wanted.type)
        reference = request.provider or self.provider_below(wanted.parent, package) or self.default_provider(package, request.version)
        return replace(goal, wanted=replace(wanted, provider=reference)), self._providers.instance(reference)

    def _checked(self, wanted: Resource, old: Resource | None, instance: Instance | None) -> Resource:
        if not wanted.custom:
            return wanted
        # An interrupted creation lends its names: its object may exist, and must be met again instead of being left behind.
        named = old if old is not None else self._context.interrupted.get(wanted.urn)
        before: Properties | None = plain(named.inputs) if named is not None else None
        given = copied(plain(wanted.inputs))
        try:
            result = self._check(wanted, before, given, instance)
        except ProviderError as error:
            raise StepError(f"{wanted.type} resource '{wanted.name}': {error}", wanted.urn) from error
        for failure in result.failures:
            where = f"property {failure.property}: " if failure.property else ""
            self._context.report(f"{wanted.type} resource '{wanted.name}' has a problem: {where}{failure.reason}", wanted.urn)
        if result.failures:
            raise Stopped
        return replace(wanted, inputs=marked_like(result.inputs, wanted.inputs) if has_secret(wanted.inputs) else result.inputs)

    def _check(self, wanted: Resource, before: Properties | None, given: Properties, instance: Instance | None) -> CheckResult:
        if instance is None:
            return self._providers.of_type(wanted.type, wanted.urn).check_config(wanted.urn, before or {}, given)
        return instance.provider.check(wanted.urn, wanted.type, wanted.name, before, given)

    def _diff(self, wanted: Resource, old: Resource, instance: Instance | None) -> DiffResult:
        before, now = plain(old.inputs), plain(wanted.inputs)
        try:
            if wanted.is_provider:
                return self._providers.of_type(wanted.type, wanted.urn).diff_config(wanted.urn, before, now)
            if instance is None or not instance.configured:
                return DiffResult(changes(before, now))
            return instance.provider.diff(wanted.urn, wanted.type, old.id, before, plain(old.outputs), now, wanted.ignore_changes)
        except (ProviderError, PathError) as error:
            raise StepError(f"{wanted.type} resource '{wanted.name}': {cause(error)}", wanted.urn) from error

    def _forced(self, wanted: Resource, old: Resource) -> Forced:
        return Forced(
            asked=self._asked_to_replace(wanted.urn),
            trigger=old.replacement_trigger != wanted.replacement_trigger
            and old.replacement_trigger is not None
            and wanted.replacement_trigger is not None,
            provider=self._other_provider(wanted, old),
            displaced=self._context.ledger.displaced.get(wanted.urn, ()),
            became_managed=old.external,
        )

    def _other_provider(self, wanted: Resource, old: Resource) -> bool:
        """Whether another provider instance manages it now. From one default provider to another (a new version) nothing changes."""
        if not wanted.custom or wanted.is_provider or not old.provider or old.provider == wanted.provider:
            return False
        before, now = self._context.ledger.current_name(provider_urn(old.provider)), provider_urn(wanted.provider)
        if _is_default(before) and _is_default(now):
            return False
        return before != now or old.provider.rsplit("::", 1)[1] != wanted.provider.rsplit("::", 1)[1]

    # ---- selection -------------------------------------------------------------------------------------------------------------------

    def _acts(self, wanted: Resource) -> bool:
        context, ledger = self._context, self._context.ledger
        if context.selection.everything:
            return True

        def left_out(urn: str) -> bool:
            return urn in ledger.untouched or urn in ledger.skipped

        if not context.selection.registers(wanted, ledger.acting.__contains__, left_out):
            return False
        if not wanted.is_provider and wanted.type != ROOT_TYPE:
            ledger.acting.add(wanted.urn)
        return True

    def _left_alone(self, goal: Goal, old: Resource | None) -> RegisteredResource:
        ledger = self._context.ledger
        if old is None or old.pending_replacement:
            ledger.skipped.add(goal.wanted.urn)
            return RegisteredResource(goal.wanted, skipped=True)
        ledger.untouched.add(goal.wanted.urn)
        return RegisteredResource(self._executor.leave(goal, old))

    def _refuse_skipped(self, wanted: Resource) -> None:
        missing = sorted(references(wanted) & self._context.ledger.skipped)
        if missing:
            raise StepError(
                f"Resource '{wanted.urn}' depends on '{missing[0]}' which does not exist yet and was not specified in --target list; "
                "target it as well",
                wanted.urn,
            )

    # ---- what the engine registers itself --------------------------------------------------------------------------------------------

    def _register_default(self, package: str, version: str) -> Resource:
        request = self._context.request
        inputs: Properties = {
            key.split(":", 1)[1]: secret(value) if key in request.secret_keys else value
            for key, value in sorted(request.config.items())
            if key.startswith(f"{package}:")
        }
        if version:
            inputs["version"] = version
        asked = Request(type=PROVIDER_PREFIX + package, name=default_name(version), custom=True, object=to_struct(inputs))
        return self._claimed(asked, self.urn_of(asked), quiet=True).resource

    # ---- reading ---------------------------------------------------------------------------------------------------------------------

    def _referenced_stack(self, wanted: Resource) -> Resource:
        name = self._full_stack_name(wanted.id, wanted.urn)
        try:
            found = self._stack_outputs(name)
        except KeyError:
            raise StepError(f"unknown stack '{wanted.id}': no stack of this name was found in the backend", wanted.urn) from None
        secrets = sorted(key for key, value in found.items() if has_secret(value))
        return replace(wanted, outputs={"name": wanted.id, "outputs": found, "secretOutputNames": secrets})

    def _full_stack_name(self, name: str, urn: str) -> str:
        request = self._context.request
        parts = name.split("/")
        if len(parts) == 1:
            return f"{request.organization}/{request.project}/{name}"
        if len(parts) == 3:
            return name
        raise StepError(f"stack reference '{name}' must be a stack of this project, or organization/project/stack", urn)

    def _read_live(self, wanted: Resource) -> Resource:
        instance = self._providers.instance(wanted.provider)
        if wanted.id in ("", UNKNOWN) or has_unknown(wanted.inputs) or not instance.configured:
            if not self._context.preview:
                raise StepError(f"{wanted.name} cannot be read: its id or its provider's configuration is not known", wanted.urn)
            return replace(wanted, id=UNKNOWN)
        try:
            with self._context.slots.taken():
                live = instance.provider.read(wanted.urn, wanted.type, wanted.id, plain(wanted.inputs), {})
        except ProviderError as error:
            raise StepError(f"reading {wanted.urn}: {error}", wanted.urn) from error
        if live is None:
            raise StepError(f"reading {wanted.urn}: resource '{wanted.id}' does not exist", wanted.urn)
        outputs = with_secret_keys(marked_like(live.outputs, wanted.inputs), wanted.additional_secret_outputs)
        return replace(wanted, id=live.id, outputs=outputs)

    # ---- names -----------------------------------------------------------------------------------------------------------------------

    @property
    def _root(self) -> str:
        return self._context.root[0] if self._context.root else ""

    def _parent_of(self, request: Request) -> str:
        if request.parent or request.type == ROOT_TYPE or (request.type.startswith(PROVIDER_PREFIX) and _is_default_name(request.name)):
            return request.parent
        return self._root


def _duplicate(urn: str) -> StepError:
    return StepError(f"Duplicate resource URN '{urn}'; try giving it a unique name", urn)


def _is_default_name(name: str) -> bool:
    return name == "default" or name.startswith("default_")


def _is_default(urn: str) -> bool:
    return _is_default_name(urn.split("::", 3)[3])
