"""Whether a system pool holds what runs on it: the requests of every pod against its nodes, at their fewest and at their most.

Pods are placed as the scheduler places them, one at a time on the emptiest node that may hold them, so what does not fit because of its
size or because two of a kind may not share a node is found, and not only what exceeds the sum. The traps: a release waits for its pods, and
the autoscaler is installed last, so what starts must fit on the fewest nodes; and a volume never leaves its zone.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from headway.contract.accelerators import INSTANCE_TYPES, InstanceType
from headway.contract.arithmetic.node import allocatable_cpu, allocatable_memory
from headway.contract.explanation import Line
from headway.contract.pool import SystemPool
from headway.contract.units import Bytes, MilliCpu
from headway.problem import Problem, problem

NO_VOLUME = Bytes(0)
MOST_NODES = 100
"""Where the search for a size that suffices ends."""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """Pods of one kind; `cpu` and `memory` are what one of them requests, its sidecars included."""

    name: str
    cpu: MilliCpu
    memory: Bytes
    least: int = 1
    """How many there are at least; nothing for those on every node."""
    most: int = 1
    """How many an autoscaler makes of them."""
    every_node: bool = False
    """Whether one runs on each node, whatever its pool."""
    apart: bool = False
    """Whether no two of them may share a node."""
    by_zone: bool = False
    """Whether zones may differ by one of them at most."""
    volume: Bytes = NO_VOLUME
    """Of each one's volume, with which it returns to its zone only; nothing where it has none."""
    source: str = ""
    """Where the figures are said."""


@dataclass
class _Node:
    zone: int
    cpu: int
    memory: int
    held: list[Workload] = field(default_factory=list[Workload])

    def take(self, pod: Workload) -> None:
        self.cpu -= int(pod.cpu)
        self.memory -= int(pod.memory)
        self.held.append(pod)

    def holds(self, pod: Workload) -> int:
        return sum(held.name == pod.name for held in self.held)

    def may_hold(self, pod: Workload) -> bool:
        return self.cpu >= pod.cpu and self.memory >= pod.memory and not (pod.apart and self.holds(pod))


@dataclass(frozen=True, kw_only=True)
class Loss:
    """What does not return at once when the worst node is lost."""

    homeless: tuple[str, ...] = ()
    """No other node has room for them."""
    bound: tuple[str, ...] = ()
    """Their volume is in the lost node's zone, or no two of them may share a node: they wait for its successor."""

    def __str__(self) -> str:
        parts = [f"no room for {', '.join(self.homeless)}"] if self.homeless else []
        parts += [f"{', '.join(self.bound)} wait for its successor"] if self.bound else []
        return "; ".join(parts) or "everything returns at once"


@dataclass(frozen=True, kw_only=True)
class SystemRoom:
    """A pool of nodes of `instance` and what runs on it. `problems` says what does not fit."""

    instance: InstanceType
    node_cpu: MilliCpu
    """Of each node, for pods that are not on every node."""
    node_memory: Bytes
    cpu_least: MilliCpu
    cpu_most: MilliCpu
    memory_least: Bytes
    memory_most: Bytes
    nodes_least: int
    """Nodes that hold all pods at their fewest; MOST_NODES + 1 where no number does."""
    nodes_most: int
    """The same at their most."""
    loss_least: Loss
    """Of one of the fewest nodes, with pods at their fewest."""
    loss_most: Loss
    """Of one of the most nodes, with pods at their most: then no further node may be added."""
    waiting_after_zone: tuple[str, ...]
    """What finds no place on the other zones' nodes alone."""
    lines: tuple[Line, ...]
    problems: tuple[Problem, ...]


def system_room(workloads: Sequence[Workload], pool: SystemPool) -> SystemRoom:
    """`workloads` on `pool`, whose weakest instance type is reckoned with: any of them may be started."""
    instance = min((INSTANCE_TYPES[name] for name in pool.instance_types), key=lambda found: (found.vcpus, found.memory))
    zones = len(pool.zones)
    cpu, memory = node_for_pods(workloads, instance)
    cpu_least, memory_least = _sum(workloads, most=False)
    cpu_most, memory_most = _sum(workloads, most=True)
    room = SystemRoom(
        instance=instance,
        node_cpu=cpu,
        node_memory=memory,
        cpu_least=cpu_least,
        cpu_most=cpu_most,
        memory_least=memory_least,
        memory_most=memory_most,
        nodes_least=nodes_for(workloads, instance, zones, most=False),
        nodes_most=nodes_for(workloads, instance, zones, most=True),
        loss_least=_after_loss(workloads, instance, pool.size.min, zones, most=False),
        loss_most=_after_loss(workloads, instance, pool.size.max, zones, most=True),
        waiting_after_zone=_after_zone(workloads, instance, pool.size.max, zones),
        lines=(),
        problems=(),
    )
    return replace(room, lines=_lines(room, pool), problems=_problems(workloads, room, pool))


def node_for_pods(workloads: Sequence[Workload], instance: InstanceType) -> tuple[MilliCpu, Bytes]:
    """What a node has for pods beside those that run on every node; nothing where those alone fill it."""
    cpu, memory = daemons(workloads)
    return MilliCpu(max(0, allocatable_cpu(instance) - cpu)), Bytes(max(0, allocatable_memory(instance) - memory))


def daemons(workloads: Sequence[Workload]) -> tuple[MilliCpu, Bytes]:
    """What the pods on every node request of each."""
    every = [each for each in workloads if each.every_node]
    return MilliCpu(sum(each.cpu for each in every)), Bytes(sum(each.memory for each in every))


def nodes_for(workloads: Sequence[Workload], instance: InstanceType, zones: int, *, most: bool) -> int:
    """The fewest nodes on which every pod finds a place; MOST_NODES + 1 where not even MOST_NODES do."""
    return next(
        (nodes for nodes in range(1, MOST_NODES + 1) if not _placed(workloads, instance, nodes, zones, most=most)[1]), MOST_NODES + 1
    )


def _sum(workloads: Sequence[Workload], *, most: bool) -> tuple[MilliCpu, Bytes]:
    pods = [(each.most if most else each.least, each) for each in workloads if not each.every_node]
    return MilliCpu(sum(n * each.cpu for n, each in pods)), Bytes(sum(n * each.memory for n, each in pods))


def _placed(
    workloads: Sequence[Workload], instance: InstanceType, nodes: int, zones: int, *, most: bool
) -> tuple[list[_Node], list[Workload]]:
    """The nodes with what they hold, and what found no place. Large pods first, as a scheduler that retries ends up with."""
    cpu, memory = node_for_pods(workloads, instance)
    found = [_Node(number % zones, cpu, memory) for number in range(nodes)]
    pods = [each for each in workloads if not each.every_node for _ in range(each.most if most else each.least)]
    pods.sort(key=lambda pod: (-max(pod.cpu / max(1, cpu), pod.memory / max(1, memory)), pod.name))
    return found, [pod for pod in pods if not _place(pod, found, min(zones, nodes))]


def _place(pod: Workload, nodes: Sequence[_Node], zones: int) -> bool:
    able = [node for node in nodes if node.may_hold(pod)]
    if pod.by_zone:
        held = [sum(node.holds(pod) for node in nodes if node.zone == zone) for zone in range(zones)]
        able = [node for node in able if held[node.zone] <= min(held)]
    if able:
        max(able, key=lambda node: (node.cpu, node.memory)).take(pod)
    return bool(able)


def _after_loss(workloads: Sequence[Workload], instance: InstanceType, nodes: int, zones: int, *, most: bool) -> Loss:
    """For the node whose loss leaves most waiting."""
    worst = Loss()
    placed, _ = _placed(workloads, instance, nodes, zones, most=most)
    for lost, gone in enumerate(placed):
        rest = [replace(node, held=list(node.held)) for number, node in enumerate(placed) if number != lost]
        waiting, bound = list[str](), list[str]()
        for pod in gone.held:
            near = [node for node in rest if node.zone == gone.zone] if pod.volume else rest
            # A zone that has lost its last node still counts: the scheduler knows it until the node is deleted, and then it does not.
            if not _place(_anywhere(pod), near, zones):
                (bound if pod.apart or pod.volume else waiting).append(pod.name)
        loss = Loss(homeless=tuple(sorted(set(waiting))), bound=tuple(sorted(set(bound))))
        worst = max(worst, loss, key=lambda found: (len(found.homeless), len(found.bound)))
    return worst


def _anywhere(pod: Workload) -> Workload:
    return replace(pod, by_zone=False)


def _after_zone(workloads: Sequence[Workload], instance: InstanceType, nodes: int, zones: int) -> tuple[str, ...]:
    """What finds no place on the other zones' nodes; volumes aside, which their zone keeps anyway."""
    if zones < 2:
        return tuple(sorted({each.name for each in workloads if not each.every_node}))
    left = nodes - -(-nodes // zones)
    moved = [_anywhere(each) for each in workloads]
    return tuple(sorted({pod.name for pod in _placed(moved, instance, left, zones - 1, most=True)[1]}))


def _lines(room: SystemRoom, pool: SystemPool) -> tuple[Line, ...]:
    at_most = pool.size.max
    cpu, memory = at_most * room.node_cpu, at_most * room.node_memory
    zone = (
        f"no place for {', '.join(room.waiting_after_zone)}"
        if room.waiting_after_zone
        else "everything has a place, but for what volumes keep there"
    )
    return (
        Line("CPU needed", f"{_cores(room.cpu_least)} to {_cores(room.cpu_most)}", "fewest to most replicas, DaemonSets aside"),
        Line("RAM needed", f"{room.memory_least.brief} to {room.memory_most.brief}", ""),
        Line("CPU of a node", _cores(room.node_cpu), f"{room.instance.name}, less kubelet and DaemonSets"),
        Line("RAM of a node", room.node_memory.brief, ""),
        Line("CPU left at most", _cores(max(0, cpu - room.cpu_most)), f"of {_cores(cpu)} on {at_most} nodes"),
        Line("RAM left at most", Bytes(max(0, memory - room.memory_most)).brief, f"of {Bytes(memory).brief}"),
        Line("nodes needed", _range(room.nodes_least, room.nodes_most), f"the pool has {_range(pool.size.min, at_most)}"),
        Line(f"one of {pool.size.min} nodes lost", "full" if room.loss_least.homeless else "fits", f"at the fewest: {room.loss_least}"),
        Line(f"one of {at_most} nodes lost", "full" if room.loss_most.homeless else "fits", f"at the most: {room.loss_most}"),
        Line("one zone lost", "full" if room.waiting_after_zone else "fits", f"at the most: {zone}"),
    )


def _problems(workloads: Sequence[Workload], room: SystemRoom, pool: SystemPool) -> tuple[Problem, ...]:
    found = list[Problem]()
    if room.nodes_least > pool.size.min:
        found.append(
            problem(
                "system-pool-holds-the-start",
                "size",
                "min",
                value=pool.size.min,
                fact=_fact(workloads, room, pool, most=False),
                consequence="The autoscaler comes last, so no node is added: releases wait for their pods until they fail",
                remedy=_remedy(workloads, room, pool, most=False),
            )
        )
    if room.nodes_most > pool.size.max:
        found.append(
            problem(
                "system-pool-holds-the-platform",
                "size",
                "max",
                value=pool.size.max,
                fact=_fact(workloads, room, pool, most=True),
                consequence="Under load some of them would wait for ever, gateways among them",
                remedy=_remedy(workloads, room, pool, most=True),
            )
        )
    elif room.loss_most.homeless:
        enough = next(
            n for n in count(pool.size.max + 1) if not _after_loss(workloads, room.instance, n, len(pool.zones), most=True).homeless
        )
        found.append(
            problem(
                "system-pool-survives-a-node",
                "size",
                "max",
                value=pool.size.max,
                fact=f"with one of {pool.size.max} nodes lost and pods at their most, {', '.join(room.loss_most.homeless)} find no place",
                consequence="They would be down until the node is replaced, when users need them most",
                remedy=f"Write max: {enough}",
            )
        )
    return tuple(found)


def _fact(workloads: Sequence[Workload], room: SystemRoom, pool: SystemPool, *, most: bool) -> str:
    nodes = pool.size.max if most else pool.size.min
    when, cpu, memory = ("most", room.cpu_most, room.memory_most) if most else ("fewest", room.cpu_least, room.memory_least)
    homeless = sorted({pod.name for pod in _placed(workloads, room.instance, nodes, len(pool.zones), most=most)[1]})
    have = (
        f"{nodes} nodes of {room.instance.name} have {_cores(nodes * room.node_cpu)} and {Bytes(nodes * room.node_memory).brief} for them"
    )
    asked = f"the platform's pods request {_cores(cpu)} CPU and {memory.brief} of RAM at their {when}"
    return f"{asked}; {have}, and {', '.join(homeless)} find no place"


def _remedy(workloads: Sequence[Workload], room: SystemRoom, pool: SystemPool, *, most: bool) -> str:
    """A number of nodes that suffices, and the cheapest type with which the present number does."""
    zones = len(pool.zones)
    bound, nodes, needed = ("max", pool.size.max, room.nodes_most) if most else ("min", pool.size.min, room.nodes_least)
    larger = [
        each.name
        for each in sorted(INSTANCE_TYPES.values(), key=lambda each: each.price)
        if not each.gpus and nodes_for(workloads, each, zones, most=most) <= nodes
    ]
    ways = [f"{bound}: {needed}"] if needed <= MOST_NODES else []
    ways += [f"instance_types: [{larger[0]}]"] if larger else []
    return "Write " + " or ".join(ways) if ways else "Spread the platform over larger nodes than the catalogue has, or make it smaller"


def _range(least: int, most: int) -> str:
    named = [str(nodes) if nodes <= MOST_NODES else f"more than {MOST_NODES}" for nodes in (least, most)]
    return named[0] if least == most else " to ".join(named)


def _cores(milli: int) -> str:
    return f"{milli / 1000:.2f}"
