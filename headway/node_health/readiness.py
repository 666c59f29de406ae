"""Whether the GPU layer offers what its pools promise: read back after an update, because "applied" says nothing of it.
Pure.

The operator can report an applied upgrade while its definitions were not upgraded with it: fields are dropped without a
word, and nodes stay without device plugin (NVIDIA/gpu-operator#431). So what counts is what nodes offer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headway.node_health.facts import MIG_PREFIX, GpuNode
from headway.problem import Problem


@dataclass(frozen=True, kw_only=True)
class PoolPromise:
    """What every node of a pool must offer, and the driver that its image brings."""

    pool: str
    resources: Mapping[str, int]
    driver: str
    nodes_at_least: int = 0

    @property
    def sliced(self) -> bool:
        """Its GPUs are cut by MIG."""
        return any(name.startswith(MIG_PREFIX) for name in self.resources)

    def offered_by(self, node: GpuNode) -> bool:
        """Whether the scheduler may give all of it away."""
        return all(node.offered.get(name, 0) >= count for name, count in self.resources.items())


@dataclass(frozen=True, kw_only=True)
class GpuOperatorState:
    """The ClusterPolicy as the API server has it. `state` is None where there is none; `recorded` where the
    chart was only recorded, and no operator runs."""

    state: str | None
    recorded: bool = False


def lacks(expected: Sequence[PoolPromise], nodes: Sequence[GpuNode], operator: GpuOperatorState) -> tuple[Problem, ...]:
    """Everything that is missing, the operator first, then pools and nodes by name. Nodes in quarantine owe nothing."""
    return (*_operator(operator), *(lack for pool in sorted(expected, key=lambda e: e.pool) for lack in _pool(pool, nodes)))


def _operator(operator: GpuOperatorState) -> tuple[Problem, ...]:
    if operator.recorded or operator.state == "ready":
        return ()
    said = f"says {operator.state!r}" if operator.state else "is not there"
    return (
        Problem(
            subject="ClusterPolicy cluster-policy",
            fact=f"the GPU Operator's ClusterPolicy {said}",
            consequence="Nodes may have no device plugin, no MIG layout and no telemetry",
            remedy="kubectl describe clusterpolicy; kubectl get pods -n gpu-operator; docs/runbooks/gpu-node-without-gpus.md",
        ),
    )


def _pool(expected: PoolPromise, nodes: Sequence[GpuNode]) -> tuple[Problem, ...]:
    mine = [node for node in nodes if node.pool == expected.pool]
    problems: list[Problem] = []
    if len(mine) < expected.nodes_at_least:
        problems.append(
            Problem(
                subject=f"pool {expected.pool}",
                fact=f"{len(mine)} of at least {expected.nodes_at_least} nodes have joined",
                consequence="Models that need this pool stay pending",
                remedy="Look at the node groups' health issues and the Auto Scaling activity: no capacity, or nodes that cannot join",
            )
        )
    for node in mine:
        if node.quarantine is None:
            problems += _node(expected, node)
    return tuple(problems)


def _node(expected: PoolPromise, node: GpuNode) -> list[Problem]:
    problems: list[Problem] = []
    missing = {name: count for name, count in sorted(expected.resources.items()) if node.offered.get(name, 0) < count}
    for name, count in missing.items():
        problems.append(
            Problem(
                subject=f"node {node.name}",
                fact=f"offers {node.offered.get(name, 0)} of {count} {name}",
                consequence="The scheduler sees fewer GPUs than are paid for, or none",
                remedy="Look at the device plugin's and the MIG manager's pods on it; docs/runbooks/gpu-node-without-gpus.md",
            )
        )
    if node.uncut and not missing:
        problems.append(
            Problem(
                subject=f"node {node.name}",
                fact=f"offers all of it, and still has the taint of a node that MIG has to cut (MIG manager: {node.mig_state or 'nothing'})",
                consequence="No model is scheduled there",
                remedy="Look whether the loop of node health runs, which takes it off; docs/runbooks/mig-layout-late.md",
            )
        )
    if node.driver and node.driver != expected.driver:
        problems.append(
            Problem(
                subject=f"node {node.name}",
                fact=f"runs driver {node.driver}, and pool {expected.pool} states {expected.driver}",
                consequence="Contracts were checked against another driver than their models meet",
                remedy="Let the node group's update finish, or correct the pool's ami section",
            )
        )
    return problems


def cluster_policy_state(body: Mapping[str, Any] | None) -> str | None:
    """The state that the operator wrote; an object without one has not been looked at yet."""
    return None if body is None else str((body.get("status") or {}).get("state") or "not reconciled yet")
