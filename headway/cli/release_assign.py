"""`headway release assign`: which version an experiment gives a user, recomputed from the ledger.

A user id is personal data; it is read and printed, and kept nowhere.
"""

import json
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.environment_choice import EnvironmentOption, to_read
from headway.cli.output import Output, OutputOption
from headway.cli.release_options import ProjectOption, ServiceArgument
from headway.problem import Exit, UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headway.release.driver.rollout_state import RolloutState


def assign(
    service: ServiceArgument,
    user: Annotated[str, typer.Argument(metavar="USER", help="Value of the token's claim; - reads one a line from standard input.")],
    number: Annotated[
        int | None, typer.Option("--number", help="Which release, by the number in `history`; the newest experiment otherwise.")
    ] = None,
    environment: EnvironmentOption = None,
    project: ProjectOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Which version of an A/B release a user gets: bucket, arm and release, by the same arithmetic as the gateway's."""
    from headway.cli.release_read import compared
    from headway.release.driver.rollout_state import fold
    from headway.release.experiment import assigned
    from headway.release.service_place import place

    here = place(service, to_read(environment, project), project)
    rollout = _chosen(here.chain, fold(compared(here.ledger())).all, number)
    for each in [line.rstrip("\n") for line in sys.stdin] if user == "-" else [user]:
        found = assigned(rollout, each)
        if output is Output.JSON:
            print(json.dumps({"user": each, **found.document()}))
        else:
            now = "now" if found.divided else f"until {found.until}" if found.until else "once users are divided"
            print(f"{each}: bucket {found.bucket} of experiment {found.experiment}, arm {found.arm}, release {found.release} ({now})")


def _chosen(chain: str, known: "Sequence[RolloutState]", number: int | None) -> "RolloutState":
    experiments = [rollout for rollout in known if rollout.user_split]
    if number is not None and 0 < number <= len(known):
        return known[number - 1]
    if number is not None or not experiments:
        what = f"no release {number}; there are {len(known)}" if number is not None else "had no A/B release yet"
        raise UserError(
            f"{chain} has {what}.",
            "There is no experiment to find a user in.",
            f"`headway release history {chain}` lists its releases.",
            Exit.USAGE,
        )
    return experiments[-1]
