"""Whether the GPU gives what is declared and asked: isolation, number formats, tensor parallelism."""

from collections.abc import Iterator

from headway.contract.accelerators import GPUS
from headway.contract.model_parts import ModelParts
from headway.contract.optimisation import Quantisation
from headway.contract.placement import Isolation, WorkloadClass
from headway.contract.runtime import Triton, Vllm
from headway.problem import Problem, problem


def isolation_is_what_the_share_gives(model: ModelParts) -> Iterator[Problem]:
    gpu, wanted = model.envelope.gpu, model.placement.isolation
    several = isinstance(model.runtime, Triton) and len(model.runtime.models) > 1
    given = Isolation.SHARED if several and gpu.share != "mig" else model.envelope.isolation_of_gpu
    if wanted is not given:
        why = "several models share this server" if several and given is Isolation.SHARED else f"the GPU share is {gpu.share}"
        yield problem(
            "isolation-is-real",
            "placement",
            "isolation",
            value=wanted,
            fact=f"isolation {wanted} is declared, but {why}, which gives {given}",
            consequence="Operators and neighbouring tenants would rely on an isolation that does not exist",
            remedy=f"Write isolation: {given}, or change envelope.gpu.share or the number of models",
        )
    if gpu.share == "slice" and model.workload_class is WorkloadClass.LATENCY:
        yield problem(
            "latency-is-never-time-sliced",
            "envelope",
            "gpu",
            "share",
            value="slice",
            fact="this latency model would run on a time-sliced GPU",
            consequence="Each neighbour's kernel delays every answer, and any neighbour can take all GPU memory",
            remedy="Use share: whole, mig or mps, or workload_class: throughput",
        )


def hardware_can_do_it(model: ModelParts) -> Iterator[Problem]:
    gpu, optimisation = model.envelope.gpu, model.optimisation
    if optimisation.quantisation in (Quantisation.FP8, Quantisation.FP8_ON_LOAD) and not GPUS[gpu.accelerator].fp8:
        yield problem(
            "fp8-needs-its-hardware",
            "optimisation",
            "quantisation",
            value=optimisation.quantisation,
            fact=f"{gpu.accelerator} has no FP8 tensor cores",
            consequence="The server would refuse to start, or compute slower than without FP8",
            remedy=f"Use one of {', '.join(sorted(g.accelerator for g in GPUS.values() if g.fp8))}, or int8, awq or gptq",
        )
    if isinstance(model.runtime, Vllm) and gpu.share == "whole":
        shape = model.runtime.architecture
        if shape.heads % gpu.count or (shape.kv_heads % gpu.count and gpu.count % shape.kv_heads):
            yield problem(
                "heads-divide-over-gpus",
                "envelope",
                "gpu",
                "count",
                value=gpu.count,
                fact=f"{shape.heads} heads and {shape.kv_heads} KV heads cannot be divided evenly among {gpu.count} GPUs",
                consequence="vLLM refuses to start with this tensor parallelism",
                remedy="Use a number of GPUs that divides both",
            )
