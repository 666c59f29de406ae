"""Where a model runs and what its place promises: workload class, isolation, pool.

The trap: `Isolation` says what the neighbours may do to a replica; how a GPU is cut is `envelope.gpu.share`, and the two must agree.
"""

from enum import StrEnum, unique

from headway.contract.part import Name, Part


@unique
class WorkloadClass(StrEnum):
    """What a workload is optimised for, and so how it is scheduled. Not its priority, which says who yields to whom.

    latency: answers people wait for; spread over zones and hosts. throughput: online, packed densely. batch: from a queue, on spot.
    """

    LATENCY = "latency"
    THROUGHPUT = "throughput"
    BATCH = "batch"

    @property
    def packing(self) -> "Packing":
        """Online answers survive the loss of a node; everything else is cheaper dense."""
        return Packing.SPREAD if self is WorkloadClass.LATENCY else Packing.PACK


@unique
class Packing(StrEnum):
    """How replicas are laid over nodes: apart, so that one node's loss costs little, or close, so that whole nodes come free."""

    SPREAD = "spread"
    PACK = "pack"


@unique
class Isolation(StrEnum):
    """What shares the GPU with a model.

    dedicated: nothing; one model in one server on whole GPUs. mig: other models, behind a hardware partition. shared: other models in the
    same server or through MPS or time slicing, without a hardware partition.
    """

    DEDICATED = "dedicated"
    MIG = "mig"
    SHARED = "shared"


class Placement(Part):
    """Where replicas may run."""

    isolation: Isolation
    """What may share the GPU: `dedicated`, `mig` or `shared`. Checked against `envelope.gpu.share` and the number of models."""
    pool: Name | None = None
    """The GPU pool to use. Left out, the platform takes the cheapest pool that offers the envelope to the workload class."""
