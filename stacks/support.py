"""Which versions of the platform reach the end of their support soon. A warning and no error: a date that passes breaks no build."""

from collections.abc import Sequence
from datetime import date, timedelta

from components.versions import VersionSupport
from headway.problem import Problem, ProblemLevel

QUARTER = timedelta(days=91)
"""An upgrade of every environment, one after another, takes about as long."""


def ending(supported: Sequence[VersionSupport], today: date) -> tuple[Problem, ...]:
    """What has ended on the day `today`, or will within a quarter of a year."""
    return tuple(_ending(each, each.ends, today) for each in supported if each.ends is not None and today > each.ends - QUARTER)


def _ending(of: VersionSupport, ends: date, today: date) -> Problem:
    when = f"ended on {ends}" if today > ends else f"ends on {ends}, in {(ends - today).days} days"
    return Problem(
        rule="support-ends",
        subject=f"{of.what} {of.version}",
        level=ProblemLevel.WARNING,
        fact=f"support of {of.what} {of.version} {when} ({of.source})",
        consequence=of.then,
        remedy="Choose a supported version in components/versions.py, read what changed, and roll it out environment by environment",
    )
