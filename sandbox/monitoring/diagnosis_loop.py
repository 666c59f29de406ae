"""Keeps the loop that Alertmanager asks why a page fires, which production runs in the cluster: the real command, as this user."""

import sys

from components.tenant.surroundings import RUNBOOKS
from sandbox.cluster.api import LoopbackEndpoint
from sandbox.cluster.processes import Process, Supervisor
from sandbox.layout import HOME_VARIABLE, Layout
from sandbox.plan import ENVIRONMENT
from sandbox.progress import Progress

NAME = "diagnosis-loop"


def start(layout: Layout, progress: Progress, *, supervisor: Supervisor | None = None) -> None:
    """Have it run. It answers as soon as it listens; what it reads may come later. UserError when it does not start."""
    keeper = supervisor or Supervisor(layout)
    port = keeper.port(NAME)
    words = ("loops", "diagnose", "--environment", ENVIRONMENT, "--project", str(layout.project), "--runbooks", RUNBOOKS)
    process = Process(
        name=NAME,
        argv=(sys.executable, "-m", "headway.cli.main", *words, "--serve", f"127.0.0.1:{port}"),
        environment={HOME_VARIABLE: str(layout.state), "PYTHONPATH": str(layout.project), "PYTHONDONTWRITEBYTECODE": "1"},
        ports=(port,),
        inputs=tuple(sorted((layout.project / "headway" / "diagnosis").rglob("*.py"))),
        ready=lambda: LoopbackEndpoint(port=port).unready("/healthz"),
    )
    keeper.ensure(process, progress)


def address(keeper: Supervisor) -> str:
    """Where Alertmanager asks it."""
    return f"http://127.0.0.1:{keeper.port(NAME)}/alerts"
