"""What a rule sees of a resource: plain values that know their path, and unknowns that cannot be mistaken for values.

CrossGuard hands out proxies that raise on the first unknown, which would turn a whole policy into an advisory note. Here the tree is
copied once: an unknown becomes a mark, and only the rule that reads it is told so.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pulumi_policy.proxy import UnknownValueError


class Unknown:
    """A value that is not known before the update."""

    def __repr__(self) -> str:
        return "<unknown>"


UNKNOWN: Final = Unknown()


class UnevaluatedError(Exception):
    """A rule needed a value that is unknown in this preview. Carries the value's path."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


_CORE = re.compile(r"kubernetes:v1:")
_OLD_GROUP = re.compile(r"kubernetes:extensions/v1beta1:(?=DaemonSet|Deployment|ReplicaSet)")
_SAME_OBJECT = re.compile(
    r"kubernetes:([a-z.]+\.istio\.io|admissionregistration\.k8s\.io|apps|autoscaling|batch|discovery\.k8s\.io|gateway\.networking\.k8s\.io"
    r"|networking\.k8s\.io|policy|rbac\.authorization\.k8s\.io)"
    r"/v[0-9]+(?:alpha[0-9]+|beta[0-9]+)?:"
)


def canonical(type: str) -> str:
    """`type` under the one name that rules know an object by: the core group is also written without a name, by `CustomResource`, and
    other groups serve, or served, each of their kinds in several versions."""
    if type.startswith("kubernetes:"):
        type = _OLD_GROUP.sub("kubernetes:apps/v1:", _CORE.sub("kubernetes:core/v1:", type, count=1), count=1)
        type = _SAME_OBJECT.sub(r"kubernetes:\1/v1:", type, count=1)
    return type


def plain(properties: Any) -> Any:
    """Copy CrossGuard's proxies into dicts and lists; unknowns become `UNKNOWN`, integral floats become ints (the wire has only doubles)."""
    if isinstance(properties, float):
        return int(properties) if properties.is_integer() else properties
    if isinstance(properties, str) or properties is None:
        return properties
    if isinstance(properties, Mapping):
        copy: dict[str, Any] = {}
        for key in properties:
            try:
                copy[key] = plain(properties[key])
            except UnknownValueError:
                copy[key] = UNKNOWN
        return copy
    if isinstance(properties, Sequence):
        items: list[Any] = []
        for index in range(len(properties)):
            try:
                items.append(plain(properties[index]))
            except UnknownValueError:
                items.append(UNKNOWN)
        return items
    return properties


@dataclass(frozen=True, slots=True)
class InputNode:
    """A place in a resource's inputs. Reading an unknown raises `UnevaluatedError`; a missing place is a node whose value is None."""

    raw: Any
    path: str = ""

    @property
    def value(self) -> Any:
        if self.raw is UNKNOWN:
            raise UnevaluatedError(self.path or "(all inputs)")
        return self.raw

    @property
    def known(self) -> bool:
        return self.raw is not UNKNOWN

    @property
    def present(self) -> bool:
        """Something is there, even if its value is not known yet."""
        return self.raw is not None

    @property
    def filled(self) -> bool:
        """Present, and no empty text, map or list; a value that is not known yet counts as filled."""
        return self.raw is UNKNOWN or self.raw not in (None, "", {}, [])

    def __getitem__(self, key: str) -> "InputNode":
        value = self.value
        path = f"{self.path}.{key}" if self.path else key
        return InputNode(value.get(key) if isinstance(value, Mapping) else None, path)

    def at(self, *keys: str) -> "InputNode":
        node = self
        for key in keys:
            node = node[key]
        return node

    def each(self) -> Iterator["InputNode"]:
        """The items of a list; nothing for a missing one. A single object where the API allows one counts as a list of one."""
        value = self.value
        if isinstance(value, Mapping):
            yield self
            return
        for index, item in enumerate(value or ()):
            yield InputNode(item, f"{self.path}[{index}]")

    def entries(self) -> Iterator[tuple[str, "InputNode"]]:
        """The entries of a map, sorted by key; nothing for anything else."""
        value = self.value
        for key in sorted(value) if isinstance(value, Mapping) else ():
            yield key, InputNode(value[key], f"{self.path}.{key}" if self.path else key)


@dataclass(frozen=True, slots=True)
class ResourceView:
    """One planned resource. `properties` are its checked inputs."""

    type: str
    name: str
    urn: str
    properties: InputNode
    protect: bool = False
    state: dict[str, Any] = field(default_factory=dict)
    """Notes kept for the whole run, for rules that add up over resources; private to each rule's id."""

    def __getitem__(self, key: str) -> InputNode:
        return self.properties[key]

    def at(self, *keys: str) -> InputNode:
        return self.properties.at(*keys)

    @property
    def kind(self) -> str:
        """`Deployment` of `kubernetes:apps/v1:Deployment`, `NodeGroup` of `aws:eks/nodeGroup:NodeGroup`."""
        return self.type.rsplit(":", 1)[-1]
