"""A new user's journey, timed: fresh clone, first preview on the screen, everything ready, again, down, warm start.

Runs the README's commands in a fresh clone with a fresh HOME and reads the clock when the lines appear. Nothing is imported from the
program: what is measured is what a person sees.
"""

import os
import re
import selectors
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import monotonic
from typing import IO, cast

PROJECT = Path(__file__).parents[1]
FIRST_PREVIEW = re.compile(r"sandbox-cluster\s.*(planned|applied)")
BUILT = re.compile(r"(control-plane|crds): built")
READY = re.compile(r"Everything is ready")


@dataclass(frozen=True)
class WatchedCommand:
    """Seconds from the start of the command to the first line that matched, and to its end; `code` is the exit code."""

    marks: dict[str, float]
    end: float
    code: int
    output: str


def watch(argv: list[str], folder: Path, environment: dict[str, str], marks: dict[str, re.Pattern[str]], limit: float) -> WatchedCommand:
    """Run a command and note when a line first matches each pattern; the last match counts for `built`."""
    began, found, lines = monotonic(), dict[str, float](), list[str]()
    process = subprocess.Popen(argv, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1)
    stream = cast(IO[str], process.stdout)
    selector = selectors.DefaultSelector()
    selector.register(stream, selectors.EVENT_READ)
    while monotonic() - began < limit:
        if not selector.select(timeout=1.0):
            continue
        line = stream.readline()
        if not line:
            break
        lines.append(line)
        for name, pattern in marks.items():
            if pattern.search(line) and (name not in found or name == "built"):
                found[name] = monotonic() - began
    else:
        process.terminate()
    return WatchedCommand(found, monotonic() - began, process.wait(), "".join(lines))


def memory(state: Path) -> int:
    """Proportional resident bytes of every process that the sandbox keeps, by its own records of them."""
    total = 0
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            arguments = (process / "cmdline").read_bytes().decode(errors="replace")
            if str(state) in arguments:
                rollup = (process / "smaps_rollup").read_text()
                total += int(re.search(r"^Pss:\s+(\d+) kB", rollup, re.MULTILINE)[1]) * 1024  # type: ignore[index]
        except OSError:
            continue
    return total


@contextmanager
def fresh() -> Generator[tuple[Path, dict[str, str]]]:
    """A fresh clone and an environment with a fresh HOME and nothing of ours."""
    folder = Path(tempfile.mkdtemp(prefix="headway-journey-"))
    home = folder / "home"
    home.mkdir()
    clone = folder / "headway"
    subprocess.run(["git", "clone", "-q", str(PROJECT), str(clone)], check=True)
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("HEADWAY_", "PULUMI_", "VIRTUAL_ENV", "XDG_", "PYTEST_"))}
    try:
        yield clone, {**kept, "HOME": str(home)}
    finally:
        subprocess.run(["make", "-s", "down"], cwd=clone, env={**kept, "HOME": str(home)}, check=False, capture_output=True)
        shutil.rmtree(folder, ignore_errors=True)


def journey(repeats: int) -> list[tuple[str, float, str]]:
    """(what, figure, unit) for the whole journey; repeated parts are medians of `repeats` runs."""
    rows: list[tuple[str, float, str]] = []
    with fresh() as (clone, environment):

        def up(**marks: re.Pattern[str]) -> WatchedCommand:
            seen = watch(["make", "up"], clone, environment, marks, limit=3000)
            if seen.code:
                sys.stderr.write(seen.output)
                raise SystemExit(f"make up ended with {seen.code}")
            return seen

        cold = up(preview=FIRST_PREVIEW, built=BUILT, ready=READY)
        rows.append(("fresh clone to the first preview on the screen", cold.marks["preview"], "s"))
        rows.append(("fresh clone to everything ready", cold.marks["ready"], "s"))
        if "built" in cold.marks:
            rows.append(("of which after the toolchain was built", cold.marks["ready"] - cold.marks["built"], "s"))
        rows.append(("idle memory of all processes", memory(clone / ".headway") / 2**20, "MiB"))
        rows.append(("unchanged second `make up`", median(up().end for _ in range(repeats)), "s"))
        warm: list[float] = []
        for _ in range(repeats):
            subprocess.run(["make", "-s", "reset"], cwd=clone, env=environment, check=True, capture_output=True)
            warm.append(up(ready=READY).marks["ready"])
        rows.append(("warm start: tools cached, no state, to everything ready", median(warm), "s"))
        subprocess.run(["make", "-s", "down"], cwd=clone, env=environment, check=True, capture_output=True)
        rows.append(("`make up` after `make down`, state kept", up(ready=READY).end, "s"))
    return rows
