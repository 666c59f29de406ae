"""`headway release copy`: a second copy of the ledger, for the day on which its region is away."""

import json
from dataclasses import asdict
from typing import Annotated

import typer

from headway.cli.environment_choice import EnvironmentOption, to_write
from headway.cli.output import Output, OutputOption
from headway.cli.release_options import ProjectOption
from headway.problem import on_one_line


def copy(
    to: Annotated[str, typer.Option("--to", help="Where the copy is: s3://bucket/prefix, or file:///folder.")],
    origin: Annotated[str | None, typer.Option("--from", help="The ledger to copy; the environment's own otherwise.")] = None,
    environment: EnvironmentOption = None,
    project: ProjectOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Copy the release ledger to another place, such as a bucket in a second region, and verify every chain there.

    Only what is new is written; leases are left out. Exit codes: 0 the copy holds all; 1 the two went different ways,
    or the copy has a flaw.
    """
    from headway.environment.checkout import find
    from headway.environment.selection import environment as selected
    from headway.ledger.copying import copy as copied
    from headway.ledger.location import opened
    from headway.ledger.store_proof import prove

    own = None if origin else to_write(environment, project)
    source, target = opened(origin or selected(str(own), find(project)).ledger_address), opened(to)
    prove(target)
    found = copied(source, target, own)
    if output is Output.JSON:
        print(json.dumps({chain: asdict(one) for chain, one in sorted(found.items())}, indent=2))
        return
    for chain, one in sorted(found.items()):
        # A runner names the places that it writes.
        print(f"✓ {on_one_line(chain)}: {one.events} events ({one.new} new), the newest of {one.newest}")
    print(f"{to} holds the ledger: {len(found)} chains, {sum(one.events for one in found.values())} events")
