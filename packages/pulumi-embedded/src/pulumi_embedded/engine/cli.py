"""The engine as an executable that answers as `pulumi`: `python -m pulumi_embedded.engine.cli ARGUMENTS`, and the small script that runs it.

The providers are the sandbox's own. Exit codes: 0, 255 for a failure that was explained (as the real command), 130 after a second Ctrl-C.
"""

import os
import shlex
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from pulumi_embedded.engine.console import Terminal
from pulumi_embedded.engine.errors import EngineError
from pulumi_embedded.engine.live import SHOW_CURSOR
from pulumi_embedded.engine.model import ProviderFactories
from pulumi_embedded.engine.secrets import FILE_VARIABLE, VALUE_VARIABLE
from pulumi_embedded.engine.session import Host
from pulumi_embedded.engine.verbs import dispatch
from sandbox.layout import Layout

VERSION: Final = "3.272.0"
PROJECT_VARIABLE: Final = "HEADWAY_PROJECT"
FAILED: Final = 255
INTERRUPTED: Final = 130
STOPPED: Final = "error: stopped at once; the state is safe, and what was interrupted is repeated by the next run"


def main(args: Sequence[str] | None = None, providers: Callable[[], ProviderFactories] | None = None) -> int:
    """Run one command line, with the sandbox's providers unless others are given; answers the exit code."""
    console = Terminal()

    def abort() -> None:
        console.raw(SHOW_CURSOR)
        console.error(STOPPED)
        os._exit(INTERRUPTED)

    host = Host(
        console=console,
        cwd=Path.cwd(),
        environment=dict(os.environ),
        providers=providers or _providers,
        version=VERSION,
        now=lambda: datetime.now(UTC),
        abort=abort,
    )
    try:
        dispatch(sys.argv[1:] if args is None else args, host)
    except EngineError as error:
        console.error(f"error: {error}")
        return FAILED
    except KeyboardInterrupt:
        console.error(STOPPED)
        return INTERRUPTED
    return 0


def install_executable(layout: Layout) -> Path:
    """Write `<layout.bin>/pulumi`, which runs this environment's Python on this checkout.

    The sandbox's backend and passphrase are defaults of the script; the caller's environment goes before them. Answers its path.
    """
    environment = {**layout.engine_environment(), PROJECT_VARIABLE: str(layout.project)}
    passphrase = environment.pop(FILE_VARIABLE)
    lines = [
        "#!/bin/sh",
        "# The sandbox's embedded engine, a Pulumi-compatible subset; written by `headway sandbox`. It is not the Pulumi CLI.",
        *(f'[ -n "${name}" ] || export {name}={shlex.quote(value)}' for name, value in sorted(environment.items())),
        # Either variable names the passphrase: a default for one must not beat the other.
        f'[ -n "${{{VALUE_VARIABLE}+set}}${{{FILE_VARIABLE}+set}}" ] || export {FILE_VARIABLE}={shlex.quote(passphrase)}',
        f'exec {shlex.quote(sys.executable)} -m pulumi_embedded.engine.cli "$@"',
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
    return providers(Layout.of(Path(project) if project else Path(__file__).parents[5]))


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # gRPC's threads must not hold the exit
