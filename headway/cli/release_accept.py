"""`headway release accept`: a person takes the ledger for right although its witness names another one."""

from typing import Annotated

import typer

from headway.cli.environment_choice import EnvironmentOption, to_write
from headway.cli.release_options import ProjectOption, ReasonOption, reasoned
from headway.problem import Exit, UserError


def accept(
    service: Annotated[str, typer.Argument(metavar="TENANT/MODEL[/evaluation|/drift]", help="Which chain.")],
    reason: ReasonOption,
    environment: EnvironmentOption = None,
    project: ProjectOption = None,
) -> None:
    """Take a service's ledger for right although its witness names another one, as after a restore from the copy. The
    reason becomes an event of it, with what the witness said."""
    from headway.ledger.chain import LostError
    from headway.ledger.witness import SilentWitnessError
    from headway.release.service_place import place

    reasoned(reason)
    tenant, _, rest = service.partition("/")
    model, _, beside = rest.partition("/")
    here = place(f"{tenant}/{model}", to_write(environment, project), project)
    chains = {each().chain: each for each in (here.ledger, here.evaluations, here.drifts)}
    if service not in chains:
        raise UserError(f"{here.chain} has no chain {beside}.", "Nothing was done.", f"Its chains are {', '.join(chains)}.", Exit.USAGE)
    while True:
        ledger = chains[service]()
        try:
            said = ledger.accept(reason)
            break
        except LostError:  # somebody else wrote the next event: look again
            continue
        except SilentWitnessError as silence:
            raise UserError(
                f"The witness of {service} in {here.environment} does not answer ({silence}).",
                "What it says against the ledger is not known, or was not replaced.",
                "Use an identity that may read and write it (`headway access` prints the policy), and run the command again.",
                Exit.ENVIRONMENT,
            ) from None
    if said is None:
        print(f"{service}: no witness says anything against its ledger; nothing was done.")
    else:
        print(f"{service}: accepted with {len(ledger.events)} events, although {said}.")
