"""Whether a new version can run beside the old one, from the GPUs that are really spare: surge, borrow, no surge, or not at all.

Pure on numbers, so that `check` can ask with everything at its maximum and a release with what is free right now. The trap: a canary that
waits for a GPU that never comes is a rollout that never ends, and the old version has already been told to leave.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum, unique

from headway.contract.arithmetic.node import DAEMONS_CPU, DAEMONS_MEMORY, allocatable_cpu, allocatable_memory, node_room
from headway.contract.arithmetic.quota import devices_each, pods_charged, replicas_charged
from headway.contract.arithmetic.replica import replica_cpu, replica_memory
from headway.contract.explanation import Line
from headway.contract.model import Model
from headway.contract.placement import WorkloadClass
from headway.contract.pool import Pool
from headway.contract.rollout import Strategy, Surge


@unique
class Room(StrEnum):
    """How a rollout finds its GPUs. surge: old and new side by side in full. borrow: the first arms in the service's own warm places.
    no_surge: the new version takes over replica by replica. none: nothing can move without an outage.
    """

    SURGE = "surge"
    BORROW = "borrow"
    NO_SURGE = "no_surge"
    NONE = "none"


@dataclass(frozen=True)
class SurgeDecision:
    """`extra` devices are taken beyond the service's own while the rollout runs."""

    room: Room
    extra: int
    spare: int
    allowed: bool
    """Whether the contract's `rollout.surge` permits it."""
    lines: tuple[Line, ...]


def first_arms(model: Model) -> int:
    """Replicas that a rollout starts with: the new version, and the baseline beside it where the contract wants one."""
    if model.rollout.strategy is Strategy.ROLLING:
        return 1
    return 2 if model.rollout.baseline_arm and model.rollout.strategy is Strategy.CANARY else 1


def surge(model: Model, spare: int, replicas: int | None = None) -> SurgeDecision:
    """How a rollout of `model` finds GPUs when `spare` devices of its kind are free beside its own, at `replicas` (default: the maximum)."""
    running = model.scaling.max_replicas if replicas is None else replicas
    each = devices_each(model)
    full, first = running * each, first_arms(model) * each
    warm = model.scaling.warm_replicas * each
    if spare >= full:
        room, extra = Room.SURGE, full
    elif warm + spare >= first:
        room, extra = Room.BORROW, first
    elif running >= 2:
        room, extra = Room.NO_SURGE, 0
    else:
        room, extra = Room.NONE, 0
    wanted = model.rollout.surge
    allowed = room is not Room.NONE and (wanted is Surge.AUTO or _generosity(room.value) >= _generosity(wanted.value))
    if allowed and wanted is not Surge.AUTO and room.value != wanted.value:
        room, extra = Room(wanted.value), {Surge.BORROW: first, Surge.NO_SURGE: 0}.get(wanted, extra)
    lines = (
        Line("spare devices", str(spare), model.envelope.gpu.resource),
        Line("warm places", str(warm), f"{model.scaling.warm_replicas} x {each}"),
        Line("both versions in full", str(full), f"{running} replicas x {each}"),
        Line("first arms", str(first), "new version" + (" and baseline" if first_arms(model) == 2 else "")),
        Line("decision", room.value, f"{extra} devices more while it runs"),
    )
    return SurgeDecision(room, extra, spare, allowed, lines)


def _generosity(room: str) -> int:
    return ("none", "no_surge", "borrow", "surge").index(room)


def pool_for(model: Model, pools: Sequence[Pool]) -> Pool | None:
    """The pool that the platform places a model on: the named one, else the cheapest that offers the envelope to its class."""
    if model.placement.pool is not None:
        return next((pool for pool in pools if pool.name == model.placement.pool and pool.offers(model.envelope.gpu)), None)
    return _cheapest(model, [pool for pool in pools if pool.workload_class is model.workload_class])


def batch_pool_for(model: Model, pools: Sequence[Pool]) -> Pool | None:
    """Where batch workers of a model run: the pool that the contract names, else the cheapest batch pool; None without either."""
    if model.batch is None:
        return None
    named = model.batch.pool
    return _cheapest(model, [p for p in pools if p.workload_class is WorkloadClass.BATCH and named in (None, p.name)])


def _cheapest(model: Model, pools: Sequence[Pool]) -> Pool | None:
    """The pool whose device costs least, among those that offer the envelope."""
    gpu = model.envelope.gpu
    return min(
        (pool for pool in pools if pool.offers(gpu)),
        key=lambda pool: (int(pool.instance_type.price) // pool.resources_per_node[gpu.resource], pool.name),
        default=None,
    )


def spare_for(model: Model, pool: Pool, models: Sequence[Model]) -> int:
    """Devices that a rollout of `model` finds on a full-grown `pool` with every one of `models` at its maximum: spare ones, on nodes with CPU
    and RAM left for the replicas; negative when `models`, of which it is one, are too many.
    """
    gpu, instance = model.envelope.gpu, pool.instance_type
    cpu = pool.max_nodes * (allocatable_cpu(instance) - DAEMONS_CPU) - sum(pods_charged(m) * replica_cpu(m) for m in models)
    memory = pool.max_nodes * (allocatable_memory(instance) - DAEMONS_MEMORY) - sum(pods_charged(m) * replica_memory(m) for m in models)
    nodes = model.nodes_each
    whole_places = replicas_held(model, pool) - replicas_charged(model)
    fed = min(whole_places, cpu // (replica_cpu(model) * nodes), memory // (replica_memory(model) * nodes))
    return min(spare_devices(pool, gpu.resource, models), fed * devices_each(model))


def replicas_held(model: Model, pool: Pool) -> int:
    """Replicas on an empty full-grown `pool`; one that spans nodes has all of them in one zone, or is not there."""
    return len(pool.zones) * (pool.size.max * node_room(model, pool).replicas // model.nodes_each)


def spare_devices(pool: Pool, resource: str, models: Sequence[Model]) -> int:
    """Devices of `resource` that stay free on a full-grown `pool` when every model of `models` runs at its maximum; negative when short.

    `models` are those placed on the pool, of all tenants.
    """
    offered = pool.resources_per_node.get(resource, 0) * pool.max_nodes
    used = sum(replicas_charged(m) * devices_each(m) for m in models if m.envelope.gpu.resource == resource)
    return offered - used
