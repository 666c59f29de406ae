"""How a finding in a file is shown to people: its place, the line that stands there, what is wrong and what to do.

What a line holds of secrets is not shown: what is printed is kept in logs of CI.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from textwrap import wrap

from rich.console import Console
from rich.text import Text

from headway.contract.secret_names import names_a_secret, secret_in
from headway.problem import Problem, ProblemLevel, on_one_line

LONGEST_LINE = 100
"""Columns of a source line that are shown."""
_KEY = re.compile(r"""([\w.-]+)["']?\s*[:=]""")


def print_findings(console: Console, findings: Sequence[Problem], prefix: str) -> None:
    """The findings, each below `file:line:column`, which terminals and editors open; `prefix` makes file names findable from here."""
    lines_of = cache(_lines)
    for finding in findings:
        colour = "red" if finding.level is ProblemLevel.ERROR else "yellow"
        head = Text(on_one_line(f"{prefix}{finding.place}"), style="bold")
        head.append(f"  {finding.dotted}" if finding.path else "", style=f"bold {colour}")
        head.append(f" = {finding.value_text}" if finding.value_text else "")
        head.append(f"  {finding.level.value}: " if finding.level is ProblemLevel.WARNING else "  ", style=colour)
        head.append(finding.rule, style="dim italic")
        console.print(head, soft_wrap=True)
        for line in _source(finding, lines_of(f"{prefix}{finding.file}") if finding.line else ()):
            console.print(Text(f"  {line}", style="dim"), soft_wrap=True)
        for text, style in zip(finding.sentences, ("", "dim", "green"), strict=True):
            for line in wrap(text, max(40, console.width - 8)):
                console.print(Text(f"      {line}", style=style), soft_wrap=True)
        console.print()


def _source(finding: Problem, lines: Sequence[str]) -> Iterator[str]:
    """The line at the finding's place, with a mark below its column; nothing where there is none, or where it could hold a secret."""
    if not 0 < finding.line <= len(lines) or any(names_a_secret(str(part)) for part in finding.path):
        return
    line, column = on_one_line(lines[finding.line - 1]), finding.column - 1
    if not line.strip() or secret_in(line) or any(map(names_a_secret, _KEY.findall(line))):
        return
    if column >= LONGEST_LINE:
        line, column = f"...{line[column - 20 :]}", 23
    number = str(finding.line)
    yield f"{number} | {line[:LONGEST_LINE]}"
    yield f"{' ' * len(number)} | {' ' * column}^"


def _lines(file: str) -> tuple[str, ...]:
    from headway.contract.reading.document import LARGEST_DOCUMENT

    try:
        with Path(file).open("rb") as opened:
            return tuple(opened.read(LARGEST_DOCUMENT).decode("utf-8", "replace").splitlines())
    except OSError:
        return ()
