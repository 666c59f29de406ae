"""The Kubernetes cluster behind an EKS cluster, as the aws and eks doubles see it: where it answers, and which nodes it has."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from pulumi_embedded.engine.provider import ProviderError
from pulumi_embedded.providers.aws.nodes import SimulatedNode

NewTaints = Mapping[str, Sequence[Mapping[str, str]]]
"""What becomes of a node's taints with these keys; it keeps all others."""


def retainted(before: Sequence[Mapping[str, str]], new: NewTaints) -> list[Mapping[str, str]]:
    """The taints of a node once those of some keys are set."""
    return [*(taint for taint in before if taint["key"] not in new), *(taint for taints in new.values() for taint in taints)]


@dataclass(frozen=True)
class Address:
    """Of the API server. `authority` is base64 of PEM."""

    server: str
    authority: str
    kubeconfig: Mapping[str, Any]
    """The administrator's; a secret."""


@dataclass(frozen=True)
class NodeState:
    """One node as it is now."""

    name: str
    ready: bool
    provider_id: str
    labels: Mapping[str, str]
    taints: Sequence[Mapping[str, str]]


class EksControlPlane(Protocol):
    """What the doubles ask of the local cluster. All raise ProviderError where it does not answer."""

    def address(self) -> Address:
        """Where it is; ProviderError while there is none."""
        ...

    def version(self) -> str:
        """Of the API server, such as `v1.36.2`."""
        ...

    def reachable(self) -> bool: ...

    def nodes(self, group: str) -> list[NodeState]:
        """Nodes of the node group with this ARN, by name."""
        ...

    def create_node(self, node: SimulatedNode, group: str) -> None:
        """Make the node of the node group with this ARN, or replace one of the same name."""
        ...

    def relabel(self, name: str, labels: Mapping[str, str | None], taints: NewTaints) -> None:
        """Set labels (None removes one) and taints of a live node."""
        ...

    def resize(self, name: str, capacity: Mapping[str, str], allocatable: Mapping[str, str]) -> None:
        """Set what a live node offers."""
        ...

    def delete_node(self, name: str) -> None:
        """Cordon it, end its pods, remove it; a node that is gone is no error."""
        ...


class NoControlPlane:
    """Stands where a program is run without a cluster: everything that needs one is refused in plain words."""

    def address(self) -> Address:
        raise ProviderError(
            "no Kubernetes cluster stands behind this engine, so an EKS cluster cannot be made; give `aws_provider` a control plane"
        )

    def version(self) -> str:
        return self.address().server

    def reachable(self) -> bool:
        return False

    def nodes(self, group: str) -> list[NodeState]:
        return []

    def create_node(self, node: SimulatedNode, group: str) -> None:
        self.address()

    def relabel(self, name: str, labels: Mapping[str, str | None], taints: NewTaints) -> None:
        self.address()

    def resize(self, name: str, capacity: Mapping[str, str], allocatable: Mapping[str, str]) -> None:
        self.address()

    def delete_node(self, name: str) -> None:
        self.address()


def wait_until_ready(plane: EksControlPlane, group: str, names: Sequence[str], seconds: float, step: Any) -> list[str]:
    """Names that are not ready after `seconds`; says what it waits for through `step`."""
    deadline = time.monotonic() + seconds
    while True:
        ready = {node.name for node in plane.nodes(group) if node.ready}
        missing = [name for name in names if name not in ready]
        if not missing or time.monotonic() > deadline or step.cancelled():
            return missing
        step.status(f"waiting for {len(missing)} of {len(names)} nodes to be ready")
        time.sleep(0.1)
