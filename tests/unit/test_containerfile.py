"""The image of the platform's own loops: what its recipe copies is all that they need."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

PROJECT = Path(__file__).parents[2]
RECIPE = (PROJECT / "Containerfile").read_text(encoding="utf-8")
COPIED = dict(re.findall(r"^COPY (\S+) (\S+)$", RECIPE, re.MULTILINE))
START = """
import runpy, sys
sys.path = [sys.argv[1], *(path for path in sys.path if path.rstrip("/") != sys.argv[2])]
sys.argv = ["headway", "nodes", "watch", "--once", "--kubeconfig", "/nowhere"]
runpy.run_module("headway.cli.main", run_name="__main__")
"""


def test_the_loop_starts_from_nothing_but_what_the_recipe_copies(tmp_path: Path) -> None:
    assert COPIED["headway"] == "/opt/headway/headway"
    assert "ENV PYTHONPATH=/opt/headway " in RECIPE
    shutil.copytree(PROJECT / "headway", tmp_path / "headway", ignore=shutil.ignore_patterns("__pycache__"))
    ended = subprocess.run(
        [sys.executable, "-P", "-c", START, str(tmp_path), str(PROJECT)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert "No cluster is named" in ended.stdout + ended.stderr
    assert ended.returncode == 3


def test_the_recipe_pins_what_it_takes_and_runs_as_nobody() -> None:
    assert "--require-hashes" in RECIPE and COPIED["requirements/headway.txt"] in RECIPE.partition("RUN ")[2]
    assert re.search(r"^ARG BASE$", RECIPE, re.MULTILINE), "a default would be a tag that moves, or a digest that grows old"
    assert "USER 65534:65534" in RECIPE
