"""Remote components and methods: a component provider registers its children through the same path as the program.

Owns the translation between provider.ComponentContext and registrations. Inputs and outputs keep their secrets wrapped here.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pulumi.runtime.proto import provider_pb2, resource_pb2

from pulumi_embedded.engine.context import Context
from pulumi_embedded.engine.graph import provider_urn
from pulumi_embedded.engine.halt import StepError
from pulumi_embedded.engine.provider import ComponentChild, Properties, ProviderError
from pulumi_embedded.engine.provider_instances import Providers
from pulumi_embedded.engine.registration import Registrar, Request
from pulumi_embedded.engine.urns import package_of
from pulumi_embedded.engine.values import UNKNOWN, from_struct, has_unknown, plain, reference, to_struct


@dataclass(frozen=True)
class Registering:
    """Implements provider.ComponentContext for one construct or call."""

    context: Context
    registrar: Registrar
    request: Request

    @property
    def preview(self) -> bool:
        return self.context.preview

    def component(self, type: str, name: str, inputs: Properties) -> str:
        asked = Request(type=type, name=name, custom=False, object=to_struct(inputs), parent=self.request.parent)
        if (type, name) == (self.request.type, self.request.name):
            given = self.request
            asked.protect = given.protect
            asked.dependencies.extend(given.dependencies)
            asked.aliases.extend(given.aliases)
            asked.aliasURNs.extend(given.aliasURNs)
            asked.providers.update(given.providers)
            asked.additionalSecretOutputs.extend(given.additionalSecretOutputs)
            for key, dependency in given.propertyDependencies.items():
                asked.propertyDependencies[key].CopyFrom(dependency)
            # The program's transforms have seen this registration already.
            return self.registrar.register(asked, transformed=True).resource.urn
        return self.registrar.register(asked).resource.urn

    def resource(
        self,
        type: str,
        name: str,
        inputs: Properties,
        *,
        parent: str,
        depends_on: Sequence[str] = (),
        ignore_changes: Sequence[str] = (),
        version: str = "",
    ) -> ComponentChild:
        package = package_of(type)
        asked = Request(
            type=type,
            name=name,
            custom=True,
            object=to_struct(inputs),
            parent=parent,
            dependencies=depends_on,
            ignoreChanges=ignore_changes,
            provider=dict(self.request.providers).get(package, ""),
            version=version,
        )
        registered = self.registrar.register(asked)
        made = registered.resource
        return ComponentChild(made.urn, known_id(made.id), made.outputs)

    def outputs(self, urn: str, outputs: Properties) -> None:
        self.registrar.outputs(urn, outputs)

    def outputs_of(self, urn: str) -> Properties:
        found = self.context.ledger.new.get(urn)
        if found is None:
            raise ProviderError(f"{urn} has not been registered by this program, so its outputs are not known")
        return found.outputs

    def warn(self, urn: str, message: str) -> None:
        self.context.events.diagnostic("warning", message, urn)

    def reference(self, child: ComponentChild) -> Properties:
        return reference(child.urn, child.id)

    def provider_reference(self, package: str) -> Properties:
        given = dict(self.request.providers).get(package) or self.registrar.provider_below(self.request.parent, package)
        found = given or self.registrar.default_provider(package, "")
        made = self.context.ledger.new.get(provider_urn(found))
        version = str(made.inputs.get("version", "")) if made is not None else ""
        return reference(provider_urn(found), known_id(found.rsplit("::", 1)[1]), version)


class Components:
    def __init__(self, context: Context, providers: Providers, registrar: Registrar) -> None:
        self._context = context
        self._providers = providers
        self._registrar = registrar

    def construct(self, request: Request) -> tuple[str, Properties]:
        """URN and outputs of a remote component. Raises StepError and Stopped as a registration does."""
        urn = self._registrar.prepare_remote(request)
        package = package_of(request.type)
        given = request.provider or dict(request.providers).get(package) or self._registrar.provider_below(request.parent, package)
        instance = self._providers.instance(given or self._registrar.default_provider(package, request.version))
        context = Registering(self._context, self._registrar, request)
        try:
            return instance.provider.construct(request.type, request.name, from_struct(request.object), context)
        except ProviderError as error:
            raise StepError(f"constructing {request.type} '{request.name}': {error}", urn) from error

    def call(self, request: resource_pb2.ResourceCallRequest) -> provider_pb2.CallResponse:
        """A method of a component. Raises StepError."""
        self._context.halt.check()
        reference_ = request.provider or self._registrar.default_provider(package_of(request.tok), request.version)
        instance = self._providers.instance(reference_)
        args = from_struct(request.args)
        context = Registering(self._context, self._registrar, Request())
        try:
            result = instance.provider.call(request.tok, args, context)
        except ProviderError as error:
            raise StepError(f"calling {request.tok}: {error}") from error
        answer = provider_pb2.CallResponse(**{"return": to_struct(result)})  # pyright: ignore[reportArgumentType]
        needed = sorted({urn for dependency in request.argDependencies.values() for urn in dependency.urns})
        for key in result:
            answer.returnDependencies[key].urns.extend(needed)
        return answer


class Functions:
    """Invokes: provider functions, and the engine's own `getResource`."""

    def __init__(self, context: Context, providers: Providers, registrar: Registrar) -> None:
        self._context = context
        self._providers = providers
        self._registrar = registrar

    def invoke(self, request: resource_pb2.ResourceInvokeRequest) -> Properties | None:
        """The function's result; None where it depends on what a preview cannot know. Raises ProviderError."""
        self._context.halt.check()
        if request.packageRef:
            raise ProviderError("a parameterized package is not supported by the embedded engine")
        args = from_struct(request.args)
        if request.tok == "pulumi:pulumi:getResource":
            return self._resource(str(args.get("urn", "")))
        if has_unknown(args) or any(self._pending(urn) for urn in request.dependsOn):
            return None
        package = package_of(request.tok)
        given = request.provider or self._registrar.provider_below(request.parent, package)
        instance = self._providers.instance(given or self._registrar.default_provider(package, request.version))
        if not instance.configured:
            return None
        with self._context.slots.taken():
            return instance.provider.invoke(request.tok, plain(args), self._context.preview)

    def _resource(self, urn: str) -> Properties:
        found = self._context.ledger.new.get(urn)
        if found is None:
            raise ProviderError(f"unknown resource {urn}: a reference can only be followed to a resource of this program")
        return {"urn": urn, "id": known_id(found.id), "state": found.outputs}

    def _pending(self, urn: str) -> bool:
        found = self._context.ledger.new.get(urn)
        return self._context.preview and found is not None and found.custom and not known_id(found.id)


def known_id(id: str) -> str:
    """On the wire an unknown id is an empty one."""
    return "" if id == UNKNOWN else id
