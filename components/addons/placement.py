"""Where the platform's own pods run: on the system pool, over hosts and zones. Pure."""

from collections.abc import Mapping
from typing import Any

from components.labels import SYSTEM, WORKLOAD_LABEL

ON_SYSTEM_NODES: Mapping[str, str] = {WORKLOAD_LABEL: SYSTEM}

RESTRICTED_POD: Mapping[str, Any] = {
    "fsGroup": 65534,
    "runAsGroup": 65534,
    "runAsNonRoot": True,
    "runAsUser": 65534,
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""What the restricted Pod Security level asks of a pod; 65534 is nobody."""

RESTRICTED_CONTAINER: Mapping[str, Any] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
}

A_FEW_AT_ONCE: Mapping[str, Any] = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%"}}
"""How the pods of all nodes are replaced. Helm waits until each of them is a new one (helm v3, pkg/kube/ready.go,
`daemonSetReady`); one after the other, which is a chart's default, sixty nodes would take longer, and the upgrade be undone.
"""


def spread(labels: Mapping[str, str]) -> list[dict[str, Any]]:
    """Over zones strictly and over hosts where possible: losing a zone leaves replicas, losing a host never blocks
    one.
    """
    return [
        {
            "maxSkew": 1,
            "topologyKey": key,
            "whenUnsatisfiable": when,
            "labelSelector": {"matchLabels": dict(labels)},
        }
        for key, when in (("topology.kubernetes.io/zone", "DoNotSchedule"), ("kubernetes.io/hostname", "ScheduleAnyway"))
    ]


def requests(cpu: str, memory: str) -> dict[str, Any]:
    """What a container is placed by. Without any it would be the first to go when a node runs short, and these watch
    the others.
    """
    return {"requests": {"cpu": cpu, "memory": memory}}
