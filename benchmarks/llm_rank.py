"""What `benchmarks.llm_engine` asks of a process of the engine that has a part of the model: loaded there by vLLM (`worker_extension_cls`)."""

# pyright: reportMissingImports=false, reportUnknownParameterType=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# What the other environment holds is not here.

from typing import Any

from vllm.model_executor.model_loader import base_loader

_loaded: list[int] = []
_pack = base_loader.process_weights_after_loading


def _seen(model: Any, *arguments: Any, **named: Any) -> Any:
    """Weights are counted before the engine repacks them for this processor."""
    _loaded.append(sum(each.numel() * each.element_size() for each in model.parameters()))
    return _pack(model, *arguments, **named)


base_loader.process_weights_after_loading = _seen


class Rank:
    """Becomes a base of the engine's own worker."""

    def loaded(self) -> int:
        """Bytes of weights of this part."""
        return _loaded[-1]

    def slots(self) -> int:
        """Bytes that are reserved for adapters."""
        parts = ("lora_a_stacked", "lora_b_stacked")
        model = self.model_runner.model  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType]
        held = [getattr(module, part, ()) for _, module in model.named_modules() for part in parts]
        stacked = [each for some in held for each in (some if isinstance(some, tuple) else (some,))]
        return sum(each.numel() * each.element_size() for each in stacked)
