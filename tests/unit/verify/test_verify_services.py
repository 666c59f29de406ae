"""Mesh, scrapes, alerts, identities and releases: what is shown where all is well, and each planted fault."""

from typing import Any

import pytest

from components.labels import labels
from components.observability import routes
from components.platform import mesh as platform_mesh
from components.tenant import isolation
from headway.verify import alerts, identity, mesh, sample, scrapes
from headway.verify.alerts import AlertReceiver, Deliveries
from headway.verify.identity import TenantArtifact
from headway.verify.outcome import VerifyState
from headway.verify.probe import ProbeSeen
from headway.verify.sample import EndedRelease
from tests.components.contracts import SURROUNDINGS
from tests.contract_samples import model

TENANT = {"metadata": {"name": "vision", "labels": {"istio-injection": "enabled"}}}
PROXIED = {
    "metadata": {"name": "p", "namespace": "vision"},
    "spec": {"containers": [{"name": "server"}], "initContainers": [{"name": "istio-proxy"}]},
}


def peers() -> list[dict[str, Any]]:
    made = [manifest.body for manifest in platform_mesh.manifests(hosts=["x.example"], certificate=None, region="us-east-1")]
    every = [*made, *(body for _, body in isolation.mesh_rules("vision", SURROUNDINGS, []))]
    return [body for body in every if body["kind"] == "PeerAuthentication"]


def test_what_the_layers_render_demands_encryption() -> None:
    assert mesh.judge_objects([TENANT], peers(), {"vision": [PROXIED]}).state is VerifyState.PASSED


def facts(seen: Any) -> str:
    assert all(problem.consequence and problem.remedy and problem.subject for problem in seen.problems)
    return "\n".join(problem.fact for problem in seen.problems)


def test_a_namespace_that_takes_plain_text_is_found() -> None:
    permissive = {"metadata": {"namespace": "vision", "name": "debug"}, "spec": {"mtls": {"mode": "PERMISSIVE"}}}
    assert "PeerAuthentication vision/debug is PERMISSIVE" in facts(mesh.judge_objects([TENANT], [*peers(), permissive], {}))
    port = {"metadata": {"namespace": "vision", "name": "port"}, "spec": {"portLevelMtls": {"8000": {"mode": "DISABLE"}}}}
    assert "PeerAuthentication vision/port is DISABLE" in facts(mesh.judge_objects([TENANT], [*peers(), port], {}))


def test_a_mesh_without_its_own_demand_is_found() -> None:
    own = [body for body in peers() if body["metadata"]["namespace"] == "vision"]
    assert "No PeerAuthentication of istio-system demands" in facts(mesh.judge_objects([TENANT], own, {}))


def test_pods_and_namespaces_outside_of_the_mesh_are_found() -> None:
    bare = {"metadata": {"name": "bare", "namespace": "vision"}, "spec": {"containers": [{"name": "server"}]}}
    out = {"metadata": {"name": "assist", "labels": {}}}
    said = facts(mesh.judge_objects([TENANT, out], peers(), {"vision": [PROXIED, bare]}))
    assert "Pod bare of vision has no proxy" in said and "Namespace assist does not ask" in said


def answered(answer: str) -> ProbeSeen:
    return ProbeSeen(phase="Succeeded", word={"answer": answer})


@pytest.mark.parametrize(
    ("plain", "trusted", "state", "fact"),
    [
        (answered("reset"), answered("200"), VerifyState.PASSED, ""),
        (answered("200"), answered("200"), VerifyState.FAILED, "answered plain text (200)"),
        (answered("403"), answered("200"), VerifyState.FAILED, "answered plain text (403)"),
        (answered("reset"), answered("503"), VerifyState.FAILED, "by mutual TLS to a server of the mesh was answered 503"),
        (answered("reset"), ProbeSeen(phase="Pending"), VerifyState.UNANSWERED, ""),
    ],
)
def test_plain_text_is_refused_and_mutual_tls_accepted(plain: ProbeSeen, trusted: ProbeSeen, state: VerifyState, fact: str) -> None:
    seen = mesh.judge_answers(plain, trusted)
    assert seen.state is state
    assert fact in facts(seen)


MONITOR = {
    "metadata": {"namespace": "vision", "name": "models"},
    "spec": {"selector": {"matchLabels": {"app": "m"}}, "podMetricsEndpoints": [{"port": "metrics"}]},
}
POD = {"metadata": {"namespace": "vision", "name": "p", "labels": {"app": "m"}}}
POOL = "podMonitor/vision/models/0"


def target(health: str = "up", **more: str) -> dict[str, str]:
    return {"scrapePool": POOL, "scrapeUrl": "http://10.0.0.1:8002/metrics", "health": health, **more}


def test_every_monitor_has_targets_and_each_is_up() -> None:
    wanted = scrapes.pools("podMonitor", [MONITOR], [POD])
    assert [(pool.name, pool.picks) for pool in wanted] == [(POOL, 1)]
    assert scrapes.judge(wanted, [target()]).evidence == ("1 of 1 targets of 1 scrape pools are up.",)
    assert "is down: connection refused" in facts(scrapes.judge(wanted, [target("down", lastError="connection refused")]))
    assert f"{POOL} has no target, and selects 1 running pods" in facts(scrapes.judge(wanted, []))
    assert scrapes.judge(wanted, [], "only processes are scraped").state is VerifyState.NOT_SHOWN


def test_a_monitor_that_selects_nothing_lacks_nothing() -> None:
    elsewhere = {"metadata": {"namespace": "assist", "name": "p", "labels": {"app": "m"}}}
    assert scrapes.judge(scrapes.pools("podMonitor", [MONITOR], [elsewhere]), []).problems == ()
    anywhere = {**MONITOR, "spec": {**MONITOR["spec"], "namespaceSelector": {"any": True}}}
    assert scrapes.pools("podMonitor", [anywhere], [elsewhere])[0].picks == 1


def configs() -> list[dict[str, Any]]:
    own = routes.tenant_routes("vision", [model()])
    assert own is not None
    return [routes.platform_routes(), own]


def test_an_alert_is_made_for_each_receiver_that_the_layers_name() -> None:
    found = {each.name: each.labels for each in alerts.receivers(configs())}
    receiver = model().observability.receiver
    assert found == {
        "monitoring/platform/platform-oncall": {"severity": "page"},
        "monitoring/platform/platform-tickets": {},
        "monitoring/platform/heartbeat": {"severity": "heartbeat"},
        f"vision/alerts/{receiver}": {"namespace": "vision"},
    }
    made = alerts.alerts(alerts.receivers(configs()), "headway-verify-1")
    assert len({each["labels"]["verification"] for each in made}) == 4
    assert all("nothing is wrong" in each["annotations"]["summary"] for each in made)


ONE = (AlertReceiver(name="monitoring/platform/heartbeat", labels={"severity": "heartbeat"}),)
KNOWN = frozenset({"monitoring/platform/heartbeat"})
NONE = Deliveries({}, {})


@pytest.mark.parametrize(
    ("known", "after", "state", "fact"),
    [
        (KNOWN, Deliveries({ONE[0].name: 1.0}, {ONE[0].name: 0.0}), VerifyState.PASSED, ""),
        (
            KNOWN,
            Deliveries({ONE[0].name: 3.0}, {ONE[0].name: 3.0}),
            VerifyState.FAILED,
            "3 notifications were sent to it, and it took none",
        ),
        (KNOWN, Deliveries({"another": 3.0}, {}), VerifyState.FAILED, "no notification was sent to it"),
        (frozenset[str](), NONE, VerifyState.FAILED, "the operator left its AlertmanagerConfig out"),
        (KNOWN, NONE, VerifyState.UNANSWERED, ""),
    ],
)
def test_a_receiver_that_takes_no_alert_is_found(known: frozenset[str], after: Deliveries, state: VerifyState, fact: str) -> None:
    seen = alerts.judge(ONE, known, NONE, after)
    assert seen.state is state
    assert fact in facts(seen)


def test_requests_are_counted_by_receiver_over_all_replicas() -> None:
    text = (
        'alertmanager_notification_requests_total{integration="webhook",receiver_name="a/b/c"} 2\n'
        'alertmanager_notification_requests_failed_total{integration="webhook",receiver_name="a/b/c"} 1\n'
        'alertmanager_notifications_total{integration="webhook",receiver_name="a/b/c"} 9\n'
    )
    assert alerts.counted(text + text) == Deliveries({"a/b/c": 4.0}, {"a/b/c": 2.0})


OWN = TenantArtifact(tenant="vision", uri="s3://b/vision/m/1/model.onnx", region="us-east-1")
OTHER = TenantArtifact(tenant="assist", uri="s3://b/assist/m/1/w", region="us-east-1")


@pytest.mark.parametrize(
    ("answers", "state", "fact"),
    [
        ({"vision": "read", "assist": "403 Forbidden"}, VerifyState.PASSED, ""),
        ({"vision": "read", "assist": "read"}, VerifyState.FAILED, "reads s3://b/assist/m/1/w, which is assist's"),
        ({"vision": "403 Forbidden", "assist": "403 Forbidden"}, VerifyState.FAILED, "cannot read its own"),
        ({"vision": "read", "assist": "timed out"}, VerifyState.UNANSWERED, ""),
    ],
)
def test_a_tenant_reads_its_own_artifact_and_no_others(answers: dict[str, str], state: VerifyState, fact: str) -> None:
    seen = identity.judge("vision", (OWN, OTHER), answers)
    assert seen.state is state
    assert fact in facts(seen)


def test_the_fetchers_own_settings_say_what_a_tenant_reads() -> None:
    text = '{"uri": "s3://b/vision/m/1/", "region": "us-east-1", "files": [{"path": "model.onnx"}]}'
    found = identity.artifact("vision", [{"metadata": {"name": "c"}, "data": {"fetch.json": text}}])
    assert found == OWN
    mounted = {"containers": [{"name": "istio-proxy"}, {"name": "server", "volumeMounts": [{"mountPath": "/etc/headway"}]}]}
    assert identity.container_of({"spec": mounted, "status": {"phase": "Running"}}) == "server"
    assert identity.container_of({"spec": mounted, "status": {"phase": "Pending"}}) is None


@pytest.mark.parametrize(
    ("release", "state"),
    [
        (EndedRelease(service="v/d", release="r2", status="promoted", time="t", decided=12), VerifyState.PASSED),
        (EndedRelease(service="v/d", release="r2", status="promoted", time="t", decided=12, flaws=("event 9 lies",)), VerifyState.FAILED),
        (EndedRelease(service="v/d", release="r2", status="rolled back", time="t", decided=12), VerifyState.UNANSWERED),
        (EndedRelease(service="v/d", release="r2", status="promoted", time="t", decided=0, undecided=3), VerifyState.UNANSWERED),
    ],
)
def test_a_release_counts_where_its_decisions_follow_from_its_counts(release: EndedRelease, state: VerifyState) -> None:
    assert sample.judge((release,)).state is state


def test_labels_of_the_probes_are_no_labels_of_the_layers() -> None:
    assert labels("verification")["app.kubernetes.io/managed-by"] != "headway-verify"
