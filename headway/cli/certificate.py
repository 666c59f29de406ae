"""`headway certificate`: which names the gateway's certificate must hold, and whether a file holds them."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from headway.bounded_yaml import bounded_yaml
from headway.cli.environment_choice import EnvironmentOption, named
from headway.cli.output import Output, OutputOption
from headway.cli.release_options import ProjectOption
from headway.problem import Exit, UserError

LARGEST_FILE = 2**20

app = typer.Typer(no_args_is_help=True, help="The model gateway's certificate: the names that it must hold, and a check of a file.")


@app.command("names")
def names(environment: EnvironmentOption = None, output: OutputOption = Output.TEXT, project: ProjectOption = None) -> None:
    """Print the names that the certificate must hold: one wildcard for each tenant of the environment and each host.

    Exit codes: 0 printed; 2 the environment has no platform stack file.
    """
    environment = named(environment, project)
    found = _wanted(environment, project)
    typer.echo(json.dumps({"environment": environment, "names": found}, indent=2) if output is Output.JSON else "\n".join(found))


@app.command("check")
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The certificate with its chain, in PEM.")],
    environment: EnvironmentOption = None,
    output: OutputOption = Output.TEXT,
    project: ProjectOption = None,
) -> None:
    """Say whether the certificate in FILE is good for every tenant: names, validity, chain. Reads nothing else.

    Exit codes: 0 it is, perhaps with warnings; 1 it is not; 2 the environment has no platform stack file; 3 FILE
    cannot be read.
    """
    from headway.gateway_certificate import certificate_problems, described, read

    environment = named(environment, project)
    wanted = _wanted(environment, project)
    with file.open("rb") as opened:
        pem = opened.read(LARGEST_FILE)
    problems = certificate_problems(pem, wanted, datetime.now(UTC), str(file))
    stops = any(each.blocking for each in problems)
    if output is Output.JSON:
        record = {
            "environment": environment,
            "file": str(file),
            "names": wanted,
            "problems": [each.record("level", "rule") for each in problems],
        }
        typer.echo(json.dumps(record, indent=2))
    else:
        for each in problems:
            typer.echo(f"{each.level.value}: {each}", err=True)
        if not stops:
            ends = described(read(pem)).not_after
            typer.echo(f"{file} covers {', '.join(wanted) or 'no tenant, for there is none'} until {ends:%Y-%m-%d}.")
    raise typer.Exit(Exit.REFUSED if stops else Exit.OK)


def _wanted(environment: str, project: Path | None) -> list[str]:
    from headway.contract.gateway_names import certificate_names
    from headway.contract.reading.tenants import tenants_of
    from headway.environment.checkout import described, find

    file = described(find(project), environment, "platform")
    return list(certificate_names(_hosts(file), tenants_of(environment, file.parent)))


def _hosts(file: Path) -> list[str]:
    try:
        hosts: Any = bounded_yaml(file.read_bytes())["config"]["headway:gateway"]["hosts"]
    except (ValueError, LookupError, TypeError):
        hosts = None
    if not isinstance(hosts, list) or not all(isinstance(each, str) for each in hosts):
        raise UserError(
            f"{file.name} names no hosts of the gateway.",
            "Nothing says which names its certificate must hold.",
            f"Correct headway:gateway.hosts; `pulumi preview -s {file.stem.removeprefix('Pulumi.')}` tells every problem of the file.",
            Exit.REFUSED,
        )
    return hosts
