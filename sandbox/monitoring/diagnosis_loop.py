"""Keeps the loop that Alertmanager asks why a page fires, which production runs in the cluster: the real command, as this user."""

import json
from typing import Any

from components.tenant.surroundings import RUNBOOKS
from headway.wire import DIAGNOSIS_NAMESPACE
from sandbox.cluster.processes import Supervisor
from sandbox.kept_loop import keep
from sandbox.layout import HOME_VARIABLE, Layout
from sandbox.monitoring import configuration, servers
from sandbox.plan import ENVIRONMENT
from sandbox.progress import Progress

NAME = "diagnosis-loop"


def start(layout: Layout, progress: Progress, *, supervisor: Supervisor | None = None) -> None:
    """Have it run. It answers as soon as it listens; what it reads may come later. UserError when it does not start."""
    keeper = supervisor or Supervisor(layout)
    words = ("loops", "diagnose", "--environment", ENVIRONMENT, "--project", str(layout.project), "--runbooks", RUNBOOKS)
    keep(keeper, layout, progress, NAME, words, rooms=("diagnosis", "release"), environment={HOME_VARIABLE: str(layout.state)})
    servers.write(servers.folder_of(layout) / "targets" / f"{NAME}.json", json.dumps(scraped(keeper), indent=2) + "\n")


def scraped(keeper: Supervisor) -> list[dict[str, Any]]:
    """Its series, as Prometheus is told where they are; under the job of the PodMonitor that production has."""
    return configuration.target_file([f"127.0.0.1:{keeper.port(NAME)}"], {"job": f"{DIAGNOSIS_NAMESPACE}/{DIAGNOSIS_NAMESPACE}"})


def address(keeper: Supervisor) -> str:
    """Where Alertmanager asks it."""
    return f"http://127.0.0.1:{keeper.port(NAME)}/alerts"
