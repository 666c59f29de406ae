"""The example of the page about a serving version runs, and finds what it says."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "evaluation.md"


def test_the_example_of_the_page_finds_that_inputs_changed(capsys):
    example = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert example
    exec(compile(example[1], "evaluation.md", "exec"), {})
    seen = re.fullmatch(r"inputs changed, seen at request (\d+)\n", capsys.readouterr().out)
    assert seen
    assert 1500 < int(seen[1]) < 1600
