"""GPU memory that vLLM reserves for adapters: a slot for each, as large as the largest rank, whether it is used or not.

By vLLM 0.32, `lora/layers/*.py` (`create_lora_weights`): every projection, the embedding and the logits get two matrices a slot. Held against
the engine for CPUs, which reserved exactly these sums. Under tensor parallelism one of the two is divided, the other is not.
"""

from headway.contract.adapter import slot_rank
from headway.contract.runtime import Architecture, Vllm
from headway.contract.units import Bytes

ELEMENT = 2
"""Bytes of an element: adapters are kept in the type of the activations."""


def slot_bytes(shape: Architecture, rank: int, gpus: int) -> Bytes:
    """A slot on each of `gpus`. `intermediate` has to be known, which a contract with adapters must say."""
    inner = shape.intermediate or 0
    queries, keys = shape.heads * shape.head_dimension // gpus, max(1, shape.kv_heads // gpus) * shape.head_dimension
    columns = [queries, keys, keys, inner // gpus, inner // gpus]
    rows = [queries, inner // gpus]
    layer = sum(shape.hidden + width for width in columns) + sum(width + shape.hidden for width in rows)
    return Bytes(ELEMENT * rank * (shape.layers * layer + 2 * (shape.hidden + shape.vocabulary)))


def reserved(runtime: Vllm, gpus: int) -> Bytes:
    """For all adapters of a contract, on each GPU."""
    return (
        Bytes(slot_bytes(runtime.architecture, slot_rank(runtime.adapters), gpus) * len(runtime.adapters)) if runtime.adapters else Bytes(0)
    )


def dense_weights(shape: Architecture) -> Bytes:
    """What a model of this shape without experts holds in 16 bits, embedding and logits apart."""
    queries, keys = shape.heads * shape.head_dimension, shape.kv_heads * shape.head_dimension
    layer = shape.hidden * (2 * queries + 2 * keys + 3 * (shape.intermediate or 0))
    return Bytes(2 * (shape.layers * layer + 2 * shape.vocabulary * shape.hidden))
