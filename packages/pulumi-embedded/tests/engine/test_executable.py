"""The engine as an executable: what a person at a terminal, a script, and a client of another language meet."""

import contextlib
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pulumi import automation as auto

from pulumi_embedded.engine.command import EmbeddedPulumi
from pulumi_embedded.engine.state import StackState

ROOT = Path(__file__).parents[1]
PROGRAM = """
import pulumi
from engine.doubles import Group, Thing

group = Group("g")
first = Thing("first", pulumi.ResourceOptions(parent=group), value=pulumi.Config().get("value") or "1")
Thing("slow", pulumi.ResourceOptions(depends_on=[first]), value=2)
pulumi.export("n", 2)
"""

PACK = """
from pulumi_policy import PolicyPack, ResourceValidationPolicy

PolicyPack("mine", policies=[ResourceValidationPolicy(name="none", description="none", validate=lambda args, report: None)])
"""


class Place:
    """A project with a program in a folder, and the executable in an environment of its own."""

    def __init__(self, folder: Path) -> None:
        self.project, self.hold = folder / "project", folder / "hold"
        self.project.mkdir()
        (self.project / "Pulumi.yaml").write_text("name: proj\nruntime: python\n")
        (self.project / "__main__.py").write_text(PROGRAM)
        kept = {key: value for key, value in os.environ.items() if not key.startswith("PULUMI_") and key != "CI"}
        self.environment = {
            **kept,
            "PULUMI_BACKEND_URL": (folder / "backend").as_uri(),
            "PULUMI_CONFIG_PASSPHRASE": "pw",
            "HOLD": str(self.hold),
            "PYTHONPATH": str(ROOT),
            "TERM": "xterm",
        }
        self.state = folder / "backend/.pulumi/stacks/proj/dev.json"

    def start(self, *args: str, **environment: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "engine.executable", *args],
            cwd=self.project,
            env={**self.environment, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *args: str, code: int = 0) -> tuple[str, str]:
        process = self.start(*args)
        output, errors = process.communicate(timeout=60)
        assert process.returncode == code, f"{output}\n{errors}"
        assert "Traceback" not in errors
        return output, errors

    def init(self) -> None:
        """Make the stack; in this process, since it is only where the tests start from."""
        EmbeddedPulumi({}).run(["stack", "init", "dev"], str(self.project), self.environment)

    def names(self) -> list[str]:
        return sorted(entry.name for entry in StackState.read(self.state).resources if entry.type == "mem:index:Thing")

    def reached(self, name: str, process: "subprocess.Popen[str]") -> None:
        """Wait until the provider works on `name`: then its operation is in the journal."""
        journal = self.state.with_name("dev.json.journal")
        while process.poll() is None:
            if journal.exists() and re.search(rf'"begin":"creating","resource":{{[^\n]*::{name}"', journal.read_text()):
                return
            time.sleep(0.05)
        raise AssertionError(f"{name} was never reached: {process.communicate()}")


def descendants(pid: int) -> list[int]:
    """Children of a process, and theirs."""
    parents: dict[int, int] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(file.parent.name)] = int(file.read_text().rsplit(")", 1)[1].split()[1])
    found = [child for child, parent in parents.items() if parent == pid]
    return found + [each for child in found for each in descendants(child)]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def slow(place: Place) -> Iterator[Place]:
    place.init()
    place.hold.touch()
    yield place
    place.hold.unlink(missing_ok=True)


# ---- scripts -------------------------------------------------------------------------------------------------------------------------


def test_a_program_in_a_folder_is_previewed_and_brought_up(place: Place) -> None:
    place.init()
    output, _ = place.run("preview")
    assert "embedded engine, Pulumi-compatible subset" in output
    assert "+ 4 to create" in output
    assert not place.names()
    output, _ = place.run("up", "--yes", "--skip-preview")
    assert "+ 4 created" in output
    assert place.names() == ["first", "slow"]
    assert place.run("stack", "output", "n")[0] == "2\n"


def test_failures_end_with_255_and_an_error_line(place: Place) -> None:
    _, errors = place.run("stack", "select", "dev", code=255)
    assert errors.startswith("error: no stack named 'dev' found")
    _, errors = place.run("up", "--bogus", code=255)
    assert errors.startswith("error: unknown flag: --bogus")


def test_an_exception_in_the_program_is_shown_once_as_a_diagnostic(place: Place) -> None:
    place.init()
    (place.project / "__main__.py").write_text("raise ValueError('not like this')\n")
    output, errors = place.run("up", "--yes", code=255)
    assert "Program failed with an unhandled exception" in output
    assert output.count("ValueError: not like this") == 1
    assert errors.strip() == "error: preview failed"


def test_without_yes_and_without_a_terminal_nothing_is_done(place: Place) -> None:
    place.init()
    _, errors = place.run("up", code=255)
    assert "--yes or --skip-preview must be passed in to proceed when running in non-interactive mode" in errors


def test_a_reader_that_has_read_enough_does_not_break_the_verb(place: Place) -> None:
    with place.start("--help") as process:
        assert process.stdout
        process.stdout.close()
        assert process.wait(60) == 0


# ---- the installed script ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """The console command, as a `pulumi` that the SDK finds."""
    file = tmp_path / "home" / "bin" / "pulumi"
    file.parent.mkdir(parents=True)
    file.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m pulumi_embedded "$@"\n')
    file.chmod(0o755)
    return file


def test_the_command_keeps_state_and_passphrase_in_a_folder_of_its_own(place: Place, script: Path, tmp_path: Path) -> None:
    kept = {key: value for key, value in place.environment.items() if not key.startswith("PULUMI_")}
    environment = {**kept, "PULUMI_EMBEDDED_HOME": str(tmp_path / "own")}
    subprocess.run([str(script), "stack", "init", "dev"], cwd=place.project, env=environment, check=True, stdout=subprocess.DEVNULL)
    assert (tmp_path / "own/state/.pulumi/stacks/proj/dev.json").exists()
    assert (tmp_path / "own/passphrase").stat().st_mode & 0o777 == 0o600
    version = subprocess.run([str(script), "version"], env=environment, capture_output=True, text=True, check=True).stdout
    assert version == "v3.272.0\n"


def test_a_backend_that_the_environment_names_goes_first(place: Place, script: Path, tmp_path: Path) -> None:
    environment = {**place.environment, "PULUMI_EMBEDDED_HOME": str(tmp_path / "own")}
    subprocess.run([str(script), "stack", "init", "dev"], cwd=place.project, env=environment, check=True, stdout=subprocess.DEVNULL)
    assert place.state.exists()


def test_an_inline_program_of_the_sdk_runs_against_the_executable(place: Place, script: Path) -> None:
    command = auto.PulumiCommand(root=str(script.parents[1]))
    import pulumi

    stack = auto.create_or_select_stack(
        "dev",
        project_name="inline",
        program=lambda: pulumi.export("token", pulumi.Output.secret("s3cret")),
        opts=auto.LocalWorkspaceOptions(pulumi_command=command, env_vars=place.environment),
    )
    events: list[auto.EngineEvent] = []
    assert stack.preview(on_event=events.append).change_summary == {"create": 1}
    result = stack.up(on_event=events.append)
    assert (result.outputs["token"].value, result.outputs["token"].secret) == ("s3cret", True)
    assert result.summary.resource_changes == {"create": 1}
    assert events[-1].cancel_event is not None
    assert stack.destroy().summary.resource_changes == {"delete": 1}


# ---- stopping ------------------------------------------------------------------------------------------------------------------------


def test_ctrl_c_once_ends_where_it_is_safe_and_the_next_run_goes_on(slow: Place) -> None:
    process = slow.start("up", "--yes", "--skip-preview")
    slow.reached("slow", process)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert process.returncode == 255
    assert "cancelling: no new step starts" in output
    assert "creating mem:index:Thing slow (0/1 ready: insufficient nvidia.com/gpu)" in output.split("cancelling:")[1]
    assert errors.strip() == "error: update failed"
    assert slow.names() == ["first"]
    slow.hold.unlink()
    assert "+ 1 created" in slow.run("up", "--yes", "--skip-preview")[0]


def test_ctrl_c_twice_ends_at_once_and_nothing_is_lost(slow: Place) -> None:
    process = slow.start("up", "--yes", "--skip-preview", STUBBORN="1")
    slow.reached("slow", process)
    process.send_signal(signal.SIGINT)
    assert process.stdout
    while "cancelling" not in process.stdout.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)  # its one step never ends by itself: only an end at once can be seen here
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "stopped at once; the state is safe" in errors
    slow.hold.unlink()
    output, _ = slow.run("up", "--yes", "--skip-preview")
    assert "interrupted while creating" in output
    assert slow.names() == ["first", "slow"]


INLINE = """
import sys
from pulumi import automation as auto
from pulumi_embedded.engine.command import EmbeddedPulumi
from engine.doubles import Thing, World
from engine.executable import hold

stack = auto.create_or_select_stack(
    "dev",
    project_name="proj",
    program=lambda: Thing("slow", value=1),
    opts=auto.LocalWorkspaceOptions(work_dir=sys.argv[1], pulumi_command=EmbeddedPulumi(World(during=hold).factories())),
)
try:
    stack.up()
except auto.CommandError:
    print("refused by", stack.history()[0].result)
"""


def test_ctrl_c_ends_an_operation_in_process_and_not_the_calling_program(slow: Place) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", INLINE, str(slow.project)], env=slow.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    slow.reached("slow", process)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    assert output == "refused by failed\n", errors
    assert process.returncode == 0


def test_sigkill_leaves_a_state_from_which_the_next_run_goes_on(slow: Place) -> None:
    process = slow.start("up", "--yes", "--skip-preview")
    slow.reached("slow", process)
    process.kill()
    process.communicate(timeout=60)
    slow.hold.unlink()
    output, _ = slow.run("up", "--yes", "--skip-preview")
    assert "interrupted while creating" in output
    assert "+ 1 created" in output
    assert slow.names() == ["first", "slow"]


def test_sigkill_leaves_no_process_behind(slow: Place) -> None:
    pack = slow.project / "pack"
    pack.mkdir()
    (pack / "PulumiPolicy.yaml").write_text("runtime: python\n")
    (pack / "__main__.py").write_text(PACK)
    process = slow.start("up", "--yes", "--skip-preview", "--policy-pack", str(pack))
    slow.reached("slow", process)
    children = descendants(process.pid)
    assert len(children) == 2
    process.kill()
    process.communicate(timeout=60)
    deadline = time.monotonic() + 30
    while any(Path(f"/proc/{child}").exists() for child in children):
        assert time.monotonic() < deadline, children
        time.sleep(0.1)


def test_cancel_from_another_process_stops_the_holder_and_waits_for_it(slow: Place) -> None:
    process = slow.start("up", "--yes", "--skip-preview")
    slow.reached("slow", process)
    _, errors = slow.run("up", "--yes", "--skip-preview", code=255)
    assert "the stack is currently locked by" in errors
    assert f"pid {process.pid}" in errors
    output, _ = slow.run("cancel", "--yes")
    assert f"pid {process.pid}" in output
    assert process.wait(60) == 255
    process.communicate()
    assert slow.names() == ["first"]


# ---- a person at a terminal ----------------------------------------------------------------------------------------------------------


class Terminal:
    """A pseudo terminal with a verb in it."""

    def __init__(self, place: Place, *args: str) -> None:
        self.pid, self._descriptor = pty.fork()
        if self.pid == 0:
            os.chdir(place.project)
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # a shell's background job ignores it, and would hand that down
            os.execve(sys.executable, [sys.executable, "-m", "engine.executable", *args], place.environment)
        self.seen = ""

    def until(self, text: str, *, within: float = 40) -> None:
        deadline = time.monotonic() + within
        while text not in self.seen:
            assert time.monotonic() < deadline, self.seen
            if not select.select([self._descriptor], [], [], 0.2)[0]:
                continue
            try:
                self.seen += os.read(self._descriptor, 65_536).decode(errors="replace")
            except OSError:
                break
        assert text in self.seen

    def type(self, text: str) -> None:
        os.write(self._descriptor, text.encode())

    def end(self) -> int:
        """Read to the end; answers the exit code."""
        while True:
            try:
                data = os.read(self._descriptor, 65_536)
            except OSError:
                break
            if not data:
                break
            self.seen += data.decode(errors="replace")
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def test_a_person_sees_the_plan_is_asked_and_watches_what_is_waited_for(slow: Place) -> None:
    terminal = Terminal(slow, "up", "--stack", "dev")
    terminal.until("Do you want to perform this update?")
    assert "+ 4 to create" in terminal.seen
    terminal.type("yes\n")
    terminal.until("insufficient nvidia.com/gpu")
    slow.hold.unlink()
    assert terminal.end() == 0
    assert slow.names() == ["first", "slow"]


def test_a_person_who_says_no_changes_nothing(place: Place) -> None:
    place.init()
    terminal = Terminal(place, "up")
    terminal.until("Do you want to perform this update?")
    terminal.type("no\n")
    assert terminal.end() == 0
    assert "nothing was changed" in terminal.seen
    assert place.names() == []


def test_ctrl_c_at_the_question_changes_nothing_and_shows_no_traceback(place: Place) -> None:
    place.init()
    terminal = Terminal(place, "up")
    terminal.until("Do you want to perform this update?")
    terminal.type("\x03")
    assert terminal.end() == 130
    assert "Traceback" not in terminal.seen
    assert place.names() == []
