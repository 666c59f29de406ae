"""`headway release`: begin a release, watch it, hold it, end it, and read what became of it.

Whoever starts a release drives it, until it is over; any other terminal may look and ask. Exit codes: 0 promoted, 5
rolled back or out of time, 1 refused, 4 driven by another runner, 6 under way. A wish is an event in the ledger, which
the runner reads within a second or two; only `rollback` also patches the live route itself, since users should not wait
for anybody.
"""

import contextlib
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.core

from headway.cli import release_accept, release_assign, release_bind, release_copy, release_guard, release_read
from headway.cli.environment_choice import EnvironmentOption, to_read, to_write
from headway.cli.output import Output, OutputOption
from headway.cli.release_drive import ReleaseLeft, code, drive, follow, running, say_unwitnessed, shown
from headway.cli.release_options import (
    NotifyOption,
    ProjectOption,
    PrometheusOption,
    ReasonOption,
    ServiceArgument,
    reasoned,
)
from headway.cli.unanswered import plainly
from headway.problem import Exit, UserError

if TYPE_CHECKING:
    from headway.release.driver.event_kinds import OperatorRequest
    from headway.release.driver.rollout_state import ServiceState
    from headway.release.service_place import ServicePlace


class _Plainly(typer.core.TyperGroup):
    """Says in plain words which server did not answer, and what becomes of a release that was left."""

    def invoke(self, ctx: Any) -> Any:
        try:
            with plainly():
                return super().invoke(ctx)
        except ReleaseLeft as left:
            raise left.told from None


app = typer.Typer(cls=_Plainly, help="Bring a new version to users only as fast as the evidence allows.", no_args_is_help=True)


@app.command()
def start(
    service: ServiceArgument,
    reason: Annotated[str, typer.Option("--reason", help="What this release is for; kept in the ledger.")] = "",
    commit: Annotated[str, typer.Option("--commit", help="Git commit; found from the checkout otherwise.")] = "",
    supersede: Annotated[bool, typer.Option("--supersede", help="Drain the release that is under way first.")] = False,
    speed: Annotated[float, typer.Option("--speed", min=1, help="Sandbox only: how much faster its minutes pass.")] = 1.0,
    unguarded: Annotated[bool, typer.Option("--unguarded", help="Begin although no release guard watches.")] = False,
    overrule: Annotated[bool, typer.Option("--overrule", help="Begin although its evaluation proved this version worse.")] = False,
    environment: EnvironmentOption = None,
    project: ProjectOption = None,
    prometheus: PrometheusOption = None,
    output: OutputOption = Output.TEXT,
    notify: NotifyOption = None,
) -> None:
    """Release what the contract now describes, and stay until it is promoted or back. Goes on with that release if it
    is under way.

    Exit codes: 0 promoted; 1 refused; 3 something that it needs is missing; 5 rolled back; 130 interrupted, and the same command goes on.
    """
    from headway.cli.release_start import begun, commit_of
    from headway.release.driver.start import StartOptions
    from headway.release.service_place import place

    here = place(service, to_write(environment, project), project, prometheus)
    options = StartOptions(reason=reason, commit=commit or commit_of(here.project), speed=speed, overrule=overrule)
    with shown(output, here.chain, notify) as view:
        ended = drive(here, view, begun(here, view, options, supersede=supersede, guarded=not unguarded))
    raise typer.Exit(code(ended))


@app.command()
def resume(
    service: ServiceArgument,
    reason: ReasonOption = "",
    regate: Annotated[bool, typer.Option("--regate", help="Let this Headway's gate decide the rest, though another one began it.")] = False,
    environment: EnvironmentOption = None,
    project: ProjectOption = None,
    prometheus: PrometheusOption = None,
    output: OutputOption = Output.TEXT,
    notify: NotifyOption = None,
) -> None:
    """End a freeze; and where its runner is gone, take the release over and stay until it is over.

    Exit codes: those of `headway release start`.
    """
    from headway.release.driver.event_kinds import OperatorRequest
    from headway.release.service_place import place

    here = place(service, to_write(environment, project), project, prometheus)
    if regate and not reason:
        raise UserError(
            "--regate needs a reason.",
            "Nobody who reads the ledger later could tell why another gate decided; nothing was done.",
            "Write --reason.",
            Exit.USAGE,
        )
    ledger = here.ledger()
    rollout = running(here, ledger)
    if rollout.frozen:
        _ask(here, OperatorRequest.RESUME, reason or "resumed")
    with shown(output, here.chain, notify) as view:
        say_unwitnessed(ledger, view)
        ended = drive(here, view, rollout, reason if regate else None)
    raise typer.Exit(code(ended))


@app.command()
def watch(
    service: ServiceArgument,
    environment: EnvironmentOption = None,
    project: ProjectOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Follow a release that another runner drives, until it is over. Ctrl-C leaves it to that runner.

    Exit codes: 0 promoted; 1 refused; 3 no answer; 5 rolled back; 130 left.
    """
    from headway.release.service_place import place

    here = place(service, to_read(environment, project), project)
    with shown(output, here.chain, None) as view:
        ended = follow(here, view, release_read.chosen(here, release_read.compared(here.ledger()), None))
    raise typer.Exit(code(ended))


@app.command()
def freeze(
    service: ServiceArgument,
    reason: ReasonOption,
    environment: EnvironmentOption = None,
    project: ProjectOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Hold the weight where it is. Evidence goes on, and a failure still goes back."""
    _request(service, "freeze", reason, environment, project, output)


@app.command()
def promote(
    service: ServiceArgument,
    reason: ReasonOption,
    environment: EnvironmentOption = None,
    project: ProjectOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Give it all traffic now, without proof; while it bakes, end the baking. The reason is kept."""
    _request(service, "promote", reason, environment, project, output)


@app.command()
def rollback(
    service: ServiceArgument,
    reason: ReasonOption,
    environment: EnvironmentOption = None,
    project: ProjectOption = None,
    prometheus: PrometheusOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Take all traffic back to the stable version at once, then bring the stack into line."""
    from headway.environment.port import OutOfReachError
    from headway.release.driver import targets
    from headway.release.driver.event_kinds import OperatorRequest
    from headway.release.service_place import place

    reasoned(reason)
    here = place(service, to_write(environment, project), project, prometheus)
    rollout = running(here)
    _ask(here, OperatorRequest.ROLLBACK, reason, partial(_can_go_back, here.chain, here.environment))
    if rollout.was_exposed:
        with contextlib.suppress(OutOfReachError):  # the runner does it again, and looks
            here.cluster.patch(targets.back(rollout))
    with shown(output, here.chain, None) as view:
        ended = drive(here, view, rollout)
    raise typer.Exit(code(ended))


def _request(service: str, request: str, reason: str, environment: str | None, project: Path | None, output: Output) -> None:
    from headway.release.driver.event_kinds import OperatorRequest
    from headway.release.service_place import place

    reasoned(reason)
    here = place(service, to_write(environment, project), project)
    rollout = running(here)
    if request == OperatorRequest.PROMOTE and rollout.decision is None:
        raise UserError(
            f"Release {rollout.release} of {here.chain} has no traffic yet.",
            "Its replicas have not answered; there is nothing to promote.",
            "Ask again once it has its first weight, or its first copies.",
            Exit.REFUSED,
        )
    event, driven = _ask(here, OperatorRequest(request), reason), _driven(here)
    about = f"{here.chain} -e {here.environment}"
    if output is Output.JSON:
        record = {
            "environment": here.environment,
            "service": here.chain,
            "asked": request,
            "reason": reason,
            "event": event,
            "driven": driven,
        }
        print(json.dumps(record))
    elif driven:
        print(f"{here.chain}: asked to {request}. The runner reads it within seconds; `headway release watch {about}` shows it.")
    else:
        print(f"{here.chain}: asked to {request}. Nobody drives it now, so nothing happens until `headway release resume {about}`.")


def _driven(here: "ServicePlace") -> bool:
    from headway.release.driver.holder import gone

    ledger = here.ledger()
    ledger.read()
    lease = ledger.lease()
    return lease is not None and lease.kept(gone)


def _can_go_back(chain: str, environment: str, service: "ServiceState") -> None:
    rollout = service.running
    if rollout is not None and rollout.replaced:
        raise UserError(
            f"Release {rollout.release} of {chain} has all traffic, and {rollout.stable}, the version before it, is being removed.",
            "There is nothing to go back to at once; nothing was done.",
            f"Let it end (`headway release resume {chain} -e {environment}`), then release the contract of before again.",
            Exit.REFUSED,
        )


def _ask(here: "ServicePlace", request: "OperatorRequest", reason: str, refuse: "Callable[[ServiceState], None]" = lambda _: None) -> int:
    """Write it down; answers the number of the event."""
    from headway.release.driver.requests import ask

    return len(ask(here.ledger(), request, reason, refuse))


for _read in (
    release_read.status,
    release_read.history,
    release_read.report,
    release_read.verify,
    release_copy.copy,
    release_bind.bind,
    release_accept.accept,
    release_assign.assign,
    release_guard.guard,
):
    app.command()(_read)
