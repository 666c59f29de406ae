"""The engine as an executable that answers as `pulumi`; a host gives it the providers.

Exit codes: 0, 255 for a failure that was explained (as the real command), 130 after a second Ctrl-C.
"""

import os
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NoReturn

from pulumi_embedded.engine.console import Terminal
from pulumi_embedded.engine.errors import EngineError
from pulumi_embedded.engine.model import ProviderFactories
from pulumi_embedded.engine.session import EngineHost
from pulumi_embedded.engine.verbs import dispatch

VERSION: Final = "3.272.0"
FAILED: Final = 255
INTERRUPTED: Final = 130
STOPPED: Final = "error: stopped at once; the state is safe, and what was interrupted is repeated by the next run"


def main(providers: Callable[[], ProviderFactories], args: Sequence[str] | None = None) -> int:
    """Run one command line (this process's own for None); answers the exit code."""
    console = Terminal()

    def abort() -> None:
        console.error(STOPPED)
        os._exit(INTERRUPTED)

    host = EngineHost(
        console=console,
        cwd=Path.cwd(),
        environment=dict(os.environ),
        providers=providers,
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


def run_and_exit(providers: Callable[[], ProviderFactories]) -> NoReturn:
    """Run this process's command line, and end the process."""
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    code = main(providers)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # gRPC's threads must not hold the exit
