"""`docs/guide/own-release.md`, line by line in one shell, on a demonstration of its own."""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from headway.problem import Exit
from sandbox.layout import HOME_VARIABLE, Layout
from sandbox.traffic import release_trials
from sandbox.traffic.demo import PAGE
from tests.unit.docs.test_commands import lines, typed_blocks

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]

PROJECT = Path(__file__).parents[2]
ENDS = {'release start quality/classifier -e sandbox --reason "fails now and then"': Exit.ROLLED_BACK}
"""A version that is taken back ends its command so; every other line ends with 0."""
Answers = dict[str, tuple[int, str]]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("own-release")


@pytest.fixture(scope="module")
def answers(home: Path) -> Iterator[Answers]:
    """What each line of the page said: exit code and output."""
    typed = [line for block in typed_blocks(PAGE) for line in lines(block)]
    shorter = {line: f"{line} --minutes 0.5" if "rehearse" in line else line for line in typed}
    marks = [f'{shorter[line].replace(".headway/demo", str(home / "demo"))} 2>&1; echo "<<$?>>"' for line in typed]
    environment = {**os.environ, HOME_VARIABLE: str(home), "NO_COLOR": "1"}
    demo = Layout(project=home / "demo" / "checkout", state=home / "demo" / "state", cache=Layout.of(PROJECT).cache)
    try:
        done = subprocess.run(["bash", "-c", "\n".join(marks)], cwd=PROJECT, env=environment, capture_output=True, text=True, check=False)
        said = re.findall(r"(.*?)<<(\d+)>>\n", done.stdout, re.DOTALL)
        yield {line: (int(code), output) for line, (output, code) in zip(typed, said, strict=True)}
    finally:
        release_trials.stop(demo)


def test_every_line_of_the_page_ends_as_the_page_says(answers: Answers) -> None:
    expected = {line: next((code for start, code in ENDS.items() if start in line), Exit.OK) for line in answers}
    assert {line: said for line, said in answers.items() if said[0] != expected[line] or "Traceback" in said[1]} == {}


def test_the_faster_model_is_promoted_and_the_broken_one_never_answers_users(answers: Answers) -> None:
    (history,) = [output for line, (_, output) in answers.items() if "release history" in line]
    assert history.index("promoted") < history.index("rolled"), history
    starts = [output for line, (_, output) in answers.items() if "release start" in line]
    assert "10%" in starts[0] and "10%" not in starts[1], starts[1]
