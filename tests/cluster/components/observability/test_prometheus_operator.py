"""The Prometheus operator itself with every monitor, rule and route that the program renders: what it makes of them, Prometheus and Alertmanager
load, and the sandbox's stand-in for it reads them alike.

Prometheus and Alertmanager are asked for as the chart does (prometheus-community/helm-charts, tag kube-prometheus-stack-88.5.3, commit ea930bae,
templates/prometheus/prometheus.yaml and templates/alertmanager/alertmanager.yaml), and not started.
"""

import gzip
import json
import os
import subprocess
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from components.addons import prometheus
from components.addons.chart_pods import workloads
from components.observability import routes
from components.observability.manifests import platform_manifests
from components.platform import artifact_cache, mesh, node_health, volumes
from components.versions import PROMETHEUS_DIGEST, PROMETHEUS_STACK
from headway.contract.units import Bytes, MilliCpu
from headway.wire import MONITORING_NAMESPACE
from sandbox.cluster.toolchain import Toolchain, ensure_toolchain
from sandbox.monitoring import objects
from sandbox.monitoring.servers import TOOL_SETS
from sandbox.progress import Silent
from tests.cluster.conftest import ControlPlane, eventually
from tests.cluster.definitions import define
from tests.components.contracts import MODELS, POOLS, plan, service

NAMES = {"Prometheus": "kube-prometheus-stack-prometheus", "Alertmanager": "kube-prometheus-stack-alertmanager"}
"""As the chart names them in the release of the platform layer."""
GROUP = "monitoring.coreos.com"
ASKED = {"PodMonitor", "ServiceMonitor", "PrometheusRule", "AlertmanagerConfig"}
VALUES = prometheus.values(days=15, storage_bytes=100 * 2**30)
WITHOUT_SECRET = "assist"
"""The tenant whose receivers have no webhook yet."""

pytestmark = pytest.mark.needs("prometheus-operator")


def rendered() -> list[Mapping[str, Any]]:
    """The objects that the operator reads, of the platform and of two tenants."""
    stores = [artifact_cache.NodeCache(pool=POOLS[0], room=Bytes(2**30))]
    every = [
        *platform_manifests("https://example.com/runbooks", environment="prod"),
        *mesh.manifests(hosts=["models.example.com"], certificate=None, region="us-east-1"),
        *node_health.loop("image", "us-east-1"),
        *artifact_cache.manifests("image", "us-east-1", stores),
        *plan("vision", tuple(MODELS.values())).manifests(),
        *plan(WITHOUT_SECRET, (MODELS["chat"],)).manifests(),
        *(each for name in MODELS for each in service(name).manifests()),
    ]
    return [each.body for each in every if each.kind in ASKED]


def from_chart(kind: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """What the chart makes of the values `given`: their names are those of the object's fields, but for these."""
    spec = {key: value for key, value in given.items() if key not in {"additionalConfig", "image", "storageSpec"}}
    if kind == "Prometheus":
        kinds = [key.removesuffix("SelectorNilUsesHelmValues") for key in spec if key.endswith("SelectorNilUsesHelmValues")]
        spec = {key: value for key, value in spec.items() if not key.endswith("SelectorNilUsesHelmValues")}
        spec |= {f"{each}{of}Selector": {} for each in kinds for of in ("", "Namespace")}
        tag = given["image"]["tag"]
        spec |= {
            "image": f"quay.io/prometheus/prometheus:{tag}@sha256:{PROMETHEUS_DIGEST}",
            "version": tag,
            "storage": given["storageSpec"],
        }
    else:
        spec |= {"alertmanagerConfigSelector": {}, "alertmanagerConfigNamespaceSelector": {}, **given["additionalConfig"]}
    metadata = {"name": NAMES[kind], "namespace": MONITORING_NAMESPACE}
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata, "spec": spec}


def from_chart_alone() -> dict[str, Any]:
    """The chart's own routes (values.yaml, alertmanager.config), beside which the operator puts the cluster's: to nobody."""
    to_nobody = [{"receiver": "null", "matchers": ['alertname = "Watchdog"']}]
    config = {"route": {"receiver": "null", "group_by": ["namespace"], "routes": to_nobody}, "receivers": [{"name": "null"}]}
    metadata = {"name": f"alertmanager-{NAMES['Alertmanager']}", "namespace": MONITORING_NAMESPACE}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"alertmanager.yaml": yaml.safe_dump(config)}}


@dataclass(frozen=True, kw_only=True)
class Operated:
    """What the operator has made of what it was given."""

    plane: ControlPlane
    given: Sequence[Mapping[str, Any]] = field(default_factory=rendered)

    def of(self, kind: str) -> list[Mapping[str, Any]]:
        return [each for each in self.given if each["kind"] == kind]

    def made(self, kind: str, name: str, api_version: str = "v1") -> dict[str, Any]:
        def found() -> dict[str, Any] | None:
            here = self.plane.list(kind, api_version=api_version, namespace=MONITORING_NAMESPACE)
            return next((each for each in here if each["metadata"]["name"] == name), None)

        return eventually(found, within=120)

    def prometheus(self) -> dict[str, Any]:
        secret = self.made("Secret", f"prometheus-{NAMES['Prometheus']}")
        return dict(yaml.safe_load(gzip.decompress(b64decode(secret["data"]["prometheus.yaml.gz"]))))

    def rules(self) -> dict[str, str]:
        """Files of rules by name."""
        return dict(self.made("ConfigMap", f"prometheus-{NAMES['Prometheus']}-rulefiles-0")["data"])

    def alertmanager(self) -> dict[str, Any]:
        secret = self.made("Secret", f"alertmanager-{NAMES['Alertmanager']}-generated")
        return dict(yaml.safe_load(gzip.decompress(b64decode(secret["data"]["alertmanager.yaml.gz"]))))

    def pod(self, kind: str) -> dict[str, Any]:
        name = f"{kind.lower()}-{NAMES[kind]}"
        return dict(self.made("StatefulSet", name, api_version="apps/v1")["spec"]["template"]["spec"])


@pytest.fixture(scope="module")
def toolchain(control_plane: ControlPlane) -> Toolchain:
    return ensure_toolchain(control_plane.layout, Silent(), (*TOOL_SETS, "prometheus-operator"))


@pytest.fixture(scope="module")
def operated(control_plane: ControlPlane, toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operated]:
    found = Operated(plane=control_plane)
    define(control_plane, "prometheus-operator")
    for name in sorted({MONITORING_NAMESPACE, *(each["metadata"]["namespace"] for each in found.given)}):
        control_plane.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    control_plane.create(*(dict(each) for each in found.given))
    for each in found.of("AlertmanagerConfig"):
        if each["metadata"]["namespace"] != WITHOUT_SECRET:
            control_plane.create(*webhooks(each))
    # The operator makes no volumes of a class that is not there.
    control_plane.create(*(dict(each.body) for each in volumes.manifests("key")))
    control_plane.create(from_chart_alone())
    control_plane.create(from_chart("Prometheus", VALUES["prometheus"]["prometheusSpec"]))
    control_plane.create(from_chart("Alertmanager", VALUES["alertmanager"]["alertmanagerSpec"]))
    reloader = VALUES["prometheusOperator"]["prometheusConfigReloader"]["resources"]["requests"]
    command = [
        str(toolchain.binary("prometheus-operator")),
        "--localhost=127.0.0.1",
        "--web.listen-address=127.0.0.1:0",
        f"--config-reloader-cpu-request={reloader['cpu']}",
        f"--config-reloader-memory-request={reloader['memory']}",
    ]
    log = tmp_path_factory.mktemp("operator") / "log"
    environment = {**os.environ, "KUBECONFIG": str(control_plane.kubeconfig)}
    with log.open("w") as said, subprocess.Popen(command, stdout=said, stderr=said, env=environment) as process:
        try:
            yield found
            assert process.poll() is None, log.read_text()
        finally:
            process.terminate()


def webhooks(config: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The secrets that its receivers read."""
    for receiver in config["spec"]["receivers"]:
        metadata = {"name": routes.secret_name(receiver["name"]), "namespace": config["metadata"]["namespace"]}
        yield {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"url": "https://hooks.example.com/a"}}


def jobs(monitors: Sequence[Mapping[str, Any]], kind: str, endpoints: str) -> set[str]:
    return {
        f"{kind}/{each['metadata']['namespace']}/{each['metadata']['name']}/{number}"
        for each in monitors
        for number in range(len(each["spec"][endpoints]))
    }


def test_every_monitor_becomes_jobs_by_the_names_that_verify_looks_for(operated: Operated) -> None:
    pods = jobs(operated.of("PodMonitor"), "podMonitor", "podMetricsEndpoints")
    services = jobs(operated.of("ServiceMonitor"), "serviceMonitor", "endpoints")
    assert {each["job_name"] for each in operated.prometheus()["scrape_configs"]} == pods | services
    assert len(pods) > len(MODELS)
    assert services


def test_prometheus_loads_what_the_operator_makes_of_monitors_and_rules(operated: Operated, toolchain: Toolchain, tmp_path: Path) -> None:
    for name, text in operated.rules().items():
        (tmp_path / name).write_text(text)
    whole = {**operated.prometheus(), "rule_files": [f"{tmp_path}/*.yaml"]}
    file = tmp_path / "prometheus.yml"
    file.write_text(yaml.safe_dump(whole))
    done = subprocess.run([toolchain.binary("promtool"), "check", "config", file], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_rule_reaches_prometheus_as_it_was_written(operated: Operated) -> None:
    groups = [group for text in operated.rules().values() for group in yaml.safe_load(text)["groups"]]
    given = [group for each in operated.of("PrometheusRule") for group in each["spec"]["groups"]]
    assert sorted(map(_plain, groups)) == sorted(map(_plain, given))


def _plain(group: Mapping[str, Any]) -> str:
    """A group as text; a rule says the same without fields that are empty."""
    rules = [{key: value for key, value in rule.items() if value} for rule in group["rules"]]
    return json.dumps({**group, "rules": rules}, sort_keys=True)


def test_a_replicas_series_carry_the_labels_that_the_sandbox_gives_them(operated: Operated) -> None:
    made = {each["job_name"]: each for each in operated.prometheus()["scrape_configs"]}
    compared = 0
    for monitor in operated.of("PodMonitor"):
        with suppress(ValueError):  # the mesh's own, which the sandbox says that it does not model
            for ours in objects.scrape_configs(monitor, Path("kubeconfig"), "15s"):
                theirs = made[ours["job_name"]]
                assert _labels(theirs) == _labels(ours)
                assert theirs.get("metric_relabel_configs", []) == ours["metric_relabel_configs"]
                assert theirs["metrics_path"] == ours["metrics_path"]
                assert _limits(theirs) == _limits(ours)
                assert theirs["kubernetes_sd_configs"][0]["namespaces"] == ours["kubernetes_sd_configs"][0]["namespaces"]
                compared += 1
    assert compared > len(MODELS)


def _labels(job: Mapping[str, Any]) -> dict[str, str]:
    """Where each label of a target comes from, or its value; without those by which targets are found."""
    replaced = [each for each in job["relabel_configs"] if each.get("action", "replace") == "replace" and "target_label" in each]
    found = {each["target_label"]: ",".join(each.get("source_labels", ())) or each["replacement"] for each in replaced}
    return {name: source for name, source in found.items() if not name.startswith("__")}


def test_alerts_take_the_ways_that_the_sandbox_gives_them(operated: Operated) -> None:
    made = operated.alertmanager()
    known = [each for each in operated.of("AlertmanagerConfig") if each["metadata"]["namespace"] != WITHOUT_SECRET]
    ours, refused = objects.alerting(known, MONITORING_NAMESPACE, "http://127.0.0.1:9")
    assert not refused
    theirs = [each for each in made["route"]["routes"] if each["receiver"] != "null"]
    assert sorted(map(_way, theirs)) == sorted(map(_way, ours["route"]["routes"]))
    assert sorted(map(_way, made["inhibit_rules"])) == sorted(map(_way, ours["inhibit_rules"]))


def _way(part: Mapping[str, Any]) -> str:
    """A route or an inhibition as text; matchers say the same in every order."""
    found = {key: sorted(value) if key.endswith("matchers") else value for key, value in part.items()}
    return json.dumps({key: value for key, value in found.items() if value}, sort_keys=True)


def test_the_heartbeat_is_told_although_the_chart_routes_it_to_nobody(operated: Operated, toolchain: Toolchain, tmp_path: Path) -> None:
    file = tmp_path / "alertmanager.yml"
    file.write_text(yaml.safe_dump(operated.alertmanager()))
    asked = [toolchain.binary("amtool"), "config", "routes", "test", f"--config.file={file}", "alertname=Watchdog", "severity=heartbeat"]
    done = subprocess.run(asked, capture_output=True, text=True, check=True)
    assert done.stdout.strip().split(",") == ["monitoring/platform/heartbeat", "null"]


def test_routes_whose_secret_is_missing_take_nothing_from_others(operated: Operated) -> None:
    told = {each["name"] for each in operated.alertmanager()["receivers"]}
    assert not [name for name in told if name.startswith(f"{WITHOUT_SECRET}/")]
    assert [name for name in told if name.startswith("vision/")]


@pytest.mark.parametrize("kind", NAMES)
def test_the_operators_pods_request_what_the_system_pools_sums_count(operated: Operated, kind: str) -> None:
    (counted,) = [each for each in workloads(PROMETHEUS_STACK.chart, VALUES) if each.name == kind.lower()]
    asked = [each["resources"]["requests"] for each in operated.pod(kind)["containers"]]
    assert sum(MilliCpu.parse(each["cpu"]) for each in asked) == counted.cpu
    assert sum(Bytes.parse(each["memory"]) for each in asked) == counted.memory


def test_alertmanager_counts_notifications_by_receiver(operated: Operated) -> None:
    (server,) = [each for each in operated.pod("Alertmanager")["containers"] if each["name"] == "alertmanager"]
    assert "--enable-feature=receiver-name-in-metrics" in server["args"]


def test_prometheus_answers_at_the_service_that_the_platform_asks(operated: Operated) -> None:
    host, _, port = prometheus.SERVICE.removeprefix("http://").rpartition(":")
    service_name, namespace, *_ = host.split(".")
    assert namespace == MONITORING_NAMESPACE
    found = operated.made("Service", service_name)
    assert int(port) in [each["port"] for each in found["spec"]["ports"]]
    assert (
        found["spec"]["selector"].items()
        <= operated.made("StatefulSet", f"prometheus-{NAMES['Prometheus']}", "apps/v1")["spec"]["template"]["metadata"]["labels"].items()
    )


def _limits(job: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in job.items() if name.endswith(("_limit", "_protocol"))}
