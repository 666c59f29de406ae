"""`headway mirror --pin`: asks the makers for what no public source states a digest of, and says of each what it was."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

from headway.cli.mirror_push import client_of
from headway.cli.output import Output
from headway.problem import Exit, UserError
from headway.registry_mirror.client import RegistryClient
from headway.registry_mirror.pinning import PinAnswer, answer_of, kept, pin_name
from headway.wire import PINS_FILE


def pin_all(listed: dict[str, Any], project: Path, *, only: Sequence[str], output: Output) -> None:
    """Pin what has no digest yet, and compare what was pinned before. Raises UserError where a maker answers another one
    than before (exit 1), or does not answer (exit 3); all other answers are written down then, too."""
    every = [each for each in (*listed["charts"], *listed["images"]) if each["firstUse"] or not each["digest"]]
    asked = [each for each in every if not only or any(text in pin_name(each) for text in only)]
    clients: dict[str, RegistryClient] = {}
    answers, failed = list[PinAnswer](), list[UserError]()
    for number, each in enumerate(asked, start=1):
        try:
            answer = answer_of(each, lambda host: client_of(clients, host))
        except UserError as failure:
            failed.append(failure)
            continue
        answers.append(answer)
        said = "ANOTHER ONE THAN BEFORE" if answer.other else "as before" if answer.before else "pinned"
        typer.echo(f"[{number}/{len(asked)}] {answer.name}: {answer.digest}, {said}", err=True)
    there = kept(project / PINS_FILE, [each for each in answers if not each.before], {pin_name(each) for each in every})
    _refuse(answers, failed)
    if output is Output.JSON:
        typer.echo(json.dumps([{"name": a.name, "digest": a.digest, "new": a.before is None} for a in answers], indent=2))
        return
    typer.echo(
        f"{PINS_FILE}: {there} pins, {sum(not each.before for each in answers)} new; compare them with what their makers state, then commit"
    )


def _refuse(answers: Sequence[PinAnswer], failed: Sequence[UserError]) -> None:
    if others := [each for each in answers if each.other]:
        raise UserError(
            "\n".join(f"{each.name} is {each.digest}, and was {each.before} when it was pinned." for each in others),
            "Its maker moved the version, or somebody stands between: nothing of it may be installed unseen.",
            f"Ask its maker. If that is meant, take its line out of {PINS_FILE} and pin again.",
            Exit.REFUSED,
        )
    if failed:
        raise UserError(
            "\n".join(each.fact for each in failed),
            "These are not pinned; all others are.",
            "Run it again where they can be reached.",
            Exit.ENVIRONMENT,
        )
