"""`headway diagnose`: from what hurts to its cause, for one service or for all of an environment. Reads, and changes nothing.

Exit code 0 where nothing is wrong, 1 where something is, 3 where too little could be seen to say.
"""

import json
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.completion import services
from headway.cli.environment_choice import EnvironmentOption, to_read
from headway.cli.release_options import ProjectOption, PrometheusOption
from headway.problem import Exit, UserError

if TYPE_CHECKING:
    from headway.diagnosis.observed import Observed
    from headway.diagnosis.reasoning import Diagnosis
    from headway.release.service_place import ServicePlace

    _Looked = Sequence[tuple[Observed, Sequence[Diagnosis]]]


class DiagnosisOutput(StrEnum):
    TEXT = "text"
    JSON = "json"
    HTML = "html"


_AT_ONCE = 8
_LONGEST = timedelta(days=7)


def diagnose(
    service: Annotated[
        str | None,
        typer.Argument(metavar="TENANT/MODEL", autocompletion=services, help="One service in full; everything that hurts otherwise."),
    ] = None,
    at: Annotated[
        str | None, typer.Option("--at", help="At which moment, such as `10m` ago or a time with its zone; now otherwise.")
    ] = None,
    since: Annotated[str, typer.Option("--since", help="How far back to look for its beginning: `1h`, `6h`.")] = "1h",
    alert: Annotated[
        Path | None,
        typer.Option(
            "--alert",
            help="A notification as Alertmanager sends it to a webhook: it names the service and the moment. `-`: standard input.",
        ),
    ] = None,
    environment: EnvironmentOption = None,
    project: ProjectOption = None,
    prometheus: PrometheusOption = None,
    output: Annotated[
        DiagnosisOutput,
        typer.Option("--output", "-o", help="`text` for people, `json` for programs, `html` for a page with plots that needs no network."),
    ] = DiagnosisOutput.TEXT,
) -> None:
    """Say why a service hurts: one chain of measured comparisons, what was ruled out by which figures, and what to do next.

    Exit codes: 0 nothing is wrong; 1 something is, with its cause or without; 3 nobody can say.
    """
    now = datetime.now(UTC)
    chosen = to_read(environment, project)
    named, moment = asked(service, at, alert, now)
    length = span(since)
    here = _places(named, chosen, project, prometheus)
    looked = _looked(here, moment, length, alone=named is not None)
    _show(looked, chosen, output, moment, alone=named is not None)
    raise typer.Exit(_exit(each for _, found in looked for each in found))


def asked(service: str | None, at: str | None, alert: Path | None, now: datetime) -> tuple[str | None, datetime]:
    from headway.cli.logs import moment

    if alert is None:
        return service, moment(at, "--at", now) if at else now
    if service or at:
        raise UserError(
            "--alert says which service and when; TENANT/MODEL and --at say it too.",
            "Nothing was read.",
            "Leave one of them out.",
            Exit.USAGE,
        )
    named, starts = _of_alert(alert)
    # What it tells of goes on for a while: five minutes on there is more to compare.
    return named, now if starts >= now else min(now, starts + timedelta(minutes=5))


def _of_alert(file: Path) -> tuple[str, datetime]:
    from headway.diagnosis.notification import LARGEST_BYTES, service_of

    try:
        with nullcontext(typer.get_binary_stream("stdin")) if str(file) == "-" else file.open("rb") as told:
            body = told.read(LARGEST_BYTES + 1)
    except OSError as error:
        raise UserError(
            f"{file} cannot be read: {error.strerror}.", "Nothing was read.", "Name the notification's file.", Exit.USAGE
        ) from None
    return service_of(body, "standard input" if str(file) == "-" else str(file))


def span(since: str) -> float:
    from headway.contract.units import Duration, UnitError

    try:
        length = float(Duration.parse(since).seconds)
    except UnitError:
        length = 0.0
    if not 300 <= length <= _LONGEST.total_seconds():
        raise UserError(
            f"--since {since!r} is no span of time between five minutes and seven days.",
            "Nothing was read.",
            "Write `1h`, or `6h` where it began longer ago.",
            Exit.USAGE,
        )
    return length


def _places(service: str | None, environment: str, project: Path | None, prometheus: str | None) -> "Sequence[ServicePlace]":
    from dataclasses import replace

    from headway.environment.checkout import described, find
    from headway.release.service_place import place, places

    if service is not None:
        return (place(service, environment, project, prometheus),)
    root = find(project)
    described(root, environment)
    return tuple(replace(each, prometheus=prometheus) for each in places(root, environment))


def _looked(here: "Sequence[ServicePlace]", at: datetime, length: float, *, alone: bool) -> "_Looked":
    """At every service, in the order of their names; of many, only the suspects are looked at whole."""
    from concurrent.futures import ThreadPoolExecutor

    from headway.diagnosis.gathering import gather, suspects
    from headway.diagnosis.observed import Observed
    from headway.diagnosis.reasoning import diagnoses

    moment = at.timestamp()
    worth = here if alone else suspects(here, at=moment, since=length)

    def one(place: "ServicePlace") -> "tuple[Observed, tuple[Diagnosis, ...]]":
        nothing = Observed(tenant=place.tenant, model=place.model, at=moment, step=1.0)
        observed = gather(place, at=moment, since=length) if place in worth else nothing
        return observed, diagnoses(observed)

    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        return tuple(pool.map(one, here))


def _show(looked: "_Looked", environment: str, output: DiagnosisOutput, at: datetime, *, alone: bool) -> None:
    found = [each for _, diagnoses in looked for each in diagnoses]
    match output:
        case DiagnosisOutput.JSON:
            from headway.diagnosis.record import document

            print(json.dumps(document(found, environment), indent=2))
        case DiagnosisOutput.HTML:
            from headway.diagnosis.incident_page import diagnosis_html

            print(diagnosis_html(looked, environment, at.timestamp()), end="")
        case DiagnosisOutput.TEXT:
            from rich.console import Console

            from headway.cli import diagnosis_view

            Console(highlight=False).print(diagnosis_view.drawn(found, environment, alone=alone))


def _exit(found: "Iterable[Diagnosis]") -> Exit:
    from headway.diagnosis.reasoning import DiagnosisVerdict

    verdicts = {each.verdict for each in found}
    if verdicts & {DiagnosisVerdict.CAUSE, DiagnosisVerdict.UNKNOWN}:
        return Exit.REFUSED
    return Exit.ENVIRONMENT if DiagnosisVerdict.BLIND in verdicts else Exit.OK
