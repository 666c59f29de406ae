"""`headway logs`: what a tenant's containers print, from Loki in production and from files in the sandbox."""

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.completion import tenants_and_services
from headway.cli.environment_choice import EnvironmentOption, to_read
from headway.cli.output import Output, OutputOption
from headway.cli.release_options import ProjectOption
from headway.problem import Exit, UserError

if TYPE_CHECKING:
    from headway.environment.container_logs import LogLine, LogQuery

_LOOK_SECONDS = 2.0
_MOST_LINES = 5000


def logs(
    service: Annotated[str, typer.Argument(metavar="TENANT[/MODEL]", autocompletion=tenants_and_services, help="Whose lines.")],
    release: Annotated[str, typer.Option("--release", "-r", help="Of one release, such as r0123456789.")] = "",
    pod: Annotated[str, typer.Option("--pod", help="Of pods whose name begins like this.")] = "",
    container: Annotated[str, typer.Option("--container", "-c", help="Of one container, such as `server` or `fetch`.")] = "",
    since: Annotated[str, typer.Option("--since", help="From when on: `15m`, `2h`, or a time with its zone.")] = "1h",
    until: Annotated[str, typer.Option("--until", help="Up to when, written like --since.")] = "",
    most: Annotated[int, typer.Option("--lines", "-n", min=1, max=_MOST_LINES, help="At most so many, the newest.")] = 200,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes, until Ctrl-C.")] = False,
    environment: EnvironmentOption = None,
    project: ProjectOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Print what a tenant's containers print, each line with its pod."""
    from time import sleep

    from headway.environment.checkout import described, find
    from headway.environment.port import OutOfReachError
    from headway.environment.selection import environment as selected

    if follow and until:
        raise UserError("--follow and --until contradict each other.", "Nothing was read.", "Leave one of them out.", Exit.USAGE)
    now = datetime.now(UTC)
    tenant, _, model = service.partition("/")
    begins, ends = moment(since, "--since", now), moment(until, "--until", now) if until else None
    if ends and ends <= begins:
        raise UserError(
            f"--until {until} is no later than --since {since}.",
            "Nothing was read.",
            "Name a later end; spans are counted back from now.",
            Exit.USAGE,
        )
    query = _query(tenant, model, release, pod, container, begins, ends, most)
    root, chosen = find(project), to_read(environment, project)
    described(root, chosen)
    reader = selected(chosen, root).container_logs(query)
    empty, begun, silent = True, False, False
    while True:
        try:
            found = reader.read()
            begun, silent = True, False
        except OutOfReachError as failure:
            fact = f"Logs of {chosen} cannot be read ({failure})."
            if not follow or not begun:
                raise UserError(
                    fact,
                    "Nothing is known of what was printed.",
                    "Check the network, and that you may `get` services/proxy of loki-gateway:80 in namespace monitoring.",
                ) from None
            if not silent:
                typer.echo(f"{fact} Asking again.", err=True)
            found, silent = (), True
        for line in found:
            print(written(line, output), flush=follow)
        empty = empty and not found
        if not follow:
            break
        sleep(_LOOK_SECONDS)
    if empty and output is Output.TEXT:
        known = (root / "tenants" / tenant / f"{model or 'tenant'}.yaml").is_file()
        doubt = "" if known else f" The checkout has no contract of {service}; is it spelt right?"
        typer.echo(f"{service} printed nothing since {query.since:%Y-%m-%d %H:%M:%SZ} that was asked for.{doubt}", err=True)


def moment(text: str, option: str, now: datetime) -> datetime:
    """`15m` ago, or a time that is written out. Raises UserError for neither."""
    from headway.contract.units import Duration, UnitError

    try:
        return now - timedelta(seconds=Duration.parse(text).seconds)
    except UnitError:
        pass
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise UserError(
            f"{option} {text!r} is no span of time, and no time with its zone.",
            "Nothing was read.",
            "Write `15m`, `2h` or `2026-11-25T04:00:00Z`.",
            Exit.USAGE,
        )
    if found > now and option != "--until":
        raise UserError(f"{option} {text} is still to come.", "Nothing was read.", "Name a time that has passed.", Exit.USAGE)
    return found


def written(line: "LogLine", output: Output) -> str:
    """For people without what a terminal would obey: programs print what callers sent them."""
    if output is Output.JSON:
        time = line.time.isoformat() if line.time else None
        return json.dumps({"time": time, "pod": line.pod, "container": line.container, "line": line.text})
    # Who sends lines to the collector itself names its container as it likes.
    text = "".join(c if c.isprintable() else " " for c in f"{line.pod} {line.container} | {line.text}")
    time = f"{line.time:%H:%M:%S}Z " if line.time else ""
    return f"{time}{text}"


def _query(
    tenant: str, model: str, release: str, pod: str, container: str, since: datetime, until: datetime | None, most: int
) -> "LogQuery":
    from headway.environment.checkout import is_name
    from headway.environment.container_logs import LogQuery

    if not is_name(tenant) or (model and not is_name(model)):
        written = f"{tenant}/{model}" if model else tenant
        raise UserError(f"{written!r} names no tenant and no service.", "Nothing was read.", "Write vision, or vision/defects.", Exit.USAGE)
    return LogQuery(tenant=tenant, model=model, release=release, pod=pod, container=container, since=since, until=until, most=most)
