"""What prefill and decode apart ask of one another: as many replicas as the traffic needs, and a network for the KV caches of prompts.

By vLLM 0.32, `distributed/kv_transfer/kv_connector/v1/nixl`: each GPU of a decode replica reads its own part of a prompt's cache, whole
blocks, once (`pull_worker.py`). EC2 gives a flow of TCP 5 Gbit/s outside a cluster placement group ("Amazon EC2 instance network bandwidth"),
and the platform offers pods no EFA. Nothing here was measured.
"""

from dataclasses import dataclass

from headway.contract.accelerators import InstanceType, smallest_with
from headway.contract.arithmetic.kv_cache import KvCache
from headway.contract.arithmetic.node import node_room
from headway.contract.explanation import Line
from headway.contract.model import Model
from headway.contract.pool import Pool
from headway.contract.roles import prefill_of
from headway.contract.runtime import Vllm
from headway.contract.units import Bytes, Duration, Rate, Throughput

FLOW = Throughput(5 * 10**9 // 8)
"""Of one connection."""


@dataclass(frozen=True)
class NodeTraffic:
    """KV caches that the replicas of one role on one node send or read in a second, at their capacity."""

    instance: InstanceType
    replicas: int
    bytes: Throughput

    @property
    def fits(self) -> bool:
        return self.bytes <= self.instance.pods_network

    @property
    def how(self) -> str:
        return f"{self.replicas} replicas on {self.instance.name}, whose pods have {self.instance.pods_network.brief}"


@dataclass(frozen=True)
class Apart:
    """How the two roles go together with every replica at its capacity."""

    prompts: Rate
    """That the decode replicas take at their maximum."""
    replicas: int
    """That read so many prompts."""
    sent: NodeTraffic
    read: NodeTraffic
    mean: Duration
    """Until a mean prompt's cache has come over, at least, by one flow between two GPUs."""
    lines: tuple[Line, ...]


def apart(model: Model, decode_pool: Pool | None = None, prefill_pool: Pool | None = None) -> Apart | None:
    """For a model whose roles are apart; nodes are those of the pools, or the smallest that hold a replica."""
    role, prefill = model.prefill, prefill_of(model)
    if role is None or prefill is None or not isinstance(model.runtime, Vllm):
        return None
    scaling, gpus = model.scaling, model.envelope.gpu.count
    prompts = Rate(scaling.max_replicas * scaling.capacity)
    replicas = -(-int(prompts) * role.prompt_tokens // int(role.token_capacity))
    cache = KvCache.of(model, model.runtime)
    # For layers with a window a block more than is read (`base_scheduler.py`, blocks_per_sw).
    mean = Bytes(cache.answering(role.prompt_tokens) * gpus)
    read = _traffic(model, decode_pool, prompts, mean)
    sent = _traffic(prefill, prefill_pool, prompts, mean)
    pairs = max(gpus, role.gpu.count)
    rate = min(FLOW * pairs, sent.instance.pods_network, read.instance.pods_network)
    least = Duration(int(mean) * 1_000_000 // rate)
    lines = (
        Line("prompts at most", prompts, f"{scaling.max_replicas} replicas x {scaling.capacity}"),
        Line(
            "replicas that read them", str(replicas), f"x {role.prompt_tokens} tokens / {role.token_capacity}; at most {role.max_replicas}"
        ),
        Line("prefill to decode", f"{role.max_replicas} : {scaling.max_replicas}", "replicas, each role at its maximum"),
        Line("KV cache of a prompt", mean, f"{cache.how(role.prompt_tokens)}{f' x {gpus} GPUs' if gpus > 1 else ''}, in whole blocks"),
        Line("sent by a prefill node", sent.bytes, sent.how),
        Line("read by a decode node", read.bytes, read.how),
        Line("which takes at least", least, f"{pairs} x 5 Gbit/s, a flow for each pair of GPUs; part of the time to first token"),
    )
    return Apart(prompts, replicas, sent, read, least, lines)


def _traffic(role: Model, pool: Pool | None, prompts: Rate, mean: Bytes) -> NodeTraffic:
    gpus = role.envelope.gpu
    instance = pool.instance_type if pool else smallest_with(gpus.accelerator, gpus.count)
    held = node_room(role, pool).replicas if pool else instance.gpus // gpus.count
    replicas = min(held, role.scaling.max_replicas)
    return NodeTraffic(instance, replicas, Throughput(min(replicas * role.scaling.capacity, int(prompts)) * mean // 3_600))
