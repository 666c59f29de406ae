"""What the engine asks of a provider: pulumirpc.ResourceProvider, method for method, on plain dictionaries.

Property maps are JSON-like: None, bool, int, float, str, list, dict. They carry no secret wrappers (the engine strips them and marks
the answers again); an unknown value is the string `UNKNOWN`; assets, archives and resource references keep the SDK's signature
dictionaries. In a preview every output that the provider would compute, nested ones too, must be `UNKNOWN`: a missing nested field
would reach the program as None, as if it were known. What a provider is given is shared with the state: it is read, never changed in
place, but for `new` of `check`, which is the provider's own copy.

`construct` and `call` are the exception to "no secret wrappers": they register resources themselves, so they get inputs with secrets
wrapped and answer in the same way (`values.secret`).
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"

Properties = dict[str, Any]
DiffKind = Literal["add", "delete", "update", "add-replace", "delete-replace", "update-replace"]


class ProviderError(Exception):
    """An operation failed for a reason the user should read: fact, consequence, remedy. Shown without a traceback."""


class PartialFailureError(ProviderError):
    """The object exists but is not what was asked for: created or updated, then never ready. State keeps `reasons` as initErrors."""

    def __init__(self, id: str, outputs: Properties, reasons: Sequence[str]) -> None:
        super().__init__("; ".join(reasons))
        self.id, self.outputs, self.reasons = id, outputs, tuple(reasons)


@dataclass(frozen=True)
class CheckFailure:
    """`property` is a path such as `spec.replicas`, or empty for the whole resource; `reason` says what is wrong and what is legal."""

    property: str
    reason: str


@dataclass(frozen=True)
class CheckResult:
    """Inputs with defaults and names filled in, and every failure at once."""

    inputs: Properties
    failures: tuple[CheckFailure, ...] = ()


@dataclass(frozen=True)
class DiffResult:
    """`details` maps property paths to kinds and is empty when nothing changes; `replaces` are the paths that force a replacement."""

    details: Mapping[str, DiffKind] = field(default_factory=dict)
    replaces: tuple[str, ...] = ()
    delete_before_replace: bool = False


@dataclass(frozen=True)
class LiveResource:
    """What `read` found. `inputs` keep the shape of the recorded inputs, with live values, or every refresh would show drift.

    `init_errors` say why it is not what was asked for: a refresh records them with a warning and does not fail.
    """

    id: str
    inputs: Properties
    outputs: Properties
    init_errors: tuple[str, ...] = ()


class ProviderStep(Protocol):
    """What a provider may use while it works on one resource."""

    @property
    def preview(self) -> bool: ...

    @property
    def timeout(self) -> float:
        """Seconds from customTimeouts; 0 means the provider's own default."""
        ...

    @property
    def repeated(self) -> bool:
        """An earlier operation began the same creation and was cut off: its object may exist."""
        ...

    def status(self, message: str) -> None:
        """A short-lived line beside the resource: what is being waited for."""
        ...

    def warn(self, message: str) -> None:
        """A warning that stays in the output."""
        ...

    def cancelled(self) -> bool:
        """True once the user has asked to stop: leave waits at once by raising ProviderError."""
        ...


@dataclass(frozen=True)
class ComponentChild:
    """A resource registered by a component provider."""

    urn: str
    id: str
    outputs: Properties


class ComponentContext(Protocol):
    """How `construct` and `call` register resources: the same path as any registration of the program."""

    @property
    def preview(self) -> bool: ...

    def component(self, type: str, name: str, inputs: Properties) -> str:
        """Register the component itself; parent, aliases, protect and dependencies come from the request. Answers its URN."""
        ...

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
        """Register a child; its provider is the one the component was given for that package, else the default one."""
        ...

    def outputs(self, urn: str, outputs: Properties) -> None:
        """RegisterResourceOutputs of the component."""
        ...

    def outputs_of(self, urn: str) -> Properties:
        """The outputs that a resource of this run has registered."""
        ...

    def warn(self, urn: str, message: str) -> None:
        """A warning about the component that stays in the output."""
        ...

    def reference(self, child: ComponentChild) -> Properties:
        """A resource reference to put into outputs."""
        ...

    def provider_reference(self, package: str) -> Properties:
        """A reference to the provider resource that children of `package` use."""
        ...


class Provider(ABC):
    """One instance for each provider resource, default or explicit. Methods are called from several threads."""

    package: str
    version: str

    def check_config(self, urn: str, old: Properties, new: Properties) -> CheckResult:
        return CheckResult(new)

    def diff_config(self, urn: str, old: Properties, new: Properties) -> DiffResult:
        return DiffResult({k: "update" for k in sorted({*old, *new}) if old.get(k) != new.get(k)})

    def configure(self, inputs: Properties) -> None:
        """Called once, and only when every input is known. A provider that is never configured is asked for `check` and `plan` alone."""

    @abstractmethod
    def check(self, urn: str, type: str, name: str, old: Properties | None, new: Properties) -> CheckResult:
        """Validate and complete `new`; names made up for an existing resource must be those in `old`. Also called when not configured."""

    def plan(self, type: str, inputs: Properties, old_outputs: Properties | None) -> Properties:
        """Outputs of a create (or update, with `old_outputs`) in a preview as far as they follow from the inputs, for a provider that is
        not configured because its own configuration is not known yet. By default every input that cannot hide a computed field."""
        return {key: UNKNOWN if _holds_map(value) else value for key, value in inputs.items()}

    @abstractmethod
    def diff(
        self,
        urn: str,
        type: str,
        id: str,
        old_inputs: Properties,
        old_outputs: Properties,
        new: Properties,
        ignore_changes: Sequence[str],
    ) -> DiffResult: ...

    @abstractmethod
    def create(self, urn: str, type: str, name: str, inputs: Properties, step: ProviderStep) -> tuple[str, Properties]:
        """Answer (id, outputs); in a preview ("", outputs with UNKNOWN). After a kill the object may exist: it is taken over or refused,
        never made a second time.
        """

    @abstractmethod
    def read(self, urn: str, type: str, id: str, inputs: Properties, outputs: Properties) -> LiveResource | None:
        """What is there now, or None when it is gone."""

    @abstractmethod
    def update(
        self, urn: str, type: str, id: str, old_inputs: Properties, old_outputs: Properties, new: Properties, step: ProviderStep
    ) -> Properties: ...

    @abstractmethod
    def delete(self, urn: str, type: str, id: str, inputs: Properties, outputs: Properties, step: ProviderStep) -> None:
        """Ends when the object is gone; an object that is already gone is no error."""

    def invoke(self, token: str, args: Properties, preview: bool) -> Properties:
        raise ProviderError(
            f"function {token} is not modelled by the {self.package} double; the README of pulumi-embedded lists those that are"
        )

    def construct(self, type: str, name: str, inputs: Properties, context: ComponentContext) -> tuple[str, Properties]:
        """A remote component: answer (urn, outputs)."""
        raise ProviderError(
            f"component {type} is not modelled by the {self.package} double; the README of pulumi-embedded lists those that are"
        )

    def call(self, token: str, args: Properties, context: ComponentContext) -> Properties:
        raise ProviderError(
            f"method {token} is not modelled by the {self.package} double; the README of pulumi-embedded lists those that are"
        )

    def close(self) -> None:
        """Release connections; called once at the end of the operation."""


def _holds_map(value: Any) -> bool:
    return isinstance(value, dict) or (isinstance(value, list) and any(_holds_map(inner) for inner in value))
