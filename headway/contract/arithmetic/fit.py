"""Does the model fit into its share of GPU memory: weights, working memory at the declared maximum, runtime overhead, headroom.

A plan, not a measurement: the warmup memory check measures the truth before a replica takes traffic. The trap: vLLM fills its whole
share with KV cache by design, so for it the question is whether one request of the longest context still fits.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from headway.contract.accelerators import GPUS
from headway.contract.adapter import slot_rank
from headway.contract.arithmetic.adapters import reserved
from headway.contract.arithmetic.kv_cache import KvCache
from headway.contract.arithmetic.pipelined import handed_on, of_stage, stage
from headway.contract.arithmetic.tensor_parallel import kept_twice
from headway.contract.envelope import SharedGpu
from headway.contract.explanation import Line
from headway.contract.model import Model
from headway.contract.runtime import Backend, Container, Triton, Vllm
from headway.contract.units import Bytes

_MI = 2**20

# Planning values, each a little above what servers of 2025 and 2026 show in nvidia-smi before they serve.
CUDA_CONTEXT = Bytes(512 * _MI)
"""Driver context and kernels of one process on one GPU."""
BACKEND_LIBRARIES = Bytes(256 * _MI)
"""Libraries and arenas of one Triton backend."""
TENSORRT_WORKSPACE = Bytes(1024 * _MI)
"""What TensorRT may take while it compiles an ONNX graph; written into the model configuration as its limit."""
CUDA_GRAPHS = Bytes(1024 * _MI)
"""Captured graphs of a vLLM engine."""
COLLECTIVES = Bytes(512 * _MI)
"""NCCL buffers of one GPU under tensor parallelism."""
ACTIVATION_WIDTHS = 12
"""Widest live activations of a transformer layer, in multiples of the hidden size (gate, up and down projections, residuals)."""
WHOLE_WIDTHS = 3
"""Of these, what each GPU holds undivided: the residual, the layer's input, and the sum over all GPUs."""

_COPIES_WEIGHTS = {backend: backend is not Backend.TENSORRT for backend in Backend}
"""Whether each instance of a model loads its own weights; TensorRT contexts share one engine."""


@dataclass(frozen=True)
class Fit:
    """`needed` against `available`, on each GPU that the replica holds."""

    needed: Bytes
    available: Bytes
    lines: tuple[Line, ...]
    sequences: int | None = None
    """Language models: requests of the longest context that have room at the same time."""

    @property
    def fits(self) -> bool:
        return self.needed <= self.available

    @property
    def free(self) -> Bytes:
        return Bytes(max(0, self.available - self.needed))


def fit(model: Model) -> Fit:
    """GPU memory on each GPU of a replica; memory is that of the envelope, less the headroom that warmup demands."""
    if isinstance(model.runtime, Vllm):
        return _fit_vllm(model, model.runtime)
    lines = _triton(model, model.runtime) if isinstance(model.runtime, Triton) else _container(model, model.runtime)
    memory, headroom = model.envelope.gpu.memory, model.health.warmup.memory_headroom
    # Weights are taken to lie on every GPU: only vLLM is known to divide them.
    needed, available = _total(lines), Bytes(memory - headroom.of(memory))
    return Fit(needed, available, (*lines, Line("needed", needed), Line("available", available, f"{memory} less {headroom} headroom")))


def _total(lines: Iterable[Line]) -> Bytes:
    return Bytes(sum(int(line.amount) for line in lines if not isinstance(line.amount, str)))


def _triton(model: Model, runtime: Triton) -> tuple[Line, ...]:
    lines: list[Line] = []
    for served in runtime.models:
        size, copies = model.artifact.size_below(served.folder), served.instances if _COPIES_WEIGHTS[served.backend] else 1
        lines.append(Line(f"weights of {served.name}", Bytes(size * copies), f"{size.brief} in {served.folder} x {copies}"))
        lines.append(
            Line(
                f"activations of {served.name}",
                Bytes(served.activations * served.instances),
                f"{served.activations} at batch {max(1, served.max_batch)} x {served.instances}",
            )
        )
    backends = sorted({served.backend for served in runtime.models})
    lines.append(Line("CUDA context", CUDA_CONTEXT))
    lines.append(Line("backend libraries", Bytes(BACKEND_LIBRARIES * len(backends)), ", ".join(backends)))
    if model.optimisation.tensorrt:
        lines.append(Line("TensorRT workspace", TENSORRT_WORKSPACE, "while compiling"))
    return tuple(lines)


def _container(model: Model, runtime: Container) -> tuple[Line, ...]:
    return (
        Line("weights", model.artifact.size, "the whole artifact"),
        Line("working memory", runtime.working_memory, "declared, at the largest request"),
        Line("CUDA context", CUDA_CONTEXT),
    )


def _vllm_weights(model: Model, runtime: Vllm) -> tuple[int, int, str]:
    """Bytes of weights in the artifact, bytes of them that stay on the GPUs, and how the latter come about."""
    shape = runtime.architecture
    weights = sum(f.size for f in model.artifact.files if f.path.endswith(".safetensors") and "/" not in f.path)
    kept, how = weights, f"{Bytes(weights).brief} of safetensors"
    if model.optimisation.quantisation.shrinks_on_load:
        embeddings = min(weights, 2 * shape.vocabulary * shape.hidden * 2)
        kept = embeddings + (weights - embeddings) // 2
        how += f", halved but for {Bytes(embeddings).brief} of embeddings"
    return weights, kept, how


def _fit_vllm(model: Model, runtime: Vllm) -> Fit:
    of_node = stage(runtime, model.nodes_each)
    shape, gpus, largest = of_node.architecture, model.envelope.gpu.count, model.envelope.largest_request
    batching = model.batching
    assert batching.kind == "continuous"  # noqa: S101  the contract has refused any other
    assert largest.context_tokens  # noqa: S101
    weights, kept, how = _vllm_weights(model, runtime)
    if model.nodes_each > 1:
        weights, kept = (of_stage(size, runtime.architecture, shape.layers) for size in (weights, kept))
        how += f", {shape.layers} of {runtime.architecture.layers} layers"
    speculation = model.optimisation.speculation
    draft = model.artifact.size_below(speculation.folder) if speculation and speculation.folder else Bytes(0)
    cache = KvCache.of(model, of_node)
    a_sequence = cache.request(largest.context_tokens)
    divided = ACTIVATION_WIDTHS - WHOLE_WIDTHS
    activations = batching.max_batched_tokens * shape.hidden * 2 * (WHOLE_WIDTHS * gpus + divided) // gpus
    widths = f"({WHOLE_WIDTHS} + {divided}{{}})" if gpus > 1 else str(ACTIVATION_WIDTHS)
    logits = batching.max_sequences * shape.vocabulary * 4
    over = f" / {gpus} GPUs" if gpus > 1 else ""
    fixed = [
        Line("weights", Bytes(kept // gpus), how + over),
        Line(
            "activations",
            Bytes(activations),
            f"{batching.max_batched_tokens} tokens x {widths.format(over)} x {shape.hidden} x 2 bytes",
        ),
        Line("logits", Bytes(logits), f"{batching.max_sequences} sequences x {shape.vocabulary} x 4 bytes"),
        Line("CUDA context", CUDA_CONTEXT),
        Line("CUDA graphs", CUDA_GRAPHS),
    ]
    if draft:
        fixed.append(Line("draft model", Bytes(draft // gpus), f"{draft.brief} in {speculation.folder if speculation else ''}{over}"))
    if gpus > 1:
        fixed.append(Line("collectives", COLLECTIVES, "tensor parallelism"))
    if again := kept_twice(shape, gpus):
        fixed.append(
            Line(
                "weights, not divided",
                again,
                "projections of KV heads that more than one GPU keeps" if not shape.latent else "of the latent",
            )
        )
    if model.nodes_each > 1:
        fixed.append(Line("from the node before", handed_on(runtime, batching.max_batched_tokens), "hidden states and residual of a step"))
    if runtime.adapters:
        each = f"{len(runtime.adapters)} x rank {slot_rank(runtime.adapters)}"
        fixed.append(Line("adapters", reserved(of_node, gpus), f"{each}, beside every projection, the embedding and the logits"))
    empty = Line("KV cache, empty block", cache.block_bytes, "the engine keeps one")
    kv = Line("KV cache, one request", a_sequence, cache.how(largest.context_tokens))
    gpu, headroom = model.envelope.gpu, model.health.warmup.memory_headroom
    device = GPUS[gpu.accelerator].memory if gpu.share == "whole" else gpu.device_memory
    # vLLM fills its share with cache, so headroom is what it must leave of the device; a share of a GPU has no device of its own.
    available = gpu.memory if isinstance(gpu, SharedGpu) else Bytes(min(gpu.memory, device - headroom.of(device)))
    serving = _total(fixed)
    loading = weights // gpus + CUDA_CONTEXT
    lines = [*fixed, kv, empty]
    if model.optimisation.quantisation.shrinks_on_load:
        lines.append(Line("or, while loading", Bytes(loading), f"{Bytes(weights).brief} before they are quantised{over}, and the context"))
    needed = Bytes(max(serving + a_sequence + cache.block_bytes, loading if model.optimisation.quantisation.shrinks_on_load else 0))
    room = max(0, available - serving)
    sequences = cache.at_once(room, largest.context_tokens)
    each = cache.tokens_each(room, batching.max_sequences, largest.context_tokens)
    lines += [
        Line("needed", needed),
        Line("available", available, f"{gpu.memory}, leaving {headroom} of the device"),
        Line(
            "longest requests at once",
            str(sequences),
            f"of {largest.context_tokens} tokens; at most {batching.max_sequences} of any length",
        ),
        Line("tokens each, all at once", str(each), f"when {batching.max_sequences} run; beyond, vLLM preempts"),
    ]
    return Fit(needed, available, tuple(lines), sequences)


@dataclass(frozen=True)
class RamFit:
    """`needed` RAM of the server container against its envelope."""

    needed: Bytes
    available: Bytes
    lines: tuple[Line, ...]

    @property
    def fits(self) -> bool:
        return self.needed <= self.available


SERVER_RAM = Bytes(1536 * _MI)
"""RAM of a server process with its libraries, before any model."""
BYTES_IN_FLIGHT = 2
"""Each request body lies in RAM as received and as decoded."""


def fit_ram(model: Model) -> RamFit:
    """RAM of one replica: processes, the largest file while it is loaded, shared memory, request bodies in flight."""
    workers = model.envelope.gpu.count if isinstance(model.runtime, Vllm) else 1
    largest = max(file.size for file in model.artifact.files)
    bodies = min(model.degradation.overload_at, 64) * model.envelope.largest_request.body * BYTES_IN_FLIGHT
    adapters = model.runtime.adapters if isinstance(model.runtime, Vllm) else ()
    copies = sum(model.artifact.size_below(each.folder) for each in adapters) * workers
    lines = (
        Line("server processes", Bytes(SERVER_RAM * workers), f"{SERVER_RAM} x {workers}"),
        Line("largest file, while loading", Bytes(largest)),
        *([Line("adapters", Bytes(copies), f"{len(adapters)}, kept in RAM too")] if adapters else []),
        Line("shared memory", model.envelope.shared_memory),
        Line(
            "requests in flight",
            Bytes(bodies),
            f"{min(model.degradation.overload_at, 64)} x {model.envelope.largest_request.body} x {BYTES_IN_FLIGHT}",
        ),
    )
    needed = _total(lines)
    return RamFit(needed, model.envelope.memory, (*lines, Line("needed", needed), Line("available", model.envelope.memory)))
