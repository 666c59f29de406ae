"""What the program of the checkout says of itself as JSON: it is run, never imported."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from headway.problem import UserError


def told_by(project: Path, module: str, *arguments: str, tells: str, consequence: str, source: str) -> Any:
    """The answer of `python -m MODULE`. Raises UserError where it gives none: `tells` is what it should have told, and
    `source` the file to repair.
    """
    command = [sys.executable, "-m", module, *arguments]
    ended = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    if ended.returncode:
        last = ended.stderr.strip().splitlines()[-1:] or ["no answer"]
        raise UserError(f"{project} does not tell {tells}: {last[0]}.", consequence, f"Repair {source}, or run `make .venv/.ready-dev`.")
    return json.loads(ended.stdout)
