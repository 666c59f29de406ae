"""The parts of a model contract, joined: every field of `tenants/<tenant>/<model>.yaml`, without the rules between the parts.

`headway.contract.rules` is written against this class, and `headway.contract.model.Model` adds those rules to it.
"""

from typing import Annotated, Literal

from pydantic import Field

from headway.contract.accelerators import GPUS
from headway.contract.artifact import Artifact
from headway.contract.batch import Batch
from headway.contract.batching import Batching
from headway.contract.data import Data
from headway.contract.degradation import Degradation
from headway.contract.drift import Drift, WatchedTraffic
from headway.contract.envelope import Envelope
from headway.contract.evaluation import Evaluation
from headway.contract.health import Health
from headway.contract.observability import Observability
from headway.contract.optimisation import Optimisation
from headway.contract.part import Name, Part, Text
from headway.contract.pipeline import Pipeline
from headway.contract.placement import Placement, WorkloadClass
from headway.contract.prefill import Prefill
from headway.contract.rollout import Rollout
from headway.contract.routing import Routing
from headway.contract.runtime import Runtime, Triton, Vllm
from headway.contract.scaling import Scaling
from headway.contract.slo import Slo
from headway.contract.units import Share


class ModelParts(Part):
    """All fields of a model contract. Use `Model`, which also holds the rules between them."""

    contract: Literal["model/v1"]
    """The version of this schema: `model/v1`."""
    name: Name
    """The model's name: that of its file, unique in the tenant, part of every derived object's name."""
    description: Text
    """What the model answers, for people who find it in a list."""
    owner: Text
    """Who is responsible: a team or an address. Shown in alerts and in release records."""
    workload_class: Literal[WorkloadClass.LATENCY, WorkloadClass.THROUGHPUT]
    """`latency`: people wait for the answer; spread over zones, never on spot. `throughput`: packed densely. For queues see `batch`."""
    runtime: Runtime
    """What serves it."""
    artifact: Artifact
    """What is served."""
    envelope: Envelope
    """What a replica may use, and the largest request that it must handle."""
    batching: Batching
    """How requests are joined into batches."""
    optimisation: Optimisation = Optimisation()
    """How the model was made smaller or faster."""
    health: Health
    """What healthy means for this model, and how it is proved."""
    slo: Annotated[tuple[Slo, ...], Field(min_length=1, max_length=12)]
    """What is promised to callers."""
    scaling: Scaling
    """How many replicas, and what moves them."""
    placement: Placement
    """Where replicas may run, and what may share their GPUs."""
    rollout: Rollout
    """How a new version gets traffic."""
    routing: Routing = Routing.LEAST_REQUESTS
    """`least_requests`: the gateway asks a replica with few requests. `endpoint_picker`: it asks the vLLM engine that holds the prompt's beginning, or
    has time. Where no picker runs, as the former."""
    degradation: Degradation
    """What the service does under overload."""
    data: Data
    """What requests contain and what may be kept."""
    observability: Observability
    """Who is alerted, and how much is traced."""
    evaluation: Evaluation | None = None
    """What the serving version is asked after its promotion; it is not evaluated when left out."""
    drift: Drift | None = None
    """What of users' requests and answers is watched for drift; nothing when left out."""
    batch: Batch | None = None
    """The batch variant on spot; nothing of it exists when left out."""
    prefill: Prefill | None = None
    """Language models: prompts are read by replicas of their own. Judged by `check`; every environment refuses it."""
    pipeline: Pipeline | None = None
    """Language models: a replica spans nodes. Judged by `check`; every environment refuses it."""

    @property
    def nodes_each(self) -> int:
        """Pods of one replica, each on a node of its own where there are several."""
        return self.pipeline.nodes if self.pipeline else 1

    @property
    def watched_traffic(self) -> WatchedTraffic | None:
        """What a loop must know to watch it; None for one of which nothing is watched."""
        return WatchedTraffic(drift=self.drift, retention=self.data.retention) if self.drift else None

    @property
    def model_names(self) -> tuple[str, ...]:
        """Names that requests may ask for: Triton's models, or the contract's own name and those of its adapters."""
        if isinstance(self.runtime, Triton):
            return tuple(model.name for model in self.runtime.models)
        return (self.name, *(each.name for each in self.runtime.adapters)) if isinstance(self.runtime, Vllm) else (self.name,)

    @property
    def gpu_memory_utilization(self) -> Share:
        """vLLM's share of the device, from the envelope; rounded down to whole per mille of the device."""
        device = (
            GPUS[self.envelope.gpu.accelerator].memory if self.envelope.gpu.share in ("mps", "slice") else self.envelope.gpu.device_memory
        )
        return Share(int(self.envelope.gpu.memory) * 1000 // int(device) * 1000)
