"""SIGKILL in the middle of an update: what it had done is kept, what it had not is done by the next one, nothing exists twice."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.engine.crash import NAMES, Persistent

CRASHING = """
import os, signal, sys, threading
sys.path.insert(0, {root!r})
import pulumi
from pathlib import Path
from sandbox.engine.command import EmbeddedPulumi
from tests.engine.conftest import _workspace
from tests.engine.crash import Persistent, program
folder = Path(sys.argv[1])
world = Persistent(folder / "world.json", kill_at=int(sys.argv[2]))
workspace = _workspace(folder, EmbeddedPulumi(world.factories()), world)
stack = workspace.stack(program, project="crash")
print(stack.up(parallel=int(sys.argv[3])).summary.resource_changes)
"""


@pytest.mark.parametrize(("kill_at", "parallel"), [(1, 4), (2, 4), (5, 1), (8, 1), (12, 4)])
def test_an_update_that_was_killed_at_any_step_is_completed_by_the_next(tmp_path: Path, kill_at: int, parallel: int) -> None:
    root = str(Path(__file__).parents[2])
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
