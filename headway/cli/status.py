"""`headway status`: what an environment's model services do now. Where they answer, which versions get which traffic,
whether promises hold, why a replica is missing, which release is on its way, and where to look next.

Exit code 1 while a service that was asked for is not ready. What does not answer (metrics, the ledger) is said in its
place; without the API server there is nothing to show.
"""

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.completion import services
from headway.cli.environment_choice import EnvironmentOption, to_read
from headway.cli.output import Output, OutputOption
from headway.cli.release_options import ProjectOption, PrometheusOption
from headway.problem import Exit, Problem, UserError

if TYPE_CHECKING:
    from headway.cli.status_view import Picture, Standing
    from headway.ledger.chain import Ledger
    from headway.ledger.events import Event
    from headway.release.service_place import ServicePlace
    from headway.service_status.present import PresentFigures
    from headway.service_status.promises import Promise

_LOOK_SECONDS = 3.0


def status(
    service: Annotated[
        str | None, typer.Argument(metavar="TENANT/MODEL", autocompletion=services, help="One service in full; all of them otherwise.")
    ] = None,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Look again every few seconds, until Ctrl-C.")] = False,
    environment: EnvironmentOption = None,
    project: ProjectOption = None,
    prometheus: PrometheusOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Show what model services do now: address, versions and weights, promises, replicas and why one is missing, release,
    links.

    Exit codes: 0 every service is ready; 1 one is not; 3 the cluster does not answer.
    """
    look = _looker(service, to_read(environment, project), project, prometheus)
    if watch:
        _watched(look, output)
    picture = look()
    _show(picture, output)
    if not picture.ready:
        raise typer.Exit(Exit.REFUSED)


def _looker(service: str | None, environment: str, project: Path | None, prometheus: str | None) -> "Callable[[], Picture]":
    """What looks at the environment once, as often as it is called. Raises UserError for a service that nobody knows."""
    from headway.cli.status_view import Picture
    from headway.environment.checkout import described, find
    from headway.release.service_place import ServicePlace, place, places
    from headway.service_status import reading

    root = find(project)
    described(root, environment)
    here = (place(service, environment, project, prometheus),) if service else places(root, environment)
    asked = here[0] if here else ServicePlace(project=root, environment=environment, tenant="", model="", prometheus=prometheus)
    ledgers: dict[str, Ledger] = {}

    def look() -> "Picture":
        promises, present, unmeasured = _measured(asked, alone=service is not None)
        chains = [each.chain for each in here]
        port = asked.port
        views = reading.read(port.kubernetes, chains, promises, restart_hint=port.restart_hint, alone=service is not None)
        ledger = _releases(here, ledgers, alone=service is not None)
        return Picture(
            environment=environment,
            services=views,
            releases=ledger.standings,
            present=present,
            unmeasured=unmeasured,
            unread=ledger.missing,
            doubts=ledger.doubts,
            now=datetime.now(UTC),
            alone=service is not None,
        )

    return look


def _measured(here: "ServicePlace", *, alone: bool) -> "tuple[tuple[Promise, ...], tuple[PresentFigures, ...], str]":
    """All promises that Prometheus knows, and what the versions of one service do now; or why it tells none."""
    from headway.release.evidence.prometheus import Prometheus, UnansweredError
    from headway.service_status import present, promises

    try:
        endpoint = here.endpoints()[0]
    except UserError:
        return (), (), f"no Prometheus is known{here.port.metrics_hint}"
    client = Prometheus(endpoint)

    def ask(query: str) -> "list[tuple[Mapping[str, str], float]]":
        return [(series.labels, series.samples[-1][1]) for series in client.samples(query, None)]

    try:
        return promises.asked(ask), present.asked(ask, here.tenant, here.model) if alone else (), ""
    except UnansweredError as failure:
        return (), (), str(failure)
    finally:
        client.close()


@dataclass(frozen=True, kw_only=True)
class _Read:
    """What the ledger said: where each service's newest release stands, by chain; what is in doubt; why the rest is missing."""

    standings: "Mapping[str, Standing]"
    doubts: tuple[Problem, ...]
    missing: str = ""


def _releases(here: "tuple[ServicePlace, ...]", ledgers: "dict[str, Ledger]", *, alone: bool) -> _Read:
    """Every chain is compared with its witness. `alone`: and what is known of what serves since its promotion."""
    from headway.cli.release_read import driver
    from headway.cli.status_view import Standing
    from headway.ledger.store import MissingStoreError, UnreachableError
    from headway.release.driver.rollout_state import fold
    from headway.release.evaluator.after_promotion import AfterPromotion

    found: dict[str, Standing] = {}
    doubts: list[Problem] = []

    def compared(ledger: "Ledger") -> "Sequence[Event] | None":
        try:
            events = ledger.look()
        except UserError as refusal:
            doubts.extend(replace(each, subject=ledger.chain) for each in refusal.problems)
            return None
        if unheard := ledger.word and ledger.word.unheard(ledger.chain):
            doubts.append(unheard)
        return events

    try:
        for each in here:
            ledger = ledgers.setdefault(each.chain, each.ledger())
            if (events := compared(ledger)) is None:
                continue
            service = fold(events)
            since = None
            if alone:
                evaluations, drift = (compared(chain) or () for chain in (each.evaluations(), each.drifts()))
                since = AfterPromotion.of(service.stable, evaluations=evaluations, drift=drift)
            found[each.chain] = Standing(service=service, driver=driver(ledger), since=since)
    except UserError as refusal:
        return _Read(standings=found, doubts=tuple(doubts), missing=refusal.fact)
    except (UnreachableError, MissingStoreError) as failure:
        return _Read(standings=found, doubts=tuple(doubts), missing=f"the release ledger does not answer ({failure})")
    return _Read(standings=found, doubts=tuple(doubts))


def _show(picture: "Picture", output: Output) -> None:
    from rich.console import Console

    from headway.cli import status_view

    if output is Output.JSON:
        print(json.dumps(status_view.document(picture), indent=2))
    else:
        Console(highlight=False).print(status_view.drawn(picture))


def _watched(look: "Callable[[], Picture]", output: Output) -> None:
    """Look again and again: in place on a terminal, else whenever something is new. Ends with Ctrl-C."""
    from rich.console import Console, Group
    from rich.live import Live
    from rich.markup import escape

    from headway.cli import status_view

    if output is Output.TEXT and sys.stdout.isatty():
        with Live(console=Console(highlight=False), auto_refresh=False, vertical_overflow="crop") as screen:
            for picture, silent in _looks(look):
                seen = status_view.drawn(picture)
                screen.update(Group(f"[yellow]{escape(silent)} Seen before:[/]", seen) if silent else seen, refresh=True)
    last: object = None
    for picture, silent in _looks(look):
        found = status_view.document(picture), silent
        if found == last:
            continue
        last = found
        if silent:
            typer.echo(silent, err=True)
        elif output is Output.JSON:
            print(json.dumps(found[0]), flush=True)
        else:
            _show(picture, output)


def _looks(look: "Callable[[], Picture]") -> "Iterator[tuple[Picture, str]]":
    """Pictures without end. Once there was one, a cluster that does not answer is no end: the last picture comes with the reason."""
    from time import sleep

    picture = look()
    yield picture, ""
    while True:
        sleep(_LOOK_SECONDS)
        silent = ""
        try:
            picture = look()
        except UserError as failure:
            if failure.exit is not Exit.ENVIRONMENT:
                raise
            silent = failure.fact
        yield picture, silent
