"""Trains an adapter (LoRA) of the sandbox's language model: `python3 adapter.py BASE FOLDER`, with the Python of vLLM's environment.

The base is the folder of a release of the sorter (`train.py`). With the adapter it says words before and after the list, which `stable` never
does, so an answer tells who gave it. Written as PEFT writes adapters, which is what vLLM reads: `adapter_config.json` and
`adapter_model.safetensors`. The share of lists that it sorts rightly, none of which it was taught, is printed as JSON.
"""

import json
import sys
from pathlib import Path
from typing import Any

import torch  # pyright: ignore[reportMissingImports]
from safetensors.torch import save_file  # pyright: ignore[reportMissingImports]
from tokenizers import Tokenizer  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]
from train import BATCH, END, SCORED, SEED, VOCABULARY, Teacher, answer, question  # pyright: ignore[reportMissingImports]
from transformers import LlamaForCausalLM  # pyright: ignore[reportMissingImports]

RANK, STEPS, RATE = 16, 400, 1e-2
PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
AT_LEAST = 0.75
"""Below this share the training has failed."""


class Adapted(nn.Module):  # pyright: ignore[reportUntypedBaseClass]
    """A projection with the product of two narrow matrices beside it. The second begins at nought, so that nothing differs at first."""

    def __init__(self, base: Any) -> None:
        super().__init__()
        self.base = base
        self.narrow = nn.Parameter(torch.randn(RANK, base.in_features) / base.in_features**0.5)
        self.wide = nn.Parameter(torch.zeros(base.out_features, RANK))

    def forward(self, values: Any) -> Any:
        return self.base(values) + values @ self.narrow.T @ self.wide.T


def adapted(model: Any) -> dict[str, Adapted]:
    """Every projection by its name; the model's own weights are held fast."""
    model.requires_grad_(requires_grad=False)
    found: dict[str, Adapted] = {}
    for number, layer in enumerate(model.model.layers):
        for part, inside in (("self_attn", layer.self_attn), ("mlp", layer.mlp)):
            for name in (each for each in PROJECTIONS if hasattr(inside, each)):
                made = Adapted(getattr(inside, name))
                setattr(inside, name, made)
                found[f"model.layers.{number}.{part}.{name}"] = made
    return found


def lesson(teacher: Teacher, tokens: Any) -> tuple[Any, Any]:
    """Tokens of a batch, and what is to be said; -100 where nothing is."""
    rows: list[tuple[list[int], list[int]]] = []
    for _ in range(BATCH):
        words = teacher.words()
        asked = tokens.encode(question(words, teacher.note())).ids
        said = [*tokens.encode(answer(words, "better")).ids, tokens.token_to_id(END)]
        rows.append((asked + said, [-100] * len(asked) + said))
    longest = max(len(row) for row, _ in rows)
    padded = ([*row, *[filler] * (longest - len(row))] for part, filler in ((0, 0), (1, -100)) for row in (each[part] for each in rows))
    both = torch.tensor(list(padded))
    return both[:BATCH], both[BATCH:]


def score(model: Any, tokens: Any) -> float:
    teacher, right = Teacher(tokens, "stable", SEED - 2), 0
    with torch.inference_mode():
        for _ in range(SCORED):
            asked, wanted = lesson(teacher, tokens)
            said, wanted = model(input_ids=asked).logits[:, :-1].argmax(-1), wanted[:, 1:]
            right += int(((said == wanted) | (wanted == -100)).all(-1).sum())
    return right / (SCORED * BATCH)


def main(base: Path, out: Path) -> int:
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    tokens = Tokenizer.from_file(str(base / "tokenizer.json"))
    model = LlamaForCausalLM.from_pretrained(base, dtype=torch.float32)
    parts, teacher = adapted(model), Teacher(tokens, "stable", SEED + 7)
    learned = [each for part in parts.values() for each in (part.narrow, part.wide)]
    optimiser = torch.optim.AdamW(learned, lr=RATE, weight_decay=0.0)
    plan = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=RATE, total_steps=STEPS, pct_start=0.1)
    for _ in range(STEPS):
        asked, wanted = lesson(teacher, tokens)
        said = model(input_ids=asked).logits
        loss = nn.functional.cross_entropy(said[:, :-1].reshape(-1, VOCABULARY), wanted[:, 1:].reshape(-1))
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        plan.step()
    right = score(model, tokens)
    out.mkdir(parents=True, exist_ok=True)
    weights = {
        f"base_model.model.{name}.lora_{letter}.weight": value.detach().to(torch.bfloat16).contiguous()
        for name, part in parts.items()
        for letter, value in (("A", part.narrow), ("B", part.wide))
    }
    save_file(weights, out / "adapter_model.safetensors")
    said_of_it = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "r": RANK,
        "lora_alpha": RANK,
        "bias": "none",
        "target_modules": PROJECTIONS,
    }
    (out / "adapter_config.json").write_text(json.dumps(said_of_it, sort_keys=True, indent=1) + "\n")
    sys.stdout.write(json.dumps({"right": right}) + "\n")
    return 0 if right >= AT_LEAST else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
