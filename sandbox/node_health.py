"""Keeps the loop of node health, which production runs in the cluster: without it no node of a pool that MIG cuts would
ever be admitted.

The real command, as the administrator and without the right to end instances, for there are none. Until the platform
layer has written down what the pools promise, it says so and asks again.
"""

import sys

from sandbox.cluster.api import LoopbackEndpoint
from sandbox.cluster.processes import Process, Supervisor
from sandbox.layout import Layout
from sandbox.progress import Progress

NAME = "node-health-loop"
INTERVAL_SECONDS = 1
"""Between its rounds; fifteen in production, where cutting takes minutes too."""


def start(layout: Layout, progress: Progress, *, supervisor: Supervisor | None = None) -> None:
    """Have it run. Needs the control plane. UserError when it does not start."""
    keeper = supervisor or Supervisor(layout)
    port = keeper.port(NAME)
    metrics = f"http://127.0.0.1:{keeper.port('prometheus')}"
    own = ("--interval", str(INTERVAL_SECONDS), "--serve", f"127.0.0.1:{port}", "--prometheus", metrics)
    words = ("nodes", "watch", *own, "--kubeconfig", str(layout.kubeconfig))
    process = Process(
        name=NAME,
        argv=(sys.executable, "-m", "headway.cli.main", *words),
        environment={"PYTHONPATH": str(layout.project), "PYTHONDONTWRITEBYTECODE": "1"},
        ports=(port,),
        inputs=tuple(sorted(each for room in ("node_health", "diagnosis") for each in (layout.project / "headway" / room).glob("*.py"))),
        ready=lambda: LoopbackEndpoint(port=port).unready("/healthz"),
    )
    keeper.ensure(process, progress)
