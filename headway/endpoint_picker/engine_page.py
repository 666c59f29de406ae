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
_SERIES = re.compile(rb"^vllm:(cache_config_info|num_requests_running|num_requests_waiting)\{([^\n]{0,8192})\} ([0-9.eE+]{1,32})$", re.M)
_LABEL = re.compile(rb'(\w+)="(\d{1,15})"')


@dataclass(frozen=True)
class EnginePage:
    capacity: int | None = None
    """Tokens of the KV cache."""
    in_progress: int | None = None
    """Requests that run or wait."""


def read(page: bytes) -> EnginePage:
    capacity, in_progress = list[int](), list[int]()
    for name, labels, value in _SERIES.findall(page[:LARGEST_PAGE]):
        if name == b"cache_config_info":
            said = dict(_LABEL.findall(labels))
            capacity.append(int(said.get(b"num_gpu_blocks", b"0")) * int(said.get(b"block_size", b"0")))
        else:
            in_progress.append(_whole(value))
    tokens = min(sum(capacity), MOST)
    return EnginePage(tokens or None, min(sum(in_progress), MOST) if in_progress else None)


def _whole(text: bytes) -> int:
    try:
        return int(min(float(text), MOST))
    except ValueError:
        return 0
