"""CONTRIBUTING's worked examples: each patch still fits the tree, and in a copy of it each example passes the checks that it names."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
ROOMS = ("components", "docs", "headway", "policies", "stacks", "tenants", "tests")
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"^## (Add [^\n]*)\n(.*?)(?=^## )", TEXT, re.MULTILINE | re.DOTALL))


def blocks(title: str, language: str) -> str:
    """The code blocks of a language in the example, one after the other."""
    fences = re.findall(r"^```(\w*)\n(.*?)^```$", EXAMPLES[title], re.MULTILINE | re.DOTALL)
    return "".join(body for found, body in fences if found == language)


def patch(title: str) -> str:
    return blocks(title, "diff")


def checks(title: str) -> list[str]:
    """The commands of the example, for the interpreter that runs the tests."""
    python = sys.executable
    return [
        re.sub(r"^pytest ", f"{python} -m pytest -q -n0 ", re.sub(r"^headway ", f"{python} -m headway.cli.main ", line))
        for line in blocks(title, "").splitlines()
    ]


def apply(title: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = ["git", "apply", "--whitespace=nowarn", *options, "-"]
    return subprocess.run(command, cwd=folder, input=patch(title), capture_output=True, text=True)


def test_there_is_an_example_of_everything_that_is_often_added() -> None:
    assert set(EXAMPLES) == {
        "Add a field to a contract",
        "Add a policy rule",
        "Add an alert",
        "Add an add-on",
        "Add a signal",
    }
    assert all(patch(title) and checks(title) for title in EXAMPLES)


@pytest.mark.parametrize("title", EXAMPLES)
def test_an_example_fits_the_tree(title: str) -> None:
    fits = apply(title, ROOT, "--check")
    assert fits.returncode == 0, f"{fits.stderr}\nmake the change again, and write its diff into CONTRIBUTING.md"


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("title", EXAMPLES)
def test_an_example_passes_the_checks_that_it_names(title: str, tmp_path: Path) -> None:
    for room in ROOMS:
        shutil.copytree(ROOT / room, tmp_path / room, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "Pulumi.yaml", "__main__.py"):
        shutil.copy(ROOT / file, tmp_path)
    # Apart from any repository: inside one, git would take paths as the repository's.
    applied = apply(title, tmp_path)
    assert applied.returncode == 0, applied.stderr
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "GIT_CEILING_DIRECTORIES": str(tmp_path.parent)}
    for command in checks(title):
        done = subprocess.run(command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
