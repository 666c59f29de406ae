"""What a node group asks for, and what a simulated node is. Who makes the nodes is up to the host of the engine."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pulumi_embedded.engine.provider import ProviderError


@dataclass(frozen=True, kw_only=True)
class NodeZone:
    """A subnet as far as a node shows it."""

    name: str
    id: str


@dataclass(frozen=True, kw_only=True)
class NodeGroup:
    """A node group, resolved: what it was given and what its launch template adds."""

    name: str
    arn: str
    region: str
    instance_type: str
    ami_type: str
    capacity_type: str
    release_version: str
    labels: Mapping[str, str]
    taints: Sequence[Mapping[str, Any]]
    zones: Sequence[NodeZone]
    template: Mapping[str, Any]
    """Inputs of the launch template's version; empty without one."""
    template_id: str = ""
    template_version: str = ""
    disk_gibibytes: int = 20


@dataclass(frozen=True, kw_only=True)
class SimulatedNode:
    """A node that nothing but its record in the cluster stands for."""

    name: str
    labels: Mapping[str, str]
    taints: Sequence[Mapping[str, str]]
    capacity: Mapping[str, str]
    allocatable: Mapping[str, str]
    provider_id: str


NodeMaker = Callable[[NodeGroup, int], tuple[SimulatedNode, ...]]
"""Answers the first N nodes of a group. ProviderError for a group that it cannot simulate."""


def no_nodes(group: NodeGroup, count: int) -> tuple[SimulatedNode, ...]:
    """The maker of nodes where a host gives none: it refuses."""
    raise ProviderError(f"nobody makes nodes for the node group {group.name} of {count} here; give `aws_provider` a maker of nodes")
