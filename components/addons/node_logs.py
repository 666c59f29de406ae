"""What containers print, from every node to Loki: the OpenTelemetry collector once more, as a DaemonSet that reads the
kubelet's log files.

A line is known by its namespace, container and the tenant, model and release of its pod; nothing else becomes a
label of Loki. The traps: what a program prints is free text, so no allow-list holds for it, only patterns that mask;
and a line that is read before the agent knows its pod has no model and no release, while its namespace, which is in
the file's name, is never missing.
"""

from collections.abc import Mapping
from typing import Any

from components.addons.otel import IMAGE, LABELS, METRICS, NOT_SPOKEN, READS, monitored, redaction, telemetry, waiting
from components.addons.placement import A_FEW_AT_ONCE
from components.addons.prometheus import LOKI_URL
from headway.wire import MODEL, RELEASE, TENANT

RELEASE_NAME = "otel-logs"
LINE_BYTES = 16_384
"""A longer line is cut into pieces: the size of the pieces in which the container runtime writes it down."""
MEMORY_MIB, QUEUE_MIB = 256, 16

_AS_ROOT = {
    # The files are root's, and nobody else's to read. It needs no capability to read what is its own.
    "runAsUser": 0,
    "runAsGroup": 0,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def values(priority: str) -> dict[str, Any]:
    """Chart values; `priority` is the class of its pods. It runs on every node, whatever its taints: a broken one
    has most to tell.
    """
    return {
        "mode": "daemonset",
        "fullnameOverride": RELEASE_NAME,
        "image": {"repository": IMAGE},
        # Mounts the node's logs read-only. Checkpoints would need a folder of the node to write to: without them, what is printed while the
        # agent itself restarts is not read.
        "presets": {"logsCollection": {"enabled": True, "maxRecombineLogSize": LINE_BYTES}},
        "clusterRole": {"create": True, "rules": READS},
        "ports": {**{port: {"enabled": False} for port in ("otlp", "otlp-http", *NOT_SPOKEN)}, **METRICS},
        "podMonitor": monitored(),
        "priorityClassName": priority,
        "tolerations": [{"operator": "Exists"}],
        "rollout": {"rollingUpdate": A_FEW_AT_ONCE["rollingUpdate"]},
        "securityContext": _AS_ROOT,
        "resources": {"limits": {"memory": f"{MEMORY_MIB}Mi"}, "requests": {"cpu": "50m", "memory": "128Mi"}},
        "alternateConfig": config(),
    }


def config() -> Mapping[str, Any]:
    """The agent's configuration, to which the chart's preset adds the reading of files. Redacted before it leaves
    the node.
    """
    return {
        "extensions": {"health_check": {"endpoint": "${env:MY_POD_IP}:13133"}},
        "processors": {
            "batch": {},
            "k8s_attributes": {
                "filter": {"node_from_env_var": "OTEL_K8S_NODE_NAME"},
                "pod_association": [{"sources": [{"from": "resource_attribute", "name": "k8s.pod.uid"}]}],
                "extract": {
                    "metadata": ["k8s.namespace.name", "k8s.node.name", "k8s.pod.name", "k8s.pod.uid"],
                    "labels": [
                        {"tag_name": tag, "key": key, "from": "pod"} for tag, key in zip(LABELS, (MODEL, RELEASE, TENANT), strict=True)
                    ],
                },
                # Else the lines that are there when it starts would belong to nobody.
                "wait_for_metadata": True,
            },
            "memory_limiter": {"check_interval": "5s", "limit_percentage": 80, "spike_limit_percentage": 25},
            "redaction": redaction(),
        },
        "exporters": {"otlp_http": {"endpoint": f"{LOKI_URL}/otlp", "sending_queue": waiting(QUEUE_MIB)}},
        "service": {
            "extensions": ["health_check"],
            "telemetry": telemetry(),
            "pipelines": {
                "logs": {
                    "receivers": [],
                    "processors": ["memory_limiter", "k8s_attributes", "redaction", "batch"],
                    "exporters": ["otlp_http"],
                }
            },
        },
    }
