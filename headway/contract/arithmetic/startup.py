"""How long a replica takes from nothing to ready, step by step, against the startup probe and the error budget.

Rates are planning values with their sources; an environment that has measured its own passes them. The trap: the kubelet's startup probe
counts from container start, so image and artifact time must not be hidden in it, nor left out of the rollout's deadline.
"""

from dataclasses import dataclass

from headway.contract.explanation import Line
from headway.contract.model import Model
from headway.contract.pool import Pool
from headway.contract.runtime import Triton
from headway.contract.slo import Availability
from headway.contract.units import Bytes, Duration, Share, Throughput
from headway.problem import count


@dataclass(frozen=True, kw_only=True)
class Rates:
    """How fast an environment starts things."""

    node: Duration
    """An instance from request to Ready."""
    warm_node: Duration
    """The same from an EC2 warm pool: boot and join remain."""
    gpu_ready: Duration
    """Driver validation, device plugin and MIG partitioning, after the node is Ready."""
    image: Throughput
    """Parallel image pull onto a disk of 600 MiB/s or NVMe."""
    plain_image: Throughput
    """Serial image pull onto a slower disk."""
    nvme: Throughput
    """Artifact from object storage onto striped NVMe."""
    checksum: Throughput
    """SHA-256 on one core."""


DEFAULT_RATES = Rates(
    node=Duration.parse("2m"),  # 80 to 120 s for GPU types on EC2 (tensorfuse.io, 2025)
    warm_node=Duration.parse("1m"),
    gpu_ready=Duration.parse("1m"),
    image=Throughput.parse("300Mi/s"),  # 13 GB in 40.7 s tuned, 571 s plain (vertexcover.io, 2025)
    plain_image=Throughput.parse("22Mi/s"),
    nvme=Throughput.parse("1000Mi/s"),  # readers that stream into RAM reach three times that (run-ai/runai-model-streamer benchmarks)
    checksum=Throughput.parse("500Mi/s"),
)
PARALLEL_PULL_NEEDS = Throughput.parse("600Mi/s")
FETCHERS = 4
"""Files that the init container fetches and verifies at the same time."""


@dataclass(frozen=True)
class Startup:
    """The worst case, on a node that has neither image nor artifact."""

    node: Duration
    """Until a new node can take the pod; nothing where a node is there."""
    fetch: Duration
    """Image, artifact and its verification."""
    serve: Duration
    """Engine start and warmup: what the startup probe waits for."""
    lines: tuple[Line, ...]

    @property
    def pod(self) -> Duration:
        """From pod start to ready on a running node; held against `health.startup_budget`."""
        return Duration(self.fetch + self.serve)

    @property
    def cold(self) -> Duration:
        """From the decision to scale to ready, through a new node."""
        return Duration(self.node + self.fetch + self.serve)


def startup(model: Model, pool: Pool | None = None, rates: Rates = DEFAULT_RATES) -> Startup:
    """Start-up time of a replica of `model` on `pool`; without one, on a pool with default disks and NVMe cache."""
    nvme = pool is None or pool.model_cache == "nvme"
    warm = pool is not None and pool.warm is not None
    fast = nvme or (pool is not None and pool.disk.throughput >= PARALLEL_PULL_NEEDS)
    pull = rates.image if fast else rates.plain_image
    store = rates.nvme if nvme or pool is None else pool.disk.throughput
    size = model.artifact.size
    cores = min(FETCHERS, len(model.artifact.files))
    node = (
        Line("node", rates.warm_node if warm else rates.node, "from the warm pool" if warm else "new instance"),
        Line("GPUs ready", rates.gpu_ready, "driver, device plugin, partitioning"),
    )
    fetch = (
        Line("image", _time(model.runtime.image_size, pull), f"{model.runtime.image_size.brief} at {pull}"),
        Line("artifact", _time(size, store), f"{size.brief} at {store}"),
        Line("checksums", _time(size, Throughput(rates.checksum * cores)), f"{size.brief} at {rates.checksum} x {cores} files"),
    )
    together = _warmup_parallelism(model)
    rounds = -(-model.health.warmup.requests // together)
    serve = (
        Line("engine start", model.health.engine_start, "measured, from the contract"),
        Line(
            "warmup",
            Duration(rounds * model.health.warmup.p99),
            f"{count(rounds, 'round')} of {count(together, 'request')} x {model.health.warmup.p99}",
        ),
    )
    total = {
        name: Duration(sum(int(line.amount) for line in part if not isinstance(line.amount, str)))
        for name, part in (("node", node), ("fetch", fetch), ("serve", serve))
    }
    lines = (
        *node,
        *fetch,
        *serve,
        Line("pod start to ready", Duration(total["fetch"] + total["serve"]), f"budget {model.health.startup_budget}"),
        Line("with a new node", Duration(sum(total.values()))),
    )
    return Startup(total["node"], total["fetch"], total["serve"], lines)


def longest_start(model: Model, pool: Pool) -> Duration:
    """How long a replica may take at most, through a new node and its whole start-up budget. Later than that it has failed."""
    return Duration(startup(model, pool).node + model.health.startup_budget)


def _warmup_parallelism(model: Model) -> int:
    """Warmup requests that a replica answers at the same time."""
    if model.batching.kind == "continuous":
        return min(model.batching.max_sequences, model.health.warmup.requests)
    return min(served.instances for served in model.runtime.models) if isinstance(model.runtime, Triton) else 1


def _time(size: Bytes, rate: Throughput) -> Duration:
    return Duration(-(-int(size) * 10 // int(rate)) * 100_000)  # rounded up to tenths of a second


@dataclass(frozen=True)
class BudgetBurn:
    """What losing every replica once, and starting one anew, costs of the availability objective."""

    outage: Duration
    budget: Duration
    objective: Share

    @property
    def share(self) -> Share:
        return Share(int(self.outage) * Share.WHOLE // max(1, int(self.budget)))

    @property
    def survivable(self) -> bool:
        return self.outage <= self.budget


def budget_burn(model: Model, start: Startup) -> BudgetBurn | None:
    """The error budget against one cold start; None when no availability is promised. A contract promises it once."""
    promise = next((slo for slo in model.slo if isinstance(slo, Availability)), None)
    if promise is None:
        return None
    budget = Duration((Share.WHOLE - int(promise.objective)) * int(promise.window) // Share.WHOLE)
    return BudgetBurn(start.cold, budget, promise.objective)
