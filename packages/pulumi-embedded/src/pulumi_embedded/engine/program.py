"""How the user's program is run: in the caller's process through the SDK's language server, or as a child process.

The trap: the language server takes the engine's address from the first of the program's arguments; without it, errors are lost.
"""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Final

import grpc
from pulumi.runtime.proto import language_pb2, language_pb2_grpc

from pulumi_embedded.engine.callbacks import details_of
from pulumi_embedded.engine.errors import EngineError
from pulumi_embedded.engine.model import Events, OperationRequest, ProgramResult
from pulumi_embedded.engine.monitor import CHANNEL_OPTIONS, TERMINATED
from pulumi_embedded.engine.runner import FAILED_AND_LOGGED
from pulumi_embedded.engine.workspace import Project

_STOP_SECONDS: Final = 5


class Inline:
    """A program in an Automation API client: a function behind the language server at `address`."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._call: grpc.Future[language_pb2.RunResponse] | None = None
        self._stopped = threading.Event()

    @property
    def directory(self) -> Path:
        return Path.cwd()

    def run(self, address: str, request: OperationRequest, events: Events) -> ProgramResult:
        folder = str(self.directory)
        channel = grpc.insecure_channel(self._address, options=CHANNEL_OPTIONS)
        try:
            self._call = language_pb2_grpc.LanguageRuntimeStub(channel).Run.future(
                language_pb2.RunRequest(
                    project=request.project,
                    stack=request.stack,
                    organization=request.organization,
                    pwd=folder,
                    program=folder,
                    args=[address],
                    config=request.config,
                    configSecretKeys=request.secret_keys,
                    dryRun=request.dry_run,
                    parallel=request.parallel,
                    monitor_address=address,
                    info=language_pb2.ProgramInfo(root_directory=folder, program_directory=folder, entry_point="."),
                )
            )
            if self._stopped.is_set():
                self._call.cancel()
            answer = self._call.result()
        except grpc.FutureCancelledError:
            return ProgramResult("the program was stopped")
        except grpc.RpcError as error:
            # A busy SDK may let this error through its own hands, and its server then reports it as its own.
            if TERMINATED in details_of(error):
                return ProgramResult("the program was stopped")
            message = f"the language server of the program at {self._address} has failed: {details_of(error)}"
            events.diagnostic("error", message)
            return ProgramResult(message)
        finally:
            channel.close()
        return ProgramResult(answer.error or ("the program failed" if answer.bail else None))

    def stop(self) -> None:
        self._stopped.set()
        if self._call is not None:
            self._call.cancel()


class ChildProgram:
    """A Python program in its project folder, run by `pulumi_embedded.engine.runner` in a process of its own."""

    def __init__(self, project: Project, environment: Mapping[str, str]) -> None:
        """Raises EngineError for a runtime other than Python."""
        if project.runtime != "python":
            raise EngineError(f"{project.file}: runtime {project.runtime!r} is not supported by the embedded engine, only python is")
        self._project = project
        self._environment = environment
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()
        self._stopped = False

    @property
    def directory(self) -> Path:
        main = self._project.folder / self._project.main
        return main if main.is_dir() else main.parent

    @property
    def _interpreter(self) -> str:
        virtualenv = self._project.runtime_options.get("virtualenv")
        return str(self._project.folder / str(virtualenv) / "bin" / "python") if virtualenv else sys.executable

    def run(self, address: str, request: OperationRequest, events: Events) -> ProgramResult:
        main = self._project.folder / self._project.main
        asked = {
            "address": address,
            "program": str(self.directory if main.is_dir() else main),
            "directory": str(self.directory),
            "root": str(self._project.folder),
            "project": request.project,
            "stack": request.stack,
            "organization": request.organization,
            "dry_run": request.dry_run,
            "parallel": request.parallel,
            "debug": request.debug,
        }
        # -P: the folder of the runner must not shadow the program's modules. Its standard input ends when this process does.
        with self._lock:
            if self._stopped:
                return ProgramResult("the program was stopped")
            try:
                self._process = process = subprocess.Popen(
                    [self._interpreter, "-u", "-P", str(Path(__file__).with_name("runner.py")), json.dumps(asked)],
                    cwd=self.directory,
                    env={
                        **os.environ,
                        **self._environment,
                        "PULUMI_CONFIG": json.dumps(dict(request.config)),
                        "PULUMI_CONFIG_SECRET_KEYS": json.dumps(list(request.secret_keys)),
                    },
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    errors="replace",
                    start_new_session=True,
                )
            except OSError as error:
                message = f"the program cannot be started with {self._interpreter}: {error.strerror or error}"
                events.diagnostic("error", message)
                return ProgramResult(message)
        assert process.stdout is not None  # noqa: S101 it is a pipe
        with process:  # closes its pipes, and its leash with them
            _pass_on(process.stdout, events)
            code = process.wait()
        if code == 0:
            return ProgramResult()
        if code == FAILED_AND_LOGGED:
            return ProgramResult("the program failed")
        if self._stopped:
            return ProgramResult("the program was stopped")
        message = f"the program ended with exit code {code} before it was done" if code > 0 else f"the program was killed by signal {-code}"
        events.diagnostic("error", message)
        return ProgramResult(message)

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            process = self._process
        if process is None or process.poll() is not None:
            return
        _signal(process, signal.SIGTERM)
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            _signal(process, signal.SIGKILL)


def _pass_on(stream: IO[str], events: Events) -> None:
    for line in stream:
        events.diagnostic("info", line.rstrip("\n"))


def _signal(process: subprocess.Popen[str], number: int) -> None:
    """To the program and whatever it has started: it leads a session of its own."""
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return
