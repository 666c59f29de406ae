"""The runbook of a release that does not move quotes what the program says."""

import re
from pathlib import Path

from headway.cli import release_status
from headway.release import messages
from headway.release.gate.reasons import REASONS

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs/runbooks/release-stuck.md").read_text(encoding="utf-8")


def test_every_phrase_in_its_table_is_one_of_the_programs_own() -> None:
    cells = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    quoted = [phrase for cell in cells for phrase in re.findall(r"`([^`]+)`", cell)]
    sources = [Path(str(module.__file__)).read_text(encoding="utf-8") for module in (messages, release_status)]
    said = "\n".join([*(row.sentence for row in REASONS), *sources])
    assert len(quoted) > 8
    assert [phrase for phrase in quoted if phrase.removesuffix(": WHY") not in said] == []
