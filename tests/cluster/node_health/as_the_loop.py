"""The identity that the platform gives the loop of node health: its own token, and nobody else's rights."""

from pathlib import Path

from headway.wire import NODE_HEALTH_NAMESPACE
from tests.cluster.conftest import ControlPlane, kubeconfig_of


def kubeconfig_of_the_loop(plane: ControlPlane) -> Path:
    """Beside the administrator's; made once, for an hour."""
    path = plane.kubeconfig.with_name("node-health.kubeconfig")
    if not path.exists():
        kubeconfig_of(plane, "node-health", NODE_HEALTH_NAMESPACE, path)
    return path
