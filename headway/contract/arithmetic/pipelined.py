"""A language model whose layers are divided over nodes: what a stage holds, and what it hands to the next.

By vLLM 0.32: `distributed/utils.py` (get_pp_indices: layers of a stage) and `v1/worker/gpu_worker.py` (hidden states and residual go on, each
GPU of a stage sends its part). NCCL goes by TCP, for the platform offers pods no EFA. Nothing here was measured.
"""

from dataclasses import dataclass

from headway.contract.accelerators import smallest_with
from headway.contract.explanation import Line
from headway.contract.model import Model
from headway.contract.pool import Pool
from headway.contract.runtime import Architecture, Vllm
from headway.contract.units import Bytes, Duration

ELEMENT, HANDED_ON = 2, 2
"""Bytes of an activation; hidden states and residual."""


def stage(runtime: Vllm, nodes: int) -> Vllm:
    """The runtime with the layers of its largest stage; those with a window count as evenly spread."""
    shape = runtime.architecture
    if nodes == 1:
        return runtime
    window = shape.sliding_window
    fewer = {
        "layers": -(-shape.layers // nodes),
        "sliding_window": window.model_copy(update={"layers": -(-window.layers // nodes)}) if window else None,
    }
    return runtime.model_copy(update={"architecture": shape.model_copy(update=fewer)})


def of_stage(weights: int, shape: Architecture, layers: int) -> int:
    """Bytes of `weights` in a stage of so many layers, with the embedding or the logits, which only one stage has."""
    if layers == shape.layers:
        return weights
    outside = min(weights, shape.vocabulary * shape.hidden * ELEMENT)
    return outside + (weights - outside) * layers // shape.layers


def handed_on(runtime: Vllm, tokens: int) -> Bytes:
    """What goes from one node to the next in a step of `tokens`."""
    return Bytes(tokens * runtime.architecture.hidden * ELEMENT * HANDED_ON)


@dataclass(frozen=True)
class Spanning:
    """What a largest step tells between nodes."""

    tokens: int
    bytes: Bytes
    """By each node but the last."""
    least: Duration
    """On all the ways together."""
    lines: tuple[Line, ...]


def spanning(model: Model, pool: Pool | None = None) -> Spanning | None:
    """For a model whose replicas span nodes; nodes are those of `pool`, or the smallest that hold a stage."""
    runtime, batching = model.runtime, model.batching
    if model.pipeline is None or not isinstance(runtime, Vllm) or batching.kind != "continuous":
        return None
    gpu, nodes, layers = model.envelope.gpu, model.pipeline.nodes, runtime.architecture.layers
    gpus, tokens = gpu.count, batching.max_batched_tokens
    instance = pool.instance_type if pool else smallest_with(gpu.accelerator, gpus)
    size, ways = handed_on(runtime, tokens), nodes - 1
    least = Duration(ways * int(size) * 1_000_000 // int(instance.pods_network))
    lines = (
        Line("GPUs of a replica", str(nodes * gpus), f"{nodes} nodes x {gpus}; tensor parallel {gpus}, pipeline parallel {nodes}"),
        Line("layers of a node", str(stage(runtime, nodes).architecture.layers), f"of {layers}, on the node that has most"),
        Line(
            "handed on in the largest step",
            size,
            f"{tokens} tokens x {runtime.architecture.hidden} x {HANDED_ON} x {ELEMENT} bytes, by TCP",
        ),
        Line(
            "which takes at least",
            least,
            f"{'once' if ways == 1 else f'{ways} times'} at {instance.pods_network.brief} of {instance.name}; part of the time to first token",
        ),
        Line("handed on for each token", handed_on(runtime, 1), "while answers are written"),
    )
    return Spanning(tokens, size, least, lines)
