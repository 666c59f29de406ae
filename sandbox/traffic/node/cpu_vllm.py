"""What differs when a GPU's vLLM is run by a CPU's: stated here, all of it, and nowhere else. Pure.

The wheel is vLLM 0.32 built for CPUs; production pins 0.33, whose parser knows every argument below and whose metrics are the same
(`vllm/engine/arg_utils.py`, `vllm/entrypoints/common/cli_args.py`, `vllm/v1/metrics/`, compared on 2026-11-28). An argument that is not
in a table here is handed on as it stands. Without `--enforce-eager` a C++ compiler would be wanted (inductor).
A block of the KV cache holds 128 tokens, not 16 (`vllm/platforms/cpu.py`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from headway.contract.arithmetic.fit import CUDA_CONTEXT, CUDA_GRAPHS
from sandbox.traffic.node.cpu import NotServedError

SERVER = ("vllm", "serve")
MODULE = "vllm.entrypoints.openai.api_server"
"""The program `vllm` looks up a distribution of that name, which this wheel is not."""
START = Path(__file__).parent / "start"
"""Holds what every Python process of the pod runs first."""
LEAST_CACHE = 16 * 2**20
BESIDE_CACHE = CUDA_CONTEXT + CUDA_GRAPHS
"""What the contract's arithmetic counts beside weights and cache, and a CPU does not take."""


@dataclass(frozen=True, kw_only=True)
class CpuArgument:
    """An argument that a CPU's vLLM cannot do as it stands: what replaces it, or the values with which it means the same, and why.
    `contract` is what a contract says that is to be served here."""

    flag: str
    replaced_by: str = ""
    same: tuple[str, ...] = ()
    why: str
    contract: str = ""


ARGUMENTS = (
    CpuArgument(
        flag="--gpu-memory-utilization",
        replaced_by="--kv-cache-memory-bytes",
        why="here it would be a share of the machine's memory; the cache gets what weights and CUDA leave of the envelope's GPU memory",
    ),
    CpuArgument(
        flag="--tensor-parallel-size",
        same=("1",),
        why="one process computes; several would be other processes on the same processors, not GPUs that share the weights",
        contract="one GPU in envelope.gpu",
    ),
    CpuArgument(
        flag="--quantization",
        why="the kernels that a GPU would run are not in a build for CPUs, so other numbers would come out",
        contract="optimisation.quantisation none",
    ),
    CpuArgument(
        flag="--kv-cache-dtype",
        same=("auto",),
        why="8-bit attention needs AVX-512 or AMX here, so it would start on some machines",
        contract="optimisation.kv_cache auto",
    ),
    CpuArgument(
        flag="--speculative-config",
        why="what guessing saves depends on the device, so a time measured here would say nothing of a GPU's",
        contract="no optimisation.speculation",
    ),
)
"""All of them; every other argument that a contract renders is taken as it is."""
SLOTS = "--max-loras"
"""The base model's requests in a step beside adapters' get no adapter on a GPU. Here they get the one in the last slot, because the kernels for
CPUs read slot -1 (`vllm/lora/ops/torch_ops/lora_ops.py`; seen on 2026-11-28: the base answered as the adapter). So there is one slot more
than adapters, which stays empty."""
ENVIRONMENT = {
    "OMP_NUM_THREADS": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    # Of sockets, relative to the pod's folder: the path of one may have 107 characters, which a checkout's folder alone may have.
    "VLLM_RPC_BASE_PATH": ".",
}


def serves(command: Sequence[str]) -> bool:
    """Whether the command starts vLLM."""
    return tuple(command[: len(SERVER)]) == SERVER


def refused(command: Sequence[str]) -> Iterator[str]:
    """Why a CPU cannot run it as it is meant: one sentence for each argument."""
    known = {each.flag: each for each in ARGUMENTS}
    for argument in command[len(SERVER) :]:
        flag, _, value = argument.partition("=")
        found = known.get(flag)
        if found is not None and not found.replaced_by and value not in found.same:
            yield f"{argument} is not run on a CPU: {found.why}. Give the contract {found.contract} in the sandbox"


def cache_bytes(gpu_memory: int, weights: int) -> int:
    """Of the KV cache: what weights and CUDA leave of the pod's GPU memory."""
    return max(LEAST_CACHE, gpu_memory - weights - BESIDE_CACHE)


def arguments(command: Sequence[str], python: Path | None, address: str, gpu_memory: int) -> list[str]:
    """The command line of vLLM on this node, on the pod's own address. NotServedError where the environment of vLLM is missing or an
    argument cannot be done."""
    if python is None:
        raise NotServedError("vLLM is not installed on this node: run `make .venv-llm/.ready` (6 GB), then start the node agent again")
    reasons = tuple(refused(command))
    if reasons:
        raise NotServedError("; ".join(reasons))
    model, *given = command[len(SERVER) :]
    replaced = {each.flag for each in ARGUMENTS if each.replaced_by}
    weights = sum(file.stat().st_size for file in Path(model).rglob("*.safetensors"))
    return [
        *(str(python), "-m", MODULE, f"--model={model}", f"--host={address}"),
        *(_with_an_empty_slot(each) for each in given if each.partition("=")[0] not in replaced),
        f"--kv-cache-memory-bytes={cache_bytes(gpu_memory, weights)}",
        "--enforce-eager",
    ]


def _with_an_empty_slot(argument: str) -> str:
    flag, _, value = argument.partition("=")
    return f"{flag}={int(value) + 1}" if flag == SLOTS else argument


def environment(python: Path | None, address: str, prefix: str, system: str) -> dict[str, str]:
    """Of a vLLM process and of what it starts; `prefix` is that of the pod's files in /dev/shm."""
    own = {"HEADWAY_SHM_PREFIX": prefix, "PYTHONPATH": str(START), "VLLM_HOST_IP": address}
    return {**ENVIRONMENT, **own, "PATH": f"{python.parent}:{system}" if python else system}
