"""The pods of every chart that run on the system pool or on each node, and where the values say what they request. Pure.

No request is implied: each path below must be in the values that we give, so the sums follow from the values. Which
pods a chart makes, how many containers each has and what keeps two apart was read from its templates at the pinned
version, in its source tree at the commit beside it (or, for cert-manager and Istio, at the newest public one). The
traps: a chart's default affinity is hard for Loki, which therefore takes as many nodes as it has replicas; and an
operator's own containers are sized where the operator is.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from headway.contract.arithmetic.system_pool import Workload
from headway.contract.units import Bytes, MilliCpu


@dataclass(frozen=True, kw_only=True)
class ChartPods:
    """One kind of pod. `containers` has, for each container, the path of its resources in the values."""

    name: str
    containers: tuple[str, ...]
    replicas: str | int = 1
    """Their number, or its path in the values."""
    most: str | None = None
    """Path of an autoscaler's upper bound."""
    every_node: bool = False
    apart: bool = False
    by_zone: bool = False
    volume: str | None = None
    """Path of its volume's size."""


_RELOADER = "prometheusOperator.prometheusConfigReloader.resources"
_SIDECAR = "grafana.sidecar.resources"
_CLAIM = "volumeClaimTemplate.spec.resources.requests.storage"
_NFD = "node-feature-discovery"

CHART_PODS: Mapping[str, tuple[ChartPods, ...]] = {
    # aws/eks-charts 52396092
    "aws-load-balancer-controller": (ChartPods(name="load-balancer-controller", containers=("resources",), replicas="replicaCount"),),
    "base": (),
    # cert-manager/cert-manager 2d0d7f7f; beside these a Job of a minute, when it is installed.
    "cert-manager": (
        ChartPods(name="cert-manager", containers=("resources",), replicas="replicaCount"),
        ChartPods(name="cert-manager-cainjector", containers=("cainjector.resources",), replicas="cainjector.replicaCount"),
        ChartPods(name="cert-manager-webhook", containers=("webhook.resources",), replicas="webhook.replicaCount"),
    ),
    # kubernetes/autoscaler 5a0b98e4
    "cluster-autoscaler": (ChartPods(name="cluster-autoscaler", containers=("resources",), replicas="replicaCount"),),
    # istio/istio 86c9f01f, as for the other two
    "cni": (ChartPods(name="istio-cni", containers=("resources",), every_node=True),),
    "gateway": (
        ChartPods(
            name="gateway",
            containers=("resources",),
            replicas="autoscaling.minReplicas",
            most="autoscaling.maxReplicas",
            by_zone=True,
        ),
    ),
    # NVIDIA/gpu-operator 10ee5b36
    "gpu-operator": (
        ChartPods(name="gpu-operator", containers=("operator.resources",)),
        ChartPods(name="nfd-gc", containers=(f"{_NFD}.gc.resources",)),
        ChartPods(name="nfd-master", containers=(f"{_NFD}.master.resources",)),
        ChartPods(name="nfd-worker", containers=(f"{_NFD}.worker.resources",), every_node=True),
    ),
    "istiod": (ChartPods(name="istiod", containers=("resources",), replicas="autoscaleMin", most="autoscaleMax", by_zone=True),),
    # kedacore/charts 1444d00d
    "keda": (
        ChartPods(name="keda-metrics", containers=("resources.metricServer",), replicas="metricsServer.replicaCount"),
        ChartPods(name="keda-operator", containers=("resources.operator",), replicas="operator.replicaCount"),
        ChartPods(name="keda-webhooks", containers=("resources.webhooks",), replicas="webhooks.replicaCount"),
    ),
    # prometheus-community/helm-charts ea930bae, and Grafana by grafana-community/helm-charts 3386a115
    "kube-prometheus-stack": (
        ChartPods(
            name="alertmanager",
            containers=("alertmanager.alertmanagerSpec.resources", _RELOADER),
            replicas="alertmanager.alertmanagerSpec.replicas",
            volume=f"alertmanager.alertmanagerSpec.storage.{_CLAIM}",
        ),
        # Beside Grafana itself: a sidecar for dashboards. What fetches data sources has ended by then.
        ChartPods(name="grafana", containers=("grafana.resources", _SIDECAR)),
        ChartPods(name="kube-state-metrics", containers=("kube-state-metrics.resources",)),
        ChartPods(name="node-exporter", containers=("prometheus-node-exporter.resources",), every_node=True),
        ChartPods(
            name="prometheus",
            containers=("prometheus.prometheusSpec.resources", _RELOADER),
            replicas="prometheus.prometheusSpec.replicas",
            by_zone=True,
            volume=f"prometheus.prometheusSpec.storageSpec.{_CLAIM}",
        ),
        ChartPods(name="prometheus-operator", containers=("prometheusOperator.resources",)),
    ),
    # grafana-community/helm-charts 3386a115
    "loki": (
        ChartPods(
            name="loki",
            containers=("singleBinary.resources",),
            replicas="singleBinary.replicas",
            apart=True,
            volume="singleBinary.persistence.size",
        ),
        ChartPods(
            name="loki-gateway", containers=("gateway.resources", "gateway.metrics.resources"), replicas="gateway.replicas", apart=True
        ),
    ),
    "prometheus-operator-crds": (),
    # grafana-community/helm-charts 7d2a00b3
    "tempo": (ChartPods(name="tempo", containers=("tempo.resources",), volume="persistence.size"),),
}
"""By chart. The collector stands twice: `collector_pods`."""


def collector_pods(values: Mapping[str, Any]) -> tuple[ChartPods, ...]:
    """Of the chart opentelemetry-collector (open-telemetry/opentelemetry-helm-charts f5178cb9), whose mode is a value."""
    name = str(values["fullnameOverride"])
    if values["mode"] == "daemonset":
        return (ChartPods(name=name, containers=("resources",), every_node=True),)
    return (ChartPods(name=name, containers=("resources",), replicas="replicaCount"),)


def workloads(chart: str, values: Mapping[str, Any]) -> tuple[Workload, ...]:
    """What a release of `chart` with `values` requests. Raises KeyError for a request that the values do not say."""
    pods = collector_pods(values) if chart == "opentelemetry-collector" else CHART_PODS[chart]
    return tuple(_workload(chart, each, values) for each in pods)


def _workload(chart: str, pods: ChartPods, values: Mapping[str, Any]) -> Workload:
    asked = [_at(values, path)["requests"] for path in pods.containers]
    least = pods.replicas if isinstance(pods.replicas, int) else int(_at(values, pods.replicas))
    return Workload(
        name=pods.name,
        cpu=MilliCpu(sum(MilliCpu.parse(each["cpu"]) for each in asked)),
        memory=Bytes(sum(Bytes.parse(each["memory"]) for each in asked)),
        least=0 if pods.every_node else least,
        most=0 if pods.every_node else int(_at(values, pods.most)) if pods.most else least,
        every_node=pods.every_node,
        apart=pods.apart,
        by_zone=pods.by_zone,
        volume=Bytes.parse(_at(values, pods.volume)) if pods.volume else Bytes(0),
        source=f"chart {chart}",
    )


def _at(values: Mapping[str, Any], path: str) -> Any:
    found: Any = values
    for key in path.split("."):
        found = found[key]
    return found
