"""`headway leftovers`: what AWS still holds, and charges, of an environment that was destroyed."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.completion import cluster_stacks
from headway.cli.environment_choice import EnvironmentOption, cluster_stack
from headway.cli.output import Output, OutputOption
from headway.problem import Exit, UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headway.environment.aws import Clients
    from headway.leftovers import Leftover, Search


def leftovers(
    context: typer.Context,
    environment: EnvironmentOption = None,
    stack: Annotated[
        str | None,
        typer.Option("--stack", "-s", autocompletion=cluster_stacks, help="The same by its cluster layer's stack, such as dev-cluster."),
    ] = None,
    tenant: Annotated[str | None, typer.Option("--tenant", help="Only what is left of this tenant, while the environment lives.")] = None,
    output: OutputOption = Output.TEXT,
    project: Annotated[Path | None, typer.Option("--project", help="The checkout; found from the working folder otherwise.")] = None,
) -> None:
    """List what AWS still holds of an environment, or of one tenant, by tag and name; deletes nothing.

    Exit codes: 0 nothing is left, or the cluster still exists and uses it; 1 something is left, of a tenant also while
    the cluster exists; 3 no or wrong credentials.
    """
    from headway.capacity.described import cluster_name, described
    from headway.environment.aws import clients
    from headway.environment.checkout import find
    from headway.leftovers import Search

    stack = cluster_stack(context, environment, stack, project)
    environment, about = described(find(project), stack)
    search = Search(environment=environment, cluster=cluster_name(environment), account_id=about.account_id, region=about.region)
    lives, found = _searched(search, tenant, clients(about.region, retries={"mode": "standard", "max_attempts": 5}))
    if output is Output.JSON:
        record = {"stack": stack, "cluster": search.cluster, "cluster_exists": lives, "leftovers": [asdict(each) for each in found]}
        typer.echo(json.dumps(record, indent=2))
    else:
        _print(search, tenant, lives, found)
    raise typer.Exit(Exit.REFUSED if found and not lives else Exit.OK)


def _searched(search: "Search", tenant: str | None, clients: "Clients") -> "tuple[bool, Sequence[Leftover]]":
    """Whether what was found is in use, and what was found."""
    from botocore.exceptions import BotoCoreError, ClientError

    from headway.leftovers import check_account, cluster_exists, leftovers, tenant_leftovers

    try:
        check_account(search, clients)
        if tenant:
            return False, tenant_leftovers(search, tenant, clients)
        return cluster_exists(search, clients), leftovers(search, clients)
    except (BotoCoreError, ClientError) as error:
        raise UserError(
            f"AWS did not answer: {error}",
            "Nothing is known about what is left; nothing was changed.",
            "Choose credentials of the account that may list (AWS_PROFILE; ReadOnlyAccess is enough), then run the command again.",
            Exit.ENVIRONMENT,
        ) from None


def _print(search: "Search", tenant: str | None, lives: bool, found: "Sequence[Leftover]") -> None:
    from rich.console import Console
    from rich.markup import escape

    from headway.cli.listing import print_listing
    from headway.problem import on_one_line

    console = Console(highlight=False)
    where = f"account {search.account_id}, {search.region}"
    if not found:
        console.print(f"Nothing of {tenant or search.environment} is left in {where}.")
        return
    if tenant:
        console.print(f"Of tenant {tenant} of {search.environment} ({where}), these are left:\n")
    elif lives:
        console.print(
            f"Cluster {search.cluster} exists ({where}): these are in use. Destroy its tenants and platform first, then the cluster.\n"
        )
    else:
        console.print(f"Cluster {search.cluster} is gone ({where}), and these are left:\n")
    # A runner writes its chains' witnesses.
    rows = (tuple(escape(on_one_line(cell)) for cell in (each.kind, each.id, each.state or "-", each.why)) for each in found)
    print_listing(console, ("kind", "id", "state", "recognised by"), rows, sentences=("recognised by",), style="bold")
    if not lives:
        console.print("\nIn this order they can be removed, once you are sure:\n")
        for each in found:
            console.print(f"  {on_one_line(each.remove)}", markup=False, soft_wrap=True)
