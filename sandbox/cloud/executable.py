"""The sandbox's `pulumi`: the embedded engine with the sandbox's providers, as `python -m sandbox.cloud.executable ARGUMENTS`.

Also writes the small script that runs it. The sandbox's backend and passphrase are defaults of the script; the caller's environment goes
before them.
"""

import os
import shlex
import sys
from pathlib import Path
from typing import Final

from pulumi_embedded.engine.cli import run_and_exit
from pulumi_embedded.engine.model import ProviderFactories
from pulumi_embedded.engine.secrets import FILE_VARIABLE, VALUE_VARIABLE
from sandbox.layout import Layout

PROJECT_VARIABLE: Final = "HEADWAY_PROJECT"


def install_executable(layout: Layout) -> Path:
    """Write `<layout.bin>/pulumi`, which runs this environment's Python on this checkout. Answers its path."""
    environment = {**layout.engine_environment(), PROJECT_VARIABLE: str(layout.project)}
    passphrase = environment.pop(FILE_VARIABLE)
    lines = [
        "#!/bin/sh",
        "# The sandbox's embedded engine, a Pulumi-compatible subset; written by `headway sandbox`. It is not the Pulumi CLI.",
        *(f'[ -n "${name}" ] || export {name}={shlex.quote(value)}' for name, value in sorted(environment.items())),
        # Either variable names the passphrase: a default for one must not beat the other.
        f'[ -n "${{{VALUE_VARIABLE}+set}}${{{FILE_VARIABLE}+set}}" ] || export {FILE_VARIABLE}={shlex.quote(passphrase)}',
        f'exec {shlex.quote(sys.executable)} -m sandbox.cloud.executable "$@"',
    ]
    return _write_once(layout.bin / "pulumi", "\n".join(lines) + "\n", 0o755)


def _write_once(file: Path, text: str, mode: int) -> Path:
    """Write `file` in one step, unless it says so already; it is never readable with another mode."""
    if not file.exists() or file.read_text(encoding="utf-8") != text:
        file.parent.mkdir(parents=True, exist_ok=True)
        temporary = file.with_name(f"{file.name}.{os.getpid()}.tmp")
        temporary.touch(mode)
        temporary.write_text(text, encoding="utf-8")
        temporary.chmod(mode)
        temporary.replace(file)
    return file


def _providers() -> ProviderFactories:
    from sandbox.cloud.registry import providers

    project = os.environ.get(PROJECT_VARIABLE)
    return providers(Layout.of(Path(project) if project else Path(__file__).parents[2]))


if __name__ == "__main__":
    run_and_exit(_providers)
