"""`headway release guard`: the dead man's switch as a process."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.completion import tenants
from headway.cli.environment_choice import EnvironmentOption, to_write
from headway.cli.release_options import ProjectOption
from headway.problem import Exit, UserError, printable

if TYPE_CHECKING:
    from headway.environment.kubernetes import KubernetesApi


def guard(
    tenant: Annotated[
        str | None, typer.Argument(autocompletion=tenants, help="Whose services; every tenant's with --in-cluster.", show_default=False)
    ] = None,
    environment: EnvironmentOption = None,
    project: ProjectOption = None,
    in_cluster: Annotated[bool, typer.Option("--in-cluster", help="Use the identity of the pod that this runs in.")] = False,
    looked: Annotated[Path | None, typer.Option("--looked", help="A file to touch whenever the API server has answered.")] = None,
) -> None:
    """The dead man's switch: take traffic back from any release that nobody watches any more. Runs until it is stopped.

    Needs the API server only. Run it where the runners are not.
    """
    from time import sleep

    from headway.environment.checkout import find
    from headway.environment.kubernetes import KubernetesApi
    from headway.release.guard import LOOK_SECONDS
    from headway.release.service_place import ServicePlace

    if not tenant and not in_cluster:
        raise UserError(
            "The command does not say whose services to guard.",
            "Nothing is guarded.",
            "Name a tenant; or use --in-cluster in a pod.",
            Exit.USAGE,
        )
    api = (
        KubernetesApi(None)
        if in_cluster
        else ServicePlace(project=find(project), environment=to_write(environment, project), tenant=tenant or "", model="").api
    )
    if tenant:
        _exists(api, tenant)
    while True:
        if look(api, tenant, lambda text: print(text, flush=True)) and looked:
            looked.touch()
        sleep(LOOK_SECONDS)


def _exists(api: "KubernetesApi", tenant: str) -> None:
    """Raises UserError where the cluster has no such tenant: a guard of nobody would look alive. Who cannot be asked
    yet is asked later."""
    from headway.environment.port import OutOfReachError

    try:
        found = api.get(f"/api/v1/namespaces/{tenant}")
    except (OutOfReachError, UserError):
        return
    if found is None:
        raise UserError(
            f"The cluster has no tenant {tenant}.",
            "Nothing is guarded.",
            "Name a tenant that is deployed: `kubectl get namespaces`.",
            Exit.USAGE,
        )


def look(api: "KubernetesApi", tenant: str | None, say: Callable[[str], None]) -> bool:
    """One look at the tenant's routes, or at every tenant's, by the cluster's clock; whether the API server answered for
    any of them. Not for all: what one tenant writes must not end the guard of the others."""
    from time import monotonic

    from headway.environment.port import OutOfReachError
    from headway.release.driver.holder import here as this_process
    from headway.release.guard import ReleaseGuard, tenants

    try:
        now, guarded = api.now(), (tenant,) if tenant else tenants(api)
    except OutOfReachError as failure:
        print(f"the API server does not answer ({failure})", file=sys.stderr, flush=True)
        return False
    answered = not guarded
    for name in guarded:
        try:
            seen = ReleaseGuard(api, name, this_process(), lambda: now, monotonic).look()
        except (OutOfReachError, UserError) as failure:  # the others are guarded all the same
            print(printable(f"{name}: {failure}"), file=sys.stderr, flush=True)
            continue
        answered = True
        for model in seen.taken:
            say(f"{name}/{model}: nobody watched its release any more; all traffic is on the stable version again")
        for missed in seen.missed:
            print(printable(f"{name}/{missed}"), file=sys.stderr, flush=True)
    return answered
