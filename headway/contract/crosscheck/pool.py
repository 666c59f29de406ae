"""What shows when models and the GPU pools of an environment are seen together: placement, node size, drivers, room for a rollout."""

from collections.abc import Iterator, Sequence

from headway.contract.arithmetic.node import node_room
from headway.contract.arithmetic.quota import devices_each
from headway.contract.arithmetic.surge import Room, batch_pool_for, first_arms, surge
from headway.contract.crosscheck.arithmetic_of_model import start
from headway.contract.model import Model
from headway.contract.placement import WorkloadClass
from headway.contract.pool import Pool
from headway.contract.rollout import Strategy, Surge
from headway.problem import Problem, problem


def no_pool(model: Model, pools: Sequence[Pool]) -> Problem:
    gpu = model.envelope.gpu
    what = f"{gpu.count} x {gpu.accelerator} by {gpu.share}" + (f" {gpu.profile}" if gpu.share == "mig" else "")
    offers = "; ".join(f"{p.name}: {p.accelerator} by {p.sharing.mode}, {p.workload_class}" for p in sorted(pools, key=lambda p: p.name))
    named = model.placement.pool
    return problem(
        "pool-offers-the-envelope",
        *(("placement", "pool") if named else ("envelope", "gpu")),
        value=named or what,
        fact=f"pool {named} does not offer {what}" if named else f"no {model.workload_class} pool offers {what}",
        consequence="Every replica would stay Pending",
        remedy=f"Choose what a pool offers ({offers})" if offers else "Add a pool to the environment's settings",
    )


def on_pool(model: Model, pool: Pool) -> Iterator[Problem]:
    if pool.capacity.kind == "spot" or pool.workload_class is WorkloadClass.BATCH:
        yield problem(
            "online-never-on-spot",
            "placement",
            "pool",
            value=pool.name,
            fact=f"this online service would run on the {pool.workload_class} pool {pool.name} ({pool.capacity.kind})",
            consequence="AWS can take its nodes away with two minutes' notice",
            remedy="Choose a latency or throughput pool",
        )
    room = node_room(model, pool)
    if not room.replicas:
        sums = "; ".join(f"{line.what} {line.figure}: {line.why}" for line in room.lines)
        yield problem(
            "replica-fits-on-a-node",
            "envelope",
            {"CPU": "cpu", "RAM": "memory"}.get(room.short_of, "gpu"),
            value=pool.instance_type.name,
            fact=f"an empty {pool.instance_type.name} of pool {pool.name} holds no replica for want of {room.short_of} ({sums})",
            consequence="Every replica would stay Pending",
            remedy="Request less, or use a pool of larger instances",
        )
    if _older(pool.ami.driver, model.runtime.minimum_driver):
        yield problem(
            "driver-new-enough",
            "runtime",
            "minimum_driver",
            value=model.runtime.minimum_driver,
            fact=f"pool {pool.name} has driver {pool.ami.driver}, and the image needs {model.runtime.minimum_driver}",
            consequence="The server would not start: CUDA refuses an older driver",
            remedy="Use an image for that driver, or roll the pool to a newer AMI release",
        )
    yield from start(model, pool)


def batch_pool(model: Model, pools: Sequence[Pool]) -> Iterator[Problem]:
    batch = model.batch
    if batch_pool_for(model, pools) is None:
        yield problem(
            "batch-has-a-pool",
            "batch",
            *(("pool",) if batch and batch.pool else ()),
            value=batch.pool if batch else None,
            fact=f"no batch pool offers {model.envelope.gpu.accelerator} by {model.envelope.gpu.share}",
            consequence="Messages would wait until their deadline has passed",
            remedy="Leave batch out, or add a spot pool with workload_class: batch to the environment",
        )


def rollout_room(model: Model, spare: int, scarce: str) -> Iterator[Problem]:
    """`scarce`: the pool or the field of the quota that leaves no more than `spare` devices."""
    decision = surge(model, spare)
    left = f"{scarce} leaves room for {spare} {model.envelope.gpu.resource} with every model that shares it at its maximum"
    if decision.room is Room.NONE:
        yield problem(
            "rollout-has-room",
            "scaling",
            "max_replicas",
            value=model.scaling.max_replicas,
            fact=f"{left}, and there is no second replica to take over its requests",
            consequence="A new version could start only after the old one has stopped, so every rollout would be an outage",
            remedy="Raise the quota or the pool by one device, run 2 replicas, or keep a warm replica",
        )
    elif not decision.allowed:
        yield problem(
            "rollout-has-room",
            "rollout",
            "surge",
            value=model.rollout.surge,
            fact=f"{left}, and {model.rollout.surge} needs {_needed(model)}",
            consequence="The new version would wait for a GPU that never becomes free",
            remedy="Use surge: auto, raise the quota, or grow the pool",
        )
    elif model.rollout.strategy is Strategy.BLUE_GREEN and decision.room is not Room.SURGE:
        yield problem(
            "blue-green-needs-both",
            "rollout",
            "strategy",
            value=model.rollout.strategy,
            fact=f"{left}, and both versions at full size need {model.scaling.max_replicas * devices_each(model)} more",
            consequence="The two versions could never run side by side",
            remedy="Use strategy: canary or rolling, raise the quota, or grow the pool",
        )


def too_small(model: Model, pool: Pool, left: int) -> Problem:
    short = -(left // devices_each(model))
    return problem(
        "pool-holds-the-maximum",
        "scaling",
        "max_replicas",
        value=model.scaling.max_replicas,
        fact=f"with every model at its maximum, pool {pool.name} at its largest cannot hold {short} of this model's replicas",
        consequence="At a load peak the last replicas would stay Pending for want of GPUs, CPU or RAM",
        remedy="Grow the pool (size.max), or lower max_replicas of its models (`headway check --explain`)",
    )


def _needed(model: Model) -> int:
    replicas = model.scaling.max_replicas if model.rollout.surge is Surge.SURGE else first_arms(model)
    return replicas * devices_each(model)


def _older(driver: str, needed: str) -> bool:
    def parts(text: str) -> tuple[int, ...]:
        return tuple(int(part) for part in text.split("."))

    return parts(driver) < parts(needed)
