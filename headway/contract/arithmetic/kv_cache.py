"""What requests hold of vLLM's KV cache, in blocks as the engine hands them out, and from when on it preempts.

By vLLM 0.32: `v1/kv_cache_interface.py` (`max_memory_usage_bytes` of each kind of layer) and `v1/core/kv_cache_utils.py`
(`_get_kv_cache_groups_uniform_page_size`). Held against what the engine itself reports by `python -m benchmarks.llm_memory`.
"""

from dataclasses import dataclass
from typing import Self

from headway.contract.model import Model
from headway.contract.optimisation import KvCacheType
from headway.contract.runtime import Vllm
from headway.contract.units import Bytes

BLOCK = 16
"""Tokens of a block on GPUs."""
STEPS_IN_FLIGHT = 2
"""Steps whose tokens a windowed layer still keeps: the engine schedules the next while one runs."""


@dataclass(frozen=True)
class KvCache:
    """The cache of one GPU.

    Layers of one kind share their blocks in groups of `group` layers, so that a block has one size whatever it belongs to.
    """

    vectors: str
    """What one layer keeps of a token, in words."""
    layer_token: int
    """The same in bytes."""
    full: int
    """Layers that keep every token."""
    windowed: int
    """Layers that keep the tokens of their window and of the steps in flight."""
    kept: int
    """Tokens that a windowed layer keeps at most: while it reads a prompt."""
    decoding: int
    """The same while it writes an answer."""
    block: int = BLOCK

    @classmethod
    def of(cls, model: Model, runtime: Vllm, *, block: int = BLOCK, steps_in_flight: int = STEPS_IN_FLIGHT) -> Self:
        shape, batching = runtime.architecture, model.batching
        assert batching.kind == "continuous"  # noqa: S101  the contract has refused any other
        element = 1 if model.optimisation.kv_cache is KvCacheType.FP8 else 2
        heads = -(-shape.kv_heads // model.envelope.gpu.count)
        window = shape.sliding_window
        return cls(
            vectors=f"{shape.latent} x {element} byte" if shape.latent else f"2 x {heads} heads x {shape.head_dimension} x {element} byte",
            layer_token=(shape.latent or 2 * heads * shape.head_dimension) * element,
            full=shape.layers - (window.layers if window else 0),
            windowed=window.layers if window else 0,
            kept=window.tokens - 1 + steps_in_flight * batching.max_batched_tokens if window else 0,
            decoding=window.tokens - 1 + steps_in_flight if window else 0,
            block=block,
        )

    @property
    def group(self) -> int:
        """Layers of a group: all of a kind, or as many as the rarer kind has, unless padding the rarer one costs less."""
        few, many = sorted((self.full, self.windowed))
        return few if few and many >= 1.5 * few else many

    @property
    def block_bytes(self) -> Bytes:
        return Bytes(self.group * self.block * self.layer_token)

    def request(self, tokens: int) -> Bytes:
        """What a request of `tokens` holds at most, as the engine plans it; a window may begin within a block."""
        return self._held(-(-tokens // self.block), -(-min(self.kept, tokens) // self.block) + 1)

    def answering(self, tokens: int) -> Bytes:
        """What a request holds that has grown to `tokens` by its answer."""
        whole = -(-tokens // self.block)
        return self._held(whole, min(whole, -(-self.decoding // self.block) + 1))

    def _held(self, full: int, windowed: int) -> Bytes:
        """So many blocks of each group of a kind."""
        return Bytes(self.block_bytes * (-(-self.full // self.group) * full + -(-self.windowed // self.group) * windowed))

    def how(self, tokens: int) -> str:
        kinds = ((self.full, tokens), (self.windowed, min(self.kept, tokens)))
        parts = [f"{layers} layers x {kept} tokens" for layers, kept in kinds if layers]
        return f"{self.vectors} x {parts[0]}" if len(parts) == 1 else f"{self.vectors} x ({' + '.join(parts)})"

    def room(self, cache: int) -> int:
        """What a cache of so many bytes has for requests: whole blocks, less the one that the engine keeps empty."""
        return max(0, cache // self.block_bytes - 1) * self.block_bytes

    def at_once(self, cache: int, tokens: int) -> int:
        """Requests of `tokens` that a cache of so many bytes has room for."""
        return self.room(cache) // self.request(tokens)

    def tokens_each(self, cache: int, requests: int, longest: int) -> int:
        """The tokens up to which so many requests at once have room, at most `longest`: beyond, the engine preempts one."""
        room = self.room(cache) // requests
        low, high = 0, -(-longest // self.block)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.answering(middle * self.block) <= room else (low, middle - 1)
        return min(longest, low * self.block)
