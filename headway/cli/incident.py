"""`headway incident`: one folder with what is known of an incident, for the post-mortem; and whether such a folder is whole.

Exit code 0 where every part was captured, 3 where one could not be: what could be is kept, and the manifest says what is missing and why.
"""

import hashlib
import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.completion import services
from headway.cli.environment_choice import EnvironmentOption, to_read, to_write
from headway.cli.release_options import ProjectOption, PrometheusOption
from headway.problem import Exit, UserError, printable

if TYPE_CHECKING:
    from headway.ledger.events import Event
    from headway.release.service_place import ServicePlace

app = typer.Typer(help="Keep what is known of an incident, and check what was kept.", no_args_is_help=True)

_MOST_LINES = 2000
_MOST_EVENTS = 1000
_NOT_TAKEN = {
    "traces": "Headway reads no traces; the proxies' lines in Loki have each request's trace id",
    "differences": "contracts and states are not compared here: `headway diff` compares contracts",
}


@app.command()
def capture(
    out: Annotated[Path, typer.Option("--out", help="The folder; it must not exist yet.")],
    service: Annotated[
        str | None, typer.Argument(metavar="TENANT/MODEL", autocompletion=services, help="Which service; --alert names one too.")
    ] = None,
    at: Annotated[str | None, typer.Option("--at", help="At which moment, such as `10m` ago or a time with its zone.")] = None,
    since: Annotated[str, typer.Option("--since", help="How far back: `1h`, `6h`.")] = "1h",
    alert: Annotated[Path | None, typer.Option("--alert", help="A notification as Alertmanager sends it; `-`: standard input.")] = None,
    freeze: Annotated[
        bool, typer.Option("--freeze", help="Hold the weight of the service's release under way, before anything is read.")
    ] = False,
    environment: EnvironmentOption = None,
    project: ProjectOption = None,
    prometheus: PrometheusOption = None,
) -> None:
    """Keep one service's series, objects, logs, ledger and diagnosis in a folder, with a page and a manifest. Reads only, but for --freeze.

    Exit codes: 0 all was captured, 1 the release could not be frozen and nothing was captured, 3 a part could not be read (the rest is kept).
    """
    from headway.cli.diagnose import asked, span
    from headway.diagnosis import incident
    from headway.release.service_place import place

    named, moment = asked(service, at, alert, datetime.now(UTC))
    length = span(since)
    if named is None:
        raise UserError("No service is named.", "Nothing was read.", "Write TENANT/MODEL, or give --alert.", Exit.USAGE)
    here = place(named, (to_write if freeze else to_read)(environment, project), project, prometheus)
    _is_new(out)
    frozen = _frozen(here) if freeze else None
    files, missing = _parts(here, moment, length)
    for name in [each for each, body in files.items() if len(body) > incident.LARGEST_FILE]:
        missing[name] = f"it has {len(files.pop(name))} bytes, and at most {incident.LARGEST_FILE} are kept"
    about = {"environment": here.environment, "service": here.chain, "at": moment.isoformat(), "seconds": length, "frozen": frozen}
    try:
        out.mkdir(mode=0o700)
        for name, body in {**files, incident.MANIFEST: incident.manifest(about, files, {**_NOT_TAKEN, **missing})}.items():
            _write(out / name, body)
    except OSError as error:
        raise UserError(
            f"{error.filename or out} cannot be written: {error.strerror}.",
            "The folder has no manifest, and is no whole capture.",
            "Name a new folder where there is room, with --out.",
            Exit.ENVIRONMENT,
        ) from None
    print(f"{out}: {len(files)} files of {here.chain} in {here.environment}")
    for what, why in sorted(missing.items()):
        typer.echo(printable(f"not captured: {what}: {incident.redacted(why)}"), err=True)
    if missing:
        raise typer.Exit(Exit.ENVIRONMENT)


@app.command()
def verify(folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="What `capture` has written.")]) -> None:
    """Check that a captured folder is whole: each file of its manifest, by size and digest. Exit code 1 where one is not."""
    from headway.diagnosis import incident

    try:
        known = incident.listed((folder / incident.MANIFEST).read_bytes())
    except OSError as error:
        raise UserError(
            f"{folder / incident.MANIFEST} cannot be read: {error.strerror}.",
            "Nothing was checked.",
            "Name a captured folder.",
            Exit.USAGE,
        ) from None
    flaws = [f"{name}: {flaw}" for name, (size, digest) in sorted(known.items()) if (flaw := _flaw(folder / name, size, digest))]
    flaws += [
        f"{each.name}: the manifest does not name it" for each in sorted(folder.iterdir()) if each.name not in {*known, incident.MANIFEST}
    ]
    for flaw in flaws:
        print(printable(f"✗ {flaw}"))
    if flaws:
        raise typer.Exit(Exit.REFUSED)
    print(f"✓ {len(known)} files are as they were captured")


def _frozen(here: "ServicePlace") -> str | None:
    """The release under way, held from now on; None without one. Says what was done, and how it ends. Raises UserError where it cannot be held."""
    from headway.ledger.store import MissingStoreError, UnreachableError
    from headway.release.driver.event_kinds import OperatorRequest
    from headway.release.driver.requests import ask
    from headway.release.driver.rollout_state import fold

    about = f"{here.chain} -e {here.environment}"
    try:
        running = fold(here.ledger().read()).running
        if running is None or running.failing:
            print(f"{here.chain}: nothing to freeze: {'its release goes back already' if running else 'no release is under way'}")
            return None
        if running.frozen is None:
            ask(here.ledger(), OperatorRequest.FREEZE, "an incident is captured")
    except (UserError, UnreachableError, MissingStoreError, OSError) as failure:
        fact = failure.fact if isinstance(failure, UserError) else str(failure) or type(failure).__name__
        raise UserError(
            f"The release of {here.chain} could not be frozen: {fact}",
            "It goes on; nothing was captured.",
            "Capture without --freeze, and let somebody freeze it who may write the release ledger"
            f" (`headway access {here.environment}`): `headway release freeze {about} --reason incident`.",
            Exit.REFUSED,
        ) from None
    already = f" already ({running.frozen})" if running.frozen is not None else ""
    print(f"{here.chain}: release {running.release} is frozen{already}; `headway release resume {about}` lets it go on")
    return running.release


def _flaw(file: Path, size: int, digest: str) -> str:
    if file.is_symlink() or not file.is_file():
        return "it is missing"
    if file.stat().st_size != size or hashlib.sha256(file.read_bytes()).hexdigest() != digest:
        return "it was changed"
    return ""


def _parts(here: "ServicePlace", moment: datetime, length: float) -> tuple[dict[str, bytes], dict[str, str]]:
    """The files, and what could not be captured, each with why."""
    from headway.diagnosis import incident, incident_page, record
    from headway.diagnosis.gathering import UNREAD, gather, why_unread
    from headway.diagnosis.reasoning import diagnoses

    look = _once(here)
    observed = gather(here, at=moment.timestamp(), since=length, look=look)
    found = diagnoses(observed)
    missing = {each.what: each.why for each in observed.blind}
    files = {
        "series.json": incident.encoded(incident.series_record(observed)),
        "objects.json": incident.encoded(incident.objects_record(observed)),
        "diagnosis.json": incident.encoded([record.of_one(each, here.environment) for each in found]),
    }
    lines: list[str] = []

    def logs() -> bytes:
        lines.extend(_lines(here, moment, length))
        return "".join(f"{each}\n" for each in lines).encode(errors="backslashreplace")

    def ledger() -> bytes:
        events = look()[-_MOST_EVENTS:]
        return incident.encoded([{"number": e.number, "time": e.time, "by": e.actor, "kind": e.kind, "body": e.body} for e in events])

    taken: dict[str, Callable[[], bytes]] = {"logs.txt": logs, "ledger.json": ledger}
    for name, take in taken.items():
        try:
            files[name] = take()
        except UNREAD as failure:
            missing[name] = why_unread(failure)
    page = incident_page.html(observed, found, here.environment, lines)
    files["index.html"] = page.encode(errors="backslashreplace")
    return files, missing


def _once(here: "ServicePlace") -> "Callable[[], Sequence[Event]]":
    """Reads the chain of releases now, and answers it, or why it was not read, as often as it is asked."""
    from headway.diagnosis.gathering import UNREAD

    failure: Exception | None = None
    events: Sequence[Event] = ()
    try:
        events = here.ledger().look()
    except UNREAD as found:
        failure = found

    def look() -> "Sequence[Event]":
        if failure is not None:
            raise failure
        return events

    return look


def _lines(here: "ServicePlace", moment: datetime, length: float) -> list[str]:
    from headway.cli.logs import written
    from headway.cli.output import Output
    from headway.contract.secret_names import masked
    from headway.environment.container_logs import LogQuery

    query = LogQuery(tenant=here.tenant, model=here.model, since=moment - timedelta(seconds=length), until=moment, most=_MOST_LINES)
    return [masked(written(each, Output.TEXT)) for each in here.port.container_logs(query).read()]


def _is_new(folder: Path) -> None:
    if os.path.lexists(folder):
        raise UserError(
            f"{folder} exists already.", "What is in it is kept; nothing was read.", "Name a new folder with --out.", Exit.USAGE
        )
    if not folder.parent.is_dir():
        raise UserError(f"{folder.parent} is no folder.", "Nothing was read.", "Make it first, or name another with --out.", Exit.USAGE)


def _write(file: Path, body: bytes) -> None:
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
        opened.write(body)
