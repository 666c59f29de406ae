"""Names of tests are read in the list of what failed: one claim, short enough for a line."""

import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[3]
LONGEST_NAME = 75


def test_the_names_of_tests_fit_on_a_line() -> None:
    files = subprocess.run(["git", "ls-files", "tests/*.py", "packages/*.py"], cwd=ROOT, capture_output=True, text=True, check=True)
    found = [
        f"{file}: {name}"
        for file in files.stdout.split()
        if (ROOT / file).exists()
        for name in re.findall(r"^ *(?:async )?def (test_\w+)\(", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)
        if len(name) > LONGEST_NAME
    ]
    assert found == []
