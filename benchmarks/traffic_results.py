"""Finished releases on real traffic: kept a line each, and shown as the tables of docs/benchmarks.md."""

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from sandbox.traffic.tried_models import PROMOTED, Wanted


@dataclass(frozen=True, kw_only=True)
class TrafficCell:
    """One finished release."""

    table: str
    name: str
    run: int
    outcome: str
    where: str
    as_it_should: bool
    seconds: float
    users: int
    requests: int
    """Of users to the service meanwhile."""
    lost: int
    out_of_service: float
    """Seconds from the first lost to the last."""
    verdict: str
    load_average: float
    p50_ms: float | None = None
    p99_ms: float | None = None
    """Of users' requests meanwhile, from when they were due."""
    late: int | None = None
    """Of the lost, those that were answered 504: on a starved machine any may take longer than the contract lets it."""
    gate: str | None = None
    """Which gate decided it: cells of two gates are not of one table."""


class Book:
    """Finished cells, one line each."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def cells(self) -> list[TrafficCell]:
        if not self._path.exists():
            return []
        return [TrafficCell(**json.loads(line)) for line in self._path.read_text().splitlines() if line]

    def has(self, table: str, name: str, run: int) -> bool:
        return any((each.table, each.name, each.run) == (table, name, run) for each in self.cells())

    def add(self, cell: TrafficCell) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as sink:
            sink.write(json.dumps(asdict(cell), sort_keys=True) + "\n")


def table(cells: Sequence[TrafficCell], kind: str, wanted: Mapping[str, Wanted], order: Sequence[str]) -> Iterator[str]:
    """The Markdown table of one kind of cells, in rows of that order; `wanted`: how each of a model's releases should end."""
    if kind == "faults":
        yield "| killed | ended as it should | outcome | time to the end | requests | lost | from the first lost to the last |"
    else:
        yield "| release | ended as it should | decided at | time, median and longest | requests of users that it answered | of users' requests, lost |"
    yield "|---|---|---|---|---|---|" + ("---|" if kind == "faults" else "")
    for name in sorted({each.name for each in cells if each.table == kind}, key=[*order].index):
        found = [each for each in cells if (each.table, each.name) == (kind, name)]
        good = f"{sum(each.as_it_should for each in found)} of {len(found)}"
        seconds = [each.seconds for each in found]
        lost, sent = sum(each.lost for each in found), sum(each.requests for each in found)
        took = f"{statistics.median(seconds):.0f} s, {max(seconds):.0f} s"
        if kind != "faults":
            where = ", ".join(sorted({f"{each.outcome}, {each.where}" for each in found}))
            users = "all in the end" if wanted[name] == PROMOTED else f"{max(each.users for each in found):,}"
            yield f"| `{name}` | {good} | {where} | {took} | {users} | {lost:,} of {sent:,} |"
        else:
            outcomes = ", ".join(sorted({f"{each.outcome}" for each in found}))
            yield f"| {name} | {good} | {outcomes} | {took} | {sent:,} | {lost:,}{_late(found)} | {max(each.out_of_service for each in found):.1f} s |"


def circumstances(cells: Sequence[TrafficCell], kind: str) -> str:
    """Under what the cells were taken."""
    found = [each for each in cells if each.table == kind]
    loads, tails = [each.load_average for each in found], [each.p99_ms for each in found if each.p99_ms is not None]
    gates = sorted({each.gate for each in found if each.gate})
    return (
        f"{len(found)} releases; load average {min(loads)} to {max(loads)}; users' p99 {min(tails, default=0):.0f} to {max(tails, default=0):.0f} ms, "
        f"median {statistics.median(tails or [0]):.0f} ms; gate {', '.join(gates)}."
    )


def _late(cells: Sequence[TrafficCell]) -> str:
    late = [each.late for each in cells if each.late is not None]
    return f", {sum(late)} of them late" if any(late) else ""
