"""`headway backtest`: what a model's rollout policy would have done on the model's own history, or does in a simulated world."""

import json
import time
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.backtest_view import backtest_lines
from headway.cli.completion import services
from headway.cli.output import Output, OutputOption
from headway.problem import Exit, UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headway.contract.model import Model
    from headway.release.backtest.backtest import Backtest
    from headway.release.evidence.reader import PrometheusEvidence
    from headway.release.gate import GatePolicy

_NONE: list[str] = []


class WorldName(StrEnum):
    """The worlds of `headway.release.worlds`."""

    BASE = "base"
    SECOND = "second"
    THIRD = "third"


@dataclass(frozen=True, kw_only=True)
class RehearsalSettings:
    """What a person asks of the rehearsals."""

    rehearsals: int
    longest: float
    """Minutes."""
    seed: int
    tick_seconds: float


def backtest(
    model: Annotated[
        str, typer.Argument(metavar="TENANT/MODEL", autocompletion=services, help="The model whose contract and history are used.")
    ],
    prometheus: Annotated[
        list[str], typer.Option("--prometheus", help="Address of a Prometheus; more than once: asked in this order.")
    ] = _NONE,
    world: Annotated[WorldName | None, typer.Option("--world", help="Rehearse in this simulated world; no Prometheus is asked.")] = None,
    rate: Annotated[float, typer.Option("--rate", help="Requests a second in the simulated world.", min=0.01, max=10_000)] = 10.0,
    arm: Annotated[str | None, typer.Option("--arm", help="Deployment whose history it is; default: the model's only one.")] = None,
    hours: Annotated[float, typer.Option("--hours", help="Length of the history.", min=0.5, max=720)] = 24.0,
    until: Annotated[float | None, typer.Option("--until", help="Its end, in Unix seconds; default: now.")] = None,
    rehearsals: Annotated[int, typer.Option("--rehearsals", help="Releases to rehearse for each change.", min=10, max=5000)] = 200,
    longest: Annotated[float, typer.Option("--longest", help="Minutes after which a rehearsal ends undecided.", min=10)] = 240.0,
    scrape: Annotated[float, typer.Option("--scrape", help="Seconds between two scrapes.", min=0.1)] = 15.0,
    seed: Annotated[int, typer.Option("--seed", help="Of all that is left to chance.")] = 1,
    token_file: Annotated[Path | None, typer.Option("--token-file", help="File with a bearer token.")] = None,
    ca_file: Annotated[Path | None, typer.Option("--ca-file", help="Certificates that may have signed the server's.")] = None,
    tenants: Annotated[Path, typer.Option("--tenants", help="Folder of the contracts.")] = Path("tenants"),
    output: OutputOption = Output.TEXT,
) -> None:
    """Rehearse releases on a model's own history, or in a simulated world: false rollbacks, misses, minutes, and what costs most time.

    Pods of the version that ran are divided into two imaginary arms; first nothing is changed (every rollback is false), then one arm is
    slowed down, or made to fail (every promotion is a miss). Exit codes: 0 as promised; 1 more false rollbacks than the contract allows;
    3 no history.
    """
    from headway.release.gate import GatePolicy

    if bool(prometheus) == (world is not None):
        raise UserError(
            "Neither --prometheus nor --world is given." if world is None else "Both --prometheus and --world are given.",
            "It is not clear on what to rehearse.",
            "Give the address of a Prometheus with the model's history, or a world such as base.",
            Exit.USAGE,
        )
    tick_seconds = 60.0 if world else max(60.0, 4 * scrape) if scrape >= 1 else 4 * scrape
    tenant, _, name = model.partition("/")
    contract = _contract(tenants, tenant, name)
    policy = _policy(contract, tick_seconds, GatePolicy)
    asked = RehearsalSettings(rehearsals=rehearsals, longest=longest, seed=seed, tick_seconds=tick_seconds)
    if world is not None:
        title, found = f"simulated world {world}, {rate:g} requests a second", _in_world(world, rate, policy, asked)
    else:
        endpoints = [(url, token_file, ca_file) for url in prometheus]
        title, found = _on_history(
            contract, tenant, endpoints, arm, (hours, time.time() if until is None else until, scrape), policy, asked
        )
    fits = found.calibrated(policy.false_rollback)
    if output is Output.JSON:
        record = {"model": model, "of": title, "promised": policy.false_rollback, "as_promised": fits, **asdict(found)}
        typer.echo(json.dumps(record, indent=2, sort_keys=True))
    else:
        for line in backtest_lines(found, f"{model}, {title}", policy.false_rollback, longest, contract.rollout.bake):
            typer.echo(line)
    raise typer.Exit(Exit.OK if fits else Exit.REFUSED)


def _in_world(world: WorldName, rate: float, policy: "GatePolicy", asked: RehearsalSettings) -> "Backtest":
    from headway.release.backtest.backtest import simulated, ticks_of
    from headway.release.worlds.world import WORLDS

    longest = ticks_of(asked.longest * 60, asked.tick_seconds)
    return simulated(WORLDS[world], policy, rate=rate, rehearsals=asked.rehearsals, longest_ticks=longest, seed=asked.seed)


def _on_history(
    contract: "Model",
    tenant: str,
    endpoints: "Sequence[tuple[str, Path | None, Path | None]]",
    arm: str | None,
    when: tuple[float, float, float],
    policy: "GatePolicy",
    asked: RehearsalSettings,
) -> "tuple[str, Backtest]":
    """`when`: hours, their end in Unix seconds, and seconds between two scrapes."""
    from headway.release.backtest.backtest import backtest as rehearse
    from headway.release.backtest.backtest import ticks_of
    from headway.release.evidence.history import history_of
    from headway.release.evidence.prometheus import PrometheusEndpoint, UnansweredError
    from headway.release.evidence.reader import PrometheusEvidence, ScrapeSettings
    from headway.release.evidence.reading import JudgedService

    (hours, end, scrape), tick_seconds = when, asked.tick_seconds
    service = JudgedService(tenant=tenant, model=contract.name, classes=tuple(one.name for one in contract.rollout.classes))
    sources = [PrometheusEndpoint(url=url, token_file=token, ca_file=authority) for url, token, authority in endpoints]
    evidence = PrometheusEvidence(sources, ScrapeSettings(scrape_seconds=scrape), timeout_seconds=60.0)
    try:
        which = arm or _only_arm(evidence, tenant, contract.name, end)
        history = history_of(evidence, service, which, end - hours * 3600, end, tick_seconds)
        longest = ticks_of(asked.longest * 60, tick_seconds)
        found = rehearse(history, policy, rehearsals=asked.rehearsals, longest_ticks=longest, seed=asked.seed)
    except UnansweredError as error:
        raise UserError(str(error), "There is no history to rehearse on.", "Check the address and the credentials.") from None
    except ValueError as error:
        raise UserError(str(error), "Nothing was rehearsed.", "Choose --hours and --longest so that several rehearsals fit.") from None
    finally:
        evidence.close()
    low, middle, high = history.rates()
    scraped = f"{found.ticks:,} ticks of {tick_seconds:g} s ({found.unanswered} not scraped)"
    return f"history of {which}: {scraped}, {found.pods} pods, {middle:.3g} requests a second ({low:.3g} to {high:.3g})", found


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
