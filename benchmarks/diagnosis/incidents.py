"""The cases: every fault alone, beside an innocent release, beside an innocent change by hand, and two at once; and nothing wrong.

Half of them, by a digest of their names, are set aside: nobody reads them one by one while rules are written.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import replace

from benchmarks.diagnosis import engine_incidents, node_incidents, server_incidents, way_incidents
from benchmarks.diagnosis.played import ONSET, RELEASES, REPLACES, says
from benchmarks.diagnosis.played_engine import EngineIncident
from benchmarks.diagnosis.played_service import Incident, Play
from headway.diagnosis.facts import Blindness, Change, ChangeKind, StateKind


def _release(before: float) -> Change:
    return Change(kind=ChangeKind.RELEASE, time=ONSET - before, who="ci", words=REPLACES, release=RELEASES[1])


def _hand(kind: ChangeKind, before: float) -> Change:
    return Change(kind=kind, time=ONSET - before, who="kubectl-edit", words=f"the {kind.value} was written")


def _faults(calm: Play) -> Iterator[Incident]:
    def one(name: str, truth: str = "", **more: object) -> Incident:
        states = more.pop("states", ())
        changes = more.pop("changes", ())
        unmeasured = more.pop("unmeasured", ())
        before = more.pop("before", calm)
        return Incident(
            name=name,
            truth=truth or name,
            before=before,  # type: ignore[arg-type]
            since=replace(before, **more),  # type: ignore[arg-type,type-var]
            states=states,  # type: ignore[arg-type]
            changes=changes,  # type: ignore[arg-type]
            unmeasured=unmeasured,  # type: ignore[arg-type]
        )

    rate = calm.requests
    gpus = ("clock", "hot", "power_capped", "replays")
    fresh = frozenset(range(calm.replicas))
    yield one("more-requests", requests=max(rate * 2.2, 500.0))
    yield one("larger-requests", work=2.5)
    yield one("way-longer", way=calm.way + 0.040)
    yield one("proxy-longer", proxy=calm.proxy + 0.030)
    yield one("model-slower", fixed=calm.fixed * 2.5, each=calm.each * 2.5)
    yield one("new-version", fixed=calm.fixed * 2.5, each=calm.each * 2.5, changes=(_release(20.0),), fresh=fresh)
    yield one("new-version-fails", truth="new-version", failing=0.05, changes=(_release(40.0),), fresh=fresh)
    yield one("new-version-of-a-third", truth="new-version", slower={0: 3.0}, changes=(_release(40.0),), fresh=frozenset({0}))
    yield one("batch-larger", delay=0.100)
    yield one("cpu-quota-used-up", reads=calm.reads + 0.040, throttled=0.5)
    yield one("gpu-slow-and-silent", slower={1: 3.0})
    yield one("one-replica-slow", slower={1: 3.0}, unmeasured=gpus)
    yield one("gpu-hot", slower={1: 3.0}, counters={"hot": {1: 0.6}, "clock": {1: 1400.0}})
    yield one("gpu-power-capped", slower={1: 3.0}, counters={"power_capped": {1: 0.5}, "clock": {1: 1500.0}})
    yield one("gpu-clock-low", slower={1: 3.0}, counters={"clock": {1: 1100.0}})
    yield one("gpu-link-errors", slower={1: 3.0}, counters={"replays": {1: 40.0}})
    yield one("model-fails", failing=0.05)
    yield one("out-of-memory", unreached=0.1, states=(says(StateKind.MEMORY_KILLED),))
    yield one("server-hangs", unreached=0.3, states=(says(StateKind.PROBE_KILLED),))
    yield one("server-killed", unreached=0.1, states=(says(StateKind.ENDED),))
    yield one("over-the-rate", limited=0.3)
    yield one("invalid-tokens", unproven=0.4)
    yield one("callers-not-allowed", forbidden=0.2)
    yield one("quota-full", states=(says(StateKind.QUOTA_FULL),))
    yield one("quota-lowered", states=(says(StateKind.QUOTA_FULL),), changes=(_hand(ChangeKind.QUOTA, 60.0),))
    yield one("image-missing", states=(says(StateKind.IMAGE_MISSING),))
    yield one("written-by-hand", states=(says(StateKind.IMAGE_MISSING),), changes=(_hand(ChangeKind.DEPLOYMENT, 5.0),))
    yield one("artifacts-missing", states=(says(StateKind.ARTIFACTS_MISSING),))
    yield one("gpus-taken", states=(says(StateKind.GPUS_TAKEN),))
    yield one("nodes-cordoned", states=(says(StateKind.CORDONED),))
    yield one("cordoned-by-hand", states=(says(StateKind.CORDONED),), changes=(_hand(ChangeKind.NODE, 60.0),))
    yield one("pool-without-nodes", states=(says(StateKind.POOL_EMPTY),))
    yield one("node-uncut", states=(says(StateKind.UNCUT),))
    yield one("node-in-quarantine", replicas=2, states=(says(StateKind.NODE_SET_APART, "node-2"),))
    yield one("node-not-ready", replicas=2, states=(says(StateKind.NODE_NOT_READY, "node-2"),))
    yield one("release-held", states=(says(StateKind.HELD, "r0123456789"),))
    yield from server_incidents.faults(calm, one)
    yield from node_incidents.faults(calm, one)
    yield from way_incidents.faults(calm, one)


_LOADS = {"light": Play(requests=20.0), "usual": Play(requests=60.0, each=0.005)}
_OWN = (
    "new-version",
    "new-version-fails",
    "new-version-of-a-third",
    "quota-lowered",
    "written-by-hand",
    "cordoned-by-hand",
    *node_incidents.OWN,
    *server_incidents.OWN,
    *way_incidents.OWN,
)
"""Faults that are changes themselves."""
_PAIRS = (
    ("model-slower", "invalid-tokens"),
    ("way-longer", "quota-full"),
    ("model-fails", "over-the-rate"),
    ("larger-requests", "release-held"),
    ("gpu-hot", "image-missing"),
)


AnyIncident = Incident | EngineIncident


def cases() -> Sequence[tuple[AnyIncident, tuple[str, ...]]]:
    """Each with all its truths; more than one where two faults are in it."""
    found: list[tuple[AnyIncident, tuple[str, ...]]] = []
    for load, calm in _LOADS.items():
        faults = {each.name: each for each in _faults(calm)}
        for name, each in faults.items():
            found.append((replace(each, name=f"{load}: {name}"), (each.truth,)))
            if name in _OWN:
                continue
            for innocent, change in (("release", _release(30.0)), ("edit", _hand(ChangeKind.ROUTE, 30.0))):
                found.append(
                    (replace(each, name=f"{load}: {name} beside an innocent {innocent}", changes=(*each.changes, change)), (each.truth,))
                )
        for first, second in _PAIRS:
            one, other = faults[first], faults[second]
            both = replace(
                one,
                name=f"{load}: {first} and {second}",
                since=replace(one.since, unproven=other.since.unproven, limited=other.since.limited),
                states=(*one.states, *other.states),
            )
            found.append((both, (one.truth, other.truth)))
        for number in range(12):
            changes = ((), (_release(30.0),), (_hand(ChangeKind.DEPLOYMENT, 100.0),))[number % 3]
            calm_case = Incident(name=f"{load}: nothing is wrong {number}", truth="", before=calm, since=calm, changes=changes)
            found.append((calm_case, ()))
        slow = faults["model-slower"]
        blind = (Blindness(what="metrics", why="Prometheus does not answer"),)
        every = tuple(_every_measure())
        found.append((replace(slow, name=f"{load}: nobody measures", truth="", unmeasured=every, blind=blind), ("?",)))
    found += engine_incidents.cases(("release", _release(30.0)), ("edit", _hand(ChangeKind.ROUTE, 30.0)))
    return found


def set_aside(case: AnyIncident) -> bool:
    """Whether it belongs to the half that nobody reads one by one."""
    return hashlib.sha256(case.name.encode()).digest()[0] % 2 == 1


def _every_measure() -> Iterator[str]:
    from headway.diagnosis.measures import MEASURES

    yield from MEASURES
