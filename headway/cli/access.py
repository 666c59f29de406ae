"""`headway access`: who may what in an environment, as the access layer makes it."""

import json
from pathlib import Path
from typing import Annotated

import typer

from headway.cli.completion import environment_names
from headway.cli.environment_choice import EnvironmentOption, named, typed
from headway.cli.output import Output, OutputOption
from headway.problem import Exit, UserError


def access(
    context: typer.Context,
    told: Annotated[
        str | None,
        typer.Argument(metavar="ENVIRONMENT", autocompletion=environment_names, help="Such as prod; -e says the same.", show_default=False),
    ] = None,
    environment: EnvironmentOption = None,
    output: OutputOption = Output.TEXT,
    bootstrap: Annotated[bool, typer.Option("--bootstrap", help="Only the policy of who applies the access layer first, as JSON.")] = False,
    project: Annotated[Path | None, typer.Option("--project", help="The checkout; found from the working folder otherwise.")] = None,
) -> None:
    """Show each role of an environment's people and pipelines: who may assume it, what it may do, where its state lies.

    Reads files only. Exit codes: 0 shown; 2 the environment has no access layer.
    """
    from headway.cli.program import told_by
    from headway.environment.checkout import described, find

    checkout = find(project)
    if told and typed(context, environment) not in (None, told):
        raise UserError(f"{told} and --environment {environment} name two.", "Nothing is shown.", "Leave one of them out.", Exit.USAGE)
    environment = told or named(environment, project)
    described(checkout, environment)
    file = f"stacks/Pulumi.{environment}-access.yaml"
    if not (checkout / file).is_file():
        raise UserError(
            f"Environment {environment} has no access layer.",
            "Nobody's rights are generated, and its layers need an administrator.",
            f"Write {file} after the sample of prod.",
            Exit.USAGE,
        )
    asked = {"tells": "who may what", "consequence": "Nothing is shown.", "source": file}
    found = told_by(checkout, "stacks.access", environment, **asked)
    if bootstrap or output is Output.JSON:
        typer.echo(json.dumps(found["bootstrap"] if bootstrap else found, indent=2))
        return
    for role in found["roles"]:
        statements = [each for policy in role["policies"].values() for each in policy["Statement"]]
        services = sorted({action.partition(":")[0] for each in statements for action in each["Action"]})
        typer.echo(f"{role['layer']} {role['role']}: {role['arn']}")
        typer.echo(f"  assumed by  {', '.join(_named(role['trust']))}")
        typer.echo(f"  acts on     {', '.join(services)}")
        if any(each["Sid"] == "State" for each in statements):
            typer.echo(f"  state       {role['backend']}, secrets {role['secrets_provider']}")


def _named(trust: dict[str, list[dict[str, dict[str, dict[str, list[str]]]]]]) -> list[str]:
    """Subjects of the CI and principals."""
    found: list[str] = []
    for statement in trust["Statement"]:
        subjects = [wanted for key, wanted in statement.get("Condition", {}).get("StringEquals", {}).items() if key.endswith(":sub")]
        found += [each for wanted in subjects for each in wanted] or list(statement["Principal"]["AWS"])
    return found
