"""`headway loops diagnose`: tells people why an alert fires, as soon as it does."""

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.environment_choice import EnvironmentOption, to_write
from headway.cli.listening_place import listening_place
from headway.cli.release_options import ProjectOption, PrometheusOption
from headway.problem import UserError

if TYPE_CHECKING:
    from collections.abc import Callable

    from headway.diagnosis.alert_loop import DiagnosedService, Services
    from headway.ledger.followed import FollowedLedger
    from headway.release.driver.rollout_state import ServiceState
    from headway.release.evaluator.in_cluster import ServiceInside

_CONTRACTS_SECONDS = 30.0
"""So long a contract is not read again: a storm of alerts asks for it often."""


def diagnose(
    serve: Annotated[str, typer.Option("--serve", metavar="ADDRESS:PORT", help="Where Alertmanager asks; /healthz and /metrics too.")],
    alertmanager: Annotated[
        str | None, typer.Option("--alertmanager", metavar="URL[,URL]", help="Who is given the causes; the environment's otherwise.")
    ] = None,
    in_cluster: Annotated[
        Path | None,
        typer.Option("--in-cluster", metavar="FILE", help="Diagnose what the platform layer wrote there, as the pod's identity."),
    ] = None,
    runbooks: Annotated[str | None, typer.Option("--runbooks", metavar="URL", help="Where the runbooks are, for links.")] = None,
    grafana: Annotated[str | None, typer.Option("--grafana", metavar="URL", help="Where the dashboards are, for links.")] = None,
    environment: EnvironmentOption = None,
    project: ProjectOption = None,
    prometheus: PrometheusOption = None,
) -> None:
    """Answer Alertmanager's notifications of pages with their causes, which it sends to whoever got the pages.

    It also shows every service's releases as series. It reads, and writes nothing but these alerts. Told to end, it first answers who waits.
    Exit codes: 0 it was told to end, 3 it cannot listen.
    """
    from headway.cli.loop_process import say, told_to_end
    from headway.diagnosis import alert_loop
    from headway.diagnosis.alertmanager import Alertmanagers
    from headway.diagnosis.cause_alert import MessagePlaces
    from headway.ledger.kept import READ_AT_MOST
    from headway.listening import listening
    from headway.release.driver.following import followed
    from headway.release.evaluator.in_cluster import diagnosed_services
    from headway.release.release_series import ReleaseSeries

    inside = diagnosed_services(in_cluster) if in_cluster else None
    chosen = (inside[0].environment if inside else "") if in_cluster else to_write(environment, project)
    services = _given(inside) if inside is not None else _of_checkout(chosen, project, prometheus)

    def addresses() -> list[str]:
        found = alertmanager if alertmanager or inside is not None else _known(chosen, project)
        return [each.strip().rstrip("/") for each in (found or "").split(",") if each.strip()]

    ending = told_to_end()
    loop = alert_loop.AlertLoop(
        services=services,
        alertmanagers=Alertmanagers(addresses),
        places=MessagePlaces(environment=chosen, runbooks=runbooks, grafana=grafana),
        clock=time.monotonic,
        now=time.time,
        say=say,
    )

    def ledgers() -> "dict[str, Callable[[], FollowedLedger[ServiceState]]]":
        return {chain: (lambda place=each.place: followed(place.ledger(), READ_AT_MOST)) for chain, each in services().items()}

    releases = ReleaseSeries(ledgers, say)
    at_work = alert_loop.threads(loop)
    threading.Thread(target=releases.follow, args=(ending,), daemon=True).start()
    with listening(
        *listening_place(serve),
        alert_loop.answering(loop, releases.text),
        consequence="No alert is explained.",
        remedy="Choose another address or port for --serve.",
    ):
        loop.begin()
        ending.wait()
        loop.end()
        for each in at_work:
            each.join()


def _given(inside: "tuple[ServiceInside, ...]") -> "Services":
    from headway.diagnosis.alert_loop import DiagnosedService

    found = {each.chain: DiagnosedService(place=each, receiver=each.receiver) for each in inside}
    return lambda: found


def _of_checkout(environment: str, project: Path | None, prometheus: str | None) -> "Services":
    """Every service whose contract can be read, as the checkout says now."""
    from dataclasses import replace

    from headway.diagnosis.alert_loop import DiagnosedService
    from headway.environment.checkout import described, find
    from headway.release.service_place import places

    root = find(project)
    described(root, environment)
    kept: tuple[float, dict[str, DiagnosedService]] | None = None

    def services() -> "dict[str, DiagnosedService]":
        nonlocal kept
        if kept is not None and time.monotonic() - kept[0] < _CONTRACTS_SECONDS:
            return kept[1]
        found = dict[str, DiagnosedService]()
        for each in places(root, environment):
            try:
                receiver = each.contract().observability.receiver
            except UserError:
                continue
            found[each.chain] = DiagnosedService(place=replace(each, prometheus=prometheus), receiver=receiver)
        kept = time.monotonic(), found
        return found

    return services


def _known(environment: str, project: Path | None) -> str | None:
    from headway.environment.checkout import find
    from headway.environment.selection import environment as port

    return port(environment, find(project)).alertmanager_address
