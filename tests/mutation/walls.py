"""`make weaken`: opens each wall of docs/security.md on purpose, one weakening at a time, and demands that a test which the page names for
it fails, by what it asserts, and passes without.

WALLS chooses by parts of an attack, a file or a weakening's words, divided by commas. Real servers are started for some.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from tests.mutation.copying import CHECKOUT, copied, say
from tests.mutation.weakenings import WEAKENINGS, Weakening

PAGE = CHECKOUT / "docs" / "security.md"
_BESIDE = (".venv", ".venv-servers", ".venv-traffic")
_ASSERTED = ("assert ", "AssertionError", "Failed: DID NOT RAISE")
_AT_SETUP = 'failed on setup with "'


@dataclass(frozen=True)
class WallRow:
    """A row of the page: an attack, the file that stops it, and the tests that show it."""

    attack: str
    wall: str
    tests: tuple[str, ...]


def rows(page: str) -> Iterator[WallRow]:
    """Of several tests those of one file may leave it out: `a.py::test_one`,`::test_two`."""
    table = page.partition("## Which wall stops what")[2].partition("\n## ")[0]
    for line in [each for each in table.splitlines() if each.startswith("|")][2:]:
        attack, _, wall, shown = (cell.strip() for cell in line.strip("|").split("|"))
        tests = list[str]()
        for each in shown.split(","):
            file, _, name = each.strip("`").partition("::")
            tests.append(f"{file or tests[-1].partition('::')[0]}::{name}")
        yield WallRow(attack, wall.strip("`"), tuple(tests))


def weakened(text: str, by: Weakening) -> str:
    """Raises ValueError where the text does not say exactly once what is to be weakened."""
    if text.count(by.old) != 1:
        raise ValueError(f"{by.says!r}: its text stands {text.count(by.old)} times in the file, and not once")
    return text.replace(by.old, by.new)


def noticed(report: ElementTree.Element, by: Sequence[str] = _ASSERTED) -> tuple[bool, str]:
    """Whether a test of a JUnit report failed by what it asserts, and the first words of what failed otherwise."""
    said = [
        each.get("message", "").removeprefix(_AT_SETUP)
        for case in report.iter("testcase")
        for each in (*case.iter("failure"), *case.iter("error"))
    ]
    return any(each.startswith(tuple(by)) for each in said), " ".join(said)[:200]


def all_passed(report: ElementTree.Element) -> bool:
    """Whether something was tried, and nothing failed or was left out."""
    cases = list(report.iter("testcase"))
    return bool(cases) and not any(len(case.findall(kind)) for case in cases for kind in ("failure", "error", "skipped"))


def tried(place: Path, tests: Sequence[str]) -> ElementTree.Element:
    """What pytest reports of the tests in the copy, until the first that fails."""
    report = place / "report.xml"
    report.unlink(missing_ok=True)
    words = ["-m", "pytest", "-x", "-p", "no:randomly", f"--junitxml={report}", *tests]
    environment = {**os.environ, "PYTHONPATH": str(place)}
    ended = subprocess.run([sys.executable, *words], cwd=place, env=environment, capture_output=True, text=True, check=False)
    if not report.is_file():
        sys.exit(f"error: pytest wrote no report of {', '.join(tests)}.\n{(ended.stdout + ended.stderr)[-3000:]}")
    return ElementTree.parse(report).getroot()


def chosen(known: Sequence[WallRow], wanted: Sequence[str]) -> Mapping[WallRow, list[Weakening]]:
    """The weakenings of each wall of which one of the words is said; all where none is wanted."""

    def named(row: WallRow, by: Weakening) -> bool:
        said = f"{row.attack}\n{by.file or row.wall}\n{by.says}".casefold()
        return not wanted or any(each.casefold() in said for each in wanted)

    found = {row: [by for by in WEAKENINGS.get(row.attack, ()) if named(row, by)] for row in known}
    return {row: these for row, these in found.items() if these}


def verdict(place: Path, row: WallRow, by: Weakening) -> str:
    """How the row's tests take the weakening; empty where one of them noticed."""
    file = place / (by.file or row.wall)
    before, text = file.stat(), file.read_text(encoding="utf-8")
    file.write_text(weakened(text, by), encoding="utf-8")
    try:
        seen, said = noticed(tried(place, row.tests), (by.raises,) if by.raises else _ASSERTED)
    finally:
        file.write_text(text, encoding="utf-8")
        os.utime(file, (before.st_atime, before.st_mtime))
    return "" if seen else f"FAILED OTHERWISE: {said}" if said else "UNNOTICED"


def main() -> int:
    wanted = [each.strip() for each in os.environ.get("WALLS", "").split(",") if each.strip()]
    walls = chosen(list(rows(PAGE.read_text(encoding="utf-8"))), wanted)
    if not walls:
        say(f"error: no wall and no weakening is called {', '.join(wanted)}; nothing was tried. Name part of a row of docs/security.md.")
        return 2
    place = CHECKOUT / ".mutants" / "walls"
    copied(place)
    for each in _BESIDE:
        (place / each).symlink_to(CHECKOUT / each)
    sound: dict[tuple[str, ...], bool] = {}
    open_walls: list[str] = []
    for row, these in walls.items():
        if row.tests not in sound:
            sound[row.tests] = all_passed(tried(place, row.tests))
        say(f"{row.attack}  ({', '.join(each.rpartition('::')[2] for each in row.tests)})")
        for by in these:
            began = time.monotonic()
            found = verdict(place, row, by) if sound[row.tests] else "ITS TESTS DO NOT PASS UNWEAKENED"
            say(f"  {found or 'noticed'}  {by.says}  ({time.monotonic() - began:.0f} s)")
            if found:
                open_walls.append(f"{by.file or row.wall}: {row.attack}: {by.says}: {found}")
    count = sum(map(len, walls.values()))
    say(f"{count - len(open_walls)} of {count} weakenings of {len(walls)} walls were noticed")
    for each in open_walls:
        say(f"  {each}")
    return 1 if open_walls else 0


if __name__ == "__main__":
    sys.exit(main())
