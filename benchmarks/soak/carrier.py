"""Carries the events of a soak out: each kind is a method of the same name. Keeps what somebody was told is done, so that
nothing of it may be lost."""

import copy
import json
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import timedelta
from itertools import count
from typing import Any

from benchmarks.soak import bed as beds
from benchmarks.soak.bed import NODES, RELEASED, TENANT_NAME, Bed, contracts, version
from benchmarks.soak.schedule import FAULTY, SoakEvent
from benchmarks.soak.simulated import CHAIN, ROUTE, Moments, SimulatedStore, SimulatedWitness, SoakSeat, SoakTown
from benchmarks.soak.stack import Stack
from headway.contract.released import release_id
from headway.environment.kubernetes import MERGE_PATCH, STRATEGIC_PATCH
from headway.environment.port import OutOfReachError
from headway.ledger import lease as leases
from headway.ledger.chain import Ledger, LostError
from headway.ledger.events import Event
from headway.ledger.serving import latest
from headway.ledger.store import UnreachableError
from headway.node_health.cluster import NodeCluster, NodeHealthSettings
from headway.node_health.decision import Action, by_hand, released
from headway.node_health.facts import GpuNode
from headway.node_health.replacement import refused
from headway.problem import Exit, UserError
from headway.release.driver.adoption import adopt
from headway.release.driver.driver import ReleaseDriver
from headway.release.driver.event_kinds import OperatorRequest
from headway.release.driver.leased_run import LeasedRun
from headway.release.driver.requests import ask
from headway.release.driver.start import StartOptions, begin
from headway.wire import MODEL, RELEASE, WATCHED_UNTIL
from tests.unit.release.town import Turn
from tests.unit.release_world import ROOM, START, UNASKED, Reading

MEETINGS_WITHOUT_TIME = 3000
"""After so many meetings with ledger or cluster in one moment of simulated time, a runner is stuck."""
KEPT = 8
"""Objects that a tenant keeps at once."""
_TRIES = 3
"""Of a person whose write met another one."""
PODS = f"/api/v1/namespaces/{TENANT_NAME}/pods"
AWAY = (OutOfReachError, UnreachableError, LostError, UserError)


class Runner:
    """One that drives, in a thread of its own."""

    def __init__(self, town: SoakTown, store: SimulatedStore, name: str, ahead: float) -> None:
        self.seat, self.stands_still = SoakSeat(town, ahead), False
        ledger = Ledger(_any(store.seen_by(self.seat.waits)), CHAIN, "sandbox", name, self.seat.now, town.witness)
        driver = ReleaseDriver(LeasedRun(ledger, _any(self.seat), Reading(), name))
        self.turn = self.seat.turn = Turn(driver.run)


class Carrier:
    """A bed with everybody who acts on it."""

    def __init__(self, bed: Bed) -> None:
        self.bed = bed
        self.moments = Moments(lambda: (self.town.clock - START).total_seconds() if self.begun else 0.0)
        self.begun = False
        self.store = SimulatedStore(bed.store, lambda: (self.town.clock - START).total_seconds() if self.begun else 0.0, self.moments)
        self.witness = SimulatedWitness(bed.witness, self.moments)
        self.model = version(0)
        self.stack = Stack(contracts(self.model), _any(self.store), self.witness)
        self.town = SoakTown(bed, self.stack, self.store, self.witness, self.moments)
        self.town.bad = frozenset(release_id(version(each)) for each in FAULTY)
        self.begun = True
        self.runners: list[Runner | None] = [None, None]
        self.acknowledged: list[Event] = []
        self.written: dict[str, str] = {}
        self.nodes, self.made, self.named = NODES, count(1), count(1)
        self.faulty: dict[str, float] = {}
        self.apart: set[str] = set()
        self.stuck = ""
        self.unexpected: list[str] = []
        self.quota_cut = False
        self.done: dict[str, int] = {}
        """What came of events, by kind and answer."""

    def begins(self) -> None:
        """What serves, before the first event."""
        serving = version(0)
        adopt(self.ledger("stack"), _any(self.store), serving.model_dump(mode="json"), release_id(serving))
        split = latest(_any(self.store), CHAIN, "sandbox")
        assert split is not None
        self.town.applies(split)

    def ledger(self, actor: str) -> Ledger:
        return Ledger(_any(self.store), CHAIN, "sandbox", actor, lambda: self.town.clock, self.witness)

    # -- time ------------------------------------------------------------------------------------------------------------------

    def until(self, at: float) -> None:
        """Everybody goes on until that moment."""
        moment = START + timedelta(seconds=at)
        meetings, then = 0, self.town.clock
        while self.town.clock < moment:
            active = [each for each in self.runners if each and not each.turn.over and not each.stands_still]
            if not active:
                self.town.goes_to(moment)
            for each in active:
                steps = count(1)
                each.turn.goes_on(lambda steps=steps: self.town.clock >= moment or next(steps) >= 60)
                meetings += 60
            meetings, then = (0, self.town.clock) if self.town.clock != then else (meetings, then)
            if meetings > MEETINGS_WITHOUT_TIME:
                self.stuck = f"a runner meets ledger and cluster {meetings} times, and no time passes"
                return

    def carry(self, event: SoakEvent) -> None:
        """Do it. What nobody may meet goes on, as an error of the soak itself or of what it tries."""
        self.unexpected, self.stuck = [], ""
        self.until(event.at)
        act = getattr(self, event.kind)
        try:
            answer = act(**event.about)
        except AWAY as failure:
            answer = f"{type(failure).__name__}"
        self._count(f"{event.kind}: {answer or 'done'}")

    def _count(self, what: str) -> None:
        self.done[what] = self.done.get(what, 0) + 1

    def settle(self) -> None:
        """The world is well again, and a runner ends what is under way."""
        self.moments.bring_back()
        self.bed.repair()
        self.quota_is_restored()
        self.finalizer_is_freed()
        self.node_is_sound()
        for who in (0, 1):
            self.runner_is_killed(who, 0)
        seconds = (self.town.clock - START).total_seconds()
        self.until(seconds + 120)
        self.runner_comes(0, 0.0)
        with suppress(*AWAY):
            self._acknowledge(ask(self.ledger("person"), OperatorRequest.RESUME, "the end"))
        self.until((self.town.clock - START).total_seconds() + 7200)
        self.stack_is_updated()

    # -- tenants and their pipelines -------------------------------------------------------------------------------------------

    def release_begins(self, version: int) -> str:
        """As `headway release start` does: written down, and driven from where it was begun."""
        model = beds.version(version, self.model.scaling.min_replicas, self.model.scaling.max_replicas)
        self._acknowledge((begin(self.ledger("ci"), _any(self.store), model, ROOM, StartOptions(), UNASKED),))
        self.model = model
        self.stack.contracts = contracts(model)
        self.runner_comes(0, 0.0)
        return "begun"

    def two_releases_at_once(self, versions: list[int]) -> str:
        """Of two pipelines that have read the same chain, one begins."""
        ledgers = [self.ledger(f"ci-{each}") for each in versions]
        for ledger in ledgers:
            ledger.read()
        begun = 0
        for ledger, number in zip(ledgers, versions, strict=True):
            try:
                self._acknowledge((begin(ledger, _any(self.store), beds.version(number), ROOM, StartOptions(), UNASKED),))
                begun += 1
            except AWAY:
                continue
        if begun > 1:
            self.unexpected.append("two releases of one service began at once")
        if begun:
            self.runner_comes(1, 0.0)
        return f"{begun} begun"

    def somebody_asks(self, wish: str) -> str:
        ledger = self.ledger("person")
        ask(ledger, OperatorRequest(wish), "noon")
        self._acknowledge(ledger.events[-1:])
        return wish

    def contract_changes(self, least: int, most: int) -> str:
        """Bounds of scaling: they change in place, with the next update."""
        body = self.model.model_dump(mode="json")
        body["scaling"] |= {"min_replicas": least, "max_replicas": most}
        self.model = type(self.model).model_validate(body)
        self.stack.contracts = contracts(self.model)
        return self.stack_is_updated()

    def stack_is_updated(self) -> str:
        self.town.refreshes = True
        result = self.town.update("person")
        return "updated" if result.ok else "busy" if result.busy else "refused"

    def replicas_are_scaled(self, replicas: int) -> str:
        """As the autoscaler does, by the subresource."""
        for live in self._deployments():
            path = f"/apis/apps/v1/namespaces/{TENANT_NAME}/deployments/{live['metadata']['name']}/scale"
            self.bed.api.request("PATCH", path, {"fieldManager": "keda"}, {"spec": {"replicas": replicas}}, MERGE_PATCH)
        return "scaled"

    def something_is_written(self) -> str:
        """A tenant's object, of which the API server says that it is stored; the oldest one goes."""
        name = f"note-{next(self.named)}"
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": TENANT_NAME}, "data": {"said": name}}
        answer = self.bed.api.request("POST", f"/api/v1/namespaces/{TENANT_NAME}/configmaps", None, body)
        self.written[name] = str((answer or {})["metadata"]["uid"])
        if len(self.written) > KEPT:
            oldest = next(iter(self.written))
            del self.written[oldest]
            self.bed.objects.delete(f"/api/v1/namespaces/{TENANT_NAME}/configmaps/{oldest}")
        return "stored"

    def odd_object(self, which: str) -> str:
        return str(getattr(self, f"_odd_{which.replace('-', '_')}")())

    def _odd_promise(self) -> str:
        """A promise on the live route that says no time: the guard must take it for none."""
        body = {"metadata": {"annotations": {WATCHED_UNTIL: "soon"}}}
        self.bed.api.request("PATCH", ROUTE, {"fieldManager": "tenant"}, body, MERGE_PATCH)
        self.town.sees()
        self.town.looks()
        return "promise taken"

    def _odd_route(self) -> str:
        live = copy.deepcopy(self.town.api.live)
        head = {"name": f"odd-{next(self.named)}", "namespace": TENANT_NAME}
        return self._refused(f"/apis/networking.istio.io/v1/namespaces/{TENANT_NAME}/virtualservices", {**live, "metadata": head})

    def _odd_privileged_pod(self) -> str:
        container = {"name": "a", "image": f"registry.test/a@sha256:{'a' * 64}", "securityContext": {"privileged": True}}
        head = {"name": f"odd-{next(self.named)}", "namespace": TENANT_NAME}
        return self._refused(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": head, "spec": {"containers": [container]}})

    def _odd_huge_annotation(self) -> str:
        head = {"name": "huge", "namespace": TENANT_NAME, "annotations": {"a": "x" * (300 << 10)}}
        return self._refused(f"/api/v1/namespaces/{TENANT_NAME}/configmaps", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": head})

    def _odd_label_of_another(self) -> str:
        """A ConfigMap that says it is another tenant's: harmless, and nobody may read it as such."""
        name = "borrowed"
        head = {"name": name, "namespace": TENANT_NAME, "labels": {MODEL: "no-such-model", RELEASE: "../../../etc"[:3]}}
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": head, "data": {"a": json.dumps({"a": [[]] * 100})}}
        path = f"/api/v1/namespaces/{TENANT_NAME}/configmaps"
        answer = self.bed.api.answer("POST", path, None, body)
        if answer.ok:
            self.bed.objects.delete(f"{path}/{name}")
        return str(answer.status)

    def _refused(self, path: str, body: Mapping[str, Any]) -> str:
        """What the platform's rules must refuse."""
        answer = self.bed.api.answer("POST", path, None, body)
        if answer.ok:
            self.unexpected.append(f"{body['kind']} {body['metadata']['name']}, which the platform's rules refuse, was taken")
        return str(answer.status)

    def quota_is_cut(self) -> str:
        """A person takes room away while the tenant's stack says otherwise: what runs stays, nothing comes."""
        path = f"/api/v1/namespaces/{TENANT_NAME}/resourcequotas/tenant"
        self.bed.api.request("PATCH", path, {"fieldManager": "person"}, {"spec": {"hard": {"pods": "1"}}}, MERGE_PATCH)
        self.quota_cut = True
        return "cut"

    def quota_is_restored(self) -> str:
        path = f"/api/v1/namespaces/{TENANT_NAME}/resourcequotas/tenant"
        self.bed.api.request("PATCH", path, {"fieldManager": "person"}, {"spec": {"hard": {"pods": "60"}}}, MERGE_PATCH)
        self.quota_cut = False
        return "restored"

    def finalizer_is_stuck(self) -> str:
        """A replica that does not go when it is deleted."""
        pod = self._pod()
        if pod is None:
            return "no pod"
        path = f"{PODS}/{pod['metadata']['name']}"
        finalizers = [*(pod["metadata"].get("finalizers") or ()), "example.com/stuck"]
        self.bed.api.request("PATCH", path, None, {"metadata": {"finalizers": finalizers}}, MERGE_PATCH)
        self.bed.api.request("DELETE", path)
        return "stuck"

    def finalizer_is_freed(self) -> str:
        freed = 0
        for pod in self.bed.api.items(PODS):
            finalizers = pod["metadata"].get("finalizers") or ()
            if "example.com/stuck" in finalizers:
                left = [each for each in finalizers if each != "example.com/stuck"]
                path = f"{PODS}/{pod['metadata']['name']}"
                self.bed.api.request("PATCH", path, None, {"metadata": {"finalizers": left or None}}, MERGE_PATCH)
                freed += 1
        return f"{'some' if freed else 'none'} freed"

    def secret_is_rotated(self) -> str:
        data = {"token": f"rotation {next(self.named)}"}
        head = {"name": "pull", "namespace": TENANT_NAME}
        self.bed.objects.apply({"apiVersion": "v1", "kind": "Secret", "metadata": head, "stringData": data}, "tenant")
        return "rotated"

    # -- runners and the guard -------------------------------------------------------------------------------------------------

    def runner_comes(self, who: int, ahead: float) -> str:
        before = self.runners[who]
        if before and not before.turn.over:
            return "there is one"
        self.runners[who] = Runner(self.town, self.store, f"runner {who} {next(self.made)}", ahead)
        return "came"

    def runner_is_killed(self, who: int, meetings: int) -> str:
        """After so many meetings more: in the middle of whatever it does."""
        runner, steps = self.runners[who], count(1)
        if runner is None or runner.turn.over:
            return "nobody there"
        if meetings:
            runner.turn.goes_on(lambda: next(steps) >= meetings)
        runner.turn.dies()
        self.runners[who] = None
        if self.town.updating is runner.seat:
            self.town.updating = None
        return "killed"

    def runner_stands_still(self, who: int) -> str:
        runner = self.runners[who]
        if runner is None or runner.turn.over:
            return "nobody there"
        runner.stands_still = True
        return "stands still"

    def runner_goes_on(self, who: int) -> str:
        runner = self.runners[who]
        if runner is None or not runner.stands_still:
            return "nobody stood"
        runner.stands_still = False
        return "goes on"

    def clock_jumps(self, who: int, seconds: float) -> str:
        runner = self.runners[who]
        if runner is None or runner.turn.over:
            return "nobody there"
        runner.seat.jumps(seconds)
        return "jumped"

    def guard_is_away(self, seconds: float) -> None:
        self.moments.take_away("guard", seconds)

    # -- the world -------------------------------------------------------------------------------------------------------------

    def pod_dies(self) -> str:
        pod = self._pod()
        if pod is None:
            return "no pod"
        self.bed.api.request("DELETE", f"{PODS}/{pod['metadata']['name']}", {"gracePeriodSeconds": "0"})
        return "died"

    def node_is_lost(self) -> str:
        """Its group starts another one."""
        name = self._node()
        if name is None:
            return "no node"
        self.bed.api.request("DELETE", f"/api/v1/nodes/{name}")
        self.faulty.pop(name, None)
        self.apart.discard(name)
        self.bed.objects.apply(beds.node(self.nodes))
        self.nodes += 1
        return "replaced"

    def node_is_faulty(self, reason: str) -> str:
        name = self._node()
        if name is None or name in self.faulty or name in self.apart:
            return "no node"
        self._condition(name, "False", reason)
        if reason != "DCGMError":
            self.faulty[name] = time.monotonic()
        return "faulty"

    def node_is_sound(self) -> str:
        """Repaired, and released by a person."""
        names = {*self.faulty, *self.apart}
        for name in sorted(names):
            self._condition(name, "True", "NvidiaGPUIsReady")
            self.faulty.pop(name, None)
            self._by_a_person(name, _readmitted)
            self.apart.discard(name)
        return f"{'some' if names else 'none'} released"

    def node_is_set_apart(self) -> str:
        name = self._node()
        if name is None or self.apart or name in self.faulty:
            return "no node"
        self._by_a_person(name, _set_apart)
        self.apart.add(name)
        return "set apart"

    def ledger_is_away(self, seconds: float) -> None:
        self.moments.take_away("ledger", seconds)

    def ledger_is_full(self, seconds: float) -> None:
        self.moments.take_away("room", seconds)

    def answers_are_lost(self, writes: int) -> None:
        self.moments.lost_answers = writes + 1

    def witness_disk_is_full(self, seconds: float) -> None:
        self.moments.take_away("witness disk", seconds)

    def lease_is_deleted(self) -> None:
        self.bed.administrators_store.delete_object(Bucket=beds.BUCKET, Key=beds.PREFIX + leases.key(CHAIN))

    def evidence_is_away(self, seconds: float) -> None:
        self.moments.take_away("evidence", seconds)

    def loops_token_is_rotated(self) -> None:
        self.bed.start_loop(fresh=True)

    def certificates_are_rotated(self) -> None:
        """Those of the API server and of the administrator: made anew at the next start."""
        folder = self.bed.layout.cluster / "pki"
        for name in ("server", "admin"):
            for suffix in ("crt", "key"):
                (folder / f"{name}.{suffix}").unlink()
        self.bed.kill("kube-apiserver")
        self.bed.repair()
        self.bed.reconnect()
        self.bed.start_loop(fresh=True)

    def part_is_killed(self, part: str, seconds: float) -> None:
        """Started again after so many simulated seconds, in which everybody goes on without it."""
        self.bed.kill(part)
        try:
            self.until((self.town.clock - START).total_seconds() + seconds)
        finally:
            self.bed.repair()

    def part_hangs(self, part: str, real_seconds: float) -> None:
        self.bed.hang(part, real_seconds)
        self.until((self.town.clock - START).total_seconds() + 5)
        while part in self.bed.down:
            time.sleep(0.02)

    # -- helpers ---------------------------------------------------------------------------------------------------------------

    def _acknowledge(self, events: Any) -> None:
        self.acknowledged += events

    def _deployments(self) -> list[Any]:
        return [
            each
            for each in self.bed.api.items(f"/apis/apps/v1/namespaces/{TENANT_NAME}/deployments")
            if each["metadata"]["labels"].get(MODEL) == RELEASED
        ]

    def _pod(self) -> Any:
        """The next one in turn, so that a replay meets the like."""
        pods = [each for each in self.bed.api.items(PODS) if "deletionTimestamp" not in each["metadata"]]
        return pods[next(self.named) % len(pods)] if pods else None

    def _node(self) -> str | None:
        names = sorted(each["metadata"]["name"] for each in self.bed.api.items("/api/v1/nodes"))
        return names[next(self.named) % len(names)] if names else None

    def _condition(self, name: str, status: str, reason: str) -> None:
        found = {"type": "AcceleratedHardwareReady", "status": status, "reason": reason, "lastTransitionTime": "2026-01-01T00:00:00Z"}
        self.bed.api.request("PATCH", f"/api/v1/nodes/{name}/status", None, {"status": {"conditions": [found]}}, STRATEGIC_PATCH)

    def _by_a_person(self, name: str, decide: Callable[[GpuNode], Action | None]) -> None:
        """Tried again where the loop, or a kubelet, wrote the node meanwhile."""
        cluster = NodeCluster(str(self.bed.layout.kubeconfig), refused)
        said = ""
        for _ in range(_TRIES):
            action = next((found for node in cluster.nodes() if node.name == name and (found := decide(node)) is not None), None)
            done = cluster.perform([action], NodeHealthSettings(diagnostic_image="", expected=())) if action is not None else ()
            said = next((each.refused for each in done if each.refused), "")
            if not said:
                return
        raise UserError(said, "Nothing was changed.", "Try again.", Exit.REFUSED)


def _readmitted(node: GpuNode) -> Action | None:
    return released(node, time.time(), untested=True)


def _set_apart(node: GpuNode) -> Action | None:
    return by_hand(node, "noise", "person:soak", time.time())


def _any(found: Any) -> Any:
    """Of another type than its Protocol says, as the sieges' doubles are."""
    return found
