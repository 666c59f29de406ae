"""The program itself: inline and in a folder, how it fails, what it prints, and what it may ask the engine."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pulumi
import pytest
from pulumi import automation as auto
from pulumi.runtime.proto import language_pb2_grpc

from engine.conftest import Workspace, diagnostics, names
from engine.doubles import Thing
from pulumi_embedded.engine.command import EmbeddedPulumi
from pulumi_embedded.engine.console import Captured
from pulumi_embedded.engine.events import EventStream
from pulumi_embedded.engine.model import OperationRequest
from pulumi_embedded.engine.program import Inline

MAIN = """
import os, sys
import pulumi
import helper
from engine.doubles import Thing

config = pulumi.Config()
thing = Thing("a", name="a", value=helper.VALUE + config.require_object("limits")["gpu"])
Thing("file", value=pulumi.FileAsset("data.txt"))
thing.arn.apply(lambda arn: print("printed", arn))
print("to stderr", file=sys.stderr)
pulumi.export("context", [pulumi.get_project(), pulumi.get_stack(), pulumi.get_organization(), os.path.basename(os.getcwd())])
pulumi.export("password", config.require_secret("password"))
pulumi.export("module", __name__)
if config.get_bool("fail"):
    raise ValueError("kaboom")
"""
COUNTED = """
import asyncio, pathlib
from engine.doubles import Thing

looked, wait = [], asyncio.wait

async def counting(values, **how):
    values = list(values)
    looked.append(len(values))
    pathlib.Path("looked").write_text(str(sum(looked)))
    return await wait(values, **how)

asyncio.wait = counting
for number in range(COUNT):
    Thing(f"thing-{number}", name=f"thing-{number}", value=number)
"""
SETTINGS = "config:\n  plain:limits:\n    gpu: 1\n"


@pytest.fixture
def plain(engine_workspace: Workspace) -> auto.Stack:
    files = {"__main__.py": MAIN, "helper.py": "VALUE = 41\n", "data.txt": "data", "Pulumi.dev.yaml": SETTINGS}
    stack = engine_workspace.project(files)
    stack.set_config("password", auto.ConfigValue("open sesame", secret=True))
    return stack


def test_a_program_in_a_folder_runs_in_a_process_of_its_own(plain: auto.Stack, engine_workspace: Workspace) -> None:
    events: list[Any] = []
    assert plain.preview().change_summary == {"create": 3}
    outputs = plain.up(on_event=events.append).outputs
    assert outputs["context"].value == ["plain", "dev", "organization", "plain"]
    assert outputs["password"].value == "open sesame" and outputs["password"].secret
    assert outputs["module"].value == "__main__"
    assert engine_workspace.world.live["a"]["value"] == 42
    said = diagnostics(events, "info")
    assert "printed arn:a" in "\n".join(said) and "to stderr" in "\n".join(said)
    assert plain.up().summary.resource_changes == {"same": 3}


def test_an_exception_in_a_folders_program_is_a_runtime_error_with_its_trace(plain: auto.Stack) -> None:
    plain.set_config("fail", auto.ConfigValue("true"))
    with pytest.raises(auto.errors.RuntimeError, match=r"failed with an unhandled exception[\s\S]*__main__.py[\s\S]*kaboom"):
        plain.up()


def test_an_exception_in_an_inline_program_is_an_inline_source_error(any_workspace: Workspace) -> None:
    def program() -> None:
        raise ValueError("kaboom")

    with pytest.raises(auto.errors.InlineSourceRuntimeError, match="kaboom"):
        any_workspace.stack(program).up()


def test_nothing_is_deleted_after_the_program_has_failed(engine_workspace: Workspace) -> None:
    def failing() -> None:
        Thing("new")
        raise ValueError("kaboom")

    stack = engine_workspace.stack(lambda: Thing("old") and None)
    stack.up()
    with pytest.raises(auto.errors.InlineSourceRuntimeError):
        stack.up(program=failing)
    assert "old" in names(stack)
    assert engine_workspace.world.names("delete") == []


def test_a_run_error_is_told_without_a_trace(any_workspace: Workspace) -> None:
    events: list[Any] = []

    def program() -> None:
        raise pulumi.RunError("set the region first")

    with pytest.raises(auto.CommandError):
        any_workspace.stack(program).up(on_event=events.append)
    told = diagnostics(events)
    assert any("set the region first" in text for text in told) and not any("Traceback" in text for text in told)


def test_a_program_that_cannot_be_read_is_told(engine_workspace: Workspace) -> None:
    stack = engine_workspace.project({"__main__.py": "def broken(:\n"})
    with pytest.raises(auto.CommandError, match="SyntaxError"):
        stack.up()


def test_a_program_that_kills_itself_is_told(engine_workspace: Workspace) -> None:
    stack = engine_workspace.project({"__main__.py": "import os\nos._exit(7)\n"})
    with pytest.raises(auto.CommandError, match="the program ended with exit code 7 before it was done"):
        stack.up()


def test_a_program_in_another_language_is_refused(engine_workspace: Workspace) -> None:
    stack = engine_workspace.project({"Pulumi.yaml": "name: plain\nruntime: nodejs\n"})
    with pytest.raises(auto.CommandError, match="runtime 'nodejs' is not supported by the embedded engine"):
        stack.up()


def test_main_may_be_a_file_or_a_folder(engine_workspace: Workspace) -> None:
    source = "import pulumi, os\npulumi.export('where', os.path.basename(os.getcwd()))\n"
    folder = engine_workspace.project({"Pulumi.yaml": "name: one\nruntime: python\nmain: app\n", "app/__main__.py": source}, project="one")
    assert folder.up().outputs["where"].value == "app"
    file = engine_workspace.project(
        {"Pulumi.yaml": "name: two\nruntime: python\nmain: app/start.py\n", "app/start.py": source}, project="two"
    )
    assert file.up().outputs["where"].value == "app"


def test_modules_of_the_engine_do_not_shadow_those_of_the_program(engine_workspace: Workspace) -> None:
    source = "import secrets, config, pulumi\npulumi.export('ok', [config.MINE, hasattr(secrets, 'token_hex')])\n"
    stack = engine_workspace.project({"__main__.py": source, "config.py": "MINE = 'mine'\n"})
    assert stack.up().outputs["ok"].value == ["mine", True]


def test_an_asynchronous_program_is_awaited(any_workspace: Workspace) -> None:
    async def main() -> dict[str, Any]:
        return {"answer": 42}

    assert any_workspace.stack(lambda: pulumi.run(main)).up().outputs["answer"].value == 42


def test_a_folders_program_looks_at_what_is_pending_a_fixed_number_of_times(engine_workspace: Workspace) -> None:
    """A resource has eight values; the SDK's own wait looks at all that are pending whenever one is done: over fifty times a resource here."""
    stack = engine_workspace.project({"__main__.py": COUNTED.replace("COUNT", "80")})
    assert stack.preview().change_summary == {"create": 81}
    assert int((Path(stack.workspace.work_dir) / "looked").read_text()) < 80 * 20


def test_log_lines_are_told_by_severity_and_debug_only_when_asked(any_workspace: Workspace) -> None:
    def program() -> None:
        for level in (pulumi.log.debug, pulumi.log.info, pulumi.log.warn):
            level(f"a line at {level.__name__}")

    quiet: list[Any] = []
    stack = any_workspace.stack(program)
    stack.up(on_event=quiet.append)
    assert any("a line at info" in text for text in diagnostics(quiet, "info"))
    assert any("a line at warn" in text for text in diagnostics(quiet, "warning"))
    assert not any("a line at debug" in text for text in diagnostics(quiet, "debug"))
    loud: list[Any] = []
    stack.up(on_event=loud.append, debug=True)
    assert any("a line at debug" in text for text in diagnostics(loud, "debug"))


def test_debug_lines_of_a_folders_program_are_told_when_asked(engine_workspace: Workspace) -> None:
    stack = engine_workspace.project({"__main__.py": "import pulumi\npulumi.log.debug('a fine point')\n"})
    events: list[Any] = []
    stack.up(on_event=events.append, debug=True)
    assert any("a fine point" in text for text in diagnostics(events, "debug"))


def test_cancelling_stops_the_steps_under_way_and_starts_no_other(engine_workspace: Workspace) -> None:
    from engine.doubles import Wait

    engine_workspace.world.during = waiting = Wait("create", "slow")

    def program() -> None:
        slow = Thing("slow")
        Thing("after", opts=pulumi.ResourceOptions(depends_on=[slow]))

    stack = engine_workspace.stack(program)
    failure: list[BaseException] = []

    def run() -> None:
        try:
            stack.up()
        except auto.CommandError as error:
            failure.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert waiting.reached.wait(60)
    stack.cancel()
    thread.join(60)
    assert not thread.is_alive() and failure
    assert names(stack) == []
    assert engine_workspace.world.names("create") == ["slow"]
    engine_workspace.world.during = None
    assert stack.up().summary.result == "succeeded"
    assert sorted(names(stack)) == ["after", "slow"]


@pytest.mark.parametrize("preview", [False, True])
def test_cancelling_ends_a_program_that_only_waits(engine_workspace: Workspace, tmp_path: Path, preview: bool) -> None:
    """An update by its stack, as anyone can; a preview, which holds no lock, by the client that runs it, which then begins nothing more."""
    started = tmp_path / "started"
    source = f"import time, pathlib, pulumi\npathlib.Path({str(started)!r}).touch()\ntime.sleep(600)\n"
    stack = engine_workspace.project({"__main__.py": source})
    command = engine_workspace.command
    assert isinstance(command, EmbeddedPulumi)
    failure: list[BaseException] = []

    def run() -> None:
        try:
            stack.preview() if preview else stack.up()
        except auto.CommandError as error:
            failure.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    deadline = time.monotonic() + 60
    while not started.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    command.cancel() if preview else stack.cancel()
    thread.join(60)
    assert not thread.is_alive() and failure
    assert not _running(str(tmp_path)), "the program's process is gone"
    if preview:
        started.unlink()
        with pytest.raises(auto.CommandError):
            stack.up()
        assert not started.exists()


def _running(part: str) -> list[str]:
    found: list[str] = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if part in command and "pytest" not in command.split(part)[0]:
            found.append(command)
    return found


class _Ending(language_pb2_grpc.LanguageRuntimeServicer):
    """A language server whose program ends by an exception that says `text`."""

    def __init__(self, text: str) -> None:
        self.text = text

    def Run(self, request: Any, context: grpc.ServicerContext) -> Any:
        raise RuntimeError(self.text)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("Resource monitor has terminated, shutting down", []),
        ("out of cheese", ["Exception calling application: out of cheese"]),
    ],
)
def test_the_end_of_the_sdk_is_told_unless_it_only_repeats_the_engines_stop(text: str, told: list[str]) -> None:
    server = grpc.server(ThreadPoolExecutor(1))
    language_pb2_grpc.add_LanguageRuntimeServicer_to_server(_Ending(text), server)
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    console = Captured()
    events = EventStream(console.line, lambda: None, time.time, planning=False, debug=False)
    request = OperationRequest(kind="update", dry_run=False, organization="organization", project="case", stack="dev")
    try:
        assert Inline(address).run("127.0.0.1:1", request, events).error
    finally:
        server.stop(None)
    said = console.stdout.splitlines()
    assert len(said) == len(told)
    assert all(text in line for text, line in zip(told, said, strict=True))
