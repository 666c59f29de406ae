"""`headway rehearse`: what goes in comes out again, whoever is on call is told as by night, and the end says what was true."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml
from typer.testing import CliRunner

from components.observability.alerts import ALERTS
from headway.cli.main import app
from headway.problem import Exit, UserError
from headway.release.driver.event_kinds import ReleaseOutcome
from sandbox.cli import rehearse
from sandbox.cluster.processes import Supervisor
from sandbox.layout import Layout
from sandbox.rehearsal import pages, rehearsal
from sandbox.rehearsal.bed import RehearsalBed
from sandbox.rehearsal.catalogue import FAULTS
from sandbox.rehearsal.faults import ACTS
from sandbox.rehearsal.rehearsal import Watch
from sandbox.traffic import load_process
from sandbox.traffic.kube import Gone
from sandbox.traffic.load_process import UsersTally
from sandbox.traffic.node.gpu_counters import SCRIPT
from tests import dry_runs
from tests.loopback import Handler, served

PROJECT = Path(__file__).parents[4]
BEHAVIOUR = '{"error_share": 0.0, "median_ms": 20.0}\n'
CONTRACT = "batching: {max_queue: 64}  # of people\nrollout: {weights: [10%], mirror: {share: 100%}}\n"
QUOTA = "/api/v1/namespaces/quality/resourcequotas"
DEPLOYMENTS = "/apis/apps/v1/namespaces/quality/deployments"
SEARCH = "/apis/apps/v1/namespaces/search/deployments"
FOREIGN = "/apis/apps/v1/namespaces/default/deployments"
PUSHED = "registry.example.com/triton:1@sha256:12"
TEMPLATE = {
    "template": {"spec": {"containers": [{"name": "server", "image": PUSHED}], "initContainers": [{"name": "fetch", "image": PUSHED}]}}
}
NO_NEIGHBOURS = {
    "metadata": {"name": "no-foreign-neighbours"},
    "spec": {"hard": {"pods": "0"}, "scopeSelector": {"matchExpressions": [{"scopeName": "CrossNamespacePodAffinity"}]}},
}
"""Each tenant has this quota too; it counts only pods of its scope."""
NODES = "/api/v1/nodes"


def on_gpu(node: str, priority: int) -> Mapping[str, Any]:
    """A pod that holds one GPU of the node."""
    container = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    return {"spec": {"nodeName": node, "priority": priority, "containers": [container]}}


class Cluster:
    """What the faults ask and write of the API server."""

    def __init__(self) -> None:
        self.written: list[tuple[str, Any]] = []
        self.gone: set[str] = set()
        self.conditions: list[Mapping[str, Any]] = [{"type": "Ready", "status": "True"}]

    def get(self, path: str) -> Mapping[str, Any]:
        made = {"metadata": {"name": "classifier-r1", "creationTimestamp": "1", "generation": 1}, "spec": {"replicas": 1, **TEMPLATE}}
        made |= {"status": {"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2}}
        old = {"metadata": {"name": "classifier-r0", "creationTimestamp": "2"}, "spec": {"replicas": 0}}
        quota = {"metadata": {"name": "quality"}, "spec": {"hard": {"pods": "20"}}, "status": {"used": {"pods": "1"}}}
        gpus = {"status": {"allocatable": {"nvidia.com/gpu": "4"}}}
        pools = [
            {"metadata": {"name": "l4-0"}, "spec": {}, **gpus},
            {"metadata": {"name": "l4-1"}, "spec": {"unschedulable": True}, **gpus},
        ]
        load_test = f"{FOREIGN}/load-test"
        return {
            DEPLOYMENTS: {"items": [made, old]},
            SEARCH: {"items": [{**made, "metadata": {"name": "encoder-r1", "creationTimestamp": "1"}}]},
            f"{DEPLOYMENTS}/classifier-r1": made,
            load_test: {"status": {"readyReplicas": sum(body["spec"]["replicas"] for path, body in self.written if path == FOREIGN)}},
            "/api/v1/pods": {"items": [on_gpu("l4-0", 40000), on_gpu("l4-1", 20000), on_gpu("l4-1", -10), on_gpu("h100-0", 0)]},
            QUOTA: {"items": [{"metadata": {"name": "gpus"}, "spec": {"hard": {"cpu": "1"}}}, NO_NEIGHBOURS, quota]},
            f"{NODES}?labelSelector=platform.io%2Fpool%3Dl4": {"items": pools},
            "/api/v1/namespaces/quality/pods?labelSelector=platform.io%2Fmodel%3Dclassifier": {"items": [{"spec": {"nodeName": "l4-0"}}]},
            f"{NODES}/l4-0": {"status": {"conditions": self.conditions}},
        }[path]

    def merge(self, path: str, body: Any) -> None:
        if path in self.gone:
            raise Gone(path)
        self.written.append((path, body))

    create = merge

    def delete(self, path: str) -> None:
        self.written.append((path, None))


@pytest.fixture
def layout(tmp_path: Path) -> Layout:
    (tmp_path / "state").mkdir()
    return Layout(project=tmp_path, state=tmp_path / "state", cache=tmp_path)


@pytest.fixture
def behaviour(layout: Layout) -> Path:
    path = layout.state / "traffic/node/pods/quality_classifier-r1-abc/model/classifier/1/behaviour.json"
    path.parent.mkdir(parents=True)
    path.write_text(BEHAVIOUR)
    return path


def bed(layout: Layout, cluster: Cluster | None = None) -> RehearsalBed:
    return RehearsalBed(layout, cast(Any, cluster or Cluster()))


# What there is ----------------------------------------------------------------------------------------------------------------------


def test_a_dozen_faults_can_be_put_in_and_each_is_described() -> None:
    assert len(FAULTS) >= 15
    assert ACTS.keys() == FAULTS.keys()


@pytest.mark.parametrize("fault", FAULTS.values(), ids=lambda fault: fault.name)
def test_the_alert_of_a_fault_is_one_that_somebody_raises(fault: Any) -> None:
    assert fault.alert in {None, "ReleaseStuck", "SloBurnRate", *(alert.name for alert in ALERTS)}


@pytest.mark.parametrize("line", sorted({line for fault in FAULTS.values() for line in fault.shown_by}))
def test_what_would_have_shown_a_fault_is_a_command_that_exists(line: str) -> None:
    assert dry_runs.wrong_in(line) is None


def test_no_surprise_comes_again_before_all_have_come_nor_twice_in_a_row(layout: Layout) -> None:
    def first(names: Sequence[str]) -> str:
        return names[0]

    assert sorted(rehearsal.draw(layout, first) for _ in FAULTS) == sorted(FAULTS)
    last = sorted(FAULTS)[-1]
    again = rehearsal.draw(layout, lambda names: names[-1])
    assert again == sorted(FAULTS)[-2] != last


# In and out -------------------------------------------------------------------------------------------------------------------------


def test_a_version_behaves_otherwise_and_then_as_before(layout: Layout, behaviour: Path) -> None:
    rehearsal.begin(bed(layout), "errors")
    assert json.loads(behaviour.read_text()) == {"error_share": 0.2, "median_ms": 20.0}
    assert rehearsal.undo(bed(layout)) == "errors"
    assert behaviour.read_text() == BEHAVIOUR


def test_a_pod_that_has_gone_meanwhile_is_not_put_back(layout: Layout, behaviour: Path) -> None:
    rehearsal.begin(bed(layout), "slow")
    behaviour.unlink()
    behaviour.parent.rmdir()
    assert rehearsal.undo(bed(layout)) == "slow"


def test_a_full_quota_is_written_before_the_replica_is_asked_for(layout: Layout) -> None:
    cluster = Cluster()
    rehearsal.begin(bed(layout, cluster), "quota")
    limit, scale = (f"{QUOTA}/quality", "pods"), f"{DEPLOYMENTS}/classifier-r1/scale"
    assert cluster.written == [(limit[0], {"spec": {"hard": {"pods": "1"}}}), (scale, {"spec": {"replicas": 2}})]
    cluster.written.clear()
    rehearsal.undo(bed(layout, cluster))
    assert cluster.written == [(scale, {"spec": {"replicas": 1}}), (limit[0], {"spec": {"hard": {"pods": "20"}}})]


def test_only_nodes_that_took_pods_before_take_them_again(layout: Layout) -> None:
    cluster = Cluster()
    rehearsal.begin(bed(layout, cluster), "unschedulable")
    rehearsal.undo(bed(layout, cluster))
    assert [(path, body) for path, body in cluster.written if path.startswith(NODES)] == [
        (f"{NODES}/l4-0", {"spec": {"unschedulable": True}}),
        (f"{NODES}/l4-0", {"spec": {"unschedulable": None}}),
    ]


def test_a_replica_is_taken_from_a_deployment_only_while_it_is_there(layout: Layout) -> None:
    cluster = Cluster()
    rehearsal.begin(bed(layout, cluster), "unschedulable")
    cluster.gone.add(f"{DEPLOYMENTS}/classifier-r1/scale")
    assert rehearsal.undo(bed(layout, cluster)) == "unschedulable"


def test_every_gpu_that_no_model_holds_is_taken_before_the_replica_is_asked_for(layout: Layout) -> None:
    cluster = Cluster()
    rehearsal.begin(bed(layout, cluster), "gpus")
    (place, made), (scaled, _) = cluster.written
    assert (place, scaled) == (FOREIGN, f"{SEARCH}/encoder-r1/scale"), "another tenant's would take the place of search"
    assert made["spec"]["replicas"] == 6, "8 of the pool, without the 2 of models; a placeholder gives way"
    assert made["spec"]["template"]["spec"]["priorityClassName"] == "headway-platform"
    cluster.written.clear()
    rehearsal.undo(bed(layout, cluster))
    assert cluster.written == [(scaled, {"spec": {"replicas": 1}}), (f"{FOREIGN}/load-test", None)]


def test_an_image_that_no_registry_has_is_written_and_later_put_back(layout: Layout) -> None:
    cluster, place = Cluster(), f"{DEPLOYMENTS}/classifier-r1"
    rehearsal.begin(bed(layout, cluster), "image")
    ((path, body),) = cluster.written
    images = {each["image"] for found in body["spec"]["template"]["spec"].values() for each in found}
    assert (path, body["spec"]["replicas"], images) == (place, 2, {f"registry.example.com/triton:1@sha256:{'0' * 64}"})
    cluster.written.clear()
    rehearsal.undo(bed(layout, cluster))
    assert cluster.written == [(place, {"spec": {"replicas": 2, **TEMPLATE}}), (f"{place}/scale", {"spec": {"replicas": 1}})]


class HeldRelease(RehearsalBed):
    """A bed whose ledger and commands are a list; what it is asked, in order."""

    def __init__(self, layout: Layout, ended: ReleaseOutcome | None = None) -> None:
        super().__init__(layout, cast(Any, Cluster()))
        self.asked: list[str] = []
        self.contract.parent.mkdir(parents=True)
        self.contract.write_text(CONTRACT)
        self.ended = ended

    def releases(self) -> Any:
        newest = SimpleNamespace(outcome=self.ended if "end" in self.asked else None)
        under_way = "release" in self.asked and "end" not in self.asked
        return SimpleNamespace(running=newest if under_way else None, all=[newest] if self.asked else [])

    def release_to_users(self) -> None:
        self.asked.append("release")

    def hold_release(self, reason: str) -> None:
        self.asked.append(f"hold: {reason}")

    def end_release(self) -> None:
        self.asked.append("end")


def test_a_release_of_one_more_place_in_the_queue_is_held_and_taken_back(layout: Layout) -> None:
    held = HeldRelease(layout, ReleaseOutcome.ROLLED_BACK)
    rehearsal.begin(held, "stuck")
    assert yaml.safe_load(held.contract.read_text()) == {"batching": {"max_queue": 65}, "rollout": {"weights": ["10%"]}}
    rehearsal.undo(held)
    assert held.asked == ["release", "hold: wait until I am back", "end"]
    assert held.contract.read_text() == CONTRACT


def test_a_held_release_that_on_call_has_promoted_keeps_its_contract(layout: Layout) -> None:
    held = HeldRelease(layout, ReleaseOutcome.PROMOTED)
    rehearsal.begin(held, "stuck")
    rehearsal.undo(held)
    assert "max_queue: 65" in held.contract.read_text()


def test_a_release_of_somebody_is_not_held_for_a_rehearsal(layout: Layout) -> None:
    held = HeldRelease(layout)
    held.asked.append("release")
    with pytest.raises(UserError, match="under way"):
        rehearsal.begin(held, "stuck")
    assert held.asked == ["release"] and not rehearsal.record_of(layout).exists()


def test_a_hot_gpu_is_played_with_its_slow_replica_and_calm_again(layout: Layout, behaviour: Path) -> None:
    script = layout.state / "traffic" / "node" / SCRIPT
    rehearsal.begin(bed(layout), "gpu-hot")
    (node,) = json.loads(script.read_text()).values()
    assert (node["DCGM_FI_DEV_THERMAL_VIOLATION"], json.loads(behaviour.read_text())["median_ms"]) == (6e8, 120.0)
    rehearsal.undo(bed(layout))
    assert (json.loads(script.read_text()), behaviour.read_text()) == ({}, BEHAVIOUR)


def test_a_faulty_gpu_keeps_the_nodes_other_conditions(layout: Layout) -> None:
    cluster = Cluster()
    rehearsal.begin(bed(layout, cluster), "quarantine")
    ((path, body),) = cluster.written
    assert path == f"{NODES}/l4-0/status"
    assert [(each["type"], each["status"], each.get("reason")) for each in body["status"]["conditions"]] == [
        ("Ready", "True", None),
        ("AcceleratedHardwareReady", "False", "NvidiaXID79Error"),
    ]


@pytest.mark.parametrize(
    ("name", "changes"), [("rates", {"rates": {"encoder": 80.0}}), ("token", {"token_seconds": -60.0})], ids=["rates", "token"]
)
def test_users_ask_otherwise_and_then_as_ever(layout: Layout, monkeypatch: pytest.MonkeyPatch, name: str, changes: Any) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(load_process, "start", lambda where, progress, changed: asked.append(changed))
    rehearsal.begin(bed(layout), name)
    rehearsal.undo(bed(layout))
    assert asked == [changes, {}]


def test_a_second_fault_is_refused_until_the_first_is_out(layout: Layout, behaviour: Path) -> None:
    rehearsal.begin(bed(layout), "errors")
    with pytest.raises(UserError, match="rehearse undo") as refused:
        rehearsal.begin(bed(layout), "slow")
    assert refused.value.exit == Exit.BUSY
    assert json.loads(behaviour.read_text())["median_ms"] == 20.0


def test_a_command_that_was_refused_leaves_the_fault_of_another_one_in(layout: Layout, behaviour: Path) -> None:
    put = rehearsal.begin(bed(layout), "errors")
    assert rehearsal.undo(bed(layout), put.pid + 1) is None
    assert json.loads(behaviour.read_text())["error_share"] == 0.2
    assert rehearsal.undo(bed(layout), put.pid) == "errors"


def test_a_fault_that_was_interrupted_halfway_is_taken_out(layout: Layout, behaviour: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put = ACTS["errors"].put

    def interrupted(where: RehearsalBed, kept: Any) -> None:
        put(where, kept)
        raise KeyboardInterrupt

    monkeypatch.setitem(cast(Any, ACTS), "errors", type(ACTS["errors"])(ACTS["errors"].read, interrupted, ACTS["errors"].undo))
    with pytest.raises(KeyboardInterrupt):
        rehearsal.begin(bed(layout), "errors")
    assert behaviour.read_text() == BEHAVIOUR
    assert not rehearsal.record_of(layout).exists()


def test_an_undoing_that_fails_can_be_repeated(layout: Layout, behaviour: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rehearsal.begin(bed(layout), "errors")
    with monkeypatch.context() as broken:
        broken.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
        with pytest.raises(OSError, match="disk full"):
            rehearsal.undo(bed(layout))
    assert rehearsal.undo(bed(layout)) == "errors"
    assert behaviour.read_text() == BEHAVIOUR


# Who is told ------------------------------------------------------------------------------------------------------------------------


def alert(name: str, severity: str = "page", **labels: str) -> dict[str, Any]:
    return {
        "labels": {"alertname": name, "severity": severity, "layer": "request", **labels},
        "annotations": {"summary": f"{name} is so", "runbook_url": "docs/runbooks/slo-burn-rate.md"},
        "activeAt": "2026-11-25T03:00:00Z",
    }


def rules(*alerts: Mapping[str, Any], hold: int = 120) -> Mapping[str, Any]:
    return {"data": {"groups": [{"rules": [{"duration": hold, "alerts": list(alerts)}, {"duration": 0}]}]}}


def prometheus(raised: list[dict[str, Any]]) -> type[Handler]:
    """One that has these alerts whenever it is asked."""

    class Prometheus(Handler):
        def do_GET(self) -> None:
            self.reply(200, rules(*raised))

    return Prometheus


def test_a_page_leads_to_its_runbook_and_says_when_people_hear_of_it() -> None:
    (found,) = pages.alerts_of(rules(alert("SloBurnRate", tenant="quality", owner="x"), alert("Watchdog", "heartbeat")))
    first, where, runbook, board, last = pages.page(found)
    assert first == "PAGE SloBurnRate: SloBurnRate is so"
    assert where == "  tenant quality"
    assert runbook == "  runbook: docs/runbooks/slo-burn-rate.md"
    assert board == "  dashboard: headway sandbox dashboards request"
    assert "people are told at" in last and (found.told_at - found.since).seconds == 120
    assert last.endswith(f"{found.told_at.astimezone(UTC):%H:%M:%S}Z, if it holds until then"), (
        "in the zone of every other time that Headway shows"
    )


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        ({"layer": "request", "tenant": "quality", "model": "classifier", "receiver": "oncall"}, "quality/classifier"),
        ({"layer": "request", "tenant": "quality", "model": "classifier"}, "request"),
        ({"layer": "gpu", "tenant": "quality"}, "gpu"),
        ({"layer": "platform"}, "overview"),
        ({}, "overview"),
    ],
)
def test_a_page_names_the_dashboard_that_its_link_would_open(labels: dict[str, str], name: str) -> None:
    assert pages.dashboard(labels) == name


def test_a_page_with_a_link_to_grafana_names_no_command() -> None:
    raised = alert("GpuXid")
    raised["annotations"]["dashboard_url"] = "https://grafana.example.com/d/headway-gpu"
    (found,) = pages.alerts_of(rules(raised))
    assert not any("sandbox dashboards" in line for line in pages.page(found))


def test_alerts_that_differ_in_their_windows_alone_are_told_once() -> None:
    slow, fast = (pages.alerts_of(rules(alert("SloBurnRate", long_window=long), hold=hold)) for long, hold in (("6h", 900), ("1h", 120)))
    assert [each.labels["long_window"] for each in pages.once_each([*slow, *fast])] == ["1h"]


def test_an_alert_is_told_once_and_one_that_was_there_before_never(layout: Layout) -> None:
    raised = [alert("ReplicasMissing")]

    said: list[str] = []
    with served(prometheus(raised), Supervisor(layout).port("prometheus")):
        watch = Watch.over(layout, said.append)
        raised.append(alert("SloBurnRate"))
        watch.once()
        watch.once()
    watch.once()
    watch.once()
    first, *rest = (line.split(":")[0] for line in said if not line.startswith(" "))
    assert first == "Held before"
    assert rest == ["PAGE SloBurnRate", "Prometheus does not answer"]


def test_an_alert_is_told_again_once_people_hear_of_it_sooner(layout: Layout) -> None:
    slow = {"activeAt": "2026-11-25T03:00:00Z", **alert("SloBurnRate", "ticket", long_window="3d")}
    fast = {**alert("SloBurnRate", "page", long_window="1h"), "activeAt": "2026-11-25T03:01:00Z"}
    answers = [
        rules(),
        rules(slow, hold=10_800),
        {"data": {"groups": [*rules(slow, hold=10_800)["data"]["groups"], *rules(fast)["data"]["groups"]]}},
    ]

    class Prometheus(Handler):
        def do_GET(self) -> None:
            self.reply(200, answers[0])

    said: list[str] = []
    with served(Prometheus, Supervisor(layout).port("prometheus")):
        watch = Watch.over(layout, said.append)
        for _ in range(4):
            answers[:] = answers[1:] or answers
            watch.once()
    assert [line.split(":")[0] for line in said if not line.startswith(" ")] == ["TICKET SloBurnRate", "PAGE SloBurnRate"]


def told_of(layout: Layout, raised: list[dict[str, Any]], clock: datetime) -> list[str]:
    """What is said of alerts that were not there before."""
    said, now = list[str](), list[dict[str, Any]]()
    with served(prometheus(now), Supervisor(layout).port("prometheus")):
        watch = Watch.over(layout, said.append, lambda: clock)
        now.extend(raised)
        watch.once()
    return said


def test_what_comes_in_the_same_notification_is_told_in_a_line(layout: Layout) -> None:
    of_server = {"namespace": "quality", "model": "classifier"}
    found = [alert("ModelServerRestarts", **of_server), alert("SloBurnRate", **of_server), alert("ReplicasMissing", namespace="search")]
    said = told_of(layout, found, datetime(2026, 11, 25, 4, tzinfo=UTC))
    joined = [line for line in said if line.startswith("  with it")]
    assert [line.split(":")[0] for line in said if not line.startswith(" ")] == ["PAGE ModelServerRestarts", "PAGE ReplicasMissing"]
    assert len(joined) == 1
    assert joined[0].endswith(": PAGE SloBurnRate: SloBurnRate is so (docs/runbooks/slo-burn-rate.md)")


def test_a_ticket_is_no_part_of_a_page(layout: Layout) -> None:
    of_server = {"namespace": "quality", "model": "classifier"}
    found = [alert("ModelServerRestarts", **of_server), alert("ModelServerOutOfMemory", "ticket", **of_server)]
    said = told_of(layout, found, datetime(2026, 11, 25, 4, tzinfo=UTC))
    assert not [line for line in said if line.startswith("  with it")]


def test_an_alert_that_has_just_begun_to_hold_is_not_told_yet(layout: Layout) -> None:
    begun = datetime(2026, 11, 25, 3, tzinfo=UTC)
    assert told_of(layout, [alert("ReplicasMissing")], begun + timedelta(seconds=19)) == []
    assert told_of(layout, [{**alert("ReplicasMissing"), "state": "firing"}], begun + timedelta(seconds=1)) != []


def test_an_alert_that_ended_and_came_again_is_told(layout: Layout) -> None:
    raised = [alert("ReplicasMissing")]

    said: list[str] = []
    with served(prometheus(raised), Supervisor(layout).port("prometheus")):
        watch = Watch.over(layout, said.append)
        raised[0] = {**alert("ReplicasMissing"), "activeAt": "2026-11-25T03:05:00Z"}
        watch.once()
    assert [line.split(":")[0] for line in said[1:] if not line.startswith(" ")] == ["PAGE ReplicasMissing"]


def test_what_holds_already_is_said_first_and_what_waited_once_it_fires(layout: Layout) -> None:
    raised = [{**alert("ReplicasMissing"), "state": "firing"}, {**alert("SloBurnRate"), "state": "pending"}]

    said: list[str] = []
    with served(prometheus(raised), Supervisor(layout).port("prometheus")):
        watch = Watch.over(layout, said.append)
        watch.once()
        raised[1]["state"] = "firing"
        watch.once()
    first, *rest = said
    assert first.startswith("Held before: ReplicasMissing, SloBurnRate.")
    assert [line.split(":")[0] for line in rest if not line.startswith(" ")] == ["PAGE SloBurnRate"]
    assert ", before this was broken; people are told at" in rest[-1]


def test_only_what_held_before_is_said_to_have_done_so(layout: Layout) -> None:
    of_server = {"namespace": "quality", "model": "classifier"}
    raised = [{**alert("SloBurnRate", **of_server), "state": "pending"}]
    said: list[str] = []
    with served(prometheus(raised), Supervisor(layout).port("prometheus")):
        watch = Watch.over(layout, said.append)
        raised[:] = [{**alert("ReplicasMissing", **of_server), "state": "firing"}, {**raised[0], "state": "firing"}]
        watch.once()
    assert [("before this was broken" in line) for line in said if "told at" in line] == [False, True]
    assert "held before this was broken: PAGE SloBurnRate" in said[-1]


def test_a_cause_is_told_once_beside_its_page_and_one_from_before_never(layout: Layout) -> None:
    def explained(model: str, figure: str) -> dict[str, Any]:
        said = {"summary": f"quality/{model}: answers take longer", "description": f"{figure} since\nNext: headway logs"}
        return {"labels": {"alertname": "AlertExplained", "model": model, "cause": "model-slower"}, "annotations": said}

    told, said = [explained("encoder", "20 ms")], list[str]()

    class Alertmanager(Handler):
        def do_GET(self) -> None:
            self.reply(200, told)

    keeper = Supervisor(layout)
    with served(prometheus([]), keeper.port("prometheus")), served(Alertmanager, keeper.port("alertmanager")):
        watch = Watch.over(layout, said.append)
        watch.once()
        assert said == []
        told.append(explained("classifier", "149 ms"))
        watch.once()
        told[-1] = explained("classifier", "151 ms")
        watch.once()
    assert said == ["CAUSE quality/classifier: answers take longer", "  149 ms since", "  Next: headway logs"]


def test_the_wait_ends_when_somebody_says_so_or_when_its_time_is_over(layout: Layout) -> None:
    moments = iter(range(100))
    watch, asked = Watch.over(layout, lambda _: None), list[float]()

    def over(seconds: float) -> bool:
        asked.append(seconds)
        return len(asked) == 3

    rehearsal.wait(watch, over, 50.0, lambda: float(next(moments)))
    assert len(asked) == 3
    rehearsal.wait(watch, lambda _: False, 5.0, lambda: float(next(moments)))
    assert next(moments) < 20


# What was true ----------------------------------------------------------------------------------------------------------------------


def users(sent: int, lost: int = 0, refused: int = 0, p99: float | None = None, began: str = "03:00") -> Mapping[str, UsersTally]:
    return {"classifier": UsersTally(sent=sent, lost=lost, refused=refused, p99_ms=p99, began=began)}


def test_the_end_counts_what_users_met_meanwhile() -> None:
    said = rehearsal.truth(FAULTS["errors"], {}, users(1000, 1, 0, 25.0), users(3000, 401, 2, 26.0))
    assert "Users of classifier: 2,000 requests, 400 lost, 2 refused, p99 26 ms (25 ms before)." in said
    assert "No alert told of it." in said
    assert "It had not been told yet: SloBurnRate would have come later." in said
    assert "  headway status quality/classifier -e sandbox" in said


def test_the_end_does_not_promise_an_alert_that_held_before() -> None:
    (held,) = pages.alerts_of(rules(alert("SloBurnRate")))
    said = rehearsal.truth(FAULTS["errors"], {}, {}, {}, {held.key: held})
    assert "It had not been told yet: SloBurnRate held before, so it was not told anew." in said


def test_a_load_that_was_started_anew_is_counted_from_its_start() -> None:
    said = rehearsal.truth(FAULTS["token"], {}, users(900, 5), users(1300, 0, 300, began="03:05"))
    assert "Users of classifier: 1,300 requests, 0 lost, 300 refused." in said


# The command ------------------------------------------------------------------------------------------------------------------------


def refused(*words: str) -> UserError:
    return cast(UserError, CliRunner().invoke(app, ["rehearse", *words, "--project", str(PROJECT)]).exception)


def test_help_lists_every_fault_with_what_it_breaks() -> None:
    said = CliRunner().invoke(app, ["rehearse", "-h"]).output
    assert [name for name in (*FAULTS, "surprise", "undo") if f"  {name} " not in said] == []
    assert "one answer in five fails" in said.lower()
    assert "...\n" not in said.partition("Commands:")[2], "no line of a fault is cut"


def test_any_other_environment_than_the_sandbox_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEADWAY_SANDBOX_HOME", str(tmp_path))
    assert "production" not in str(error := refused("errors", "-e", "prod")) and "prod serves people" in str(error)
    assert error.exit == Exit.USAGE


def test_without_a_demonstration_nothing_is_broken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HEADWAY_SANDBOX_HOME", str(tmp_path))
    assert "make demo-traffic" in str(refused("errors", "-e", "sandbox"))


def test_ctrl_c_ends_a_rehearsal_with_the_truth_and_nothing_broken(
    layout: Layout, behaviour: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> None:
        assert json.loads(behaviour.read_text())["error_share"] == 0.2
        raise KeyboardInterrupt

    monkeypatch.setattr(rehearse, "_running", lambda *_: layout)
    monkeypatch.setattr(rehearsal, "RehearsalBed", bed)
    monkeypatch.setattr("sandbox.rehearsal.bed.RehearsalBed", bed)
    monkeypatch.setattr("sandbox.traffic.demo.stop_on_signals", lambda: None)
    monkeypatch.setattr(rehearsal, "wait", interrupted)
    done = CliRunner().invoke(app, ["rehearse", "errors", "-e", "sandbox"])
    assert done.exit_code == 0, done.output
    assert behaviour.read_text() == BEHAVIOUR
    assert "What was true: The version that serves failed one batch in five" in done.output
