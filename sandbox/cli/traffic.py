"""`headway sandbox logs` and `headway sandbox token`: what a served pod said, and a token that opens a tenant's
hosts in the sandbox."""

from typing import Annotated

import typer

from headway.problem import Exit, UserError, on_one_line
from sandbox.cli.place import ProjectOption, layout_of

_AN_HOUR = 3600


def logs(
    service: Annotated[
        str,
        typer.Argument(metavar="TENANT[/POD]", help="The tenant whose pods are meant, and the beginning of a pod's name if only some are."),
    ],
    container: Annotated[
        str, typer.Option("--container", "-c", help="The container: `server`, or `fetch`, which downloads the artifact.")
    ] = "server",
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="How many lines to print of each pod, counted from the end.")] = 40,
    project: ProjectOption = None,
) -> None:
    """Print the last log lines of pods that run as processes."""
    from sandbox.traffic.pod_logs import kept

    tenant, _, wanted = service.partition("/")
    logs = [each for each in kept(layout_of(project).logs / "pods") if each.container == container]
    found = [each for each in logs if each.tenant == tenant and each.pod.startswith(wanted)]
    if not found:
        known = ", ".join(f"{each.tenant}/{each.pod}" for each in logs)
        raise UserError(
            f"No served pod {service} has a log of {container}.",
            "Pods that are only simulated say nothing.",
            f"Served were: {known}." if known else "Nothing has been served here: `make demo` does.",
        )
    for each in found:
        typer.echo(f"==> {tenant}/{each.pod} {container}")
        for line in each.path.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:]:
            typer.echo(on_one_line(line))


def token(
    tenant: Annotated[str, typer.Argument(help="The tenant whose hosts the token opens.")],
    subject: Annotated[str, typer.Option("--subject", help="The caller whom the token names.")] = "somebody",
    priority: Annotated[
        str | None, typer.Option("--priority", help="The claim from which the gateway takes the priority of a request.")
    ] = None,
    seconds: Annotated[int, typer.Option("--seconds", help="For how many seconds the token is valid.")] = _AN_HOUR,
    project: ProjectOption = None,
) -> None:
    """Print a token of the tenant's first issuer, signed with the sandbox's own key; it opens nothing but this
    sandbox's gateway."""
    from time import time

    from headway.contract.reading.loader import load_tenant
    from headway.contract.reading.tenants import tenants_of
    from headway.environment.checkout import find
    from sandbox.plan import ENVIRONMENT
    from sandbox.traffic import servers
    from sandbox.traffic.mesh.tokens import TokenIssuers

    checkout = find(project)
    known = tenants_of(ENVIRONMENT, checkout / "stacks")
    found = load_tenant(checkout / "tenants" / tenant).tenant(tenant) if tenant in known else None
    if found is None:
        raise UserError(
            f"There is no tenant {tenant} with a contract in order.", "No token was made.", f"Name one of {', '.join(known)}.", Exit.USAGE
        )
    issuer = found.tenant.issuers[0]
    claims = {"priority": priority} if priority else {}
    issuers = TokenIssuers(servers.folder(layout_of(project)) / "issuers")
    typer.echo(issuers.token(issuer.issuer, issuer.audiences, subject, now=time(), seconds=seconds, claims=claims))
