"""Looks at everything after an event: ledger, route, replicas, objects, nodes, processes. Decides nothing."""

import copy
import time
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from benchmarks.soak.bed import LOOP, RELEASED, TENANT_NAME
from benchmarks.soak.carrier import PODS, Carrier
from benchmarks.soak.invariants import ArmSeen, ChainSeen, RouteSeen, SoakSeen
from benchmarks.soak.simulated import CHAIN, WATCHED_LOOK_SECONDS
from headway.contract.rollout import LONGEST_UNWATCHED
from headway.environment.port import OutOfReachError
from headway.ledger.events import Event
from headway.ledger.proof import START as BEGINNING
from headway.ledger.reading import proof
from headway.ledger.traffic_split import TrafficSplit
from headway.node_health.decision import NodeHealthPolicy
from headway.release.driver.event_kinds import EventKind
from headway.release.driver.live_service import applied, route_of
from headway.release.driver.rollout_state import ServiceState, fold
from headway.release.guard import overdue, safe
from headway.wire import ARM, MODEL, QUARANTINE, RELEASE, WATCHED_UNTIL
from tests.unit.release.town import exposed

FOREVER = LONGEST_UNWATCHED + timedelta(minutes=1)
WHOLE_CHAIN_EVERY = 200
MEMORY_EVERY, DISK_EVERY = 20, 100
SLACK_SECONDS = 2 * WATCHED_LOOK_SECONDS + 240.0
"""Simulated seconds between the end of a promise and the guard's look at the latest: it may be away for 120, and the API
server for 90."""


class Onlooker:
    """Remembers what was there before."""

    def __init__(self, carrier: Carrier) -> None:
        self._carrier, self._bed = carrier, carrier.bed
        self.events: tuple[Event, ...] = ()
        self._end, self.service = BEGINNING, ServiceState()
        self._ready_at: dict[str, float] = {}
        self._exposed_since: float | None = None
        self._looks, self._disk = 0, 0
        self.most: dict[str, int] = {}
        self.first: dict[str, int] = {}
        self._odd_since: dict[str, float] = {}

    def look(self) -> SoakSeen:
        """Raises OutOfReachError and UnreachableError where servers do not answer."""
        self._looks += 1
        chain = self._chain()
        live = self._carrier.town.api.live
        deployments = self._bed.api.items(f"/apis/apps/v1/namespaces/{TENANT_NAME}/deployments")
        strangers, missing = self._owned(deployments)
        return SoakSeen(
            chain=chain,
            route=self._route(live),
            arms=self._arms(live, deployments),
            strangers=strangers,
            missing=missing,
            forgotten=self._forgotten(),
            faulty=self._faulty(),
            memory=self._memory(),
            disk=self._disk_used(),
            stuck=self._carrier.stuck,
            unexpected=tuple(self._carrier.unexpected),
        )

    # -- the ledger ------------------------------------------------------------------------------------------------------------

    def _chain(self) -> ChainSeen:
        store: Any = self._bed.store
        whole = self._looks % WHOLE_CHAIN_EVERY == 0
        found = proof(store, CHAIN, "sandbox", BEGINNING if whole else self._end)
        flaws = tuple(flaw.fact for flaw in found.flaws)
        if flaws:
            return ChainSeen(flaws=flaws)
        changed = whole and found.events[: len(self.events)] != self.events
        new = found.events[len(self.events) :] if whole else found.events
        self.events, self._end = (*self.events, *new), found.end
        self.service = fold(new, self.service)
        there = {event.number: event.hash for event in self.events[-400:]}
        first = min(there, default=0)
        lost = [each.number for each in self._carrier.acknowledged if each.number >= first and there.get(each.number) != each.hash]
        del self._carrier.acknowledged[:-50]
        kinds = [event.kind for event in self.events]
        endings = tuple(rollout.number for rollout in self.service.past)
        ended = kinds.count(EventKind.ENDED)
        return ChainSeen(changed=changed, lost=tuple(lost), started=kinds.count(EventKind.STARTED), ended=ended, endings=endings)

    # -- the route -------------------------------------------------------------------------------------------------------------

    def _route(self, live: Mapping[str, Any]) -> RouteSeen:
        town, service = self._carrier.town, self.service
        proven = _proven(service)
        split = service.split
        assert split is not None
        left = _left(live, town.clock + FOREVER)
        try:
            planned = _left(applied_with_notes(live, split), town.clock + FOREVER)
        except OutOfReachError:
            planned = left
        over = exposed(live) - proven
        notes = live["metadata"].get("annotations") or {}
        unwatched = bool(over) and overdue(live, town.clock)
        now = town.clock.timestamp()
        self._exposed_since = (self._exposed_since or now) if unwatched else None
        late = now - self._exposed_since - SLACK_SECONDS if self._exposed_since is not None else 0.0
        if over and WATCHED_UNTIL not in notes:
            late = 1.0
        quiet = service.running is None and not town.touched and town.updating is None and town.stack == split
        return RouteSeen(
            left=frozenset(left),
            planned=frozenset(planned),
            proven=frozenset(proven),
            overdue=late,
            quiet=quiet,
            carried=route_of(live).carries(split),
        )

    # -- replicas and objects --------------------------------------------------------------------------------------------------

    def _arms(self, live: Mapping[str, Any], deployments: list[Any]) -> Mapping[str, ArmSeen]:
        now, found = time.monotonic(), dict[str, ArmSeen]()
        weighted = [key for key, weight in route_of(live).weights.items() if weight]
        pods: list[Any] | None = None
        for key in weighted:
            release, baseline = key.removesuffix("-baseline"), key.endswith("-baseline")
            mine = [
                each
                for each in deployments
                if each["metadata"]["labels"].get(MODEL) == RELEASED
                and each["spec"]["selector"]["matchLabels"].get(RELEASE) == release
                and (each["spec"]["selector"]["matchLabels"].get(ARM) == "baseline") == baseline
            ]
            if any(int((each.get("status") or {}).get("readyReplicas") or 0) for each in mine):
                self._ready_at[key] = now
            since = max(self._ready_at.setdefault(key, now), self._bed.healthy_since)
            told = ""
            if now - since > 1.0:
                pods = self._bed.api.items(PODS) if pods is None else pods
                told = _told(mine, pods, release)
            found[key] = ArmSeen(without=now - since, told=told)
        self._ready_at = {key: moment for key, moment in self._ready_at.items() if key in weighted}
        return found

    def _owned(self, deployments: list[Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Of the services' Deployments and Services: those that nobody rendered, and those that were applied and are
        gone; both after a while, since deletion takes Kubernetes a moment, and a killed update leaves some."""
        if self._carrier.town.updating is not None:
            return (), ()
        strange, missing = list[str](), list[str]()
        services = self._bed.api.items(f"/api/v1/namespaces/{TENANT_NAME}/services")
        for kind, live in (("Deployment", deployments), ("Service", services)):
            names = {each["metadata"]["name"] for each in live if MODEL in (each["metadata"].get("labels") or {})}
            rendered = self._carrier.stack.names(kind)
            strange += (f"{kind} {name}" for name in names - rendered)
            missing += (f"{kind} {name}" for name in rendered - names)
        return self._lasting(strange), self._lasting(missing)

    def _lasting(self, found: list[str], seconds: float = 30.0) -> tuple[str, ...]:
        now = time.monotonic()
        for name in found:
            self._odd_since.setdefault(name, now)
        old = tuple(name for name in found if now - max(self._odd_since[name], self._bed.healthy_since) > seconds)
        for name in [name for name in self._odd_since if now - self._odd_since[name] > 600 and name not in found]:
            del self._odd_since[name]
        return old

    def _forgotten(self) -> tuple[str, ...]:
        listed = self._bed.api.items(f"/api/v1/namespaces/{TENANT_NAME}/configmaps")
        there = {each["metadata"]["name"]: each["metadata"]["uid"] for each in listed}
        return tuple(name for name, uid in self._carrier.written.items() if there.get(name) != uid)

    # -- nodes and processes ---------------------------------------------------------------------------------------------------

    def _faulty(self) -> Mapping[str, float]:
        if not self._carrier.faulty:
            return {}
        nodes = self._bed.api.items("/api/v1/nodes")
        apart = {each["metadata"]["name"] for each in nodes if any(t["key"] == QUARANTINE for t in each["spec"].get("taints") or ())}
        room = max(1, len(nodes) * NodeHealthPolicy().away_at_most_percent // 100) - len(apart)
        now = time.monotonic()
        if room <= 0:  # the brake: more at once would rather be a driver's fault than theirs
            self._carrier.faulty.update(dict.fromkeys(self._carrier.faulty, now))
            return {}
        return {name: now - max(since, self._bed.healthy_since) for name, since in self._carrier.faulty.items() if name not in apart}

    def _memory(self) -> Mapping[str, int]:
        if self._looks % MEMORY_EVERY != 1:
            return {}
        found = self._bed.memory()
        for name, size in found.items():
            self.first.setdefault(name, size)
            self.most[name] = max(size, self.most.get(name, 0))
        return {name: size for name, size in found.items() if name in (LOOP, "soak")}

    def _disk_used(self) -> int:
        if self._looks % DISK_EVERY == 1:
            self._disk = self._bed.disk()
            self.first.setdefault("disk", self._disk)
            self.most["disk"] = max(self._disk, self.most.get("disk", 0))
        return self._disk


def applied_with_notes(live: Mapping[str, Any], split: TrafficSplit) -> Mapping[str, Any]:
    """The route as an update of the stack would leave it, with what runners wrote on it."""
    made = copy.deepcopy(applied(live, replace(split, digests={})))
    made["metadata"]["annotations"] = dict(live["metadata"].get("annotations") or {})
    return made


def _left(live: Mapping[str, Any], moment: Any) -> set[str]:
    """Releases that get something after the guard has looked at that moment."""
    if overdue(live, moment):
        return {arm.release for arm in safe(live).arms}
    return exposed(live)


def _proven(service: ServiceState) -> set[str]:
    running = service.running
    if running is None:
        return {str(service.stable)}
    passed = running.failing is None and running.phase in ("baking", "done")
    return {running.stable} | ({running.release} if passed else set())


def _told(deployments: list[Any], pods: list[Any], release: str) -> str:
    """What Kubernetes says about replicas that do not come."""
    for each in deployments:
        for condition in (each.get("status") or {}).get("conditions") or ():
            if condition["type"] == "ReplicaFailure" and condition["status"] == "True":
                return str(condition["message"])
    for pod in pods:
        if (pod["metadata"].get("labels") or {}).get(RELEASE) != release:
            continue
        for condition in (pod.get("status") or {}).get("conditions") or ():
            if condition["type"] == "PodScheduled" and condition["status"] != "True":
                return str(condition.get("message"))
    return ""
