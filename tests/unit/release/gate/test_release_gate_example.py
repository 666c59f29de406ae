"""The example of the reference runs, and ends as it says."""

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "gate.md"


def example() -> str:
    found = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert found
    return found[1]


@pytest.mark.parametrize(
    ("slower", "last"), [("1.5", "Requests are slower than the policy tolerates."), ("1.0", "The new version takes all traffic.")]
)
def test_the_example_ends_as_the_page_says(slower, last, capsys):
    exec(compile(example().replace("1.5,", f"{slower},"), "gate.md", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert last in lines[-1]
