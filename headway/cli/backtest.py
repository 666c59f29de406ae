"""`headway backtest`: what a model's rollout policy would have done on the model's own history."""

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.output import Output, OutputOption
from headway.problem import Exit, UserError

if TYPE_CHECKING:
    from headway.contract.model import Model
    from headway.release.backtest import Backtest
    from headway.release.evidence.reader import PrometheusEvidence
    from headway.release.gate import GatePolicy


def backtest(
    model: Annotated[str, typer.Argument(metavar="TENANT/MODEL", help="the model whose contract and history are used")],
    prometheus: Annotated[list[str], typer.Option("--prometheus", help="address of a Prometheus; more than once: asked in this order")],
    arm: Annotated[str | None, typer.Option("--arm", help="Deployment whose history it is; default: the model's only one")] = None,
    hours: Annotated[float, typer.Option("--hours", help="length of the history", min=0.5, max=720)] = 24.0,
    until: Annotated[float | None, typer.Option("--until", help="its end, in Unix seconds; default: now")] = None,
    rehearsals: Annotated[int, typer.Option("--rehearsals", help="releases to rehearse for each change", min=10, max=5000)] = 200,
    longest: Annotated[float, typer.Option("--longest", help="minutes after which a rehearsal ends undecided", min=10)] = 240.0,
    scrape: Annotated[float, typer.Option("--scrape", help="seconds between two scrapes", min=0.1)] = 15.0,
    seed: Annotated[int, typer.Option("--seed", help="of the division of pods into arms")] = 1,
    token_file: Annotated[Path | None, typer.Option("--token-file", help="file with a bearer token")] = None,
    ca_file: Annotated[Path | None, typer.Option("--ca-file", help="certificates that may have signed the server's")] = None,
    tenants: Annotated[Path, typer.Option("--tenants", help="folder of the contracts")] = Path("tenants"),
    output: OutputOption = Output.TEXT,
) -> None:
    """Rehearse releases on a model's own history: the false alarms and the finds that its rollout policy would have had.

    Pods of the version that ran are divided into pseudo-arms; first nothing is changed (every rollback is a false alarm), then one arm is
    slowed down, or made to fail. Exit codes: 0 as promised; 1 more false alarms than the contract allows; 3 no history.
    """
    import numpy as np

    from headway.release.backtest import backtest as rehearse
    from headway.release.backtest import ticks_of
    from headway.release.evidence.history import history_of
    from headway.release.evidence.prometheus import PrometheusEndpoint, UnansweredError
    from headway.release.evidence.reader import PrometheusEvidence, ScrapeSettings
    from headway.release.evidence.reading import JudgedService
    from headway.release.gate import GatePolicy

    tick_seconds = max(60.0, 4 * scrape) if scrape >= 1 else 4 * scrape
    tenant, _, name = model.partition("/")
    contract = _contract(tenants, tenant, name)
    service = JudgedService(tenant=tenant, model=name, classes=tuple(one.name for one in contract.rollout.classes))
    policy = _policy(contract, tick_seconds, GatePolicy)
    end = time.time() if until is None else until
    endpoints = [PrometheusEndpoint(url=url, token_file=token_file, ca_file=ca_file) for url in prometheus]
    evidence = PrometheusEvidence(endpoints, ScrapeSettings(scrape_seconds=scrape), timeout_seconds=60.0)
    try:
        which = arm or _only_arm(evidence, tenant, name, end)
        history = history_of(evidence, service, which, end - hours * 3600, end, tick_seconds)
        found = rehearse(
            history, policy, rehearsals=rehearsals, longest_ticks=ticks_of(longest * 60, tick_seconds), rng=np.random.default_rng(seed)
        )
    except UnansweredError as error:
        raise UserError(str(error), "There is no history to rehearse on.", "Check the address and the credentials.") from None
    except ValueError as error:
        raise UserError(str(error), "Nothing was rehearsed.", "Choose --hours and --longest so that several rehearsals fit.") from None
    finally:
        evidence.close()
    fits = found.calibrated(policy.false_rollback)
    if output is Output.JSON:
        record = {"model": model, "arm": which, "promised": policy.false_rollback, "as_promised": fits, **asdict(found)}
        typer.echo(json.dumps(record, indent=2, sort_keys=True))
    else:
        _print(found, model, which, policy.false_rollback, fits)
    raise typer.Exit(Exit.OK if fits else Exit.REFUSED)


def _contract(folder: Path, tenant: str, name: str) -> "Model":
    from headway.contract.reading.loader import load_tenants

    loaded = load_tenants(folder)
    for contracts in loaded.contracts:
        for one in contracts.models:
            if (contracts.tenant.name, one.name) == (tenant, name):
                return one
    raise UserError(
        f"{folder} has no contract of {tenant}/{name} that can be read.",
        "Its rollout policy is not known.",
        "Name it as TENANT/MODEL, and see `headway check`.",
        Exit.REFUSED,
    )


def _policy(contract: "Model", tick_seconds: float, policies: "type[GatePolicy]") -> "GatePolicy":
    try:
        return policies.from_contract(contract.rollout, tick_seconds=tick_seconds)
    except ValueError as error:
        raise UserError(str(error), "This strategy cannot be rehearsed.", "Rehearse a canary's policy.", Exit.REFUSED) from None


def _only_arm(evidence: "PrometheusEvidence", tenant: str, name: str, at: float) -> str:
    arms = evidence.arms_of(tenant, name, at)
    if len(arms) != 1:
        named = ", ".join(arms) or "none"
        raise UserError(
            f"Deployments of {tenant}/{name} with requests: {named}.", "It is not clear whose history is meant.", "Name one with --arm."
        )
    return arms[0]


def _print(rehearsal: "Backtest", model: str, arm: str, promised: float, fits: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for heading in ("change", "rolled back", "promoted", "undecided", "minutes", "exposure", "why"):
        table.add_column(heading)
    for one in rehearsal.outcomes:
        low, high = one.interval()
        table.add_row(
            one.change,
            f"{one.rolled_back} of {one.rehearsals} ({low:.1%} to {high:.1%})",
            str(one.promoted),
            str(one.undecided),
            "-" if one.minutes is None else f"{one.minutes:.0f}",
            f"{one.exposure:.2f} min",
            ", ".join(f"{reason} {count}" for reason, count in one.reasons.items()),
        )
    console = Console(highlight=False, soft_wrap=True)
    console.print(
        f"{model}, history of {arm}: {rehearsal.ticks} ticks ({rehearsal.unanswered} not scraped), {rehearsal.pods} pods", markup=False
    )
    console.print(table)
    if rehearsal.pods == 1:
        console.print(
            "There was only one pod, so its requests were divided. These figures do not show how pods differ from each other.", markup=False
        )
    promise = f"its promise of at most {promised:.2%} false rollbacks."
    advice = "Widen the tolerances, or decide about rollbacks yourself until it does."
    console.print(f"The policy keeps {promise}" if fits else f"The policy does NOT keep {promise} {advice}", markup=False)
