"""`headway release guard`: the dead man's switch as a process."""

import sys
from typing import Annotated

import typer

from headway.cli.release_options import EnvironmentOption, ProjectOption


def guard(
    tenant: Annotated[str, typer.Argument(help="Whose services.")],
    environment: EnvironmentOption = "sandbox",
    project: ProjectOption = None,
    in_cluster: Annotated[bool, typer.Option("--in-cluster", help="Use the identity of the pod that this runs in.")] = False,
) -> None:
    """The dead man's switch: take traffic back from any release that nobody watches any more. Runs until it is stopped.

    Needs the API server only. Run it where the runners are not.
    """
    from datetime import UTC, datetime
    from time import sleep

    from headway.cli.project import find
    from headway.cli.release_place import Place
    from headway.release.driver.api import Api
    from headway.release.driver.holder import here as this_process
    from headway.release.driver.world import OutOfReachError
    from headway.release.guard import LOOK_SECONDS, Guard

    api = Api(None) if in_cluster else Place(project=find(project), environment=environment, tenant=tenant, model="").api
    found = Guard(api, tenant, this_process(), lambda: datetime.now(UTC))
    while True:
        try:
            for model in found.look():
                print(f"{tenant}/{model}: nobody watched its release any more; all traffic is on the stable version again", flush=True)
        except OutOfReachError as failure:
            print(f"the API server does not answer ({failure})", file=sys.stderr, flush=True)
        sleep(LOOK_SECONDS)
