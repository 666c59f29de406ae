"""One soak: a fresh bed, the events one after the other, a look after each, and an end at which everything must be well."""

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.soak.bed import Bed, version
from benchmarks.soak.carrier import Carrier
from benchmarks.soak.invariants import ALLOWANCE_SECONDS, MIB, SoakSeen, broken
from benchmarks.soak.looking import Onlooker
from benchmarks.soak.schedule import HOUR, SoakEvent
from headway.environment.port import OutOfReachError
from headway.ledger.reading import verify
from headway.ledger.store import UnreachableError
from sandbox.layout import Layout

PROJECT = Path(__file__).parents[2]
LOOKS = 40
"""Tries to look while servers have not yet answered after an accident, a quarter of a second apart."""


@dataclass(frozen=True, kw_only=True)
class Soaked:
    """How a soak went. `broken`: what did not hold, after the last of `carried`."""

    carried: tuple[SoakEvent, ...]
    broken: tuple[str, ...]
    seconds: float
    load: float
    events: int = 0
    releases: Mapping[str, int] = field(default_factory=dict[str, int])
    guard_took: int = 0
    done: Mapping[str, int] = field(default_factory=dict[str, int])
    first: Mapping[str, int] = field(default_factory=dict[str, int])
    most: Mapping[str, int] = field(default_factory=dict[str, int])

    def table(self) -> str:
        hours = self.carried[-1].at / HOUR if self.carried else 0.0
        ended = sum(self.releases.values())
        lines = [
            f"{len(self.carried)} events in {hours:.1f} simulated hours, {self.seconds / 60:.0f} min, load {self.load:.1f}",
            f"{ended} releases ended; {self.events} events in the ledger; the guard took traffic back {self.guard_took} times",
            *(f"  {count:5} {how}" for how, count in sorted(self.releases.items())),
            "memory and disk, first and most (MiB): "
            + ", ".join(f"{name} {self.first[name] // MIB} {size // MIB}" for name, size in sorted(self.most.items())),
            *(f"  {count:5} {what}" for what, count in sorted(self.done.items())),
            *(f"BROKEN {what}" for what in self.broken),
        ]
        return "\n".join(lines)


def soak(folder: Path, events: Sequence[SoakEvent], say: Callable[[str], None] = lambda _: None, minutes: float = math.inf) -> Soaked:
    """Carry `events` out on a bed in `folder`, which must be empty, for so many real minutes at most. Raises UserError
    where the bed cannot be had."""
    bed = Bed(Layout(project=PROJECT, state=folder / "state", cache=Layout.of(PROJECT).cache))
    try:
        began = time.monotonic()
        bed.start(version(0))
        carrier = Carrier(bed)
        carrier.begins()
        onlooker = Onlooker(carrier)
        say(f"the bed is there after {time.monotonic() - began:.0f} s")
        began, carried, found, hour = time.monotonic(), list[SoakEvent](), tuple[str, ...](), 0
        for event in events:
            carrier.carry(event)
            carried.append(event)
            found = broken(_seen(onlooker))
            if found or time.monotonic() - began > 60 * minutes:
                break
            if event.at // HOUR > hour:
                hour = int(event.at // HOUR)
                say(f"{hour} h, {len(carried)} events, {time.monotonic() - began:.0f} s, load {os.getloadavg()[0]:.1f}")
        if not found:
            found = _at_the_end(carrier, onlooker)
        releases: dict[str, int] = {}
        for rollout in onlooker.service.past:
            why = f": {rollout.failing.reason[:90]}" if rollout.failing else ""
            how = f"{rollout.outcome}{why}"
            releases[how] = releases.get(how, 0) + 1
        return Soaked(
            carried=tuple(carried),
            broken=found,
            seconds=time.monotonic() - began,
            load=os.getloadavg()[1],
            events=len(onlooker.events),
            releases=releases,
            guard_took=carrier.town.guard_took,
            done=carrier.done,
            first=onlooker.first,
            most=onlooker.most,
        )
    finally:
        bed.stop()


def _seen(onlooker: Onlooker) -> SoakSeen:
    for _ in range(LOOKS):
        try:
            return onlooker.look()
        except (OutOfReachError, UnreachableError):
            time.sleep(0.25)
    return SoakSeen(unexpected=("API server or ledger have not answered for ten seconds, and nobody has stopped them",))


def _at_the_end(carrier: Carrier, onlooker: Onlooker) -> tuple[str, ...]:
    """With a world that is well, what was under way ends, whoever serves is ready, and the whole ledger is sound."""
    carrier.settle()
    deadline = time.monotonic() + ALLOWANCE_SECONDS
    while True:
        seen = _seen(onlooker)
        waiting = [name for name, arm in seen.arms.items() if arm.without > 0]
        if found := broken(seen):
            return found
        if not waiting and onlooker.service.running is None:
            break
        if time.monotonic() > deadline:
            what = f"no ready replica of {', '.join(waiting)}" if waiting else "the release under way does not end"
            return (f"end: {what}, though everything is well",)
        time.sleep(0.25)
    store = carrier.bed.store
    word = None
    return tuple(f"end: {flaw}" for flaw in verify(store, "vision/defects", "sandbox", word=word) if "deleted" not in flaw)
