"""vLLM: the command line that a contract means.

The trap: `--gpu-memory-utilization` is a share of the whole device even where the container holds a part of it, and
flags that no longer exist end the server at start. Source of flags: vLLM 0.33, `vllm serve --help`.
"""

import json
from collections.abc import Sequence
from typing import Any

from headway.contract.adapter import slot_rank
from headway.contract.batching import ContinuousBatching
from headway.contract.model import Model
from headway.contract.optimisation import Optimisation, Quantisation, Speculation
from headway.contract.runtime import Vllm

PORT = 8000
WEIGHTS = "/models"
COMPLETIONS = "/v1/completions"
PATH_BY_KEY = {"input": "/v1/embeddings", "messages": "/v1/chat/completions"}
"""The route of a request, by what its body holds."""

_METHODS = {Quantisation.FP8_ON_LOAD: "fp8", Quantisation.AWQ: "awq", Quantisation.GPTQ: "gptq"}
"""What must be said; the other methods stand in the checkpoint's own config.json and are found there."""


def arguments(model: Model, runtime: Vllm, exit_seconds: int) -> Sequence[str]:
    """The command line. Request logging is off by default and stays so: prompts must not reach logs."""
    largest, batching = model.envelope.largest_request, model.batching
    assert isinstance(batching, ContinuousBatching)  # noqa: S101  the contract has refused any other for this runtime
    return (
        "vllm",
        "serve",
        WEIGHTS,
        f"--served-model-name={model.name}",
        f"--port={PORT}",
        f"--max-model-len={largest.context_tokens}",
        "--override-generation-config=" + _json({"max_new_tokens": largest.output_tokens}),
        f"--dtype={runtime.data_type}",
        f"--tensor-parallel-size={model.envelope.gpu.count}",
        f"--gpu-memory-utilization={model.gpu_memory_utilization.fraction:g}",
        f"--max-num-seqs={batching.max_sequences}",
        f"--max-num-batched-tokens={batching.max_batched_tokens}",
        *_optimisation(model.optimisation),
        *_adapters(runtime),
        # Streams too say how many tokens they were: the gateway charges them to the tenant.
        "--enable-force-include-usage",
        "--disable-uvicorn-access-log",
        f"--shutdown-timeout={exit_seconds}",
    )


def _optimisation(optimisation: Optimisation) -> Sequence[str]:
    method = _METHODS.get(optimisation.quantisation)
    return (
        *((f"--quantization={method}",) if method else ()),
        f"--kv-cache-dtype={optimisation.kv_cache}",
        "--enable-prefix-caching" if optimisation.prefix_caching else "--no-enable-prefix-caching",
        *((f"--speculative-config={_json(_speculation(optimisation.speculation))}",) if optimisation.speculation else ()),
    )


def _adapters(runtime: Vllm) -> Sequence[str]:
    """All of them in GPU memory from the start; none is loaded or taken away while the server runs."""
    if not runtime.adapters:
        return ()
    return (
        "--enable-lora",
        f"--max-loras={len(runtime.adapters)}",
        f"--max-lora-rank={slot_rank(runtime.adapters)}",
        "--lora-modules",
        *(f"{each.name}={WEIGHTS}/{each.folder.rstrip('/')}" for each in runtime.adapters),
    )


def _speculation(speculation: Speculation) -> dict[str, Any]:
    found: dict[str, Any] = {"num_speculative_tokens": speculation.tokens}
    if speculation.folder:
        found["model"] = f"{WEIGHTS}/{speculation.folder.rstrip('/')}"
    if speculation.method != "draft":
        found["method"] = speculation.method
    return found


def _json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def golden_path(body: Any) -> str:
    """The route that takes a golden request."""
    held = body if isinstance(body, dict) else {}
    return next((path for key, path in PATH_BY_KEY.items() if key in held), COMPLETIONS)
