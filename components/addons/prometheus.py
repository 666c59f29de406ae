"""Prometheus, Alertmanager, Grafana, kube-state-metrics and node exporter, by kube-prometheus-stack.

It selects every monitor and rule in the cluster, whoever made it. Grafana has no users: dashboards are code, and
reading them needs only the network. The traps: EKS hides its scheduler, controller manager and etcd, whose missing
targets would alert for ever; and the chart's default Grafana password is a published one.
"""

import hashlib
import json
from typing import Any

from components.addons.placement import A_FEW_AT_ONCE, ON_SYSTEM_NODES, requests, spread
from components.versions import PROMETHEUS_DIGEST, PROMETHEUS_TAG
from headway.wire import MODEL, MONITORING_NAMESPACE, POOL, RELEASE, TENANT, TRAIL, WORKLOAD_CLASS

NAMESPACE = MONITORING_NAMESPACE
SERVICE = f"http://prometheus-operated.{NAMESPACE}.svc.cluster.local:9090"
LOKI_URL = f"http://loki-gateway.{NAMESPACE}.svc.cluster.local"
TEMPO_URL = f"http://tempo.{NAMESPACE}.svc.cluster.local:3200"
DASHBOARD_LABEL = {"grafana_dashboard": "1"}
"""By this label Grafana's sidecar finds dashboards, in every namespace."""
DASHBOARDS_READER = "headway-dashboards-reader"
"""What Grafana may read of the cluster, by the name of its role (`components.observability.manifests.rights`). The
chart's own role reads every Secret of every namespace, for a page that anybody in the network can open.
"""
STORAGE_CLASS = "gp3-encrypted"
RETAINED_SHARE_PERCENT = 85
"""Of its volume; the rest is for the write-ahead log and compaction."""
DISK_TO_MEMORY = 80
"""Thirty days of a series are 430 KB on the volume; in memory it takes some 5."""
COUNTED = ("deployments", "horizontalpodautoscalers", "namespaces", "nodes", "pods", "resourcequotas")
"""The kinds whose objects become series (`kube_*`), which is also what the exporter may read: the default has
Secrets among them.
"""
_GI = 2**30


def definitions_values() -> dict[str, Any]:
    """Values of the chart of definitions. Should it ever be removed, they stay: with them would go every monitor and
    rule of every tenant.
    """
    return {"crds": {"annotations": {"helm.sh/resource-policy": "keep"}}}


def values(*, days: int, storage_bytes: int) -> dict[str, Any]:
    """Chart values. `storage_bytes` is the volume of each of the two Prometheus replicas."""
    return {
        # They have a release of their own: Helm installs what lies in this chart's folder `crds` once, and never upgrades it.
        "crds": {"enabled": False},
        # Every alert here has a runbook and a test of its own, and every panel was asked: the chart's would stand beside them unread.
        "defaultRules": {"create": False},
        "kubeControllerManager": {"enabled": False},
        "kubeEtcd": {"enabled": False},
        "kubeProxy": {"enabled": False},
        "kubeScheduler": {"enabled": False},
        "prometheusOperator": {
            "nodeSelector": dict(ON_SYSTEM_NODES),
            "resources": requests("50m", "128Mi"),
            # Of the container beside each Prometheus and Alertmanager, which the operator makes.
            "prometheusConfigReloader": {"resources": requests("10m", "50Mi")},
        },
        "prometheus": {
            "podDisruptionBudget": {"enabled": True},
            # Each replica by itself, for who asks through the API server (`headway.wire.PROMETHEUS_PROXIED`).
            "servicePerReplica": {"enabled": True},
            "prometheusSpec": _prometheus(days, storage_bytes),
        },
        "alertmanager": {
            "podDisruptionBudget": {"enabled": True},
            "servicePerReplica": {"enabled": True},
            "alertmanagerSpec": {
                "replicas": 2,
                # Notifications are counted by receiver, so that `headway verify` sees which of them takes none.
                "additionalConfig": {"enableFeatures": ["receiver-name-in-metrics"]},
                "nodeSelector": dict(ON_SYSTEM_NODES),
                "resources": requests("50m", "128Mi"),
                # A tenant's routes see the alerts of its namespace; the platform's, in this one, see all.
                "alertmanagerConfigMatcherStrategy": {"type": "OnNamespaceExceptForAlertmanagerNamespace"},
                "storage": {"volumeClaimTemplate": _volume(5 * _GI)},
            },
        },
        "grafana": _grafana(),
        "kube-state-metrics": {
            "collectors": list(COUNTED),
            "metricLabelsAllowlist": [
                # The GPU Operator's label is by what alerts know which nodes have GPUs.
                f"nodes=[nvidia.com/gpu.present,{POOL},{WORKLOAD_CLASS}]",
                f"pods=[{TENANT},{MODEL},{RELEASE},{WORKLOAD_CLASS}]",
                f"namespaces=[{TENANT}]",
            ],
            "nodeSelector": dict(ON_SYSTEM_NODES),
            "resources": requests("50m", "256Mi"),
        },
        "prometheus-node-exporter": {
            # Its series say which node they are about, as those of the kubelet and of objects do.
            "prometheus": {"monitor": {"relabelings": [{"sourceLabels": ["__meta_kubernetes_pod_node_name"], "targetLabel": "node"}]}},
            # Without one it would wait, on a node that models have filled before it came: each of them has a higher one.
            "priorityClassName": "system-node-critical",
            "resources": requests("50m", "64Mi"),
            "tolerations": [{"operator": "Exists"}],
            "updateStrategy": dict(A_FEW_AT_ONCE),
        },
    }


def _prometheus(days: int, storage_bytes: int) -> dict[str, Any]:
    everything = ("podMonitor", "probe", "rule", "scrapeConfig", "serviceMonitor")
    return {
        **{f"{kind}SelectorNilUsesHelmValues": False for kind in everything},
        "image": {"sha": PROMETHEUS_DIGEST, "tag": PROMETHEUS_TAG},
        "replicas": 2,
        "retention": f"{days}d",
        "retentionSize": f"{storage_bytes * RETAINED_SHARE_PERCENT // 100 // 2**20}MiB",
        "scrapeInterval": "15s",
        "evaluationInterval": "15s",
        "enableFeatures": ["exemplar-storage"],
        "nodeSelector": dict(ON_SYSTEM_NODES),
        "resources": requests("500m", f"{storage_bytes // DISK_TO_MEMORY // 2**20}Mi"),
        "topologySpreadConstraints": spread({"app.kubernetes.io/name": "prometheus"}),
        "storageSpec": {"volumeClaimTemplate": _volume(storage_bytes)},
    }


def _volume(size: int) -> dict[str, Any]:
    return {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": STORAGE_CLASS,
            "resources": {"requests": {"storage": f"{-(-size // _GI)}Gi"}},
        }
    }


def _grafana() -> dict[str, Any]:
    return {
        "env": {"GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION": "true"},
        "grafana.ini": {
            # The defaults tell its maker about the installation, and ask it for news.
            "analytics": {"check_for_plugin_updates": False, "check_for_updates": False, "reporting_enabled": False},
            "auth": {"disable_login_form": True},
            "auth.anonymous": {"enabled": True, "org_role": "Viewer"},
            "users": {"allow_sign_up": False},
        },
        "additionalDataSources": _sources(),
        "defaultDashboardsEnabled": False,
        "nodeSelector": dict(ON_SYSTEM_NODES),
        "resources": requests("100m", "256Mi"),
        "rbac": {"useExistingClusterRole": DASHBOARDS_READER},
        "podAnnotations": {"checksum/datasources": hashlib.sha256(json.dumps(_sources()).encode()).hexdigest()},
        "sidecar": {
            "dashboards": {"resource": "configmap", "searchNamespace": "ALL", "skipReload": True},
            # Fetched before Grafana starts, which reads them once: it reloads for an administrator alone, and there is none.
            "datasources": {"resource": "configmap", "initDatasources": True, "skipReload": True, "watchMethod": "LIST"},
            "resources": requests("20m", "96Mi"),
        },
        "testFramework": {"enabled": False},
    }


def _sources() -> list[dict[str, Any]]:
    """Logs and traces, each a click from the other by the trace's id. A dollar is doubled: Grafana expands variables
    when it reads this.

    Grafana opens one source beside the other in Explore, for who may use it; the trail's dashboard is for everybody.
    """
    to_trace = {
        "name": "trace in Explore",
        "matcherType": "label",
        "matcherRegex": "trace_id",
        "datasourceUid": "tempo",
        "url": "$${__value.raw}",
    }
    trail = [
        {"name": name, "matcherType": "label", "matcherRegex": field, "url": f"/d/{TRAIL}?var-{name}=$${{__value.raw}}"}
        for name, field in (("request", "request_id"), ("trace", "trace_id"))
    ]
    to_logs = {
        "datasourceUid": "loki",
        "customQuery": True,
        "query": '{service_name=~".+"} | trace_id = "$${__trace.traceId}"',
        "spanStartTimeShift": "-5m",
        "spanEndTimeShift": "5m",
    }
    return [
        {
            "name": "Loki",
            "type": "loki",
            "uid": "loki",
            "access": "proxy",
            "url": LOKI_URL,
            "jsonData": {"derivedFields": [*trail, to_trace]},
        },
        {"name": "Tempo", "type": "tempo", "uid": "tempo", "access": "proxy", "url": TEMPO_URL, "jsonData": {"tracesToLogsV2": to_logs}},
    ]
