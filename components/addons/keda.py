"""KEDA: scales Deployments from Prometheus and queues. It owns `replicas`; nothing else here ever sets them.

Scaling uses the operator's own identity. The trap: `identityOwner: workload` does not work with Pod Identity
(kedacore/keda#6418), so tenants' queues are read with the operator's role.
"""

from typing import Any

from components.addons.placement import ON_SYSTEM_NODES, requests
from components.addons.service_account import Annotations, service_account
from components.permissions import Statement

NAMESPACE = "keda"
SERVICE_ACCOUNT = "keda-operator"


def values(cluster_name: str, annotations: Annotations = None) -> dict[str, Any]:
    """Two of everything: while KEDA is away, no service scales."""
    monitored = {"enabled": True, "serviceMonitor": {"enabled": True}}
    return {
        "clusterName": cluster_name,
        # Templates of the chart: with them would go every autoscaler of every tenant, held by a finalizer that nobody is left to take off.
        "crds": {"additionalAnnotations": {"helm.sh/resource-policy": "keep"}},
        "image": {"pullPolicy": "IfNotPresent"},
        "operator": {"replicaCount": 2},
        "metricsServer": {"replicaCount": 2},
        "webhooks": {"replicaCount": 2},
        "podDisruptionBudget": {part: {"minAvailable": 1} for part in ("metricServer", "operator", "webhooks")},
        "logging": {"operator": {"format": "json"}, "webhooks": {"format": "json"}},
        "resources": {part: requests("100m", "100Mi") for part in ("metricServer", "operator", "webhooks")},
        "nodeSelector": dict(ON_SYSTEM_NODES),
        "priorityClassName": "system-cluster-critical",
        # By its own defaults it reads every Secret of every namespace, and gets every object there is, for triggers that sign in and for kinds
        # besides Deployments; nobody here has either (`components/platform/boundaries.py`).
        "permissions": {part: {"restrict": {"secret": True}} for part in ("metricServer", "operator")},
        "prometheus": {"metricServer": monitored, "operator": monitored, "webhooks": monitored},
        "rbac": {"enabledCustomScaledRefKinds": False},
        "serviceAccount": {"operator": service_account(SERVICE_ACCOUNT, annotations)},
    }


def reads_queues(queue_arns: str) -> Statement:
    """How long tenants' batch queues are, and nothing of what is in them."""
    return Statement(sid="QueueLength", actions=["sqs:GetQueueAttributes"], resources=[queue_arns])
