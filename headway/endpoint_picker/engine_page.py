"""What a vLLM engine's metrics page says of its load and of its KV cache. Pure.

Series of vLLM 0.32 (vllm/v1/metrics/loggers.py). An engine with several ranks says each once for each; they add up. What cannot be read is not
known: one odd page costs no more than what it would have told.
"""

import re
from dataclasses import dataclass

LARGEST_PAGE = 4 << 20
"""Bytes; a real one has about 100 KiB."""
MOST = 1 << 40
"""No engine has so many tokens or requests."""
_SERIES = re.compile(
    rb"^vllm:(cache_config_info|num_requests_running|num_requests_waiting|request_prefill_kv_computed_tokens_sum|request_prefill_time_seconds_sum)"
    rb"\{([^\n]{0,8192})\} ([0-9.eE+-]{1,32})$",
    re.M,
)
_LABEL = re.compile(rb'(\w+)="(\d{1,15})"')


@dataclass(frozen=True)
class EnginePage:
    capacity: int | None = None
    """Tokens of the KV cache."""
    in_progress: int | None = None
    """Requests that run or wait."""
    computed: float = 0.0
    """Tokens of the prompts of all requests that have ended, without those that its cache held."""
    took: float = 0.0
    """Seconds that computing them took. Prompts that were computed together count each."""


def read(page: bytes) -> EnginePage:
    capacity, in_progress, sums = list[int](), list[int](), {b"tokens": 0.0, b"seconds": 0.0}
    for name, labels, value in _SERIES.findall(page[:LARGEST_PAGE]):
        if name == b"cache_config_info":
            said = dict(_LABEL.findall(labels))
            capacity.append(int(said.get(b"num_gpu_blocks", b"0")) * int(said.get(b"block_size", b"0")))
        elif name.endswith(b"_sum"):
            sums[name.split(b"_")[-2]] += _number(value)
        else:
            in_progress.append(int(_number(value)))
    tokens = min(sum(capacity), MOST)
    computed, took = sums.values()
    return EnginePage(tokens or None, min(sum(in_progress), MOST) if in_progress else None, computed, took)


def _number(text: bytes) -> float:
    try:
        return min(max(float(text), 0.0), MOST)
    except ValueError:
        return 0.0
