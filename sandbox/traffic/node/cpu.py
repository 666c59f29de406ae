"""What differs when a GPU's Triton is run by a CPU's: stated here, all of it, and nowhere else. Pure.

The wheel's Triton is 2.51 and has the python backend only. So a model of backend onnxruntime is run by that backend
with onnxruntime inside (`runner.py`), instances are of KIND_CPU, TensorRT is left out, and the flag that this version
does not know is dropped. Every other backend is refused by name. The queue policy is left out too: this version holds
single requests for half a second where there is one (triton-inference-server/server#8870; here 30 of 219 at 80 requests
a second); the sidecar's limit bounds the queue instead. The server would fall back to a CPU in silence were the
instance group missing.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from components.model_service.configuration import FATE_SCRIPT, SCRIPTS
from sandbox.traffic.programs import Programs

SERVER = "tritonserver"
DROPPED_FLAGS = ("--http-max-input-size",)
"""Unknown to Triton 2.51. Bodies are limited by the proxy in front."""
RUN_BY_PYTHON = frozenset({"onnxruntime"})
_PORTED = ("http", "grpc", "metrics")


class NotServedError(ValueError):
    """What this node cannot run; the text says what and why."""


@dataclass(frozen=True, kw_only=True)
class CpuModelConfiguration:
    """A `config.pbtxt` for this node, and whether the model needs the runner beside its weights."""

    text: str
    needs_runner: bool


def configuration(text: str) -> CpuModelConfiguration:
    """The rendered `config.pbtxt` as this node can run it. NotServedError for a backend that it has not."""
    backend = re.search(r'^backend: "(\w+)"$', text, re.MULTILINE)
    name = backend[1] if backend else "none"
    if name not in RUN_BY_PYTHON | {"python"}:
        raise NotServedError(f"backend {name} has no CPU build here: served models are of backend onnxruntime or python")
    lines = _without_block(_without_block(text.splitlines(), "optimization"), "  default_queue_policy")
    kept = [line for line in lines if not line.startswith("platform:")]
    changed = "\n".join(kept).replace("kind: KIND_GPU", "kind: KIND_CPU").replace(f'backend: "{name}"', 'backend: "python"', 1)
    return CpuModelConfiguration(text=changed + "\n", needs_runner=name in RUN_BY_PYTHON)


def _without_block(lines: Iterable[str], key: str) -> list[str]:
    """The lines without the message `key`, written with its indentation; the renderer writes one field a line."""
    end = f"{key[: len(key) - len(key.lstrip())]}}}"
    kept: list[str] = []
    inside = False
    for line in lines:
        inside = inside or line == f"{key} {{"
        if not inside:
            kept.append(line)
        elif line == end:
            inside = False
    return kept


def split(command: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """What the contract's script starts the server by, if it does, and the server's own arguments. NotServedError for
    another server."""
    if SERVER in command:
        place = command.index(SERVER)
        if place == 0 or FATE_SCRIPT in (Path(part).name for part in command[:place]):
            return command[:place], command[place + 1 :]
    raise NotServedError(f"the server's command is {command[0] if command else 'its image own'}: only {SERVER} is served here")


def arguments(
    command: Sequence[str], programs: Programs, address: str, backends: Path, name: str, *, proven: str | None = None
) -> list[str]:
    """The command line of Triton on this node: on the pod's own address, with its own prefix `name` in /dev/shm.

    With `proven`, the file that the startup probe leaves, the server ends with its model process whatever the contract
    says: that of a model which on a GPU is in the server itself.
    """
    before, given = split(command)
    if proven and not before:
        before = (str(programs.python), "-I", str(SCRIPTS / FATE_SCRIPT), proven)
    kept = [flag for flag in given if flag.split("=", 1)[0] not in DROPPED_FLAGS]
    return [
        *before,
        str(programs.tritonserver),
        f"--id={name}",
        *kept,
        *(f"--{port}-address={address}" for port in _PORTED),
        f"--backend-directory={backends}",
        f"--backend-config=python,shm-region-prefix-name={name}",
        "--backend-config=python,shm-default-byte-size=1048576",
        "--http-thread-count=4",
    ]
