"""Releases by the real command: real API server, real policy packs, the Automation API, real Prometheus. Nobody helps.

Callers, proxies and replicas are stood in for by counters that follow the live route (`release_service.py`). The ledger is on S3: the sandbox's
object store, a process of its own. One sandbox for the file; the tests follow each other, as releases do.
"""

import json
import socket
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlencode, urlsplit
from urllib.request import urlopen

import pytest

from headway.contract.units import Share
from headway.environment.kubernetes import KubernetesApi
from headway.problem import UserError
from headway.release.driver.live_service import ROUTES, LiveService, route_of
from headway.release.evidence import queries
from headway.release.guard import ReleaseGuard
from headway.wire import SAFE_RELEASE, WATCHED_UNTIL
from sandbox.cloud import objectstore
from sandbox.cluster.control_plane import SandboxCluster
from sandbox.cluster.processes import Supervisor
from sandbox.cluster.toolchain import ensure_toolchain
from sandbox.layout import Layout
from sandbox.monitoring.servers import folder_of
from sandbox.progress import Silent
from tests.cluster.command import Sandbox
from tests.cluster.conftest import eventually
from tests.cluster.release.release_bed import BUCKET, EXPERIMENT, FILTER, PREFIX, PROJECT, ROLLOUT, SERVICE, SPEED, Bed, Onlooker
from tests.cluster.release.release_service import Behaviour, Traffic, exported
from tests.cluster.release.wire import State, Wire, careless

pytestmark = [pytest.mark.slow, pytest.mark.timeout(2400)]


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    ensure_toolchain(Layout.of(PROJECT), Silent())
    sandbox = Sandbox(tmp_path_factory.mktemp("release"))
    wires: list[Wire] = []

    def wire(port: int) -> Wire:
        wires.append(Wire(port))
        return wires[-1]

    try:
        with pytest.MonkeyPatch.context() as patch:
            address = objectstore.ensure_running(sandbox.layout, Silent())
            for name, value in objectstore.environment(sandbox.layout).items():
                patch.setenv(name, value)
            made = objectstore.client("s3", "us-west-2", address)
            made.create_bucket(
                Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "us-west-2"}, ObjectLockEnabledForBucket=True
            )
            store = wire(urlsplit(address).port or 0)
            sandbox.environment |= {
                **objectstore.environment(sandbox.layout),
                "AWS_ENDPOINT_URL_S3": store.url,
                "AWS_DEFAULT_REGION": "us-west-2",
            }
            sandbox.environment |= {"HEADWAY_SANDBOX_LEDGER": f"s3://{BUCKET}/{PREFIX.rstrip('/')}"}
            code, output = sandbox.run("sandbox", "up", "--with", "monitoring")
            assert code == 0, output
            prometheus, api_server = (wire(Supervisor(sandbox.layout).port(name)) for name in ("prometheus", "kube-apiserver"))
            sandbox.environment |= {"HEADWAY_PROMETHEUS": prometheus.url}
            api = KubernetesApi(str(sandbox.layout.kubeconfig))
            onlooker, bad = Onlooker(api, "vision", "defects"), set[str]()
            how = lambda release: Behaviour(slower=1.8 if release in bad else 1.0)  # noqa: E731
            with Traffic(onlooker, how) as traffic, exported(traffic, "vision") as target:
                file = folder_of(sandbox.layout) / "targets" / "mesh.json"
                file.write_text(json.dumps([{"targets": [target], "labels": {"job": "mesh"}}]), encoding="utf-8")
                eventually(lambda: scrapes(sandbox) >= 10, within=120.0)  # some history, as every service in use has
                yield Bed(sandbox, api, traffic, onlooker.looks, store, prometheus, api_server, address, bad)
    finally:
        for one in wires:
            one.close()
        sandbox.run("sandbox", "down")


def scrapes(sandbox: Sandbox) -> float:
    """How often Prometheus has looked at the service."""
    address = f"http://127.0.0.1:{Supervisor(sandbox.layout).port('prometheus')}"
    query = urlencode({"query": f"max(count_over_time({queries.REQUESTS}[5m]))"})
    with urlopen(f"{address}/api/v1/query?{query}", timeout=10) as answer:
        result = json.load(answer)["data"]["result"]
    return float(result[0]["value"][1]) if result else 0.0


def test_a_slower_version_is_rolled_back_unattended_and_no_user_met_it(bed: Bed) -> None:
    stable = next(iter(bed.route()))
    release = bed.write("2027.1.1")
    bed.bad.add(release)
    code, output = bed.sandbox.run("release", "start", SERVICE, "--speed", SPEED, "--reason", "half the size")
    assert code == 5, output
    assert "Requests are slower than the policy tolerates" in output
    assert bed.route() == {stable: 100}
    assert not any(route.weights.get(release) for _, route in bed.traffic.log), "copies were enough to tell"
    after = [e for e in bed.ledger.read() if e.kind in ("shifted", "drained", "applied", "ended")][-4:]
    assert [e.kind for e in after] == ["shifted", "drained", "applied", "ended"]
    assert after[1].body["measured"], "Prometheus saw the last request to it"
    assert after[3].body["diagnosis"]["diagnoses"], after[3].body.get("undiagnosed")
    assert bed.sandbox.run("release", "verify", SERVICE)[0] == 0


def test_an_update_keeps_the_serving_release_and_says_how_to_start_the_next(bed: Bed) -> None:
    before = bed.route()
    bed.write("2027.1.2")
    code, output = bed.sandbox.run("sandbox", "up", "--with", "monitoring")
    assert code == 0, output
    assert f"headway release start {SERVICE}" in " ".join(output.split())
    assert bed.route() == before


def test_a_good_version_is_promoted_though_its_machine_and_networks_failed(bed: Bed) -> None:
    """Two runners, a killed one on a machine that is gone, each network cut, silent or slow in the middle of a step, a new API server.
    All with the rights of the tenant's role for release runners."""
    release = bed.write("2027.1.2")
    with bed.through_the_wire():
        first = bed.sandbox.begin_on("elsewhere", "release", "start", SERVICE, "--speed", SPEED)
        first.until(r"The next traffic split is 25 % of requests")
        second = bed.sandbox.begin("release", "start", SERVICE, "--speed", SPEED, "--output", "json")
        second.until(r"Following it")
        first.die()
        assert bed.sandbox.run("release", "status", SERVICE)[0] == 6
        second.until(r"taking over")
        bed.next_tick()
        bed.delete_the_lease()
        with bed.prometheus.being(State.CUT):
            eventually(lambda: not bed.next_tick()["answered"], within=120.0)
        with bed.store.being(State.CUT):
            eventually(lambda: bed.store.met >= 3, within=60.0)
        with bed.store.being(State.SLOW):
            bed.next_tick()
        with bed.api_server.being(State.SILENT):
            eventually(lambda: bed.api_server.met >= 2, within=60.0)
        bed.sandbox.kill("kube-apiserver")
        SandboxCluster(bed.sandbox.layout).start(Silent())
        bed.write_runners_kubeconfig()  # the start wrote the administrator's kubeconfig again
        code, output = second.end()
        assert code == 0, output
    assert json.loads(output.splitlines()[-1])["end"]["outcome"] == "promoted"
    assert bed.route() == {release: 100}
    assert {Share.percent(25), Share.percent(100)} <= {route.weights.get(release) for _, route in bed.traffic.log}
    events = bed.ledger.read()
    begun = max(event.number for event in events if event.kind == "started")
    holders = [event.body["holder"] for event in events[begun:] if event.kind == "lease"]
    machines = [holder.partition("@")[2].partition("/")[0] for holder in holders]
    assert machines == ["elsewhere", socket.gethostname()], "renewals are no events, nor is a deleted lease that is shown again"


def test_whoever_might_get_an_unproven_version_was_watched_over_all_the_time(bed: Bed) -> None:
    """At every look at the live route in all of the above: one release had everything, or somebody had said until when he watches."""
    assert len(bed.looks) > 100
    divided = [look for look in bed.looks if Share.percent(100) not in look.route.weights.values() or look.route.mirrored]
    assert divided
    assert all(look.watched_until and look.watched_until > look.time for look in divided)


MESH = "networking.istio.io"
NOT_A_RUNNERS = (
    ("get", "secrets", "vision", "", ""),
    ("create", "pods", "vision", "", ""),
    ("patch", "resourcequotas", "vision", "", ""),
    ("patch", "roles", "vision", "rbac.authorization.k8s.io", ""),
    ("create", "rolebindings", "vision", "rbac.authorization.k8s.io", ""),
    ("patch", "authorizationpolicies", "vision", "security.istio.io", ""),
    ("create", "serviceaccounts", "vision", "", "token"),
    ("delete", "namespaces", "vision", "", ""),
    ("create", "pods", "assist", "", "exec"),
    ("get", "pods", "assist", "", "log"),
    ("patch", "virtualservices", "assist", MESH, ""),
    ("patch", "envoyfilters", "istio-ingress", MESH, ""),
    ("patch", "nodes", "", "", ""),
)


def test_the_runner_of_that_release_could_have_done_no_more(bed: Bed) -> None:
    assert bed.may("patch", "virtualservices", group=MESH)
    assert bed.may("create", "pods", subresource="exec")
    granted = [what for what in NOT_A_RUNNERS if bed.may(*what)]
    assert granted == []


def test_a_release_is_told_beforehand_what_its_runner_may_write(bed: Bed) -> None:
    asked = LiveService(bed.runners_api(), "vision", "defects")
    assert asked.may_patch(MESH, "virtualservices")
    assert not asked.may_patch(MESH, "envoyfilters")


def test_a_store_that_lets_a_second_writer_through_is_refused_at_the_start(bed: Bed) -> None:
    bed.write("2027.1.3")
    before = len(bed.ledger.read())
    with careless(bed.store) as address:
        code, output = bed.sandbox.run("release", "start", SERVICE, "--speed", SPEED, AWS_ENDPOINT_URL_S3=address)
    assert (code, "does not enforce conditional writes" in " ".join(output.split())) == (3, True), output
    assert len(bed.ledger.read()) == before


def test_what_became_of_it_can_be_read_and_proved(bed: Bed, tmp_path: Path) -> None:
    code, output = bed.sandbox.run("release", "verify", SERVICE, "--output", "json")
    assert (code, json.loads(output)["sound"]) == (0, True)
    assert json.loads(output)["decisions"] > 10
    assert bed.sandbox.run("release", "report", SERVICE, "--out", str(tmp_path / "report.html"))[0] == 0
    assert "<h1>Promoted</h1>" in (tmp_path / "report.html").read_text(encoding="utf-8")
    _, history = bed.sandbox.run("release", "history", SERVICE, "--output", "json")
    assert [one["outcome"] for one in json.loads(history)] == ["rolled back", "promoted"]


def test_after_a_promotion_an_update_changes_nothing(bed: Bed) -> None:
    before = bed.sandbox.objects("vision")
    bed.sandbox.run("sandbox", "up", "--with", "monitoring")
    assert bed.sandbox.objects("vision") == before


def test_an_experiment_splits_users_on_the_real_cluster_until_a_person_ends_it(bed: Bed) -> None:
    stable = next(iter(bed.route()))
    release = bed.write("2027.1.4", EXPERIMENT)
    runner = bed.sandbox.begin("release", "start", SERVICE, "--speed", SPEED)
    runner.until(r"The next traffic split is 20 % of users")
    assert bed.next_tick()["answered"]
    live = bed.api.get(f"{ROUTES.format('vision')}/defects")
    assert live is not None
    assert (route_of(live).led, bed.route()) == (("tone", release), {stable: 100})
    made = bed.api.get(FILTER)
    assert made is not None
    assert '"below": 2000' in json.dumps(made["spec"])
    scaled = [bed.api.get(f"/apis/keda.sh/v1alpha1/namespaces/vision/scaledobjects/defects-{one}") or {} for one in (stable, release)]
    most = [one["spec"]["maxReplicaCount"] for one in scaled]
    assert most == [5, 2], "six at most, of which users of the new version need two; with the one it began with, seven in all"
    code, output = bed.sandbox.run("release", "assign", SERVICE, "carol", "--output", "json")
    found = json.loads(output)
    assert (code, found["bucket"], found["arm"], found["release"], found["divided"]) == (0, 880, "canary", release, True)
    assert bed.sandbox.run("release", "promote", SERVICE, "--reason", "conversion rose")[0] == 0
    code, output = runner.end()
    assert code == 0, output
    assert bed.route() == {release: 100}
    assert bed.api.get(FILTER) is None
    assert bed.sandbox.run("release", "verify", SERVICE)[0] == 0


def test_a_ledger_away_too_long_costs_a_release_its_users_and_is_told_later(bed: Bed) -> None:
    """Whoever comes first takes them back, the guard or the runner who can read no wish; both need the API server only."""
    stable = next(iter(bed.route()))
    rollout = {name: value for name, value in ROLLOUT.items() if name != "mirror"}
    release = bed.write("2027.1.5", {**rollout, "unwatched_at_most": "1m"})
    runner = bed.sandbox.begin("release", "start", SERVICE, "--speed", SPEED)
    eventually(lambda: bed.route() == {stable: 75, release: 25}, within=300.0)
    bed.next_tick()  # the runner watches now, and has no update under way that would fail for want of a ledger
    with bed.store.being(State.CUT):
        cut = time.monotonic()
        eventually(lambda: bed.route() == {stable: 100}, within=300.0)
        eventually(lambda: time.monotonic() - cut > 90, within=120.0)
        assert bed.route() == {stable: 100}
    code, output = runner.end()
    assert code == 5, output
    assert "the ledger was out of reach for longer than its contract lets it be unwatched" in " ".join(output.split())
    assert bed.sandbox.run("release", "verify", SERVICE)[0] == 0


def test_a_release_that_nobody_watches_any_more_loses_its_traffic_to_the_guard(bed: Bed) -> None:
    """Runner and machine are gone; what is left is a route that gives something to an unproven release, and a time that has passed.
    Odd routes that would come before it are refused by the API server already."""
    path = f"{ROUTES.format('vision')}/defects"
    live = bed.api.get(path)
    assert live is not None
    stable = next(iter(bed.route()))
    entry = next(r for r in live["spec"]["http"] if r["name"] == "weights")
    other = {**entry["route"][0], "weight": 10, "headers": {"response": {"set": {"x-model-release": "runproven"}}}}
    entry["route"] = [{**entry["route"][0], "weight": 90}, other]
    to = [{"destination": entry["route"][0]["destination"]}]
    for name, rule in (("a-weightless", {"name": "weights", "route": to}), ("b-split", {"name": "split", "route": to})):
        head = {"name": name, "annotations": {WATCHED_UNTIL: "soon", SAFE_RELEASE: "r1"}}
        odd = {"apiVersion": live["apiVersion"], "kind": live["kind"], "metadata": head}
        with pytest.raises(UserError, match="routes-of-own-models"):
            bed.api.request("POST", ROUTES.format("vision"), None, {**odd, "spec": {"hosts": live["spec"]["hosts"], "http": [rule]}})
    past = (datetime.now(UTC) - timedelta(seconds=5)).isoformat()
    notes = {WATCHED_UNTIL: past, SAFE_RELEASE: stable}
    body = {"metadata": {"annotations": notes}, "spec": {"http": live["spec"]["http"]}}
    bed.api.request("PATCH", path, {"fieldManager": "test"}, body, "application/merge-patch+json")
    seen = ReleaseGuard(bed.api, "vision", "test", lambda: datetime.now(UTC), time.monotonic).look()
    assert (bed.route(), seen.taken) == ({stable: 100}, ("defects",))
    assert not seen.missed
