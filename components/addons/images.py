"""Where each chart's values say from which registry its pods pull, and the values that point all of it at a mirror.
Pure.

Read from the templates of each chart at its pinned version. Each chart has a switch of its own; none of ours has an
image without one. The traps: the GPU Operator's chart has a repository for each part, also for those that are off,
and its operator writes them into DaemonSets later; Istio's gateway names no image, because istiod's hub is injected
into it. EKS add-ons are no charts of ours: EKS pulls them from its own account of the same region, by the ECR
endpoints, so nothing is switched there.
"""

from collections.abc import Mapping
from typing import Any

from components.mirror import CHARTS_FOLDER, IMAGES_FOLDER
from components.versions import HelmChart

_NVIDIA, _CLOUD_NATIVE, _KUBERNETES = "nvidia", "nvidia/cloud-native", "nvidia/k8s"

SWITCHES: Mapping[str, Mapping[str, str]] = {
    "aws-load-balancer-controller": {"image.repository": "eks/aws-load-balancer-controller"},
    "base": {},
    "cert-manager": {"imageRegistry": ""},
    "cluster-autoscaler": {"image.repository": "autoscaling/cluster-autoscaler"},
    "cni": {"global.hub": "istio"},
    "gateway": {},
    "gpu-operator": {
        "ccManager.repository": _CLOUD_NATIVE,
        "dcgm.repository": _CLOUD_NATIVE,
        "dcgmExporter.repository": _KUBERNETES,
        "devicePlugin.repository": _NVIDIA,
        "draDriver.repository": _NVIDIA,
        "driver.manager.repository": _CLOUD_NATIVE,
        "driver.repository": _NVIDIA,
        "gdrcopy.repository": _CLOUD_NATIVE,
        "gds.repository": _CLOUD_NATIVE,
        "gfd.repository": _NVIDIA,
        "kataSandboxDevicePlugin.repository": _CLOUD_NATIVE,
        "migManager.repository": _CLOUD_NATIVE,
        "node-feature-discovery.image.repository": "nfd/node-feature-discovery",
        "nodeStatusExporter.repository": _NVIDIA,
        "operator.repository": _NVIDIA,
        "sandboxDevicePlugin.repository": _NVIDIA,
        "toolkit.repository": _KUBERNETES,
        "validator.repository": _NVIDIA,
        "vfioManager.driverManager.repository": _CLOUD_NATIVE,
        "vfioManager.repository": _CLOUD_NATIVE,
        "vgpuDeviceManager.repository": _CLOUD_NATIVE,
        "vgpuManager.driverManager.repository": _CLOUD_NATIVE,
    },
    "istiod": {"global.hub": "istio"},
    "keda": {"global.image.registry": ""},
    # Its own charts (Grafana, kube-state-metrics, node exporter) read the same global.
    "kube-prometheus-stack": {"global.imageRegistry": ""},
    "loki": {"global.imageRegistry": ""},
    "opentelemetry-collector": {"image.repository": "otel/opentelemetry-collector-contrib"},
    "prometheus-operator-crds": {},
    "tempo": {"global.imageRegistry": ""},
}
"""By chart: the path of a value, and what it holds below the mirror's folder of images; nothing where that is the
folder itself."""


class UnswitchedChartError(LookupError):
    """A chart of which nobody has said where its images come from."""


def switched(chart: str, values: Mapping[str, Any], mirror: str | None) -> dict[str, Any]:
    """`values` with every image of `chart` from `mirror`; as they are without one."""
    found: dict[str, Any] = dict(values)
    if mirror is None:
        return found
    if chart not in SWITCHES:
        raise UnswitchedChartError(
            f"components/addons/images.py does not say where {chart} pulls from: with a mirror it would pull from elsewhere"
        )
    for path, below in SWITCHES[chart].items():
        found = _set(found, path.split("."), "/".join(part for part in (mirror, IMAGES_FOLDER, below) if part))
    return found


def chart_source(chart: HelmChart, mirror: str | None) -> tuple[str, str | None]:
    """What Helm is told: the chart and its repository, or the chart as an artifact of `mirror` alone."""
    return (chart.chart, chart.repository) if mirror is None else (f"oci://{mirror}/{CHARTS_FOLDER}/{chart.chart}", None)


def _set(values: Mapping[str, Any], path: list[str], value: str) -> dict[str, Any]:
    key, *rest = path
    return {**values, key: _set(values.get(key, {}), rest, value) if rest else value}
