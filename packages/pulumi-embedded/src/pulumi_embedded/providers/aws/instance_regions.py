"""Which regions offer an EC2 instance type. Data, with its source in the file.

The trap: a zone may lack what its region offers. Of zones only DescribeInstanceTypeOfferings knows, and AWS shuffles
their letters between accounts.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path


def regions_of(instance_type: str) -> frozenset[str]:
    """Regions that offer it; empty for a type that the data does not know."""
    names = {instance_type, instance_type.partition(".")[0]}
    return frozenset(region for region, offered in _offered().items() if names & offered)


def is_offered(instance_type: str, region: str) -> bool:
    """Whether `region` offers it; what the data does not know is taken for offered."""
    there = regions_of(instance_type)
    return region not in _offered() or not there or region in there


def elsewhere(instance_types: Sequence[str]) -> str:
    """Where each of them is offered, for a message."""
    return "; ".join(f"{name} is offered in {', '.join(sorted(regions_of(name)))}" for name in instance_types)


@cache
def _offered() -> Mapping[str, frozenset[str]]:
    lines = (Path(__file__).parent / "instance_regions.txt").read_text(encoding="utf-8").splitlines()
    rows = (line.partition(": ") for line in lines if not line.startswith("#"))
    return {region: frozenset(names.split()) for region, _, names in rows}
