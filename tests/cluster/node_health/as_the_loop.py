"""The identity that the platform gives the loop of node health: its own token, and nobody else's rights."""

from pathlib import Path
from typing import Any

import yaml
from kubernetes import client

from headway.wire import NODE_HEALTH_NAMESPACE
from tests.cluster.conftest import ControlPlane, api_client


def kubeconfig_of_the_loop(plane: ControlPlane) -> Path:
    """Beside the administrator's; made once, for an hour."""
    path = plane.kubeconfig.with_name("node-health.kubeconfig")
    if not path.exists():
        core: Any = client.CoreV1Api(api_client(plane.kubeconfig.read_text()))
        token = core.create_namespaced_service_account_token("node-health", NODE_HEALTH_NAMESPACE, {"spec": {"expirationSeconds": 3600}})
        found = yaml.safe_load(plane.kubeconfig.read_text())
        found["users"][0]["user"] = {"token": token.status.token}
        path.write_text(yaml.safe_dump(found))
    return path
