"""What scaling, identities, scrapes and releases show when a whole environment is looked at, and each planted fault."""

import json
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from headway.contract.pool import Pool
from headway.environment.port import Facility, OutOfReachError
from headway.problem import UserError
from headway.verify import identity, sample, scaling, scrapes
from headway.verify.outcome import Sighting, VerifyState
from headway.verify.probe import SCRIPT
from headway.verify.sample import EndedRelease
from headway.wire import FETCH_SETTINGS, POOL, SCRIPTS_FOLDER
from tests.contract_samples import L4_POOL
from tests.loopback import Handler, served
from tests.unit.verify.verify_world import NAMESPACE, World

L4 = Pool.model_validate({**L4_POOL, "size": {"min": 0, "max": 2}})
PROBE = f"scale-{L4.name}"
NODES = "/api/v1/nodes"


# -- scaling


class Scaled(World):
    """An autoscaler: a node `up` seconds after a pod was posted, and gone `down` seconds after its end; None for never."""

    up: float | None = 120.0
    down: float | None = 900.0
    asked: float | None = None
    ended: float | None = None

    def nodes(self) -> list[Any]:
        there = f"/api/v1/namespaces/{NAMESPACE}/pods/{PROBE}" in self.made
        if there and self.asked is None:
            self.asked = self.now
        if self.asked is not None and not there and self.ended is None:
            self.ended = self.now
        came = self.asked is not None and self.up is not None and self.now >= self.asked + self.up
        gone = self.ended is not None and self.down is not None and self.now >= self.ended + self.down
        return [{"metadata": {"name": "n1", "labels": {POOL: L4.name}}}] if came and not gone else []


def scaled(**changes: Any) -> Scaled:
    world = Scaled(words={PROBE: {}}, pending="0/3 nodes are available")
    world.lists[NODES] = world.nodes
    world.placed = lambda name: "n1" if world.nodes() else ""
    for name, value in changes.items():
        setattr(world, name, value)
    return world


def facts(seen: Sighting) -> str:
    assert all(problem.consequence and problem.remedy for problem in seen.problems)
    return "\n".join(problem.fact for problem in seen.problems)


def test_a_pool_at_zero_gets_a_node_and_gives_it_back() -> None:
    world = scaled()
    seen = scaling.look(world.site(L4))
    assert seen.state is VerifyState.PASSED
    assert seen.evidence == ("Pool l4 had no node, and one 120 s after a pod asked.", "It was gone 900 s after the pod had ended.")
    assert not [path for path in world.made if "/pods/" in path], "its pod was removed"


def test_a_pool_that_gets_no_node_is_found_with_the_schedulers_words() -> None:
    said = facts(scaling.look(scaled(up=None).site(L4)))
    assert said == "Pool l4 got no node within 20 minutes (Unschedulable: 0/3 nodes are available)"


def test_a_node_that_never_goes_is_found() -> None:
    seen = scaling.look(scaled(down=None).site(L4))
    assert "The node of pool l4 is still there 25 minutes after its pod ended" in facts(seen)
    assert seen.evidence == ("Pool l4 had no node, and one 120 s after a pod asked.",)


def test_where_pods_are_simulated_a_place_is_enough_and_no_image_is_needed() -> None:
    world = scaled(lacks={Facility.DEVICES: "nodes are simulated"}, endless=True)
    site = world.site(L4)
    site.image = ""
    assert scaling.look(site).state is VerifyState.PASSED
    assert world.now < 1100.0, "nobody waits for the end of a pod that never ends"


@pytest.mark.parametrize("pool", [L4.model_copy(update={"size": L4.size.model_copy(update={"min": 1})}), None])
def test_without_a_pool_at_zero_there_is_nothing_to_scale(pool: Pool | None) -> None:
    world = scaled(up=0.0, asked=0.0) if pool is None else scaled()
    assert scaling.look(world.site(pool or L4)).state is VerifyState.NOTHING
    assert world.made == {}


def test_an_environment_without_an_autoscaler_says_so() -> None:
    assert scaling.look(scaled(nodes_can_be_added=False).site(L4)).state is VerifyState.NOT_SHOWN


# -- identities

TENANTS = ("assist", "vision")
SERVER = {"name": "server", "volumeMounts": [{"mountPath": SCRIPTS_FOLDER}]}


def tenants(answers: Mapping[str, Mapping[str, str]], **changes: Any) -> World:
    """Two tenants with an artifact and a pod each; `answers`: what each pod is answered for each tenant's object."""

    def executed(pod: str, container: str, arguments: list[str]) -> str:
        flag, script, task, question = arguments
        assert (container, flag, script, task) == ("server", "-c", SCRIPT, "artifacts")
        objects = json.loads(question)["objects"]
        return "a line of the log\n" + json.dumps({name: answers[pod].get(name, "") for name in objects})

    world = World(executed=executed, **changes)
    world.lists["/api/v1/namespaces"] = [{"metadata": {"name": name}} for name in TENANTS]
    for name in TENANTS:
        settings = {"uri": f"s3://artifacts/{name}/m/1/", "region": "us-east-1", "files": [{"path": "model.onnx"}]}
        world.lists[f"/api/v1/namespaces/{name}/configmaps"] = [{"metadata": {"name": "m"}, "data": {FETCH_SETTINGS: json.dumps(settings)}}]
        world.lists[f"/api/v1/namespaces/{name}/pods"] = [
            {"metadata": {"name": name}, "spec": {"containers": [SERVER]}, "status": {"phase": "Running"}}
        ]
    return world


OWN = {"assist": {"assist": "read", "vision": "403 Forbidden"}, "vision": {"vision": "read", "assist": "403 Forbidden"}}


def test_each_tenants_pod_is_asked_for_the_artifacts_of_all() -> None:
    seen = identity.look(tenants(OWN).site())
    assert seen.state is VerifyState.PASSED
    assert seen.evidence[:2] == ("A pod of assist reads its own artifact.", "S3 refuses it those of vision (403).")


def test_a_pod_that_reads_anothers_artifact_is_found() -> None:
    seen = identity.look(tenants({**OWN, "vision": {"vision": "read", "assist": "read"}}).site())
    assert facts(seen) == "A pod of vision reads s3://artifacts/assist/m/1/model.onnx, which is assist's"


def test_a_pod_without_credentials_of_its_own_is_found() -> None:
    seen = identity.look(
        tenants({**OWN, "assist": {"assist": "no credentials: HTTP Error 403: Forbidden", "vision": "403 Forbidden"}}).site()
    )
    assert "A pod of assist cannot read its own s3://artifacts/assist/m/1/model.onnx (no credentials" in facts(seen)


def test_a_tenant_whose_pods_do_not_run_is_not_called_well() -> None:
    world = tenants(OWN)
    world.lists["/api/v1/namespaces/vision/pods"] = [
        {"metadata": {"name": "v"}, "spec": {"containers": [SERVER]}, "status": {"phase": "Pending"}}
    ]
    seen = identity.look(world.site())
    assert (seen.state, seen.unanswered) == (VerifyState.UNANSWERED, ("Tenant vision has no running pod that could be asked.",))


def test_a_pod_that_cannot_be_asked_leaves_its_tenant_unanswered() -> None:
    def away(*_: Any) -> str:
        raise OutOfReachError("the pod ended")

    world = tenants(OWN)
    world.executed = away
    seen = identity.look(world.site())
    assert seen.state is VerifyState.UNANSWERED and "could not be asked (the pod ended)" in seen.unanswered[0]


def test_where_credentials_are_not_real_no_pod_is_asked() -> None:
    seen = identity.look(tenants({}, lacks={Facility.IDENTITIES: "roles are unknown"}).site())
    assert (seen.state, seen.not_shown) == (VerifyState.NOT_SHOWN, ("No tenant's credentials were used: roles are unknown.",))


# -- scrapes

MONITORS = "/apis/monitoring.coreos.com/v1"
MONITOR = {
    "metadata": {"name": "models", "namespace": "vision"},
    "spec": {"selector": {"matchLabels": {"app": "m"}}, "podMetricsEndpoints": [{"port": "metrics"}]},
}
POD = {"metadata": {"name": "p", "namespace": "vision", "labels": {"app": "m"}}, "status": {"phase": "Running"}}
UP = {"scrapePool": "podMonitor/vision/models/0", "health": "up", "scrapeUrl": "http://10.0.0.1:8002/metrics"}


@contextmanager
def prometheus(*targets: Mapping[str, Any], **changes: Any) -> Generator[World]:
    class Server(Handler):
        def do_GET(self) -> None:
            there = self.path == "/api/v1/targets?state=active"
            self.reply(200 if there else 404, {"data": {"activeTargets": list(targets)}})

    with served(Server) as address:
        lists: dict[str, Any] = {f"{MONITORS}/podmonitors": [MONITOR], "/api/v1/pods": [POD]}
        yield World(lists=lists, metrics_address=f"{address}, http://127.0.0.1:1", **changes)


def test_every_monitor_with_a_target_that_is_up_passes() -> None:
    with prometheus(UP) as world:
        seen = scrapes.look(world.site())
    assert (seen.state, seen.evidence) == (VerifyState.PASSED, ("1 of 1 targets of 1 scrape pools are up.",))


def test_a_monitor_that_selects_pods_and_has_no_target_is_found() -> None:
    with prometheus() as world:
        assert facts(scrapes.look(world.site())) == "podMonitor/vision/models/0 has no target, and selects 1 running pods"


def test_a_target_that_does_not_answer_is_found_with_its_error() -> None:
    with prometheus({**UP, "health": "down", "lastError": "connection refused"}) as world:
        assert facts(scrapes.look(world.site())) == "Target http://10.0.0.1:8002/metrics is down: connection refused"


def test_a_pod_that_does_not_run_is_expected_of_no_monitor() -> None:
    with prometheus() as world:
        world.lists["/api/v1/pods"] = [{**POD, "status": {"phase": "Pending"}}]
        assert scrapes.look(world.site()).problems == ()


def test_monitors_that_a_stand_in_does_not_read_are_not_called_well() -> None:
    with prometheus(lacks={Facility.SCRAPES: "by PodMonitors alone"}) as world:
        assert scrapes.look(world.site()).state is VerifyState.NOT_SHOWN


def test_without_a_prometheus_nothing_is_said_of_scrapes() -> None:
    seen = scrapes.look(World(metrics_hint="; bring one up").site())
    assert (seen.state, seen.unanswered) == (VerifyState.UNANSWERED, ("No Prometheus is known; bring one up.",))


def test_a_prometheus_that_is_away_is_out_of_reach() -> None:
    with pytest.raises(OutOfReachError, match="does not answer"):
        scrapes.look(World(metrics_address="http://127.0.0.1:1").site())


# -- releases

PROMOTED = EndedRelease(service="vision/defects", release="r1", status="promoted", time="2026-11-23T12:00:00Z", decided=4)


def released(*releases: EndedRelease) -> Sighting:
    site = World().site()
    site.ended_releases = lambda: releases
    return sample.look(site)


def test_a_release_that_its_evidence_still_promotes_passes() -> None:
    assert released(PROMOTED).state is VerifyState.PASSED


def test_a_decision_that_its_counts_do_not_give_is_found() -> None:
    seen = released(PROMOTED, replace(PROMOTED, service="assist/chat", flaws=("decision 3 does not follow from its counts",)))
    assert facts(seen) == "assist/chat: decision 3 does not follow from its counts"


def test_an_environment_that_never_released_is_not_called_well() -> None:
    assert released(replace(PROMOTED, status="rolled_back")).state is VerifyState.UNANSWERED
    assert released().state is VerifyState.UNANSWERED


def test_a_ledger_that_cannot_be_read_is_told_by_its_reader() -> None:
    def away() -> tuple[EndedRelease, ...]:
        raise UserError("The ledger does not answer.", "Nothing was read.", "Try again.")

    site = World().site()
    site.ended_releases = away
    with pytest.raises(UserError):
        sample.look(site)


def test_where_nobody_looks_into_a_ledger_there_is_nothing_to_check() -> None:
    assert sample.look(World().site()).state is VerifyState.NOTHING
