"""The engine as an Automation API command: `LocalWorkspaceOptions(pulumi_command=EmbeddedPulumi(providers))`. No child process is started.

The trap: the SDK tells its exceptions apart by words in the output, so the words of `errors` and `verbs` are part of the interface
(pulumi/automation/errors.py lists them).
"""

import threading
import weakref
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pulumi.automation import CommandResult, PulumiCommand
from pulumi.automation.errors import create_command_error
from semver import VersionInfo

from pulumi_embedded.engine.console import Captured
from pulumi_embedded.engine.errors import EngineError
from pulumi_embedded.engine.model import ProviderFactories
from pulumi_embedded.engine.session import EngineHost
from pulumi_embedded.engine.verbs import dispatch
from pulumi_embedded.engine.workspace import environment_of

FAILED = 255
"""Exit code of the real command for every failure."""


class EmbeddedPulumi(PulumiCommand):
    """Answers as `pulumi` of `version`. May be used from several threads at once, for different stacks."""

    def __init__(self, providers: ProviderFactories, *, version: str = "3.272.0") -> None:
        # Not the base's own initializer, which searches for an executable and runs it.
        self.command = "pulumi"
        self.version = VersionInfo.parse(version)
        self._providers = providers
        self._lock = threading.Lock()
        self._running: weakref.WeakSet[threading.Event] = weakref.WeakSet()
        self._cancelled = False

    def cancel(self) -> None:
        """Stop whatever runs here, previews too, after the steps under way; what is begun later stops at once. Safe from any thread."""
        with self._lock:
            self._cancelled = True
            running = list(self._running)
        for event in running:
            event.set()

    def _cancellation(self) -> threading.Event:
        event = threading.Event()
        with self._lock:
            self._running.add(event)
            if self._cancelled:
                event.set()
        return event

    def run(
        self,
        args: list[str],
        cwd: str,
        additional_env: Mapping[str, str],
        on_output: Callable[[str], Any] | None = None,
        on_error: Callable[[str], Any] | None = None,
    ) -> CommandResult:
        """Raises the SDK's CommandError, or one of its kinds, for everything that fails."""
        console = Captured(on_output, on_error)
        host = EngineHost(
            console=console,
            cwd=Path(cwd),
            environment=environment_of(additional_env),
            providers=lambda: self._providers,
            version=str(self.version),
            now=lambda: datetime.now(UTC),
            cancellation=self._cancellation,
        )
        code = 0
        try:
            dispatch(args, host)
        except EngineError as error:
            console.error(f"error: {error}")
            code = FAILED
        result = CommandResult(stdout=console.stdout, stderr=console.stderr, code=code)
        if code:
            raise create_command_error(result)
        return result
