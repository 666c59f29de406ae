"""What `headway check --environment` says of the system pool, and `headway cost` of the platform layer: its sums, as the
program that installs it makes them.
"""

from dataclasses import dataclass, replace
from pathlib import Path

from headway.cli.program import told_by
from headway.contract.arithmetic.month import Item
from headway.contract.explanation import Line
from headway.contract.reading.document import read_file
from headway.contract.units import Money
from headway.problem import Problem, ProblemLevel


@dataclass(frozen=True, kw_only=True)
class PlatformSums:
    """What the program says of a platform layer; empty where the environment has none."""

    lines: tuple[Line, ...] = ()
    """The system pool's room."""
    items: tuple[Item, ...] = ()
    """What is paid for beside nodes."""
    problems: tuple[Problem, ...] = ()

    @property
    def nodes_needed(self) -> str | None:
        """How many system nodes the platform's pods need."""
        return next((line.figure for line in self.lines if line.what == "nodes needed"), None)


def platform_sums(project: Path, environment: str) -> PlatformSums:
    """The sums, and what the platform layer's settings refuse."""
    if not (project / "stacks" / f"Pulumi.{environment}-platform.yaml").is_file():
        return PlatformSums()
    found = told_by(
        project,
        "stacks.footprint",
        environment,
        tells="what its platform layer requests",
        consequence="Nothing can be said about the system pool and the cost of the platform layer.",
        source="stacks/footprint.py",
    )
    return PlatformSums(
        lines=tuple(Line(**each) for each in found["lines"]),
        items=tuple(replace(Item(**each), month=Money(each["month"])) for each in found["month"]),
        problems=tuple(
            _placed(replace(Problem(**each), path=tuple(each["path"]), level=ProblemLevel(each["level"])), project / "stacks")
            for each in found["problems"]
        ),
    )


def _placed(found: Problem, stacks: Path) -> Problem:
    """With the line of its setting in the stack file, or of the nearest above it; as it is where the file cannot be read."""
    try:
        place = read_file(stacks / found.file).place(("config", *found.path))
    except OSError:
        return found
    return replace(found, line=place.line, column=place.column)
