"""What arithmetic says against one model contract: memory, start-up, error budget; and what a starter left to be replaced."""

from collections.abc import Iterator

from headway.contract.accelerators import GPUS
from headway.contract.arithmetic.adapters import dense_weights
from headway.contract.arithmetic.fit import fit, fit_ram
from headway.contract.arithmetic.startup import budget_burn, startup
from headway.contract.arithmetic.tensor_parallel import MOST_WITHOUT_NVLINK, degree, lacks_nvlink, largest_step, shared_memory_of
from headway.contract.model import Model
from headway.contract.pool import Pool
from headway.contract.runtime import Vllm
from headway.contract.starter import PLACEHOLDER
from headway.contract.units import Bytes
from headway.problem import Problem, problem


def memory(model: Model) -> Iterator[Problem]:
    gpu = fit(model)
    if not gpu.fits:
        yield problem(
            "fits-into-gpu-memory",
            "envelope",
            "gpu",
            "memory",
            value=model.envelope.gpu.memory,
            fact=f"each GPU needs {gpu.needed.brief}, and {gpu.available.brief} are available after headroom",
            consequence="The model would run out of GPU memory at start or at its largest request",
            remedy="Raise envelope.gpu.memory, take a larger accelerator or share, or lower the declared maximum (`headway check --explain`)",
        )
    ram = fit_ram(model)
    if not ram.fits:
        yield problem(
            "fits-into-ram",
            "envelope",
            "memory",
            value=model.envelope.memory,
            fact=f"the server needs {ram.needed.brief} of RAM while loading and at full load",
            consequence="The kernel would kill the server while it loads, or under load",
            remedy=f"Use at least {_round_up(ram.needed)}",
        )


def shared(model: Model) -> Iterator[Problem]:
    gpus = degree(model)
    needed = shared_memory_of(gpus)
    if model.envelope.shared_memory < needed:
        yield problem(
            "gpus-of-a-replica-share-memory",
            "envelope",
            "shared_memory",
            value=model.envelope.shared_memory,
            fact=f"the processes of {gpus} GPUs map {needed.brief} in /dev/shm, and the replica has {_dev_shm(model)}",
            consequence="NCCL would fail at start, or the kernel would end a process that writes beyond it",
            remedy=f"Use at least {_round_up(needed)}; it counts as RAM",
        )


def _dev_shm(model: Model) -> str:
    return f"{model.envelope.shared_memory}" if model.envelope.shared_memory else "the container runtime's 64Mi"


MOST_OF_DENSE = 1.25
"""Times what a dense model of the shape holds; padding and untied heads stay far below."""


def adapters(model: Model) -> Iterator[Problem]:
    runtime = model.runtime
    if not isinstance(runtime, Vllm) or not runtime.adapters:
        return
    weights = Bytes(sum(each.size for each in model.artifact.files if each.path.endswith(".safetensors") and "/" not in each.path))
    dense = dense_weights(runtime.architecture)
    if weights > dense * MOST_OF_DENSE:
        yield problem(
            "adapters-need-a-dense-model",
            "runtime",
            "adapters",
            fact=f"the weights have {weights.brief}, and a model of this shape without experts has {dense.brief}",
            consequence="With experts the engine reserves far more GPU memory for adapters than is counted",
            remedy="Correct runtime.architecture; a model with experts is served without adapters",
        )


def links(model: Model) -> Iterator[Problem]:
    if not lacks_nvlink(model):
        return
    gpu, (tokens, size, least) = model.envelope.gpu, largest_step(model)
    joined = ", ".join(sorted(each.accelerator for each in GPUS.values() if each.link.name == "NVLink"))
    beyond = f"; vLLM's own sums serve no more than {MOST_WITHOUT_NVLINK} such GPUs" if gpu.count > MOST_WITHOUT_NVLINK else ""
    yield problem(
        "gpus-of-a-replica-are-joined",
        "envelope",
        "gpu",
        "count",
        value=gpu.count,
        fact=f"no NVLink joins the {gpu.count} {gpu.accelerator} of a replica{beyond}",
        consequence=f"In a step of {tokens} tokens each GPU sends {size.brief} by PCIe: at least {least.brief} more until the first token",
        remedy=f"Use one GPU, or {joined}; else lower max_batched_tokens and measure the first token's time",
    )


def start(model: Model, pool: Pool | None = None) -> Iterator[Problem]:
    start = startup(model, pool)
    if start.pod > model.health.startup_budget:
        yield problem(
            "startup-within-budget",
            "health",
            "startup_budget",
            value=model.health.startup_budget,
            fact=f"a start takes {start.pod.brief}: {start.fetch.brief} to fetch, {start.serve.brief} for engine and warmup",
            consequence="The startup probe would kill every replica before it is ready, again and again",
            remedy=f"Use at least {start.pod.brief} with a reserve, or make the start shorter (`headway check --explain` lists the steps)",
        )


def error_budget(model: Model) -> Iterator[Problem]:
    burn = budget_burn(model, startup(model))
    if burn and model.scaling.min_replicas < 2 and not burn.survivable:
        yield problem(
            "one-replica-and-a-strict-objective",
            "scaling",
            "min_replicas",
            value=model.scaling.min_replicas,
            fact=f"one cold start takes {burn.outage.brief}, and the objective {burn.objective} allows {burn.budget.brief}",
            consequence="Losing the only replica once would break the availability objective",
            remedy="Run at least 2 replicas, or lower the objective",
        )


DIGEST_IS_REAL = "digest-is-real"
"""A starter's digests may stand in a contract, and in no environment."""


def placeholders(model: Model) -> Iterator[Problem]:
    files = sum(file.sha256 == PLACEHOLDER for file in model.artifact.files)
    for path, fact in (
        (("runtime", "image"), "the image digest is the starter's placeholder" if model.runtime.image.endswith(PLACEHOLDER) else ""),
        (("artifact", "files"), f"{files} of {len(model.artifact.files)} digests of files are the starter's placeholder" if files else ""),
    ):
        if fact:
            yield problem(
                DIGEST_IS_REAL,
                *path,
                fact=fact,
                consequence="No content has this digest: the image could not be pulled, and the file would be refused after its download",
                remedy="Write the real digest: `headway artifact FOLDER` prints those of files, your registry an image's",
            )


def _round_up(size: Bytes) -> Bytes:
    return Bytes(-(-int(size) // 2**30) * 2**30)
