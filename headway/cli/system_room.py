"""What `headway check --environment` says of the system pool: the sums of the platform layer, as the program that installs it makes them."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from headway.contract.explanation import Line
from headway.problem import Problem, UserError


def system_room(project: Path, environment: str) -> tuple[tuple[Line, ...], tuple[Problem, ...]]:
    """The sums, and what the platform layer's settings refuse; nothing where the environment has no such layer."""
    file = project / "stacks" / f"Pulumi.{environment}-platform.yaml"
    if not file.is_file():
        return (), ()
    # As the program says: it is run, never imported.
    ended = subprocess.run(
        [sys.executable, "-m", "stacks.footprint", environment], cwd=project, capture_output=True, text=True, check=False
    )
    if ended.returncode:
        last = ended.stderr.strip().splitlines()[-1:] or ["no answer"]
        raise UserError(
            f"{project} does not tell what its platform layer requests: {last[0]}.",
            "Nothing can be said about the system pool.",
            "Repair stacks/footprint.py, or run `make .venv/.ready-dev`.",
        )
    found = json.loads(ended.stdout)
    problems = [replace(Problem(**each), path=tuple(each["path"])) for each in found["problems"]]
    return tuple(Line(**each) for each in found["lines"]), tuple(problems)
