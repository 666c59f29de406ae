"""How many replicas of a model one node of a pool holds, by GPU, CPU and RAM: the least of the three.

What the kubelet and the platform's DaemonSets keep for themselves is taken off first. The trap: on small GPU instances CPU runs out before
the GPU does, and a replica that asks for all of a node's CPU never schedules.
"""

from dataclasses import dataclass

from headway.contract.accelerators import InstanceType
from headway.contract.arithmetic.replica import replica_cpu, replica_memory
from headway.contract.explanation import Line
from headway.contract.model import Model
from headway.contract.pool import Pool
from headway.contract.units import Bytes, MilliCpu

_MI = 2**20
DAEMONS_CPU = MilliCpu(510)
"""Requests of what runs on each node: network, proxy, volumes, node agents, mesh, log shipper, artifact cache, prefetched images.

A test compares it with the sum over all of them; the GPU Operator's own request nothing."""
DAEMONS_MEMORY = Bytes(920 * _MI)
"""RAM of the same."""
PODS_OF_SMALL, PODS_OF_LARGE = 110, 250
"""EKS's recommended pod limits up to 30 vCPU and above; the kubelet reserves RAM for each."""


@dataclass(frozen=True)
class NodeRoom:
    """`replicas` of the model that one node holds; `short_of` names what runs out first."""

    replicas: int
    short_of: str
    lines: tuple[Line, ...]


def allocatable_cpu(instance: InstanceType) -> MilliCpu:
    """CPU for pods: the kubelet keeps 6 % of the first core, 1 % of the second, 0.5 % of two more, 0.25 % of the rest (amazon-eks-ami)."""
    reserved = sum(
        next(part for upto, part in ((1, 600), (2, 100), (4, 50), (10_000, 25)) if core <= upto) for core in range(1, instance.vcpus + 1)
    )
    return MilliCpu(instance.vcpus * 1000 - reserved // 10)


def allocatable_memory(instance: InstanceType) -> Bytes:
    """RAM for pods: the kubelet keeps 255 MiB + 11 MiB a pod and 100 MiB for eviction (amazon-eks-ami); about 3 % never reaches the kernel."""
    pods = PODS_OF_SMALL if instance.vcpus <= 30 else PODS_OF_LARGE
    return Bytes(int(instance.memory) * 97 // 100 - (255 + 11 * pods + 100) * _MI)


def node_room(model: Model, pool: Pool) -> NodeRoom:
    """Replicas of `model` on an empty node of `pool`."""
    instance, gpu = pool.instance_type, model.envelope.gpu
    devices = pool.resources_per_node.get(gpu.resource, 0)
    cpu, memory = allocatable_cpu(instance) - DAEMONS_CPU, allocatable_memory(instance) - DAEMONS_MEMORY
    each_cpu, each_memory = replica_cpu(model), replica_memory(model)
    rooms = {"GPU": devices // gpu.count, "CPU": max(0, cpu) // each_cpu, "RAM": max(0, memory) // each_memory}
    short_of = min(rooms, key=lambda name: rooms[name])
    lines = (
        Line("by GPU", str(rooms["GPU"]), f"{devices} x {gpu.resource} / {gpu.count}"),
        Line("by CPU", str(rooms["CPU"]), f"{MilliCpu(max(0, cpu))} of {instance.vcpus} cores / {each_cpu} with sidecars"),
        Line("by RAM", str(rooms["RAM"]), f"{Bytes(max(0, memory)).brief} of {instance.memory} / {each_memory.brief} with sidecars"),
    )
    return NodeRoom(rooms[short_of], short_of, lines)
