"""What the double knows of one AWS type: how it is named, what it needs, what it answers, what replaces it, what holds it.

A kind is data; behaviour that a table cannot say (a bucket in the object store, nodes in the cluster) is a `Backend` beside it.
Trap: the outputs of a preview come from the same table as those of an update, with every made-up value unknown, so that no nested
computed field can be missing from a preview.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any, Literal

from pulumi_embedded.engine.provider import UNKNOWN, CheckFailure, Properties
from pulumi_embedded.providers.aws.limits import ShapeLimits, limits_of
from pulumi_embedded.providers.schema import ResourceSchema, schema_of

ACCOUNT_ID = "000000000000"
"""The account that is simulated unless the provider's `allowedAccountIds` names another."""
PARTITION = "aws"

Holding = Literal["blocks", "falls", "free"]
"""What a reference does to the deletion of its target: refuses it, goes with it, or does not care."""


@dataclass(frozen=True)
class Facts:
    """One object as far as it is known. Texts that contain anything unknown are unknown."""

    inputs: Properties
    urn: str
    region: str
    generation: int = 1
    """How many objects this URN has had, this one included: a replacement never reuses an id."""
    id: str = UNKNOWN
    created: datetime | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    """The provider's default tags."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """What the backend found out, for instance the endpoint of the local cluster."""
    arn: str = UNKNOWN
    account: str = ACCOUNT_ID

    @property
    def known(self) -> bool:
        return self.id != UNKNOWN

    def digest(self, label: str) -> str:
        """64 hex digits, stable for this object."""
        return hashlib.sha256(f"{self.urn}#{self.generation}#{label}".encode()).hexdigest()

    def made(self, prefix: str, digits: int = 17) -> str:
        """An id as AWS makes them up (`vpc-0123…`, capitals after capitals), stable for this object; unknown until it exists."""
        text = f"{prefix}0{self.digest(prefix)[: digits - 1]}"
        return UNKNOWN if not self.known else text.upper() if prefix.isupper() else text

    def text(self, template: str) -> str:
        """Fill `{id} {arn} {region} {account} {hex} {created}` and `{input.path}`; unknown until the object exists."""
        if not self.known:
            return UNKNOWN
        own = {
            "id": self.id,
            "arn": self.arn,
            "region": self.region,
            "account": self.account,
            "hex": self.digest(template)[:16],
            "created": self.time,
        }
        values = {name: own.get(name, at(self.inputs, name)) for name in re.findall(r"{([^}]+)}", template)}
        if UNKNOWN in values.values():
            return UNKNOWN
        return re.sub(r"{([^}]+)}", lambda match: str(values[match[1]] if values[match[1]] is not None else ""), template)

    @property
    def time(self) -> str:
        """When it was created, RFC 3339."""
        return self.created.strftime("%Y-%m-%dT%H:%M:%SZ") if self.created else UNKNOWN


def at(value: Any, path: str) -> Any:
    """The value at a dotted path, None where there is none, unknown below an unknown."""
    for part in path.split("."):
        if value == UNKNOWN:
            return UNKNOWN
        value = value.get(part) if isinstance(value, dict) else None
    return value


def put(value: Properties, path: str, item: Any) -> None:
    """Set `item` at a dotted path unless a value is there; objects on the way are made."""
    *parents, last = path.split(".")
    here: Any = value
    for part in parents:
        if here.get(part) is None:
            here[part] = {}
        here = here[part]
        if not isinstance(here, dict):
            return
    if here.get(last) is None:
        here[last] = item


def each(value: Any, path: str) -> list[tuple[str, Any]]:
    """Every (concrete path, value) that `path` names; `[]` steps into each element, `*` into each value of a map."""
    found: list[tuple[str, Any]] = [("", value)]
    for part in re.findall(r"\[\]|[^.\[\]]+", path):
        step: list[tuple[str, Any]] = []
        for here, item in found:
            if part == "[]":
                step += [(f"{here}[{index}]", element) for index, element in enumerate(item)] if isinstance(item, list) else []
            elif isinstance(item, dict) and item.get(part) is not None:
                step.append((f"{here}.{part}" if here else part, item[part]))
        found = step
    return [(here, item) for here, item in found if item is not None]


@dataclass(frozen=True)
class Ref:
    """An input names another object, by one of the handles of a class (`VPC`, `role ARN`)."""

    to: str
    deletion: Holding = "free"
    """What the deletion of the object that is named does while this reference stands."""
    error: str = "InvalidParameterValue"
    """AWS's error code when the object does not exist."""
    external: str = ""
    """Values matching this pattern exist without a program (AWS's own policies, service-linked roles); `{account}` is ours."""
    key: str = ""
    """Pattern whose first matching group is the handle, where the value says more than that (`arn:…:bucket/prefix`)."""


@dataclass(frozen=True)
class Naming:
    """Pulumi's autonaming: `<logical name>-<7 hex digits>` where the program gives no name."""

    field: str = "name"
    longest: int = 255
    prefix: str = "namePrefix"
    """Input that asks for a made-up name with this beginning, or empty."""
    lower: bool = False
    lead: str = ""
    """What every made-up name begins with."""
    required: bool = False
    """The provider makes up no name: the program must give one."""


Value = str | Callable[[Facts], Any]
Rule = Callable[[Properties, str], Iterable[CheckFailure]]
"""Inputs and region -> what AWS would refuse that no table says. Unknown values pass."""


@dataclass(frozen=True, kw_only=True)
class AwsKind:
    """One modelled AWS type. Paths are dotted, `[]` steps into a list."""

    type: str
    """Pulumi's type token."""
    operation: str = ""
    """`service.Operation[.Member]`, whose request bounds the inputs; empty where the API has no such request."""
    api: Mapping[str, str] = field(default_factory=dict)
    """Input path -> where its API twin is (see `limits_of`)."""
    id: Value
    arn: Value = ""
    """Template or function, empty for what has no ARN."""
    named: Naming | None = None
    replaces: tuple[str, ...] = ()
    """Inputs whose change needs a new object."""
    ordered: tuple[str, ...] = ()
    """Lists whose order is a change; all others are sets to AWS."""
    references: Mapping[str, Ref] = field(default_factory=dict)
    """Input path -> what must exist; a key `={a}:{b}` is filled from the inputs."""
    handles: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Class -> output paths (`id` too) or `={a}:{b}` texts under which others find this object; no two objects share one."""
    outputs: Mapping[str, Value] = field(default_factory=dict)
    """Output path -> template or function; a value that the program gave wins."""
    volatile: tuple[str, ...] = ()
    """Outputs that an update changes, so unknown in the preview of one."""
    concealed: tuple[str, ...] = ()
    """Inputs of which the account keeps a digest only: secret values."""
    absent: Mapping[str, str] = field(default_factory=dict)
    """Outputs of the SDK that the double leaves empty -> why."""
    rules: tuple[Rule, ...] = ()
    updatable: bool = True
    """False: any change replaces."""
    source: str = "provider documentation"
    """Where the replace rules come from."""

    @cached_property
    def schema(self) -> ResourceSchema:
        return schema_of(self.type)

    @cached_property
    def limits(self) -> ShapeLimits:
        return limits_of(self.schema.inputs, self.operation, self.api) if self.operation else ShapeLimits()

    @property
    def is_global(self) -> bool:
        return "region" not in self.schema.outputs.members

    @property
    def title(self) -> str:
        """Class name, as people say it."""
        return self.type.rsplit(":", 1)[-1]

    def compute(self, facts: Facts, *, updating: bool = False) -> Properties:
        """All outputs of the object behind `facts`. `updating`: in a preview of an update what it may change is unknown."""
        outputs = _copy(facts.inputs)
        if not self.is_global:
            put(outputs, "region", facts.region)
        if "tagsAll" in self.schema.outputs.members:
            outputs["tagsAll"] = merged_tags(facts)
        for path, value in self.outputs.items():
            put(outputs, path, facts.text(value) if isinstance(value, str) else value(facts))
        if self.arn and "arn" in self.schema.outputs.members:
            outputs["arn"] = facts.arn
        if updating:
            for path in self.volatile:
                outputs[path] = UNKNOWN
        return outputs

    def identify(self, facts: Facts) -> str:
        """The id of a new object; `facts` must carry a placeholder id so that texts are filled."""
        return facts.text(self.id) if isinstance(self.id, str) else str(self.id(facts))


def merged_tags(facts: Facts) -> Any:
    """Default tags under the object's own."""
    own = facts.inputs.get("tags")
    return UNKNOWN if own == UNKNOWN else {**facts.tags, **(own or {})}


def _copy(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value


def made(prefix: str, digits: int = 17) -> Callable[[Facts], str]:
    """An output that AWS makes up."""
    return lambda facts: facts.made(prefix, digits)


def account(facts: Facts) -> str:
    """The account that owns the object."""
    return facts.account


def const(value: Any) -> Callable[[Facts], Any]:
    """A default that AWS documents, known already in a preview."""
    return lambda _: value


def later(value: Any) -> Callable[[Facts], Any]:
    """A default that AWS chooses, unknown until the object exists."""
    return lambda facts: value if facts.known else UNKNOWN


TRUE, FALSE = const(value=True), const(value=False)


def found(key: str) -> Callable[[Facts], Any]:
    """An output that the backend learnt, unknown until the object exists."""
    return lambda facts: facts.extra.get(key, "") if facts.known else UNKNOWN
