"""The nouns of one operation: resources, steps, requests, and the ports through which a deployment meets state and events.

Property maps are plain JSON in which secrets, assets and references keep the SDK's signature dictionaries (see `values`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, Protocol

from pulumi_embedded.engine.provider import DiffKind, Properties, Provider


class Op(StrEnum):
    """Operation of one step, by Pulumi's own words (apitype.OpType)."""

    SAME = "same"
    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    REPLACE = "replace"
    CREATE_REPLACEMENT = "create-replacement"
    DELETE_REPLACED = "delete-replaced"
    READ = "read"
    REFRESH = "refresh"
    DISCARD = "discard"
    IMPORT = "import"


PendingKind = Literal["creating", "updating", "deleting", "reading", "importing"]
Severity = Literal["debug", "info", "warning", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Resource:
    """One entry of a checkpoint: apitype.ResourceV3. Times are RFC 3339 strings in UTC."""

    urn: str
    type: str
    custom: bool
    id: str = ""
    inputs: Properties = field(default_factory=dict)
    outputs: Properties = field(default_factory=dict)
    parent: str = ""
    provider: str = ""
    """`URN::ID` of the provider resource."""
    dependencies: tuple[str, ...] = ()
    property_dependencies: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    delete: bool = False
    """Replaced already; the object waits for its deletion."""
    external: bool = False
    protect: bool = False
    retain_on_delete: bool = False
    deleted_with: str = ""
    aliases: tuple[str, ...] = ()
    custom_timeouts: Mapping[str, float] = field(default_factory=dict)
    """Seconds by `create`, `update`, `delete`."""
    import_id: str = ""
    init_errors: tuple[str, ...] = ()
    additional_secret_outputs: tuple[str, ...] = ()
    ignore_changes: tuple[str, ...] = ()
    replace_on_changes: tuple[str, ...] = ()
    replacement_trigger: Any = None
    pending_replacement: bool = False
    resource_hooks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    created: str = ""
    modified: str = ""

    @property
    def key(self) -> tuple[str, bool, str]:
        """What tells the twins of one URN apart while a replacement is under way."""
        return self.urn, self.delete, self.id if self.delete else ""

    @property
    def name(self) -> str:
        return self.urn.split("::", 3)[-1]

    @property
    def is_provider(self) -> bool:
        return self.type.startswith("pulumi:providers:")

    @property
    def is_default_provider(self) -> bool:
        """Made by the engine, neither counted nor shown."""
        return self.is_provider and (self.name == "default" or self.name.startswith("default_"))


@dataclass(frozen=True, slots=True)
class PendingOperation:
    """A provider call whose end was never seen."""

    kind: PendingKind
    resource: Resource


class State(Protocol):
    """Durable state of one stack. Every method that writes returns only when a SIGKILL can no longer undo it."""

    @property
    def resources(self) -> Sequence[Resource]:
        """In dependency order: provider, parent and dependencies before the resource."""
        ...

    @property
    def pending(self) -> Sequence[PendingOperation]: ...

    def begin(self, kind: PendingKind, resource: Resource) -> None:
        """A provider call starts: it is pending until `put`, `remove` or `abandon` names the same URN."""
        ...

    def abandon(self, resource: Resource) -> None:
        """The provider call failed and changed nothing."""
        ...

    def put(self, resource: Resource, was: Resource | None = None) -> None:
        """Insert or replace by key; `was` is the entry that this one supersedes under another key (a rename, a mark for deletion)."""
        ...

    def remove(self, resource: Resource) -> None: ...

    def clear_pending(self, kinds: Sequence[PendingKind]) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEvent:
    """What the display and the event stream learn of a step; secrets are masked by whoever writes them out."""

    op: Op
    urn: str
    type: str
    provider: str = ""
    old: Resource | None = None
    new: Resource | None = None
    details: Mapping[str, DiffKind] = field(default_factory=dict)
    """Property path -> kind."""
    replaces: tuple[str, ...] = ()
    quiet: bool = False
    """A default provider: state keeps it, people and counts do not see it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyEvent:
    """A violation or, with level `remediate`, a remediation."""

    urn: str
    policy: str
    pack: str
    version: str
    level: str
    message: str


class Events(Protocol):
    """Sink of everything that happens. Safe to call from any thread; never raises."""

    def started(self, step: StepEvent) -> None: ...

    def finished(self, step: StepEvent) -> None: ...

    def failed(self, step: StepEvent) -> None: ...

    def status(self, urn: str, message: str) -> None:
        """A short-lived line: what a resource is waiting for."""
        ...

    def diagnostic(self, severity: Severity, message: str, urn: str = "", *, ephemeral: bool = False, stream: int = 0) -> None: ...

    def policy(self, event: PolicyEvent) -> None: ...


@dataclass(frozen=True, slots=True)
class PolicyPack:
    """A folder with PulumiPolicy.yaml, and the JSON file that configures it, if any."""

    path: Path
    config: Path | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationRequest:
    """One preview, update, refresh or destroy."""

    kind: Literal["update", "refresh", "destroy"]
    dry_run: bool
    organization: str
    project: str
    stack: str
    config: Mapping[str, str] = field(default_factory=dict)
    """`namespace:key` -> string; structured values as JSON text."""
    secret_keys: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    parallel: int = 16
    targets: tuple[str, ...] = ()
    target_dependents: bool = False
    excludes: tuple[str, ...] = ()
    exclude_dependents: bool = False
    replaces: tuple[str, ...] = ()
    refresh: bool = False
    """Read every live object before the program runs."""
    continue_on_error: bool = False
    exclude_protected: bool = False
    clear_pending_creates: bool = False
    policy_packs: tuple[PolicyPack, ...] = ()
    debug: bool = False


@dataclass(frozen=True, slots=True)
class ProgramResult:
    """`error` was already logged by the program's side; None is a good end."""

    error: str | None = None


class Program(Protocol):
    """How the user's program is run: inline through a language server, or as a child process."""

    @property
    def directory(self) -> Path:
        """Where relative paths of assets start."""
        ...

    def run(self, address: str, request: OperationRequest, events: Events) -> ProgramResult:
        """Run it to its end against the monitor and engine service at `address`; what it prints goes to `events`."""
        ...

    def stop(self) -> None:
        """End it now; called from another thread when the operation is cancelled."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationOutcome:
    """How an operation ended. `error` is None for success; the texts of all causes have been sent as diagnostics."""

    error: str | None
    changes: Mapping[str, int]
    """Op -> count, as `resourceChanges` in history and summary."""
    policy_packs: Mapping[str, str] = field(default_factory=dict)
    """Name -> version."""
    duration: float = 0.0
    """Seconds."""


ProviderFactories = Mapping[str, Callable[[], Provider]]
StackOutputs = Callable[[str], Properties]
"""`organization/project/stack` -> outputs of its root resource, secrets wrapped; KeyError if there is no such stack."""
