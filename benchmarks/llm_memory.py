"""The arithmetic of `headway check --explain` for language models, held against what vLLM itself says: `make bench-llm-memory`.

Each shape is a small model with random weights: what is compared grows with a model and does not change with it. The engine is the real one
for CPUs, whose blocks have 128 tokens (16 where attention is latent); working memory of GPUs (activations, graphs, context) is not seen here.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from headway.contract.arithmetic.adapters import slot_bytes
from headway.contract.arithmetic.kv_cache import KvCache
from headway.contract.arithmetic.tensor_parallel import degree, kept_twice
from headway.contract.model import Model
from headway.contract.runtime import Vllm

PROJECT = Path(__file__).parents[1]
ENGINE = PROJECT / ".venv-llm" / "bin" / "python"
LONGEST, BATCHED, REQUESTS, RANK = 512, 128, 8, 16
WINDOW = 128
OF_ALL = {
    "hidden_size": 256,
    "intermediate_size": 512,
    "max_position_embeddings": 4096,
    "num_attention_heads": 8,
    "num_hidden_layers": 4,
    "num_key_value_heads": 2,
    "vocab_size": 2048,
}
OF_EXPERTS = {"moe_intermediate_size": 128, "num_experts_per_tok": 2}


@dataclass(frozen=True)
class Shape:
    """A model as transformers writes it, and what a team would copy of its config.json into a contract."""

    name: str
    kind: str
    """`model_type`."""
    config: Mapping[str, Any] = field(default_factory=dict[str, Any])
    windowed: int = 0
    """Layers that are `sliding_attention`."""
    latent: int | None = None
    kv_cache: str = "auto"
    blocks: int = 17
    """Of the cache, so that the requests outgrow it."""
    gpus: int = 1
    """Processes that divide it, as GPUs do."""
    adapters: int = 0

    def for_engine(self) -> dict[str, Any]:
        """What `benchmarks.llm_engine` reads."""
        config = {**OF_ALL, **self.config}
        run = {"longest": LONGEST, "batched": BATCHED, "requests": REQUESTS, "blocks": self.blocks, "kv_cache": self.kv_cache}
        run |= {"gpus": self.gpus, "adapters": self.adapters}
        return {"name": self.name, "kind": self.kind, "config": config, **run}

    def contract(self) -> Model:
        """The sample's contract with this shape."""
        config = {**OF_ALL, **self.config}
        document: dict[str, Any] = yaml.safe_load((PROJECT / "tenants" / "assist" / "chat.yaml").read_text(encoding="utf-8"))
        document["runtime"]["architecture"] = {
            "layers": config["num_hidden_layers"],
            "heads": config["num_attention_heads"],
            "kv_heads": config["num_key_value_heads"],
            "head_dimension": config.get("head_dim", config["hidden_size"] // config["num_attention_heads"]),
            "hidden": config["hidden_size"],
            "vocabulary": config["vocab_size"],
            "intermediate": config["intermediate_size"],
            **({"sliding_window": {"tokens": WINDOW, "layers": self.windowed}} if self.windowed else {}),
            **({"latent": self.latent} if self.latent else {}),
        }
        document["envelope"]["gpu"]["count"] = self.gpus
        document["batching"] |= {"max_batched_tokens": BATCHED, "max_sequences": REQUESTS}
        document["envelope"]["largest_request"] |= {"context_tokens": LONGEST, "output_tokens": LONGEST // 2}
        document["optimisation"] = {"kv_cache": self.kv_cache}
        return Model.model_validate(document)


SHAPES = (
    Shape("Llama 3, grouped heads", "llama"),
    Shape("Llama 2, a KV head for each", "llama", {"num_key_value_heads": 8}),
    Shape("one KV head", "llama", {"num_key_value_heads": 1}),
    Shape("Llama 3, FP8 cache", "llama", kv_cache="fp8"),
    Shape("Llama 3 on two", "llama", gpus=2),
    Shape("Llama 3 on four, KV heads twice", "llama", gpus=4),
    Shape("Llama 3, two adapters", "llama", adapters=2),
    Shape("Qwen 2, tied embeddings", "qwen2", {"tie_word_embeddings": True}),
    Shape("Qwen 3, wide heads", "qwen3", {"head_dim": 128}),
    Shape("Phi 3", "phi3", {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}),
    Shape("Mistral, every layer windowed", "mistral", {"sliding_window": WINDOW}, windowed=4),
    Shape("Gemma 2, every second one", "gemma2", {"head_dim": 64, "sliding_window": WINDOW}, windowed=2, blocks=33),
    Shape(
        "Gemma 3, five of six", "gemma3_text", {"head_dim": 64, "num_hidden_layers": 12, "sliding_window": WINDOW}, windowed=10, blocks=97
    ),
    Shape("Gemma 3, 11 of 13", "gemma3_text", {"head_dim": 64, "num_hidden_layers": 13, "sliding_window": WINDOW}, windowed=11, blocks=113),
    Shape("Mixtral", "mixtral", {"num_local_experts": 4}),
    Shape("Qwen 3, experts", "qwen3_moe", {**OF_EXPERTS, "head_dim": 64, "num_experts": 4}),
    Shape(
        "gpt-oss",
        "gpt_oss",
        {"head_dim": 64, "num_experts_per_tok": 2, "num_local_experts": 4, "sliding_window": WINDOW},
        windowed=2,
        blocks=33,
    ),
    Shape(
        "DeepSeek V2, latent",
        "deepseek_v2",
        {
            **OF_EXPERTS,
            "first_k_dense_replace": 1,
            "kv_lora_rank": 512,
            "n_group": 1,
            "n_routed_experts": 4,
            "n_shared_experts": 1,
            "num_key_value_heads": 8,
            "q_lora_rank": None,
            "qk_nope_head_dim": 32,
            "qk_rope_head_dim": 64,
            "topk_group": 1,
            "v_head_dim": 32,
        },
        latent=576,
        blocks=129,
    ),
)


@dataclass(frozen=True)
class Row:
    """Each pair: the sum of a contract, and what the engine said."""

    name: str
    weights: tuple[int, int]
    a_request: tuple[int, int]
    tokens_each: tuple[int, int]
    """Of as many requests at once as may run, the longest at which none is preempted."""
    slots: tuple[int, int] = (0, 0)
    """What is reserved for adapters."""

    @property
    def errors(self) -> tuple[float, ...]:
        """Of each pair, how far the sum is above what was said."""
        return tuple((said[0] / said[1] - 1) if said[1] else 0.0 for said in (self.weights, self.a_request, self.tokens_each, self.slots))


def row(shape: Shape, said: Mapping[str, Any]) -> Row:
    """A shape's sums beside what the engine said; the block's size and the steps in flight are the engine's own."""
    model = shape.contract()
    assert isinstance(model.runtime, Vllm)
    cache = KvCache.of(model, model.runtime, block=said["block"], steps_in_flight=said["steps_in_flight"])
    return Row(
        shape.name,
        (said["safetensors"] // degree(model) + kept_twice(model.runtime.architecture, degree(model)), said["weights"]),
        (int(cache.request(LONGEST)), said["a_request"]),
        (cache.tokens_each(said["blocks"] * said["block_bytes"], REQUESTS, LONGEST), said["tokens_each"]),
        (slot_bytes(model.runtime.architecture, RANK, degree(model)) * shape.adapters, said.get("slots", 0)),
    )


def asked(shapes: Sequence[Shape]) -> Iterator[Mapping[str, Any]]:
    """What the engine says, a shape after the other."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "shapes.json"
        path.write_text(json.dumps([shape.for_engine() for shape in shapes]), encoding="utf-8")
        command = [ENGINE, "-m", "benchmarks.llm_engine", path]
        with subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as engine:
            assert engine.stdout
            for line in engine.stdout:
                if line.startswith('{"name"'):
                    yield json.loads(line)


def main(names: Sequence[str]) -> int:
    shapes = [each for each in SHAPES if not names or any(name in each.name for name in names)]
    by_name, seen = {each.name: each for each in shapes}, 0
    print(
        "| shape | weights: sum, engine | a request of 512 tokens: sum, engine | tokens each without preemption: sum, engine | slots |\n|---|---|---|---|---|"
    )
    worst = 0.0
    for said in asked(shapes):
        if "refused" in said:
            print(f"| {said['name']} | not run: {said['refused']} | | | |", flush=True)
            continue
        found = row(by_name[said["name"]], said)
        seen, worst = seen + 1, max(worst, *map(abs, found.errors))
        pairs = (f"{ours:,}, {theirs:,}" for ours, theirs in (found.weights, found.a_request, found.tokens_each, found.slots))
        print(f"| {found.name} | {' | '.join(pairs)} |", flush=True)
    print(f"\n{seen} of {len(shapes)} shapes ran; the largest error is {worst:.2%}.")
    return 0 if seen else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
