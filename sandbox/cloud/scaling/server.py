"""Keeps the Cluster Autoscaler's process: `up --with cluster-autoscaler`.

It scales the node groups of the simulated account by the arguments that our chart gets, and the pools of the stack
file. One setting makes it faster: `HEADWAY_SANDBOX_SCALING_SPEED`.
"""

import os
import sys
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from time import time
from typing import Any

from components.addons import cluster_autoscaler
from headway.contract.pool import Pool
from headway.problem import UserError
from pulumi_embedded.providers.aws.account import SimulatedAccount
from pulumi_embedded.providers.aws.clusters import NodeGroups
from pulumi_embedded.providers.aws.scaling_groups import ScalingGroups
from sandbox.cloud.control_plane import LocalControlPlane
from sandbox.cloud.nodes import nodes
from sandbox.cloud.scaling.loop import AutoscalerLoop, run
from sandbox.cloud.scaling.model import AutoscalerArguments
from sandbox.cluster import control_plane_programs
from sandbox.cluster.api import LoopbackEndpoint
from sandbox.cluster.processes import Process, Supervisor
from sandbox.layout import Layout
from sandbox.plan import ENVIRONMENT
from sandbox.progress import Progress
from stacks.settings import config_of

NAME = "cluster-autoscaler"
SPEED_VARIABLE = "HEADWAY_SANDBOX_SCALING_SPEED"
BOOT = timedelta(minutes=3)
"""From the launch of an instance until its node joins. An assumption: GPU nodes take minutes, and nobody says how many
for all types. It is far below max-node-provision-time, 20 minutes."""
_SILENT_SECONDS = 60.0


def start(layout: Layout, progress: Progress, environment: Mapping[str, str] = os.environ, *, supervisor: Supervisor | None = None) -> None:
    """Have it run. Needs the control plane. UserError for a speed that is none, or arguments that are not modelled."""
    factor = speed(environment)
    arguments(layout)
    beat = _beat(layout)
    beat.parent.mkdir(parents=True, exist_ok=True)
    process = Process(
        name=NAME,
        argv=(sys.executable, "-m", "sandbox.cloud.scaling.server", str(layout.project), str(layout.state), str(layout.cache), str(factor)),
        environment={"PYTHONPATH": str(layout.project), "PYTHONDONTWRITEBYTECODE": "1"},
        inputs=(*sorted(Path(__file__).parent.glob("*.py")), layout.project / "stacks" / f"Pulumi.{ENVIRONMENT}-cluster.yaml"),
        prepare=lambda: beat.unlink(missing_ok=True),
        ready=lambda: None if beat.exists() and time() - beat.stat().st_mtime < _SILENT_SECONDS else "it has not made a turn yet",
    )
    (supervisor or Supervisor(layout)).ensure(process, progress)


def speed(environment: Mapping[str, str]) -> float:
    """How many times as fast its delays pass; one unless the environment says otherwise. UserError."""
    given = environment.get(SPEED_VARIABLE) or "1"
    try:
        factor = float(given)
    except ValueError:
        factor = 0.0
    if not 1 <= factor <= 1000:
        raise UserError(
            f"{SPEED_VARIABLE} is {given!r}, which is no number from 1 to 1000.",
            "The sandbox's Cluster Autoscaler was not started.",
            "Set it to 15, for one, and 15 minutes pass in one; or unset it.",
        )
    return factor


def arguments(layout: Layout) -> AutoscalerArguments:
    """Those that the platform's chart gets, with the pools of the sandbox's stack file."""
    pools = [Pool.model_validate(each) for each in _config(layout)["headway:pools"]]
    return AutoscalerArguments.of_chart(cluster_autoscaler.values(ENVIRONMENT, "any", pools))


def _config(layout: Layout) -> Mapping[str, Any]:
    return config_of(layout.project / "stacks", ENVIRONMENT, "cluster")


def _beat(layout: Layout) -> Path:
    return layout.cloud / f"{NAME}.turn"


def main(project: str, state: str, cache: str, factor: str) -> None:
    layout = Layout(project=Path(project), state=Path(state), cache=Path(cache))
    account = SimulatedAccount(layout.cloud / f"account-{_config(layout)['headway:account']['id']}.sqlite")
    plane = LocalControlPlane(layout.kubeconfig)
    who = control_plane_programs.identities(layout.cluster / "pki")
    port = Supervisor(layout).port(control_plane_programs.API_SERVER)
    given = arguments(layout).faster(float(factor))
    loop = AutoscalerLoop(
        groups=ScalingGroups(account, plane, NodeGroups(account, plane, nodes), BOOT / float(factor)),
        api=LoopbackEndpoint(port=port, authority=who.cluster.certificate, client=who.admin),
        arguments=given,
        say=lambda line: print(line, flush=True),  # noqa: T201 - its log
    )
    run(loop, _beat(layout).touch, given.scan_interval)


if __name__ == "__main__":
    main(*sys.argv[1:])
