"""The pod that tests the GPUs of one empty node. Pure.

It takes all GPUs of its node past the device plugin, which it may, for the node is drained and tainted; nothing else
runs there. The trap: DCGM's diagnostic tests whole GPUs only, so a node whose GPUs are cut by MIG is never sent here.
"""

from typing import Any

from headway.node_health.facts import DIAGNOSTIC_LABEL, GpuNode
from headway.wire import NODE_HEALTH_NAMESPACE, PART_OF

LEVEL = 2
"""DCGM's medium level: memory, PCIe and NVLink bandwidth, a short stress; about two minutes on eight GPUs. Source:
DCGM User Guide, "DCGM Diagnostics", run levels."""
DEADLINE_SECONDS = 1200


def pod_name(node: str, trial: str) -> str:
    """One pod for each trial on a node, so that a start that is repeated is one start."""
    return f"diagnose-{node}"[:200].rstrip(".-") + f"-{trial}"


def pod(node: GpuNode, trial: str, image: str) -> dict[str, Any]:
    """The pod of this trial; it succeeds when every GPU of the node does."""
    container = {
        "name": "dcgmi",
        "image": image,
        # Without a host engine to talk to, the tool would ask the one of the exporter; its own watches no profiling fields.
        "command": ["/bin/sh", "-c", f"nv-hostengine && dcgmi diag --run {LEVEL}"],
        "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}],
        "securityContext": {"privileged": True},
        "resources": {"requests": {"cpu": "1", "memory": "2Gi"}, "limits": {"memory": "4Gi"}},
    }
    labels = {"app.kubernetes.io/part-of": PART_OF, "app.kubernetes.io/component": "diagnostic", DIAGNOSTIC_LABEL: trial}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": pod_name(node.name, trial), "namespace": NODE_HEALTH_NAMESPACE, "labels": labels},
        "spec": {
            "activeDeadlineSeconds": DEADLINE_SECONDS,
            "automountServiceAccountToken": False,
            "containers": [container],
            "enableServiceLinks": False,
            # Past the scheduler: it would count GPUs that this pod does not ask for.
            "nodeName": node.name,
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 5,
            "tolerations": [{"operator": "Exists"}],
        },
    }
