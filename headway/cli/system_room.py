"""What `headway check --environment` says of the system pool: the sums of the platform layer, as the program that installs it makes them."""

from dataclasses import replace
from pathlib import Path

from headway.cli.program import told_by
from headway.contract.explanation import Line
from headway.problem import Problem


def system_room(project: Path, environment: str) -> tuple[tuple[Line, ...], tuple[Problem, ...]]:
    """The sums, and what the platform layer's settings refuse; nothing where the environment has no such layer."""
    file = project / "stacks" / f"Pulumi.{environment}-platform.yaml"
    if not file.is_file():
        return (), ()
    found = told_by(
        project,
        "stacks.footprint",
        environment,
        tells="what its platform layer requests",
        consequence="Nothing can be said about the system pool.",
        source="stacks/footprint.py",
    )
    problems = [replace(Problem(**each), path=tuple(each["path"])) for each in found["problems"]]
    return tuple(Line(**each) for each in found["lines"]), tuple(problems)
