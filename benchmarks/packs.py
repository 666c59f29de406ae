"""What the rules cost: CPU of a real pack process for each resource that it analyses, all rules on, over the public protocol."""

import os
from pathlib import Path
from statistics import median

from tests.policies.analyzer import Analyzer
from tests.policies.world import GOOD

TYPES = (
    "kubernetes:apps/v1:Deployment",
    "kubernetes:core/v1:Service",
    "kubernetes:keda.sh/v1alpha1:ScaledObject",
    "aws:iam/role:Role",
    "aws:eks/nodeGroup:NodeGroup",
)
RESOURCES = 300


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cost(runs: int) -> list[tuple[str, float]]:
    """(type, CPU milliseconds a resource) with the tenant pack, which holds every rule."""
    rows: list[tuple[str, float]] = []
    with Analyzer("tenant") as pack:
        pack.configure()
        for type in TYPES:
            found: list[float] = []
            for _ in range(runs):
                before = _cpu(pack.pid)
                for i in range(RESOURCES):
                    pack.analyze(type, GOOD[type], name=str(i))
                found.append((_cpu(pack.pid) - before) * 1000 / RESOURCES)
            rows.append((type, median(found)))
    return rows
