"""Whether an endpoint picker has prompts to pick by."""

from collections.abc import Iterator

from headway.contract.model_parts import ModelParts
from headway.contract.routing import Routing
from headway.contract.runtime import Vllm
from headway.problem import Problem, problem


def picker_reads_prompts(model: ModelParts) -> Iterator[Problem]:
    if model.routing is not Routing.ENDPOINT_PICKER:
        return
    if not isinstance(model.runtime, Vllm):
        yield problem(
            "picker-is-for-vllm",
            "routing",
            value=model.routing,
            fact=f"{model.runtime.engine} keeps no prefixes of prompts, and its metrics page has no KV cache",
            consequence="The picker would have nothing to pick by, and every request would still wait for it",
            remedy="Leave routing out",
        )
    elif not model.optimisation.prefix_caching:
        yield problem(
            "picker-finds-prefixes",
            "routing",
            value=model.routing,
            fact="optimisation.prefix_caching is off, so no engine keeps the beginning of a prompt",
            consequence="The picker would send prompts to where it believes them kept, and they would be computed anew",
            remedy="Turn prefix_caching on, or leave routing out",
        )
