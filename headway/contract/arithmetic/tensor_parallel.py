"""What the GPUs of one vLLM replica hold each and tell one another: parts that are not divided, sums over a link, and `/dev/shm`.

By vLLM 0.32: `model_executor/layers/linear.py` (QKVParallelLinear, ReplicatedLinear), `models/llama.py` (what is summed), and
`v1/executor/multiproc_executor.py` with `distributed/device_communicators/shm_broadcast.py` (rings). Weights by rank and rings were seen on
the engine for CPUs with two and four ranks. The trap: more GPUs than KV heads keep some of them twice.
"""

from headway.contract.accelerators import GPUS, PCIE
from headway.contract.explanation import Line
from headway.contract.model import Model
from headway.contract.runtime import Architecture, Vllm
from headway.contract.units import Bytes, Duration

_MI = 2**20
ELEMENT = 2
"""Bytes of an activation, and at most of a weight that is kept twice."""
_OF_COMMANDS, _OF_GROUP, _OF_A_RANK = 160 * _MI, 24 * _MI, 240 * _MI
"""Rings of messages: orders to all ranks, one between them, and each rank's answers."""
_OF_NCCL = 1024 * _MI
"""What NVIDIA advises to give NCCL ("NCCL User Guide", Troubleshooting: `--shm-size=1g`); where no NVLink is, it copies through it."""
MOST_WITHOUT_NVLINK = 2
"""vLLM's own sum over GPUs serves no more of them by PCIe (`custom_all_reduce.py`)."""


def degree(model: Model) -> int:
    """How many GPUs divide the model among them; 1 for whatever is not vLLM."""
    return model.envelope.gpu.count if isinstance(model.runtime, Vllm) else 1


def kept_twice(shape: Architecture, gpus: int) -> Bytes:
    """Bytes of weights on each GPU beyond its even part: projections of KV heads that there are too few of, or of the latent."""
    if shape.latent:
        return Bytes(shape.layers * shape.hidden * shape.latent * ELEMENT * (gpus - 1) // gpus)
    heads = max(0, gpus - shape.kv_heads)
    return Bytes(shape.layers * shape.hidden * 2 * shape.head_dimension * ELEMENT * heads // gpus)


def shared_memory_of(gpus: int) -> Bytes:
    """What `/dev/shm` must hold for so many GPUs: the rings as they are mapped, and NCCL's share."""
    return Bytes(_OF_COMMANDS + _OF_GROUP + _OF_A_RANK * gpus + _OF_NCCL) if gpus > 1 else Bytes(0)


def sent_by_each(model: Model, tokens: int) -> Bytes:
    """Bytes that each GPU sends in a step of `tokens`: a sum over all GPUs for the embedding and two in each layer, around a ring."""
    assert isinstance(model.runtime, Vllm)  # noqa: S101  asked only where `degree` is above 1
    shape, gpus = model.runtime.architecture, degree(model)
    return Bytes((2 * shape.layers + 1) * tokens * shape.hidden * ELEMENT * 2 * (gpus - 1) // gpus)


def largest_step(model: Model) -> tuple[int, Bytes, Duration]:
    """Tokens of the largest step, what each GPU sends in it, and how long that takes at least."""
    tokens = model.batching.max_batched_tokens if model.batching.kind == "continuous" else 0
    size = sent_by_each(model, tokens)
    return tokens, size, Duration(int(size) * 1_000_000 // int(GPUS[model.envelope.gpu.accelerator].link.rate))


def link_lines(model: Model) -> tuple[Line, ...]:
    """The lines about what joins the GPUs of one replica; none where there is nothing to join."""
    gpus = degree(model)
    if gpus == 1 or not isinstance(model.runtime, Vllm):
        return ()
    link, shape = GPUS[model.envelope.gpu.accelerator].link, model.runtime.architecture
    tokens, size, least = largest_step(model)
    return (
        Line("link", link.name, f"{int(link.rate) // 10**9} GB/s from each GPU at most"),
        Line(
            "sent in the largest step",
            size,
            f"{2 * shape.layers + 1} sums x {tokens} tokens x {shape.hidden} x {ELEMENT} bytes x 2 x {gpus - 1}/{gpus}",
        ),
        Line("which takes at least", least, "added to the time of a prompt of that length"),
        Line("sent for each token", sent_by_each(model, 1), "while answers are written"),
        Line("in /dev/shm", shared_memory_of(gpus), f"160Mi + 24Mi + {gpus} x 240Mi of vLLM's rings, and 1Gi of NCCL"),
    )


def lacks_nvlink(model: Model) -> bool:
    """Whether several GPUs of one replica are joined by PCIe alone."""
    return degree(model) > 1 and GPUS[model.envelope.gpu.accelerator].link is PCIE
