"""The example of the page about trying a contract runs as it stands there."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "backtest.md"


def test_the_example_of_the_page_promotes_a_version_that_starts_cold(capsys):
    example = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert example
    exec(compile(example[1], "backtest.md", "exec"), {})
    rolled_back, minutes, field = capsys.readouterr().out.split()
    assert (rolled_back, field) == ("0", "rollout.tolerances.error_unacceptable")
    assert 10 < float(minutes) < 30
