"""What the sandbox makes of the cluster's monitoring objects, without any server."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from headway.problem import UserError
from sandbox.extras import EXTRAS, chosen
from sandbox.monitoring import objects
from sandbox.monitoring.configuration import MonitoringSettings, ScrapeJob, duration, prometheus
from sandbox.monitoring.follower import Follower
from sandbox.traffic import pod_addresses

KUBECONFIG = Path("/somewhere/kubeconfig")


def pod_monitor(**changes: Any) -> dict[str, Any]:
    endpoint = {"port": "metrics", "path": "/metrics", "interval": "15s", "scrapeTimeout": "10s"}
    spec = {
        "selector": {"matchLabels": {"platform.io/model": "chat"}},
        "podTargetLabels": ["platform.io/model", "platform.io/release"],
        "podMetricsEndpoints": [endpoint],
        "sampleLimit": 4000,
    }
    return {"metadata": {"namespace": "assist", "name": "chat"}, "spec": {**spec, **changes}}


def job(monitor: dict[str, Any]) -> dict[str, Any]:
    (found,) = objects.scrape_configs(monitor, KUBECONFIG, "1s")
    return found


def test_a_monitor_that_leaves_some_pods_out_leaves_them_out_here_too() -> None:
    without = [{"key": "arm", "operator": "NotIn", "values": ["batch"]}, {"key": "old", "operator": "DoesNotExist"}]
    found = job(pod_monitor(selector={"matchLabels": {"m": "chat"}, "matchExpressions": without}))
    assert found["kubernetes_sd_configs"][0]["selectors"] == [{"role": "pod", "label": "m=chat,arm notin (batch),!old"}]


def relabelled(config: dict[str, Any], labels: dict[str, str]) -> dict[str, str] | None:
    """What Prometheus' relabelling makes of `labels`: drop, keep and replace, with anchored expressions."""
    found = dict(labels)
    for rule in config["relabel_configs"]:
        value = ";".join(found.get(name, "") for name in rule.get("source_labels", ()))
        match = re.fullmatch(rule.get("regex", "(.*)"), value)
        if rule["action"] in {"drop", "keep"}:
            if (match is None) == (rule["action"] == "keep"):
                return None
        elif match:
            replacement = re.sub(r"\$(\d)", r"\\\1", rule.get("replacement", "$1"))
            found[rule["target_label"]] = match.expand(replacement)
    return found


def discovered(ip: str, port_name: str = "metrics") -> dict[str, str]:
    return {
        "__address__": f"{ip}:8002",
        "__meta_kubernetes_namespace": "assist",
        "__meta_kubernetes_pod_container_name": "server",
        "__meta_kubernetes_pod_container_port_name": port_name,
        "__meta_kubernetes_pod_label_platform_io_model": "chat",
        "__meta_kubernetes_pod_label_platform_io_release": "r1",
        "__meta_kubernetes_pod_name": "chat-r1-abc",
        "__meta_kubernetes_pod_node_name": "h100-0",
        "__meta_kubernetes_pod_phase": "Running",
    }


def test_a_served_pod_is_scraped_at_its_processes_and_labelled_as_in_production() -> None:
    ip = pod_addresses.pod_ip("some-uid")
    found = relabelled(job(pod_monitor()), discovered(ip))
    assert found is not None
    shown = {name: value for name, value in found.items() if not name.startswith("__meta")}
    assert shown == {
        "__address__": f"{pod_addresses.loopback(ip)}:8002",
        "container": "server",
        "endpoint": "metrics",
        "job": "assist/chat",
        "namespace": "assist",
        "platform_io_model": "chat",
        "platform_io_release": "r1",
        "pod": "chat-r1-abc",
    }


@pytest.mark.parametrize("ip", ["10.128.0.1", "10.191.255.254", "10.139.7.9", "10.180.0.3"])
def test_every_address_of_a_served_pod_is_known_as_one(ip: str) -> None:
    found = relabelled(job(pod_monitor()), discovered(ip))
    assert found is not None
    assert found["__address__"] == f"{pod_addresses.loopback(ip)}:8002"


@pytest.mark.parametrize("ip", ["10.127.255.255", "10.192.0.1", "10.244.0.7", "192.168.0.1", "110.128.0.1"])
def test_a_pod_behind_which_nothing_runs_is_not_scraped(ip: str) -> None:
    assert relabelled(job(pod_monitor()), discovered(ip)) is None


def test_only_the_port_that_the_monitor_names_is_scraped() -> None:
    assert relabelled(job(pod_monitor()), discovered("10.128.0.1", "grpc")) is None


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
def test_a_pod_that_has_ended_is_not_scraped(phase: str) -> None:
    assert relabelled(job(pod_monitor()), {**discovered("10.128.0.1"), "__meta_kubernetes_pod_phase": phase}) is None


def test_only_pods_that_the_monitor_selects_are_asked_for() -> None:
    (discovery,) = job(pod_monitor())["kubernetes_sd_configs"]
    assert discovery["namespaces"] == {"names": ["assist"]}
    assert discovery["selectors"] == [{"role": "pod", "label": "platform.io/model=chat"}]


def test_a_field_that_is_not_modelled_is_refused_by_its_path() -> None:
    with pytest.raises(ValueError, match=r"spec\.namespaceSelector"):
        job(pod_monitor(namespaceSelector={"any": True}))
    with pytest.raises(ValueError, match=r"spec\.podMetricsEndpoints\[0\]\.basicAuth"):
        job(pod_monitor(podMetricsEndpoints=[{"port": "metrics", "basicAuth": {}}]))


def test_groups_of_two_objects_never_share_a_name() -> None:
    rule = {"metadata": {"namespace": "assist", "name": "chat"}, "spec": {"groups": [{"name": "slo", "rules": []}]}}
    assert objects.rule_file(rule) == {"groups": [{"name": "assist/chat/slo", "rules": []}]}


def alertmanager_config(namespace: str, **spec: Any) -> dict[str, Any]:
    route = {
        "receiver": "oncall",
        "groupBy": ["tenant"],
        "groupWait": "30s",
        "matchers": [{"name": "severity", "value": "page"}],
        "routes": [{"receiver": "oncall", "matchers": [{"name": "model", "matchType": "=~", "value": "a|b"}], "continue": True}],
    }
    return {"metadata": {"namespace": namespace, "name": "routes"}, "spec": {"route": route, "receivers": [{"name": "oncall"}], **spec}}


def test_a_tenants_routes_see_its_own_alerts_and_the_platforms_all() -> None:
    whole, refused = objects.alerting([alertmanager_config("monitoring"), alertmanager_config("assist")], "monitoring", "http://inbox")
    assert not refused
    assert [(route["receiver"], route["matchers"]) for route in whole["route"]["routes"]] == [
        ("assist/routes/oncall", ['namespace="assist"', 'severity="page"']),
        ("monitoring/routes/oncall", ['severity="page"']),
    ]


def test_a_route_keeps_its_grouping_times_and_children() -> None:
    whole, _ = objects.alerting([alertmanager_config("assist")], "monitoring", "http://inbox")
    (route,) = whole["route"]["routes"]
    assert route["group_by"] == ["tenant"]
    assert route["group_wait"] == "30s"
    assert route["routes"] == [{"receiver": "assist/routes/oncall", "matchers": ['model=~"a|b"'], "continue": True}]


def test_the_platforms_own_loop_is_asked_where_it_runs() -> None:
    ours = {"name": "diagnosis", "webhookConfigs": [{"url": "http://diagnosis.diagnosis.svc.cluster.local:8080/alerts"}]}
    whole, refused = objects.alerting(
        [alertmanager_config("monitoring", receivers=[ours])], "monitoring", "http://inbox", "http://loop/alerts"
    )
    assert not refused
    hook = {"url": "http://loop/alerts", "send_resolved": True}
    assert {"name": "monitoring/routes/diagnosis", "webhook_configs": [hook]} in whole["receivers"]


def test_every_receiver_leads_into_the_inbox() -> None:
    whole, _ = objects.alerting(
        [alertmanager_config("assist", receivers=[{"name": "oncall", "snsConfigs": [{}]}])], "monitoring", "http://inbox"
    )
    hook = {"url": "http://inbox/assist/routes/oncall", "send_resolved": True}
    assert whole["receivers"] == [{"name": "nobody"}, {"name": "assist/routes/oncall", "webhook_configs": [hook]}]


def test_an_inhibition_holds_within_its_namespace() -> None:
    rule = {
        "sourceMatch": [{"name": "severity", "value": "page"}],
        "targetMatch": [{"name": "severity", "value": "ticket"}],
        "equal": ["model"],
    }
    whole, _ = objects.alerting([alertmanager_config("assist", inhibitRules=[rule])], "monitoring", "http://inbox")
    assert whole["inhibit_rules"] == [
        {
            "source_matchers": ['namespace="assist"', 'severity="page"'],
            "target_matchers": ['namespace="assist"', 'severity="ticket"'],
            "equal": ["model"],
        }
    ]


def test_a_configuration_that_is_not_modelled_is_left_out_alone() -> None:
    strange = alertmanager_config("assist", muteTimeIntervals=[{}])
    whole, refused = objects.alerting([strange, alertmanager_config("vision")], "monitoring", "http://inbox")
    assert [(each.object, each.reason) for each in refused] == [("assist/routes", "the sandbox does not model spec.muteTimeIntervals")]
    assert [route["receiver"] for route in whole["route"]["routes"]] == ["vision/routes/oncall"]


class World:
    """A cluster's objects and a Prometheus that counts how often it reads its files."""

    def __init__(self, folder: Path) -> None:
        self.listed: dict[str, list[dict[str, Any]]] = {"podmonitors": [], "prometheusrules": [], "alertmanagerconfigs": []}
        self.wrong: dict[str, str] = {}
        self.reloads = 0
        self.said: list[str] = []
        self.folder = folder
        self.follower = Follower(
            folder=folder,
            kubeconfig=KUBECONFIG,
            interval="1s",
            inbox="http://inbox",
            diagnosis="http://loop/alerts",
            list_=lambda _, plural: self.listed[plural],
            check=lambda path: next((why for name, why in self.wrong.items() if name in path.name), None),
            reload=self._reload,
            say=self.said.append,
        )

    def _reload(self) -> None:
        self.reloads += 1

    def files(self) -> list[str]:
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*.yml"))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def rule(name: str, expression: str = "up") -> dict[str, Any]:
    groups = [{"name": "g", "rules": [{"record": "a:b", "expr": expression}]}]
    return {"metadata": {"namespace": "assist", "name": name}, "spec": {"groups": groups}}


def test_what_appears_in_the_cluster_is_written_and_read_once(world: World) -> None:
    world.listed["podmonitors"], world.listed["prometheusrules"] = [pod_monitor()], [rule("chat")]
    assert world.follower.once() is True
    assert world.files() == ["alertmanager.yml", "rules/cluster-assist.chat.yml", "scrape/assist.chat.yml"]
    assert world.follower.once() is False
    assert world.reloads == 1


def test_what_disappears_from_the_cluster_is_forgotten_and_others_rules_stay(world: World) -> None:
    mine = world.folder / "rules" / "mine.yml"
    mine.parent.mkdir()
    mine.write_text("groups: []")
    world.listed["podmonitors"], world.listed["prometheusrules"] = [pod_monitor()], [rule("chat")]
    world.follower.once()
    world.listed["podmonitors"], world.listed["prometheusrules"] = [], []
    assert world.follower.once() is True
    assert world.files() == ["alertmanager.yml", "rules/mine.yml"]
    assert world.reloads == 2


def test_an_object_with_a_broken_rule_is_left_out_and_said_once(world: World) -> None:
    world.listed["prometheusrules"] = [rule("good"), rule("bad")]
    world.wrong["assist.bad"] = "parse error"
    world.follower.once()
    world.follower.once()
    assert world.files() == ["alertmanager.yml", "rules/cluster-assist.good.yml"]
    assert world.said == ["PrometheusRule assist.bad is left out: parse error"]


def test_a_monitor_that_is_not_modelled_is_left_out_and_said(world: World) -> None:
    world.listed["podmonitors"] = [pod_monitor(namespaceSelector={"any": True})]
    world.follower.once()
    assert world.files() == ["alertmanager.yml"]
    assert world.said == ["PodMonitor assist.chat is left out: the sandbox does not model spec.namespaceSelector"]


def test_a_file_of_the_follower_is_what_prometheus_reads(world: World) -> None:
    world.listed["podmonitors"] = [pod_monitor()]
    world.follower.once()
    (config,) = yaml.safe_load((world.folder / "scrape" / "assist.chat.yml").read_text())["scrape_configs"]
    assert config["job_name"] == "podMonitor/assist/chat/0"
    assert config["scrape_interval"] == "1s"


def test_durations_are_written_as_prometheus_reads_them() -> None:
    assert [duration(each) for each in (1.0, 15.0, 0.5, 1.5)] == ["1s", "15s", "500ms", "1500ms"]


def test_a_job_is_scraped_as_it_says(tmp_path: Path) -> None:
    chosen_ = MonitoringSettings(
        jobs=(ScrapeJob(name="api", targets=("127.0.0.1:1",), scheme="https", tls={"ca_file": "/ca"}, labels={"a": "b"}),)
    )
    (_, found) = prometheus(chosen_, folder=tmp_path, alertmanager_port=9)["scrape_configs"]
    assert found == {
        "job_name": "api",
        "metrics_path": "/metrics",
        "scheme": "https",
        "static_configs": [{"targets": ["127.0.0.1:1"], "labels": {"a": "b"}}],
        "tls_config": {"ca_file": "/ca"},
    }


def test_no_extra_is_chosen_unless_it_is_named() -> None:
    assert chosen([""]) == ()


def test_an_extra_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(UserError, match="no fireworks") as refused:
        chosen(["monitoring", "fireworks"])
    assert all(name in refused.value.remedy for name in EXTRAS)
