"""Whether replicas that read prompts and replicas that write answers can be engines of one model.

By vLLM 0.32: `distributed/kv_transfer/kv_connector/v1/nixl/metadata.py` (what a handshake compares), `base_worker.py` (what it asserts), and
docs/features/nixl_connector_compatibility.md.
"""

from collections.abc import Iterator

from headway.contract.accelerators import GPUS
from headway.contract.model_parts import ModelParts
from headway.contract.roles import in_section, prefill_of
from headway.contract.rules.hardware import hardware_can_do_it
from headway.contract.rules.serving import batching_fits_runtime
from headway.contract.runtime import Vllm
from headway.problem import Problem, problem


def prefill_is_a_role_of_the_model(model: ModelParts) -> Iterator[Problem]:
    role, as_model = model.prefill, prefill_of(model)
    if role is None or as_model is None:
        return
    if not isinstance(model.runtime, Vllm):
        yield problem(
            "prefill-is-vllms",
            "prefill",
            value=model.runtime.engine,
            fact=f"{model.runtime.engine} reads no prompts apart from its answers",
            consequence="The section would be ignored",
            remedy="Leave prefill out",
        )
        return
    yield from _engines_understand_each_other(model, model.runtime)
    context = model.envelope.largest_request.context_tokens
    if context is not None and role.prompt_tokens >= context:
        yield problem(
            "mean-prompt-within-context",
            "prefill",
            "prompt_tokens",
            value=role.prompt_tokens,
            fact=f"a mean prompt of {role.prompt_tokens} tokens leaves no room for an answer in a context of {context}",
            consequence="Most requests would be refused",
            remedy="Correct one of the two",
        )
    own = [
        *(each for rule in (batching_fits_runtime, hardware_can_do_it) for each in rule(as_model)),
        *(_below("envelope", each) for each in as_model.envelope.violations()),
    ]
    yield from (each for each in in_section(own) if each.path[0] == "prefill")


def _engines_understand_each_other(model: ModelParts, runtime: Vllm) -> Iterator[Problem]:
    role, decode = model.prefill, model.envelope.gpu
    assert role is not None  # noqa: S101  the caller has looked
    if decode.share != "whole":
        yield problem(
            "roles-on-whole-gpus",
            "envelope",
            "gpu",
            "share",
            value=decode.share,
            fact=f"decode replicas have their GPU by {decode.share}",
            consequence="Nothing is known of a transfer from GPU to GPU into a part of one",
            remedy="Use share: whole, or leave prefill out",
        )
    generations = [GPUS[each.accelerator].architecture for each in (role.gpu, decode)]
    if generations[0] != generations[1]:
        yield problem(
            "roles-attend-alike",
            "prefill",
            "gpu",
            "accelerator",
            value=role.gpu.accelerator,
            fact=f"prefill is on {generations[0]} GPUs, and decode on {generations[1]} ones",
            consequence="vLLM chooses how attention is computed by the generation, and engines that chose differently refuse one another",
            remedy=f"Use GPUs of one generation, such as {decode.accelerator} for both",
        )
    if role.gpu.count > decode.count and role.gpu.count > runtime.architecture.kv_heads and not runtime.architecture.latent:
        yield problem(
            "kv-heads-reach-decode",
            "prefill",
            "gpu",
            "count",
            value=role.gpu.count,
            fact=f"{role.gpu.count} GPUs of prefill keep {runtime.architecture.kv_heads} KV heads more than once, and decode has fewer GPUs",
            consequence="vLLM's connector refuses to read from such an engine",
            remedy=f"Use at most {max(decode.count, runtime.architecture.kv_heads)} GPUs for prefill, or as many for decode",
        )
    if runtime.adapters:
        yield problem(
            "roles-without-adapters",
            "runtime",
            "adapters",
            fact="the contract has adapters, and prompts are read by other engines",
            consequence="vLLM says of no version that caches of adapters are handed over rightly",
            remedy="Leave prefill out, or serve the adapters by a contract of their own",
        )


def _below(section: str, found: Problem) -> Problem:
    return problem(found.rule, section, *found.path, value=found.value, fact=found.fact, consequence=found.consequence, remedy=found.remedy)
