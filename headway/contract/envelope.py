"""The resource envelope: what one replica may use, and the largest request that it must bear within it.

`Gpu` is a union over `share`; each alternative knows the accelerator and the extended resource that it requests. Quotas, pools, policies
and the fit arithmetic all read GPU needs from here.
"""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from headway.contract.accelerators import GPUS, Accelerator, MigProfile
from headway.contract.part import Count, One, Part, between
from headway.contract.placement import Isolation
from headway.contract.units import Bytes, Duration, MilliCpu
from headway.problem import Problem, problem

_MI, _GI = 2**20, 2**30
GpuMemory = Annotated[Bytes, between(Bytes(64 * _MI), Bytes(2 * 2**40))]


class WholeGpu(Part):
    """One or more entire GPUs of one node."""

    share: Literal["whole"]
    """`whole`: the replica is alone on its GPUs."""
    accelerator: Accelerator
    """The kind of GPU."""
    count: Annotated[Count, Field(le=8)] = 1
    """GPUs of one replica, all on one node; also the tensor-parallel degree of vLLM. Without NVLink (`l4`, `l40s`) `check` warns."""
    memory: GpuMemory
    """GPU memory that the replica may use on each of its GPUs; alerts and the warmup check hold it to this."""

    def violations(self) -> Iterator[Problem]:
        yield from _memory_within(self, GPUS[self.accelerator].memory, f"a whole {self.accelerator}")
        if self.count not in (1, 2, 4, 8):
            yield problem(
                "gpu-count-power-of-two",
                "count",
                value=self.count,
                fact=f"{self.count} GPUs is not a power of two",
                consequence="Attention heads cannot be divided evenly among them, and GPUs of a node with 4 or 8 would stay unused",
                remedy="Use 1, 2, 4 or 8",
            )

    @property
    def resource(self) -> str:
        return "nvidia.com/gpu"

    @property
    def device_memory(self) -> Bytes:
        """Memory of one requested device, which is charged to the quota whether used or not."""
        return GPUS[self.accelerator].memory


class MigGpu(Part):
    """One or more MIG instances: hardware partitions with memory and compute of their own."""

    share: Literal["mig"]
    """`mig`: a hardware partition of a GPU."""
    accelerator: Accelerator
    """The kind of GPU that is cut."""
    profile: Annotated[str, Field(pattern=r"^[1-7]g\.[0-9]{1,3}gb$", examples=["1g.10gb"])]
    """The MIG profile, such as `1g.10gb`; which exist depends on the accelerator."""
    count: One = 1
    """Always 1: CUDA gives a process no more than one MIG instance."""
    memory: GpuMemory
    """GPU memory that the replica may use of the instance."""

    def violations(self) -> Iterator[Problem]:
        gpu = GPUS[self.accelerator]
        profile = gpu.profile(self.profile)
        if profile is None:
            legal = ", ".join(p.name for p in gpu.mig)
            having = ", ".join(sorted(g.accelerator for g in GPUS.values() if g.mig))
            yield problem(
                "mig-profile-exists",
                "profile" if gpu.mig else "accelerator",
                value=self.profile if gpu.mig else self.accelerator,
                fact=f"{self.accelerator} has no MIG profile {self.profile}" if gpu.mig else f"{self.accelerator} has no MIG",
                consequence="No node offers this resource, so every replica would stay Pending",
                remedy=f"Use one of {legal}" if gpu.mig else f"Use an accelerator with MIG ({having}), or share: mps or slice",
            )
        else:
            yield from _memory_within(self, profile.memory, f"a {self.profile} instance of {self.accelerator}")

    @property
    def mig_profile(self) -> MigProfile:
        profile = GPUS[self.accelerator].profile(self.profile)
        assert profile is not None  # noqa: S101  violations() has refused any other
        return profile

    @property
    def resource(self) -> str:
        return self.mig_profile.resource

    @property
    def device_memory(self) -> Bytes:
        return self.mig_profile.memory


class SharedGpu(Part):
    """A share of a GPU that other replicas use at the same time."""

    share: Literal["mps", "slice"]
    """`mps`: concurrent kernels, memory split equally by the pool. `slice`: time slicing, no memory isolation; never for latency."""
    accelerator: Accelerator
    """The kind of GPU that is shared."""
    count: One = 1
    """Always 1: the device plugin refuses more than one share a container."""
    memory: GpuMemory
    """GPU memory that the replica may use; the pool must give a share at least this much."""

    def violations(self) -> Iterator[Problem]:
        yield from _memory_within(self, GPUS[self.accelerator].memory, f"a whole {self.accelerator}")

    @property
    def resource(self) -> str:
        return "nvidia.com/gpu.shared"

    @property
    def device_memory(self) -> Bytes:
        """What the envelope asks for: the size of a share is the pool's, not the contract's."""
        return self.memory


EnvelopeGpu = Annotated[WholeGpu | MigGpu | SharedGpu, Field(discriminator="share")]


def _memory_within(gpu: WholeGpu | MigGpu | SharedGpu, device: Bytes, what: str) -> Iterator[Problem]:
    if gpu.memory > device:
        yield problem(
            "gpu-memory-exists",
            "memory",
            value=gpu.memory,
            fact=f"{gpu.memory} is more than {what} has ({device})",
            consequence="The replica would run out of GPU memory inside its own envelope",
            remedy=f"Ask for at most {device}, or for a larger accelerator, profile or count",
        )


class LargestRequest(Part):
    """The largest request that the model accepts. The gateway refuses larger ones; warmup proves that this one works."""

    body: Annotated[Bytes, between(Bytes(1024), Bytes(256 * _MI))]
    """Largest request body; larger ones get 413."""
    timeout: Annotated[Duration, between(Duration.parse("10ms"), Duration.parse("1h"))]
    """Longest time a request may take; after it the gateway answers 504."""
    context_tokens: Annotated[Count, Field(le=2_000_000)] | None = None
    """Language models: prompt and answer together, in tokens; becomes `--max-model-len` and the size of the KV cache."""
    output_tokens: Annotated[Count, Field(le=1_000_000)] | None = None
    """Language models: longest answer, in tokens; vLLM ends every answer there, whatever `max_tokens` asks."""


class Envelope(Part):
    """What one replica may use. Requests equal limits: nothing is borrowed, nothing is overcommitted."""

    gpu: EnvelopeGpu
    """The GPU, or the part of one, that a replica holds. Every model holds one; a server without a GPU is a raw manifest."""
    cpu: Annotated[MilliCpu, between(MilliCpu(100), MilliCpu(192_000))]
    """CPU of the server container."""
    memory: Annotated[Bytes, between(Bytes(128 * _MI), Bytes(2 * 2**40))]
    """RAM of the server container, including `shared_memory`."""
    shared_memory: Annotated[Bytes, between(Bytes(0), Bytes(2**40))] = Bytes(0)
    """Size of `/dev/shm`; counts as RAM. Tensor-parallel servers and Triton's Python backend need it; under MPS it is the node's."""
    scratch: Annotated[Bytes, between(Bytes(_GI // 4), Bytes(4 * 2**40))] = Bytes(2 * _GI)
    """Ephemeral storage for logs, compilation caches and temporary files; the artifact has space of its own."""
    largest_request: LargestRequest
    """The largest request that the replica must handle within this envelope."""

    def violations(self) -> Iterator[Problem]:
        if self.shared_memory and self.gpu.share == "mps":
            # NVIDIA/k8s-device-plugin, internal/plugin/mps.go; the kubelet mounts a pod's own volumes after a device's (kubelet_pods.go).
            yield problem(
                "shared-memory-is-the-daemons-under-mps",
                "shared_memory",
                value=self.shared_memory,
                fact="a GPU is shared by MPS through /dev/shm, which the replica would cover with its own",
                consequence="CUDA would not find the MPS server, and the model would not start",
                remedy="Leave shared_memory out, for the node's replicas have half of its RAM there; or use share: whole, mig or slice",
            )
        if self.shared_memory and self.shared_memory * 2 > self.memory:
            yield problem(
                "shared-memory-within-ram",
                "shared_memory",
                value=self.shared_memory,
                fact=f"shared memory of {self.shared_memory} is more than half of the RAM ({self.memory})",
                consequence="The kernel would kill a server that fills it, because shared memory counts as RAM",
                remedy=f"Raise memory to at least {Bytes(int(self.shared_memory) * 2)}, or lower shared_memory",
            )

    @property
    def isolation_of_gpu(self) -> Isolation:
        """The strongest isolation that this share can give."""
        return {"whole": Isolation.DEDICATED, "mig": Isolation.MIG}.get(self.gpu.share, Isolation.SHARED)
