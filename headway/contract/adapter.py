"""Adapters (LoRA) of a language model: other models by name on the engine of one, each a folder of the release's artifact.

The trap: an adapter is no release of its own. Whoever changes one releases the service, and its gate judges all of its traffic together.

What stands in the way, by vLLM 0.32: arms of a release are pods, and adapters share theirs. A picker could rewrite the `model` of bodies by
weight (InferenceModelRewrite of the Gateway API Inference Extension), but no evidence would follow: proxies count by pod, every series of an
engine has the name that was served first (`v1/metrics/loggers.py`; tests/language/test_adapters.py), and a step that one adapter slows is
slow for all. A running server takes another adapter only by what vLLM says is for local development alone (`serve/lora/api_router.py`).
"""

from collections import Counter
from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from headway.contract.part import Count, Part
from headway.problem import Problem, problem

CONFIGURATION, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
"""Files of an adapter, as PEFT writes them and vLLM reads them (`vllm/lora/lora_model.py`)."""
RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""What vLLM makes room for (`vllm/config/lora.py`, `MaxLoRARanks`)."""


class Adapter(Part):
    """A LoRA adapter: requests that name it as their `model` are answered with it."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,62}$")]
    """What requests name as `model`; unique beside the contract's own name."""
    folder: Annotated[str, Field(pattern=r"^([A-Za-z0-9_][A-Za-z0-9._-]*/)+$", max_length=200, examples=["adapters/tone/"])]
    """Folder of the artifact, ending in `/`, with `adapter_config.json` and `adapter_model.safetensors`."""
    rank: Annotated[Count, Field(le=RANKS[-1])]
    """`r` of its `adapter_config.json`: by the largest the engine reserves GPU memory for each."""


def slot_rank(adapters: tuple[Adapter, ...]) -> int:
    """The rank that every slot of the engine has room for (`--max-lora-rank`)."""
    largest = max(each.rank for each in adapters)
    return next(rank for rank in RANKS if rank >= largest)


def adapter_violations(adapters: tuple[Adapter, ...], intermediate: int | None, latent: int | None) -> Iterator[Problem]:
    """What contradicts itself in a runtime with `adapters`, whose model has inner layers of this width and this latent attention."""
    for name, times in Counter(each.name for each in adapters).items():
        if times > 1:
            yield problem(
                "adapter-named-once",
                "adapters",
                value=name,
                fact=f"adapter {name} is named {times} times",
                consequence="A request that names it could be answered by either",
                remedy="Give each adapter its own name",
            )
    if adapters and intermediate is None:
        yield problem(
            "adapters-have-a-size",
            "architecture",
            "intermediate",
            fact="the contract has adapters and does not say how wide the model's inner layers are",
            consequence="Nothing could tell how much GPU memory the engine reserves for adapters",
            remedy="Copy intermediate_size from the model's config.json",
        )
    if adapters and latent is not None:
        yield problem(
            "adapters-have-a-size",
            "adapters",
            fact="the model has latent attention, whose projections this contract does not describe",
            consequence="Nothing could tell how much GPU memory the engine reserves for adapters",
            remedy="Merge the adapter into the weights, and serve it by a contract of its own",
        )
