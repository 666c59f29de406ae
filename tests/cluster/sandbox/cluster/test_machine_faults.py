"""A machine that is short of something, met by the real commands: disk space, a package index, a Python that is new enough."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sandbox.cluster.control_plane_programs import NAMES
from sandbox.cluster.toolchain import ensure_toolchain
from sandbox.layout import CACHE_VARIABLE, HOME_VARIABLE, Layout
from sandbox.progress import Silent
from tests.cluster.command import PROJECT, closed_address, servers_of

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

SERVE = """
import sys
from pathlib import Path
from sandbox.cluster.control_plane import SandboxCluster
from sandbox.layout import Layout
from sandbox.progress import Silent

cluster = SandboxCluster(Layout.of(Path(sys.argv[1])))
cluster.start(Silent())
print(*sorted(p.name for p in cluster.status().processes if p.running))
cluster.supervisor.stop_all(Silent())
"""


class SmallDisk:
    """A file system of a given size, which only commands run by it see, and which is gone with it. Needs no rights of root."""

    def __init__(self, at: Path, size: str) -> None:
        self.at = at
        self._keeper = subprocess.Popen(
            ["unshare", "--map-root-user", "--mount", "sh", "-c", 'mount -t tmpfs -o "size=$1" none "$0" && echo && exec cat', at, size],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        assert self._keeper.stdout
        assert self._keeper.stdout.readline(), "no disk was mounted"

    def run(self, *words: str | Path) -> subprocess.CompletedProcess[str]:
        inside = ["nsenter", "--target", str(self._keeper.pid), "--user", "--mount", "--preserve-credentials"]
        return subprocess.run(
            [*inside, "sh", "-c", 'cd "$0" && exec "$@"', PROJECT, *words],
            env={**os.environ, HOME_VARIABLE: str(self.at), "NO_COLOR": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
            check=False,
        )

    def resize(self, size: str) -> None:
        assert self.run("mount", "-o", f"remount,size={size}", self.at).returncode == 0

    def close(self) -> None:
        self._keeper.communicate(timeout=60)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    small = SmallDisk(tmp_path, "64k")
    try:
        yield small
    finally:
        small.close()


@pytest.mark.needs("small disk")
# The first has no room for the sandbox's own few files, the second none for the datastore's, which take 64 MB at the start.
@pytest.mark.parametrize("size", ["64k", "24m"])
def test_a_full_disk_is_told_and_once_there_is_room_the_servers_start(disk: SmallDisk, size: str) -> None:
    ensure_toolchain(Layout.of(PROJECT), Silent())
    disk.resize(size)
    disk.run("dd", "if=/dev/zero", f"of={disk.at}/filler", "bs=1k", "count=63")
    refused = disk.run(sys.executable, "-m", "headway.cli.main", "sandbox", "up")
    assert refused.returncode == 3, refused.stdout
    assert "Traceback" not in refused.stdout
    said = " ".join(refused.stdout.split())
    assert "disk" in said or "No space left on device" in said
    assert "free some space" in said, said
    disk.resize("2g")
    disk.run("rm", disk.at / "filler")
    served = disk.run(sys.executable, "-c", SERVE, PROJECT)
    assert served.stdout.split() == sorted(NAMES)
    assert not servers_of(disk.at)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """What a fresh clone has of what `make` reads before there is an environment."""
    folder = tmp_path / "headway"
    (folder / "requirements").mkdir(parents=True)
    for name in ("Makefile", "pyproject.toml", *(str(file.relative_to(PROJECT)) for file in PROJECT.glob("requirements/*"))):
        shutil.copy2(PROJECT / name, folder / name)
    return folder


def make(checkout: Path, *words: str, **environment: str) -> str:
    """What a `make` that must fail says."""
    kept = {name: text for name, text in os.environ.items() if name not in {CACHE_VARIABLE, "MAKEFLAGS", "MFLAGS", "MAKELEVEL"}}
    done = subprocess.run(
        ["make", *words],
        cwd=checkout,
        env={**kept, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode != 0, done.stdout
    assert "Traceback" not in done.stdout, done.stdout
    return done.stdout


def test_a_python_that_is_too_old_is_named_before_anything_is_made(checkout: Path, tmp_path: Path) -> None:
    old = tmp_path / "python3.10"
    old.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    old.chmod(0o755)
    said = make(checkout, f"PYTHON={old}", "up")
    assert f"{old} is older than Python 3.11" in said
    assert "make PYTHON=python3.12" in said
    assert not (checkout / ".venv").exists()


def test_a_package_index_that_cannot_be_reached_is_told_by_make(checkout: Path) -> None:
    said = make(checkout, f"PYTHON={sys.executable}", "up", PIP_INDEX_URL=closed_address(), PIP_RETRIES="0", PIP_NO_CACHE_DIR="1")
    assert "error: the package registry did not give uv." in said
    assert "Check the network or the index in your pip configuration; then run the command again." in said
    assert not (checkout / ".venv" / ".uv").exists(), "the next run must try again"
