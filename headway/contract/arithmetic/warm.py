"""How many places a pool keeps free, and which images its nodes hold before a replica asks: from the contracts of the models on it. Pure.

A replica that must wait for a new node starts later by the node's own minutes. Where the contract's start-up budget leaves no room for
those, the budget holds only as long as a place is free. The trap: places are counted in devices of one node each; a replica of several
devices finds them on one node only as far as the scheduler packs nodes full, which the platform's does.
"""

from collections.abc import Sequence

from headway.contract.arithmetic.startup import startup
from headway.contract.arithmetic.surge import batch_pool_for, pool_for
from headway.contract.model import Model
from headway.contract.placement import WorkloadClass
from headway.contract.pool import Pool
from headway.contract.units import Bytes


def warm_units(pool: Pool, pools: Sequence[Pool], models: Sequence[Model]) -> int:
    """Devices (GPUs, slices or shares) to keep free on `pool`: all places that contracts pay for, and at least one replica's where a new
    node would break a budget on a latency pool.
    """
    here = [model for model in models if pool_for(model, pools) is pool]
    paid = sum(model.scaling.warm_replicas * model.envelope.gpu.count for model in here)
    latency = pool.workload_class is WorkloadClass.LATENCY
    needed = [model.envelope.gpu.count for model in here if latency and startup(model, pool).cold > model.health.startup_budget]
    return max([paid, *needed])


def artifact_room(pool: Pool, pools: Sequence[Pool], models: Sequence[Model]) -> Bytes:
    """What a node of `pool` may hold of artifacts: those of all models there twice, which is what serves and what is released next; at most a
    quarter of its disk, for every replica has a copy of its own beside.
    """
    total = sum(int(model.artifact.size) for model in models if pool_for(model, pools) is pool)
    disk = pool.disk.size if pool.model_cache == "disk" else pool.instance_type.nvme
    return Bytes(min(2 * total, int(disk) // 4))


def images(pool: Pool, pools: Sequence[Pool], models: Sequence[Model]) -> tuple[str, ...]:
    """Images that models on `pool` start from, batch workers included, sorted."""
    return tuple(sorted({m.runtime.image for m in models if pool in (pool_for(m, pools), batch_pool_for(m, pools))}))
