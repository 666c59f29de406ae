"""Which charts the double knows, and which definitions each of them brings: data.

A chart that is not here is refused by name, because nobody could say which kinds it would have installed.
"""

from dataclasses import dataclass

from pulumi_embedded.engine.provider import Properties


@dataclass(frozen=True, slots=True)
class KnownChart:
    """`definitions` names sets of the toolchain's `crds` folder; `own` are definitions of ours, where the real ones cannot be had."""

    definitions: tuple[str, ...] = ()
    own: tuple[tuple[str, str, str], ...] = ()
    """(group, version, kind) of minimal, permissive, cluster-scoped definitions."""
    kept_by: tuple[str, ...] = ()
    """Where values annotate definitions that are templates, so that Helm leaves them when the release goes (`helm.sh/resource-policy`). Empty
    where the chart does so itself, or has them in its folder `crds`, of which Helm deletes nothing.
    """


_POLICY = "helm.sh/resource-policy"
_NONE = KnownChart()
_PROMETHEUS = KnownChart(("prometheus-operator",))

CHARTS: dict[str, KnownChart] = {
    "alertmanager": _NONE,
    "aws-ebs-csi-driver": _NONE,
    "aws-load-balancer-controller": _NONE,
    "base": KnownChart(("istio",)),
    "cert-manager": KnownChart(("cert-manager",)),
    "cluster-autoscaler": _NONE,
    "cni": _NONE,
    "dcgm-exporter": _NONE,
    "gateway": _NONE,
    "gateway-api": KnownChart(("gateway-api",)),
    "gpu-operator": KnownChart(own=(("nvidia.com", "v1", "ClusterPolicy"), ("nvidia.com", "v1alpha1", "NVIDIADriver"))),
    "grafana": _NONE,
    "istiod": _NONE,
    "keda": KnownChart(("keda",), kept_by=("crds", "additionalAnnotations", _POLICY)),
    "kube-prometheus-stack": _PROMETHEUS,
    "loki": _NONE,
    "metrics-server": _NONE,
    "node-feature-discovery": _NONE,
    "nvidia-device-plugin": _NONE,
    "opencost": _NONE,
    "opentelemetry-collector": _NONE,
    "prometheus-node-exporter": _NONE,
    "prometheus-operator-crds": KnownChart(("prometheus-operator",), kept_by=("crds", "annotations", _POLICY)),
    "tempo": _NONE,
    "tempo-distributed": _NONE,
}

PERMISSIVE = "permissive"
"""Annotation, below a prefix of the host, of definitions that check nothing, so that nobody takes them for the vendor's."""

GROUPS = {
    "cert-manager": ("acme.cert-manager.io", "cert-manager.io"),
    "gateway-api": ("gateway.networking.k8s.io",),
    "istio": ("extensions.istio.io", "networking.istio.io", "security.istio.io", "telemetry.istio.io"),
    "keda": ("eventing.keda.sh", "keda.sh"),
    "prometheus-operator": ("monitoring.coreos.com",),
}
"""API groups of each set of definitions."""


def chart_name(reference: str) -> str:
    """The chart's own name: of `oci://host/path/keda`, `repo/keda` and `keda` alike."""
    return reference.rstrip("/").rpartition("/")[2]


def groups(chart: KnownChart) -> frozenset[str]:
    """API groups that the chart's definitions belong to."""
    return frozenset({group for name in chart.definitions for group in GROUPS[name]} | {group for group, _, _ in chart.own})


def permissive(group: str, version: str, kind: str, prefix: str = "pulumi-embedded") -> Properties:
    """A definition that accepts anything under `spec` and `status`."""
    plural = kind.lower().replace("policy", "policie") + "s"
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": anything, "status": anything}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{plural}.{group}",
            "annotations": {f"{prefix}/{PERMISSIVE}": "a stand-in without the vendor's validation: its definition is in no Go module"},
        },
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {"kind": kind, "listKind": f"{kind}List", "plural": plural, "singular": kind.lower()},
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "schema": {"openAPIV3Schema": schema},
                    "subresources": {"status": {}},
                }
            ],
        },
    }
