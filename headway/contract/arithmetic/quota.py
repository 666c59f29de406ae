"""What the models of a tenant use of its quota at their maximum replicas, batch workers included.

The tenant's ResourceQuota counts whole pods, so these sums hold the sidecars. The trap: a rollout that runs two versions side by side
needs quota for both; `arithmetic.surge` takes what is left here into account.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from headway.contract.arithmetic.replica import WORKER_CPU, WORKER_MEMORY, replica_cpu, replica_memory
from headway.contract.envelope import MigGpu, WholeGpu
from headway.contract.explanation import Line
from headway.contract.model import Model
from headway.contract.tenant import Quota, Tenant
from headway.contract.units import Bytes, MilliCpu, Quantity, Rate


@dataclass(frozen=True)
class Use:
    """One resource of the quota: `path` is its field in the tenant contract; amounts are plain numbers of `show`'s smallest unit."""

    path: tuple[str, ...]
    used: int
    limit: int
    lines: tuple[Line, ...]
    show: Callable[[int], Quantity | int]

    @property
    def within(self) -> bool:
        return self.used <= self.limit

    @property
    def need(self) -> str:
        """What is used, for people: memory rounded up, so that it may be granted as it stands."""
        used = self.show(self.used)
        return used.enough if isinstance(used, Bytes) else str(used)


def replicas_charged(model: Model) -> int:
    """Replicas that the quota is charged for: online maximum, warm places and batch workers."""
    return model.scaling.max_replicas + model.scaling.warm_replicas + (model.batch.max_replicas if model.batch else 0)


def pods_charged(model: Model) -> int:
    """The same in pods."""
    return replicas_charged(model) * model.nodes_each


def devices_each(model: Model) -> int:
    """Devices of one replica, on all of its nodes."""
    return model.envelope.gpu.count * model.nodes_each


def demand(model: Model) -> dict[tuple[str, ...], int]:
    """What one pod takes of each resource, by the path of its field below `quota`."""
    gpu = model.envelope.gpu
    if isinstance(gpu, WholeGpu):
        device: tuple[str, ...] = ("gpus", gpu.accelerator)
    else:
        device = ("mig", gpu.profile) if isinstance(gpu, MigGpu) else ("shared",)
    return {
        device: gpu.count,
        ("gpu_memory",): gpu.device_memory * gpu.count,
        ("cpu",): replica_cpu(model),
        ("memory",): replica_memory(model),
    }


def _beside(model: Model, path: tuple[str, ...]) -> int:
    """What the batch workers of a model take beyond its replicas: each has a container that feeds it."""
    each = {"cpu": int(WORKER_CPU), "memory": int(WORKER_MEMORY)}.get(path[0], 0)
    return each * model.batch.max_replicas if model.batch else 0


def _charged(model: Model, path: tuple[str, ...], amount: int) -> int:
    return amount * pods_charged(model) + _beside(model, path)


def _how(model: Model, path: tuple[str, ...], each: Quantity | int, show: Callable[[int], Quantity | int]) -> str:
    beside = _beside(model, path)
    return f"{each.brief if isinstance(each, Bytes) else each} x {_replicas(model)}" + (
        f" + {show(beside)} for what feeds them" if beside else ""
    )


def granted(quota: Quota) -> dict[tuple[str, ...], int]:
    """What the quota grants of each resource, by the same paths; a device that is not there is not granted."""
    return {
        **{("gpus", str(kind)): count for kind, count in quota.gpus.items()},
        **{("mig", profile): count for profile, count in quota.mig.items()},
        ("shared",): quota.shared,
        ("gpu_memory",): int(quota.gpu_memory),
        ("cpu",): int(quota.cpu),
        ("memory",): int(quota.memory),
    }


def quota_use(tenant: Tenant, models: Sequence[Model]) -> tuple[Use, ...]:
    """Every resource that is used or granted, sorted by path; one line for each model that uses it."""
    demands, limits = [(model, demand(model)) for model in models], granted(tenant.quota)
    uses: list[Use] = []
    for path in sorted({*limits, *(path for _, of_one in demands for path in of_one)}):
        show = _SHOWN.get(path[0], int)
        takers = [(model, of_one[path]) for model, of_one in demands if path in of_one]
        uses.append(
            Use(
                path=("quota", *path),
                used=sum(_charged(model, path, amount) for model, amount in takers),
                limit=limits.get(path, 0),
                lines=tuple(Line(m.name, str(show(_charged(m, path, a))), _how(m, path, show(a), show)) for m, a in takers),
                show=show,
            )
        )
    return tuple(uses)


def spare_devices_by_quota(tenant: Tenant, models: Sequence[Model], model: Model) -> int:
    """Devices that `model` may take beyond every model's maximum before the tenant's quota refuses a pod."""
    return scarcest_of_quota(tenant, models, model)[0]


def scarcest_of_quota(tenant: Tenant, models: Sequence[Model], model: Model) -> tuple[int, str]:
    """The same, and the field of the quota that leaves no more of them."""
    need = demand(model)
    free = {use.path[1:]: max(0, use.limit - use.used) for use in quota_use(tenant, models)}
    replicas, path = min((free[path] // (amount * model.nodes_each), path) for path, amount in need.items() if amount)
    return replicas * devices_each(model), ".".join(("quota", *path))


def token_use(models: Sequence[Model]) -> Rate:
    """Tokens a second that all language models together generate at their maximum."""
    return Rate(sum(model.scaling.token_capacity * model.scaling.max_replicas for model in models if model.scaling.token_capacity))


def _replicas(model: Model) -> str:
    parts = [f"{model.scaling.max_replicas} replicas"]
    if model.scaling.warm_replicas:
        parts.append(f"{model.scaling.warm_replicas} warm")
    if model.batch:
        parts.append(f"{model.batch.max_replicas} batch workers")
    over = f" x {model.nodes_each} nodes" if model.nodes_each > 1 else ""
    return (parts[0] if len(parts) == 1 else f"({' + '.join(parts)})") + over


_SHOWN: dict[str, Callable[[int], Quantity | int]] = {"gpu_memory": Bytes, "cpu": MilliCpu, "memory": Bytes}
