"""Exemptions are data with an owner, a reason and an end. An expired one fails the run; one that matches nothing is harmless."""

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from headway.bounded_yaml import bounded_yaml

EXEMPTIONS_FILE = Path(__file__).parent.parent / "exemptions.yaml"

FIELDS = ("rule", "resource", "owner", "reason", "expires")


@dataclass(frozen=True, slots=True)
class Exemption:
    """`resource` is a shell pattern on the URN; the exemption holds up to and including `expires`."""

    rule: str
    resource: str
    owner: str
    reason: str
    expires: date

    def covers(self, rule: str, urn: str, today: date) -> bool:
        return self.rule == rule and today <= self.expires and fnmatch.fnmatchcase(urn, self.resource)


def parse(document: Any, known_rules: Sequence[str]) -> tuple[Exemption, ...]:
    """Read the list of exemptions.

    Raises:
        ValueError: naming every malformed entry at once.
    """
    problems: list[str] = []
    exemptions: list[Exemption] = []
    if not isinstance(document, list | type(None)):
        raise ValueError("exemptions must be a list; each entry has " + ", ".join(FIELDS))
    for index, entry in enumerate(document or []):
        where = f"[{index}]"
        if not isinstance(entry, Mapping):
            problems.append(f"{where}: must be a map with {', '.join(FIELDS)}")
            continue
        missing = [f for f in FIELDS if not entry.get(f)]
        unknown = sorted(set(map(str, entry)) - set(FIELDS))
        if missing:
            problems.append(f"{where}: {', '.join(missing)} missing; an exemption has an owner, a reason and an end")
        if unknown:
            problems.append(f"{where}: unknown {', '.join(unknown)}; the fields are {', '.join(FIELDS)}")
        if entry.get("rule") and entry["rule"] not in known_rules:
            problems.append(f"{where}.rule: there is no rule {entry['rule']!r}; `headway policies` lists them")
        if entry.get("expires") and type(entry["expires"]) is not date:  # a time of day, which is a date too, is not compared with a day
            problems.append(f"{where}.expires: {entry['expires']!r} is not a date such as 2027-01-31")
        if not missing and type(entry["expires"]) is date:
            exemptions.append(
                Exemption(str(entry["rule"]), str(entry["resource"]), str(entry["owner"]), str(entry["reason"]), entry["expires"])
            )
    if problems:
        raise ValueError("\n".join(problems))
    return tuple(exemptions)


def load(path: Path, known_rules: Sequence[str]) -> tuple[Exemption, ...]:
    """Read a file of exemptions; a missing file holds none. Raises ValueError with the file's name before each problem."""
    if not path.exists():
        return ()
    try:
        return parse(bounded_yaml(path.read_bytes()), known_rules)
    except ValueError as problem:
        raise ValueError("\n".join(f"{path.name}{line}" for line in str(problem).splitlines())) from None
