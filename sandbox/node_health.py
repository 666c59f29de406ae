"""Keeps the loop of node health, which production runs in the cluster: without it no node of a pool that MIG cuts would
ever be admitted.

The real command, as the administrator and without the right to end instances, for there are none. Until the platform
layer has written down what the pools promise, it says so and asks again.
"""

from sandbox.cluster.processes import Supervisor
from sandbox.kept_loop import keep
from sandbox.layout import Layout
from sandbox.progress import Progress

NAME = "node-health-loop"
INTERVAL_SECONDS = 1
"""Between its rounds; fifteen in production, where cutting takes minutes too."""


def start(layout: Layout, progress: Progress, *, supervisor: Supervisor | None = None) -> None:
    """Have it run. Needs the control plane. UserError when it does not start."""
    keeper = supervisor or Supervisor(layout)
    metrics = f"http://127.0.0.1:{keeper.port('prometheus')}"
    words = ("nodes", "watch", "--interval", str(INTERVAL_SECONDS), "--prometheus", metrics, "--kubeconfig", str(layout.kubeconfig))
    keep(keeper, layout, progress, NAME, words, rooms=("node_health", "diagnosis"))
