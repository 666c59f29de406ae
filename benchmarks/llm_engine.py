"""What vLLM itself says of shapes of language models: weights, blocks of the KV cache, and the length at which it begins to preempt.

    PYTHONPATH=. .venv-llm/bin/python -m benchmarks.llm_engine SHAPES.json

Started by `benchmarks.llm_memory`. Models have random weights. The engine runs in this process, where its scheduler can be asked; a JSON
object a shape goes to standard output.
"""

# pyright: reportMissingImports=false, reportUnknownParameterType=false, reportUnknownVariableType=false
# What the other environment holds is not here.

import gc
import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

os.environ.update(
    HF_HUB_OFFLINE="1",
    OMP_NUM_THREADS="1",
    VLLM_CPU_KVCACHE_SPACE="1",
    VLLM_CPU_OMP_THREADS_BIND="nobind",
    VLLM_ENABLE_V1_MULTIPROCESSING="0",
    VLLM_LOGGING_LEVEL="ERROR",
    VLLM_NO_USAGE_STATS="1",
)

import torch
from transformers import AutoConfig, AutoModelForCausalLM
from vllm import LLM, SamplingParams
from vllm.v1.core.kv_cache_utils import get_max_concurrency_for_kv_cache_config
from vllm.v1.core.sched.scheduler import Scheduler

RANK = 16
"""Of adapters."""
PROMPT = 96
"""Tokens. Each request's first is another, so that no two share a block."""
_preempted: list[str] = []


def _watch() -> None:
    """Each preemption is written down."""
    preempt = Scheduler._preempt_request

    def counted(self: Any, request: Any, *arguments: Any, **named: Any) -> Any:
        _preempted.append(request.request_id)
        return preempt(self, request, *arguments, **named)

    Scheduler._preempt_request = counted


def tokens_each(engine: LLM, requests: int, longest: int, block: int) -> int:
    """The longest length, in whole blocks, at which so many requests at once all keep their place. The last token takes none itself."""

    def preempts(tokens: int) -> bool:
        _preempted.clear()
        prompts = [{"prompt_token_ids": [(request * 37 + place) % 1000 + 5 for place in range(PROMPT)]} for request in range(requests)]
        engine.generate(
            prompts, SamplingParams(temperature=0, max_tokens=tokens - PROMPT, ignore_eos=True, detokenize=False), use_tqdm=False
        )
        engine.reset_prefix_cache()
        return bool(_preempted)

    low, high = 1, longest // block
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if preempts(middle * block + 2) else (middle + 1, high)
    return low * block


def said(shape: dict[str, Any]) -> dict[str, Any]:
    """What the engine says of one shape."""
    with tempfile.TemporaryDirectory(prefix="shape-") as folder:
        torch.manual_seed(0)
        AutoModelForCausalLM.from_config(AutoConfig.for_model(shape["kind"], **shape["config"]), dtype=torch.bfloat16).save_pretrained(
            folder
        )
        safetensors = sum(each.stat().st_size for each in Path(folder).glob("*.safetensors"))
        engine = LLM(
            model=folder,
            skip_tokenizer_init=True,
            dtype="bfloat16",
            enforce_eager=True,
            max_model_len=shape["longest"],
            max_num_seqs=shape["requests"],
            max_num_batched_tokens=shape["batched"],
            kv_cache_dtype=shape["kv_cache"],
            num_gpu_blocks_override=shape["blocks"],
            tensor_parallel_size=shape["gpus"],
            worker_extension_cls="benchmarks.llm_rank.Rank",
            **({"enable_lora": True, "max_loras": shape["adapters"], "max_lora_rank": RANK} if shape["adapters"] else {}),
        )
        core, plan = engine.llm_engine.engine_core.engine_core, engine.llm_engine.vllm_config
        cache = core.scheduler.kv_cache_config
        block_bytes = max(group.kv_cache_spec.page_size_bytes * len(group.layer_names) for group in cache.kv_cache_groups)
        (block,) = {group.kv_cache_spec.block_size for group in cache.kv_cache_groups}
        answer = {
            "name": shape["name"],
            "safetensors": safetensors,
            "weights": max(engine.collective_rpc("loaded")),
            "slots": max(engine.collective_rpc("slots")),
            "blocks": cache.num_blocks,
            "block": block,
            "block_bytes": block_bytes,
            "a_request": round(cache.num_blocks / get_max_concurrency_for_kv_cache_config(plan, cache)) * block_bytes,
            "steps_in_flight": plan.max_in_flight_tokens // shape["batched"],
            "tokens_each": tokens_each(engine, shape["requests"], shape["longest"], block),
        }
        core.shutdown()
        return answer


def main(path: str) -> None:
    _watch()
    for shape in json.loads(Path(path).read_text()):
        try:
            answer = said(shape)
        except Exception as error:
            answer = {"name": shape["name"], "refused": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
        print(json.dumps(answer), flush=True)
        gc.collect()


if __name__ == "__main__":
    main(sys.argv[1])
