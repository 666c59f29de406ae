"""`headway verify`: whether an environment does, after an apply, what its layers promise; kept as an attestation."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headway.cli.completion import services, verify_checks
from headway.cli.environment_choice import EnvironmentOption, to_read, to_write
from headway.cli.output import Output, OutputOption
from headway.cli.release_options import ProjectOption
from headway.problem import Exit, UserError, printable

if TYPE_CHECKING:
    from headway.verify.catalogue import VerifyCheck
    from headway.verify.outcome import VerifyResult
    from headway.verify.site import Site

app = typer.Typer(help="Show that an environment does what its layers promise, and keep what was seen.", invoke_without_command=True)

_MARKS = {"passed": "[green]✓[/]", "failed": "[red]✗[/]", "not shown here": "[blue]○[/]", "unanswered": "[yellow]?[/]"}


@app.callback()
def verify(
    context: typer.Context,
    environment: EnvironmentOption = None,
    only: Annotated[
        list[str] | None,
        typer.Option("--only", metavar="CHECK", autocompletion=verify_checks, help="Run only this check; may be repeated."),
    ] = None,
    release: Annotated[
        str | None,
        typer.Option(
            "--release", metavar="TENANT/MODEL", autocompletion=services, help="First release what this service's contract describes."
        ),
    ] = None,
    image: Annotated[str, typer.Option("--image", help="What probes run: an image with Python, by digest. Default: headway:loops.")] = "",
    keep: Annotated[
        Path | None, typer.Option("--keep", metavar="FILE", help="Write the attestation there; default: the ledger's bucket.")
    ] = None,
    output: OutputOption = Output.TEXT,
    project: ProjectOption = None,
) -> None:
    """Look at the environment from outside and, by probes in a namespace of their own, from inside.

    What it made is removed at the end, also after Ctrl-C. Exit codes: 0 nothing failed (what this environment cannot show
    is said, and counts as neither); 1 a check failed; 3 a check got no answer, and none failed; 130 interrupted.
    """
    if context.invoked_subcommand:
        return
    from headway.cli.release_start import commit_of
    from headway.environment.checkout import described, find
    from headway.release.driver.holder import actor
    from headway.verify import attestation
    from headway.verify.catalogue import chosen
    from headway.verify.outcome import VerifyState
    from headway.verify.run import left_before

    checkout, environment = find(project), to_write(environment, project)
    described(checkout, environment)
    checks = chosen(only or ())
    if keep and not _writable(keep):
        raise UserError(
            f"{keep} cannot be written.",
            "The attestation would be lost; nothing was done.",
            "Name a file that you may write, in a folder that is there.",
            Exit.USAGE,
        )
    if release:
        _released(release, environment, checkout)
    site = _site(checkout, environment, image, release)
    if left := left_before(site):
        typer.echo(
            f"Of other runs there is still {', '.join(left)}: `kubectl delete namespace` removes it if nobody verifies now.", err=True
        )
    with _ended_by_signals():
        results = _run(site, checks, output)
    record = attestation.document(
        environment=environment,
        actor=actor(),
        commit=commit_of(checkout),
        began=site.began,
        ended=_now(),
        versions=_versions(checkout, site),
        results=results,
    )
    where = _kept(record, keep, site)
    if output is Output.JSON:
        typer.echo(json.dumps(record, indent=2))
    else:
        _summary(record, where)
    state = VerifyState(record["state"])
    if state is VerifyState.FAILED:
        raise typer.Exit(Exit.REFUSED)
    if state is VerifyState.UNANSWERED:
        raise typer.Exit(Exit.ENVIRONMENT)


@app.command()
def checks(output: OutputOption = Output.TEXT) -> None:
    """List the checks, with the minutes that each takes at most where all is well."""
    from headway.verify.catalogue import CHECKS

    if output is Output.JSON:
        typer.echo(json.dumps([{"check": each.name, "says": each.says, "minutes": each.minutes} for each in CHECKS], indent=2))
        return
    width = max(len(each.name) for each in CHECKS)
    for each in CHECKS:
        typer.echo(f"{each.name:<{width}}  {each.minutes:>3} min  {each.says}")
    typer.echo(f"{'together':<{width}}  {sum(each.minutes for each in CHECKS):>3} min")


@app.command()
def show(
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="An attestation; default: the ledger's newest.")] = None,
    environment: EnvironmentOption = None,
    output: OutputOption = Output.TEXT,
    project: ProjectOption = None,
) -> None:
    """Read an attestation again: whether it is whole, and what it says."""
    from headway.environment.checkout import find
    from headway.verify import attestation

    record = attestation.read(file.read_bytes(), str(file)) if file else _newest(find(project), to_read(environment, project))
    if output is Output.JSON:
        typer.echo(json.dumps(record, indent=2))
        return
    for check in record["checks"]:
        _print(check)
    _summary(record, "")


def _run(site: "Site", checks: "Sequence[VerifyCheck]", output: Output) -> "tuple[VerifyResult, ...]":
    from headway.verify.attestation import document
    from headway.verify.run import run

    def told(result: "VerifyResult") -> None:
        if output is Output.TEXT:
            bare = document(environment="", actor="", commit="", began="", ended="", versions={}, results=[result])
            _print(bare["checks"][0])

    try:
        return run(site, checks, lambda: datetime.now(UTC), told)
    finally:
        with _patient():
            if left := site.close():
                typer.echo(left, err=True)


@contextmanager
def _ended_by_signals() -> Generator[None]:
    """SIGTERM ends the run as Ctrl-C does: what was made is removed first."""

    def stop(number: int, _: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _patient() -> Generator[None]:
    """While what was made is removed, a second Ctrl-C is not heard: it would leave it behind."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _site(checkout: Path, environment: str, image: str, release: str | None) -> "Site":
    import secrets

    from headway.contract.reading.pools import pools_of
    from headway.environment.checkout import described
    from headway.environment.selection import environment as chosen
    from headway.verify.sample import ended_releases
    from headway.verify.site import Site

    return Site(
        environment=chosen(environment, checkout),
        namespace=f"headway-verify-{secrets.token_hex(4)}",
        began=_now(),
        pools=pools_of(described(checkout, environment))[0],
        clock=time.monotonic,
        sleep=time.sleep,
        say=lambda text: typer.echo(text, err=True),
        image=image,
        ended_releases=lambda: ended_releases(checkout, environment, release),
    )


def _released(service: str, environment: str, checkout: Path) -> None:
    words = ("release", "start", service, "--environment", environment, "--project", str(checkout), "--reason", "headway verify")
    ended = subprocess.run([sys.executable, "-m", "headway.cli.main", *words], stdout=sys.stderr, check=False)
    if ended.returncode:
        raise UserError(
            f"The release of {service} ended with exit code {ended.returncode}.",
            "Nothing else was verified.",
            f"`headway release status {service} --environment {environment}` says why; the message is above.",
            Exit(ended.returncode) if ended.returncode in set(Exit) else Exit.REFUSED,
        )


def _kept(record: dict[str, Any], keep: Path | None, site: "Site") -> str:
    """Where the attestation is now."""
    from headway.ledger.location import opened
    from headway.ledger.store import MissingStoreError, TakenError, UnreachableError
    from headway.verify import attestation

    body = json.dumps(record, indent=2, sort_keys=True).encode() + b"\n"
    if keep is not None:
        keep.write_bytes(body)
        return str(keep)
    key = attestation.key(record["environment"], record["began"])
    try:
        opened(site.environment.ledger_address).create(key, body)
    except (MissingStoreError, TakenError, UnreachableError, UserError) as failure:
        said = failure.fact if isinstance(failure, UserError) else type(failure).__name__
        typer.echo(f"The attestation was not kept ({said}): it is only what is printed here. Use --keep FILE.", err=True)
        return ""
    return f"{site.environment.ledger_address}/{key}"


def _writable(file: Path) -> bool:
    """Whether the file, which may be there already, can be written as it will be: in place."""
    there = file if file.exists() else file.parent
    return there.is_dir() is (there is not file) and os.access(there, os.W_OK)


def _newest(checkout: Path, environment: str) -> dict[str, Any]:
    from headway.environment.selection import environment as chosen
    from headway.ledger.location import opened
    from headway.verify import attestation
    from headway.wire import LEDGER_VERIFICATIONS

    store = opened(chosen(environment, checkout).ledger_address)
    keys = store.list(f"{LEDGER_VERIFICATIONS}{environment}/")
    body = store.get(keys[-1]) if keys else None
    if body is None:
        raise UserError(
            f"No verification of {environment} is kept.", "There is nothing to show.", f"Run one: `headway verify -e {environment}`."
        )
    return attestation.read(body, keys[-1])


def _versions(checkout: Path, site: "Site") -> dict[str, Any]:
    from importlib.metadata import version

    from headway.cli.mirror import installed_by
    from headway.verify.run import live_versions

    pinned = installed_by(checkout)
    charts = {f"{each['chart']}": each["version"] for each in pinned["charts"]}
    return {
        "headway": version("headway"),
        "kubernetes": pinned["kubernetes"],
        "addons": pinned["addons"],
        "charts": dict(sorted(charts.items())),
        "live": live_versions(site),
    }


def _print(check: dict[str, Any]) -> None:
    from rich.console import Console

    console = Console(highlight=False, soft_wrap=True)
    console.print(_MARKS.get(check["state"], "[dim]-[/]"), f"{check['check']}: {check['state']}, {check['seconds']:.0f} s")
    for line in (*check["evidence"], *check["notShown"], *check["unanswered"]):
        console.print(printable(f"    {line}"), markup=False)
    for each in check["problems"]:
        console.print(printable(f"    {each['fact']}.\n    {each['consequence']}.\n    Remedy: {each['remedy']}."), markup=False)


def _summary(record: dict[str, Any], where: str) -> None:
    counted = {state: sum(check["state"] == state for check in record["checks"]) for state in (*_MARKS, "nothing to check")}
    said = ", ".join(f"{count} {state}" for state, count in counted.items() if count)
    typer.echo(f"\n{record['environment']}, {record['began']}: {said}. {record['digest']}")
    if where:
        typer.echo(f"Kept as {where}")


def _now() -> str:
    from headway.timestamp import rfc3339

    return rfc3339(datetime.now(UTC))
