"""SIGKILL in the middle of an update: what it had done is kept, what it had not is done by the next one, nothing exists twice."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.crash import NAMES, Persistent

CRASHING = """
import os, signal, sys, threading
sys.path.insert(0, {root!r})
import pulumi
from pathlib import Path
from pulumi_embedded.engine.command import EmbeddedPulumi
from engine.conftest import _workspace
from engine.crash import Persistent, program
folder = Path(sys.argv[1])
world = Persistent(folder / "world.json", kill_at=int(sys.argv[2]))
workspace = _workspace(folder, EmbeddedPulumi(world.factories()), world)
stack = workspace.stack(program, project="crash")
print(stack.up(parallel=int(sys.argv[3])).summary.resource_changes)
"""


@pytest.mark.parametrize(("kill_at", "parallel"), [(1, 4), (2, 4), (5, 1), (8, 1), (12, 4)])
def test_an_update_that_was_killed_at_any_step_is_completed_by_the_next(tmp_path: Path, kill_at: int, parallel: int) -> None:
    root = str(Path(__file__).parents[1])
    script = tmp_path / "run.py"
    script.write_text(CRASHING.format(root=root))

    def run(at: int) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(script), str(tmp_path), str(at), str(parallel)]
        return subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": root}, timeout=60)

    killed = run(kill_at)
    assert killed.returncode == -9, killed.stdout + killed.stderr
    resumed = run(0)
    assert resumed.returncode == 0, resumed.stdout + resumed.stderr
    world = Persistent(tmp_path / "world.json", kill_at=0)
    assert sorted(world.live) == sorted(NAMES), "every object exists once"
    again = run(0)
    assert "'same': 7" in again.stdout, again.stdout + again.stderr


LEAVING = """
import sys
sys.path.insert(0, {root!r})
from pathlib import Path
from pulumi_embedded.engine.command import EmbeddedPulumi
from engine.conftest import _workspace
from engine.doubles import World
folder = Path(sys.argv[1])
world = World()
source = "import time, pathlib\\npathlib.Path('started').touch()\\ntime.sleep(600)\\n"
_workspace(folder, EmbeddedPulumi(world.factories()), world).project({{"__main__.py": source}}).up()
"""


def test_a_program_does_not_outlive_the_engine(tmp_path: Path) -> None:
    root = str(Path(__file__).parents[1])
    script = tmp_path / "leave.py"
    script.write_text(LEAVING.format(root=root))
    engine = subprocess.Popen([sys.executable, str(script), str(tmp_path)], env={**os.environ, "PYTHONPATH": root})
    _until((tmp_path / "plain" / "started").exists)
    engine.kill()
    engine.wait()
    _until(lambda: not _programs_below(tmp_path))


def _until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def _programs_below(folder: Path) -> list[str]:
    found: list[str] = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = file.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if "runner.py" in command and str(folder) in command:
            found.append(command)
    return found
