"""What a verb works with: the caller's surroundings, and the stack that the command line means.

The passphrase's salt lies in two places. The state of a stack always has one, made by `stack init`. Pulumi.STACK.yaml has one
(`encryptionsalt`) only when it holds a secret: the real engine writes it there at `stack init`, which would change a committed file in
every checkout although nothing in it is secret. So a salt in the file is used for the file's secrets (and for a new state);
without one, the state's is used, and goes into the file together with the first secret.
"""

import contextlib
import json
import threading
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from pulumi_embedded.engine.arguments import Arguments
from pulumi_embedded.engine.backend import FileBackend, StackName
from pulumi_embedded.engine.config import StackSettings, StackValue, read_settings, resolve
from pulumi_embedded.engine.console import Console
from pulumi_embedded.engine.errors import EngineError
from pulumi_embedded.engine.lock import held
from pulumi_embedded.engine.model import ProviderFactories
from pulumi_embedded.engine.secrets import Passphrase, phrase_of
from pulumi_embedded.engine.state import StackState
from pulumi_embedded.engine.values import Properties
from pulumi_embedded.engine.workspace import Project, find_project, require_project


@dataclass(frozen=True, kw_only=True)
class EngineHost:
    """The surroundings of one command line."""

    console: Console
    cwd: Path
    environment: Mapping[str, str]
    providers: Callable[[], ProviderFactories]
    """Loaded at first use: most verbs need none."""
    version: str
    now: Callable[[], datetime]
    cancellation: Callable[[], threading.Event] = threading.Event
    """Makes the event that cancels one operation; a caller who wants to cancel from outside keeps it."""
    abort: Callable[[], None] | None = None
    """Ends the process at once, after a second Ctrl-C; None if the process belongs to the caller."""

    def json(self, value: Any) -> None:
        self.console.line(json.dumps(value, indent=2, ensure_ascii=False))

    def interactive(self, arguments: Arguments) -> bool:
        return self.console.interactive and not arguments.switch("non-interactive") and not self.environment.get("CI")

    def backend(self) -> FileBackend:
        project = find_project(self.cwd)
        return FileBackend.of(self.environment, project.backend_url if project else "")

    def stack(self, arguments: Arguments, named: str = "", *, must_exist: bool = True) -> "SessionStack":
        """The stack named on the command line, by PULUMI_STACK, or selected. Raises EngineError if there is none or it does not exist."""
        project = require_project(self.cwd)
        backend = FileBackend.of(self.environment, project.backend_url)
        text = named or arguments.text("stack") or self.environment.get("PULUMI_STACK", "")
        name = StackName.parse(text, project.name) if text else backend.selected(project.name, project.folder)
        if name is None:
            raise EngineError("no stack selected; please use `pulumi stack select` or `pulumi stack init` to choose one")
        if must_exist:
            backend.require(name)
        config_file = arguments.text("config-file")
        file = Path(self.cwd, config_file) if config_file else project.stack_file(name.stack)
        return SessionStack(self, project, backend, name, file)


@dataclass(frozen=True)
class SessionStack:
    """One stack of one project."""

    host: EngineHost
    project: Project
    backend: FileBackend
    name: StackName
    config_file: Path

    @property
    def path(self) -> Path:
        return self.backend.state(self.name)

    def settings(self) -> StackSettings:
        return read_settings(self.config_file)

    def passphrase(self, salt: str) -> Passphrase:
        """The passphrase of the state or the file that has `salt`; without one, that of the file, or a new one."""
        phrase = phrase_of(self.host.environment)
        salt = salt or self.settings().salt
        return Passphrase(phrase, salt) if salt else Passphrase.new(phrase)

    def read(self, *, secrets: bool) -> StackState:
        """The recorded state, for looking. Without `secrets` they stay closed and no passphrase is needed."""
        return StackState.read(self.path, self.passphrase if secrets else None, self.host.now)

    @contextlib.contextmanager
    def editing(self, operation: str, cancel: Callable[[], None] = lambda: None) -> Generator[StackState]:
        """The state under the stack's lock. The passphrase is checked first: a wrong one must be told before anything is changed."""
        with held(self.path, str(self.name), operation, cancel):
            self.backend.require(self.name)
            state = StackState.edit(self.path, self.checked_passphrase, self.host.now)
            try:
                yield state
            finally:
                state.close()

    def config_passphrase(self) -> Passphrase:
        """For the secrets of the configuration file."""
        salt = self.settings().salt
        return self.passphrase(salt or (StackState.read(self.path, None).salt if self.path.exists() else ""))

    def config(self, *, show_secrets: bool) -> dict[str, StackValue]:
        settings = self.settings()
        return resolve(self.project, settings, self.name.stack, self.config_decrypter() if show_secrets else None)

    def config_decrypter(self) -> Callable[[str], str]:
        """Opens secrets of the configuration; asks for the passphrase only when there is one."""
        passphrase: list[Passphrase] = []

        def decrypt(value: str) -> str:
            if not passphrase:
                passphrase.append(self.config_passphrase())
            return passphrase[0].decrypt(value)

        return decrypt

    def checked_passphrase(self, salt: str) -> Passphrase:
        """As `passphrase`; raises EngineError at once if it is wrong."""
        passphrase = self.passphrase(salt)
        passphrase.check()
        return passphrase

    def outputs_of(self, name: str) -> Properties:
        """Outputs of another stack, secrets wrapped, for a StackReference. Raises KeyError if there is none."""
        try:
            other = StackName.parse(name, self.project.name)
            path = self.backend.require(other)
        except EngineError as error:
            raise KeyError(str(error)) from None
        phrase = phrase_of(self.host.environment)
        return StackState.read(path, lambda salt: Passphrase(phrase, salt)).outputs
