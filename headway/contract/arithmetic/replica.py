"""CPU and RAM of one replica's whole pod: the server of the envelope, and what the platform puts beside it.

The same figures are rendered into the pods, charged to quotas and held against nodes. The trap: native sidecars run while init containers
do, so a pod asks for its sidecars and for the greater of the server and the fetching init container.
"""

from headway.contract.model import Model
from headway.contract.runtime import Container, Vllm
from headway.contract.units import Bytes, MilliCpu

_MI = 2**20

PROXY_CPU, PROXY_MEMORY = MilliCpu(100), Bytes(128 * _MI)
"""The mesh's proxy; istio's own defaults, set in the mesh's values all the same."""
RELAY_CPU, RELAY_MEMORY = MilliCpu(50), Bytes(64 * _MI)
"""Hands out the metrics of a server that has no port for them."""
FETCH_CPU, FETCH_MEMORY = MilliCpu(1000), Bytes(512 * _MI)
"""Fetches and proves the artifact before the server starts: thirty-two ranges of 8 MiB in flight, and Python."""

WORKER_CPU, WORKER_MEMORY = MilliCpu(250), Bytes(256 * _MI)
"""Takes messages from the queue, beside the server of a batch replica."""


def relayed(model: Model) -> bool:
    """Whether the server's metrics share a port with its requests, so that a sidecar hands them out."""
    runtime = model.runtime
    return isinstance(runtime, Vllm) or (isinstance(runtime, Container) and runtime.metrics.port == runtime.port)


def replica_cpu(model: Model) -> MilliCpu:
    """CPU that the scheduler and the quota count for one replica."""
    relay = int(RELAY_CPU) if relayed(model) else 0
    return MilliCpu(max(int(model.envelope.cpu), int(FETCH_CPU)) + int(PROXY_CPU) + relay)


def replica_memory(model: Model) -> Bytes:
    """RAM that the scheduler and the quota count for one replica."""
    relay = int(RELAY_MEMORY) if relayed(model) else 0
    return Bytes(max(int(model.envelope.memory), int(FETCH_MEMORY)) + int(PROXY_MEMORY) + relay)
