"""How a model was made smaller or faster: quantisation, KV cache type, speculation, graph compilation, provenance.

Each setting becomes a flag or a field of the runtime's configuration; combinations that a runtime or GPU cannot do are refused.
"""

from collections.abc import Iterator
from enum import StrEnum, unique
from typing import Annotated, Literal

from pydantic import Field

from headway.contract.part import Count, Flag, Part, Text
from headway.problem import Problem, problem


@unique
class Quantisation(StrEnum):
    """How weights are stored. `fp8_on_load` quantises a 16-bit checkpoint while loading; all others are done in the checkpoint."""

    NONE = "none"
    FP8 = "fp8"
    FP8_ON_LOAD = "fp8_on_load"
    INT8 = "int8"
    AWQ = "awq"
    GPTQ = "gptq"

    @property
    def shrinks_on_load(self) -> bool:
        return self is Quantisation.FP8_ON_LOAD


@unique
class KvCacheType(StrEnum):
    """Element type of the KV cache; `auto` is that of the activations."""

    AUTO = "auto"
    FP8 = "fp8"


class Speculation(Part):
    """Speculative decoding: cheap guesses that the model verifies in one pass."""

    method: Literal["ngram", "draft", "eagle", "eagle3"]
    """`ngram` guesses from the prompt and needs no other model; the others load a second one from the artifact: a small model, or a head
    of EAGLE (1 and 2) or EAGLE-3."""
    tokens: Annotated[Count, Field(le=16)]
    """Tokens guessed ahead."""
    folder: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][A-Za-z0-9._-]*/$", examples=["draft/"])] | None = None
    """Folder of the second model inside the artifact, ending in `/`; for all but `ngram`."""

    def violations(self) -> Iterator[Problem]:
        if (self.method == "ngram") != (self.folder is None):
            yield problem(
                "speculation-needs-its-model",
                "folder",
                value=self.folder,
                fact=f"method {self.method} {'takes no' if self.method == 'ngram' else 'needs a'} second model",
                consequence="The server would refuse to start",
                remedy="Leave folder out" if self.method == "ngram" else "Name the folder of the draft model inside the artifact",
            )


class Provenance(Part):
    """Where a smaller model comes from; recorded with the release, so that a drop in quality can be traced."""

    distilled_from: Text | None = None
    """The teacher model and its version."""
    pruned: Text | None = None
    """The method and degree of pruning."""


class Optimisation(Part):
    """What was done to the model to serve it at a lower cost. All of it is optional."""

    quantisation: Quantisation = Quantisation.NONE
    """How weights are stored; decides GPU memory and which kernels run."""
    kv_cache: KvCacheType = KvCacheType.AUTO
    """Element type of the KV cache; `fp8` halves it. vLLM only."""
    prefix_caching: Flag = True
    """Whether prompts share the cache of a common prefix. vLLM only; switch it off where one caller's prompts must not speed up another's."""
    speculation: Speculation | None = None
    """Speculative decoding. vLLM only."""
    tensorrt: Literal["FP32", "FP16"] | None = None
    """The precision in which ONNX graphs are compiled with TensorRT at load. Triton's `onnxruntime` backend only; lengthens the start."""
    provenance: Provenance = Provenance()
    """Where a smaller model comes from."""
