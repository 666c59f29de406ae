"""`headway release`: begin a release, watch it, hold it, end it, and read what became of it.

Whoever starts a release drives it, until it is over; any other terminal may look and ask. Exit codes: 0 promoted, 5 rolled back, 1 refused,
4 driven by another runner, 6 under way. The trap: a wish is an event in the ledger, which the runner reads within a second or two; only
`rollback` also patches the live route itself, since users should not wait for anybody.
"""

import contextlib
import json
import sys
import threading
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import typer.core

from headway.errors import Exit, UserError

if TYPE_CHECKING:
    from headway.cli.release_place import Place
    from headway.cli.release_view import View
    from headway.release.driver.driver import Driver
    from headway.release.driver.kinds import Wish
    from headway.release.driver.rollout import Rollout, Service


class _Plainly(typer.core.TyperGroup):
    """Says in plain words which server did not answer."""

    def invoke(self, ctx: Any) -> Any:
        from headway.release.driver.world import OutOfReachError
        from headway.release.ledger.store import MissingStoreError, UnreachableError

        try:
            return super().invoke(ctx)
        except OutOfReachError as failure:
            who, what = f"The API server does not answer ({failure})", "Check that the cluster runs and can be reached"
        except UnreachableError as failure:
            who, what = f"The release ledger does not answer ({failure})", "Check the network and the permission to read its bucket"
        except MissingStoreError:
            who, what = "The release ledger's bucket does not exist", "Deploy the environment's cluster layer first"
        raise UserError(f"{who}.", "Nothing was decided; what serves goes on serving.", f"{what}; then run the command again.")


app = typer.Typer(cls=_Plainly, help="Bring a new version to users only as fast as the evidence allows.", no_args_is_help=True)

ServiceArgument = Annotated[str, typer.Argument(metavar="TENANT/MODEL", help="Which service.")]
EnvironmentOption = Annotated[str, typer.Option("--environment", "-e", help="Which environment.")]
ProjectOption = Annotated[Path | None, typer.Option("--project", help="The checkout; found from the working folder otherwise.")]
PrometheusOption = Annotated[str | None, typer.Option("--prometheus", help="Its address; found from the environment otherwise.")]
OutputOption = Annotated[str, typer.Option("--output", help="text, or json: one object a line for each event, and the end as the last.")]
ReasonOption = Annotated[str, typer.Option("--reason", help="Why; kept in the ledger.")]
NotifyOption = Annotated[str | None, typer.Option("--notify", help="A webhook that is told of the beginning, of trouble and of the end.")]


@app.command()
def start(
    service: ServiceArgument,
    reason: Annotated[str, typer.Option("--reason", help="What this release is for; kept in the ledger.")] = "",
    commit: Annotated[str, typer.Option("--commit", help="Git commit; found from the checkout otherwise.")] = "",
    supersede: Annotated[bool, typer.Option("--supersede", help="Drain the release that is under way first.")] = False,
    speed: Annotated[float, typer.Option("--speed", help="Sandbox only: how much faster its minutes pass.")] = 1.0,
    unguarded: Annotated[bool, typer.Option("--unguarded", help="Begin although no dead man's switch is watching.")] = False,
    environment: EnvironmentOption = "sandbox",
    project: ProjectOption = None,
    prometheus: PrometheusOption = None,
    output: OutputOption = "text",
    notify: NotifyOption = None,
) -> None:
    """Release what the contract now describes, and stay until it is promoted or back. Goes on with that release if it is under way."""
    from headway.cli.release_place import place
    from headway.contract.released import release_id
    from headway.release.driver.adoption import adopt
    from headway.release.driver.beginning import TICK_SECONDS, Start, begin
    from headway.release.driver.kinds import Wish
    from headway.release.driver.rollout import fold
    from headway.release.ledger.store import prove

    here = place(service, environment, project, prometheus)
    if speed != 1.0 and environment != "sandbox":
        raise UserError(
            "--speed is for the sandbox.", "A release in production takes the time its evidence takes.", "Leave it out.", Exit.USAGE
        )
    if TICK_SECONDS / speed < 2 * here.scrape_seconds:
        raise UserError(
            f"At a speed of {speed:g} a tick lasts {TICK_SECONDS / speed:.2g} s, and counters are scraped every {here.scrape_seconds:g} s.",
            "Ticks would hold no samples, and no release would ever be judged.",
            f"Use at most --speed {TICK_SECONDS / 2 / here.scrape_seconds:g}.",
            Exit.USAGE,
        )
    model = here.contract()
    if not unguarded:
        here.guard()
    ledger = here.ledger()
    with _view(output, here.chain, notify) as view:
        prove(here.store)
        deployed = here.deployed()
        if not ledger.read() and deployed:
            adopt(ledger, here.store, deployed["contract"], deployed["release"])
        running = fold(ledger.read()).running
        if running and running.release == release_id(model):
            raise typer.Exit(_code(_drive(here, view, running)))
        if running and supersede:
            _ask(here, Wish.ROLLBACK, f"superseded by another release{': ' + reason if reason else ''}")
            _drive(here, view, running)
        world = here.world(model)
        stable = fold(here.ledger().read()).stable or ""
        pool = _pool(here, model)
        gpu = model.envelope.gpu
        room = world.cluster.room(pool, gpu.resource, gpu.count, stable, grows=environment != "sandbox")
        begin(here.ledger(), here.store, model, room, Start(reason=reason, commit=commit or _commit(here.project), speed=speed))
        ended = _drive(here, view, None)
    raise typer.Exit(_code(ended))


@app.command()
def resume(
    service: ServiceArgument,
    reason: ReasonOption = "",
    environment: EnvironmentOption = "sandbox",
    project: ProjectOption = None,
    prometheus: PrometheusOption = None,
    output: OutputOption = "text",
    notify: NotifyOption = None,
) -> None:
    """End a freeze; and where its runner is gone, take the release over and stay until it is over."""
    from headway.cli.release_place import place
    from headway.release.driver.kinds import Wish

    here = place(service, environment, project, prometheus)
    running = _running(here)
    if running.frozen:
        _ask(here, Wish.RESUME, reason or "resumed")
    with _view(output, here.chain, notify) as view:
        ended = _drive(here, view, running)
    raise typer.Exit(_code(ended))


@app.command()
def watch(
    service: ServiceArgument,
    environment: EnvironmentOption = "sandbox",
    project: ProjectOption = None,
    output: OutputOption = "text",
) -> None:
    """Follow a release that another runner drives, until it is over."""
    from headway.cli.release_place import place

    here = place(service, environment, project)
    with _view(output, here.chain, None) as view:
        ended = _follow(here, view, _newest(here))
    raise typer.Exit(_code(ended))


@app.command()
def freeze(
    service: ServiceArgument, reason: ReasonOption, environment: EnvironmentOption = "sandbox", project: ProjectOption = None
) -> None:
    """Hold the weight where it is. Evidence goes on, and a failure still goes back."""
    _wish(service, "freeze", reason, environment, project)


@app.command()
def promote(
    service: ServiceArgument, reason: ReasonOption, environment: EnvironmentOption = "sandbox", project: ProjectOption = None
) -> None:
    """Give it all traffic now, without proof; while it bakes, end the baking. The reason is kept."""
    _wish(service, "promote", reason, environment, project)


@app.command()
def rollback(
    service: ServiceArgument,
    reason: ReasonOption,
    environment: EnvironmentOption = "sandbox",
    project: ProjectOption = None,
    prometheus: PrometheusOption = None,
    output: OutputOption = "text",
) -> None:
    """Take all traffic back to the stable version at once, then bring the stack into line."""
    from headway.cli.release_place import place
    from headway.release.driver import targets
    from headway.release.driver.kinds import Wish
    from headway.release.driver.world import OutOfReachError

    here = place(service, environment, project, prometheus)
    running = _running(here)
    _ask(here, Wish.ROLLBACK, reason)
    if running.was_exposed:
        with contextlib.suppress(OutOfReachError):  # the runner does it again, and looks
            here.cluster.patch(targets.back(running))
    with _view(output, here.chain, None) as view:
        ended = _drive(here, view, running)
    raise typer.Exit(_code(ended))


@app.command()
def status(
    service: Annotated[str | None, typer.Argument(metavar="[TENANT/MODEL]", help="One service; all of them otherwise.")] = None,
    environment: EnvironmentOption = "sandbox",
    project: ProjectOption = None,
    output: OutputOption = "text",
) -> None:
    """What serves, what is under way and what the gate says of it. Exit code 6 while a named service has a release under way."""
    from headway.cli import release_view
    from headway.release.driver.rollout import fold

    found = {here.chain: fold(here.ledger().read()) for here in _places(service, environment, project)}
    if output == "json":
        print(json.dumps({chain: release_view.document(one) for chain, one in sorted(found.items())}, indent=2))
    else:
        release_view.overview(found)
    if service and found[service].running:
        raise typer.Exit(Exit.UNDER_WAY)


@app.command()
def history(
    service: ServiceArgument,
    environment: EnvironmentOption = "sandbox",
    project: ProjectOption = None,
    output: OutputOption = "text",
) -> None:
    """Every release of a service: who, when, how it ended and why."""
    from headway.cli import release_view
    from headway.cli.release_place import place
    from headway.release.driver.rollout import fold

    here = place(service, environment, project)
    found = fold(here.ledger().read())
    if output == "json":
        print(json.dumps([release_view.summary(rollout) for rollout in _all(found)], indent=2))
    else:
        release_view.past(here.chain, _all(found))


@app.command()
def report(
    service: ServiceArgument,
    number: Annotated[int | None, typer.Option("--number", help="Which release, by the number in `history`; the newest otherwise.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="The file; standard output otherwise.")] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="A short summary in Markdown, as for a GitHub step.")] = False,
    environment: EnvironmentOption = "sandbox",
    project: ProjectOption = None,
) -> None:
    """One page about a release that needs nothing else: evidence against its boundary, traffic, differences, the verdict in plain words."""
    from headway.cli.release_place import place
    from headway.release.report import page, summary

    here = place(service, environment, project)
    events = here.ledger().read()
    rollout = _chosen(here, number)
    text = summary.markdown(here.chain, rollout, events) if markdown else page.html(here.chain, here.environment, rollout, events)
    if out is None:
        print(text)
    else:
        out.write_text(text, encoding="utf-8")


@app.command()
def verify(
    service: ServiceArgument,
    head: Annotated[str | None, typer.Option("--head", help="Hash of the last event as known from a report.")] = None,
    environment: EnvironmentOption = "sandbox",
    project: ProjectOption = None,
    output: OutputOption = "text",
) -> None:
    """Check a service's whole ledger: nothing altered, missing or reordered, and every decision is what its saved counts give."""
    from headway.cli.release_place import place
    from headway.release.driver.rollout import fold
    from headway.release.driver.verify import foreign, recomputed
    from headway.release.evidence import reading
    from headway.release.ledger import ledger as chains
    from headway.release.ledger.division import released

    here = place(service, environment, project)
    flaws = list(chains.verify(here.store, here.chain, head))
    count, last, decisions = 0, "", 0
    notes: tuple[str, ...] = ()
    if not flaws:
        ledger = here.ledger()
        events = ledger.read()
        count, last = len(events), ledger.head
        decisions = sum(event.kind == "observed" for event in events)
        flaws += recomputed(events, reading)
        notes = foreign(events)
        for content in sorted(set(fold(events).known.values())):
            try:
                released(here.store, here.chain, content)
            except UserError as error:
                flaws.append(error.fact)
    if output == "json":
        print(
            json.dumps(
                {"sound": not flaws, "flaws": flaws, "notes": notes, "events": count, "decisions": decisions, "head": last}, indent=2
            )
        )
    elif flaws:
        for flaw in flaws:
            print(f"✗ {flaw}")
    else:
        decided = f"{decisions} decisions are what their counts give" if not notes else f"{decisions} decisions"
        print(f"✓ {here.chain}: {count} events follow each other unaltered, {decided}")
        for note in notes:
            print(f"  not decided again: {note}")
        print(f"  head {last}")
    if flaws:
        raise typer.Exit(Exit.REFUSED)


@app.command()
def guard(
    tenant: Annotated[str, typer.Argument(help="Whose services.")],
    environment: EnvironmentOption = "sandbox",
    project: ProjectOption = None,
    in_cluster: Annotated[bool, typer.Option("--in-cluster", help="Use the identity of the pod that this runs in.")] = False,
) -> None:
    """The dead man's switch: take traffic back from any release that nobody watches any more. Runs until it is stopped.

    Needs the API server only. Run it where the runners are not.
    """
    from datetime import UTC, datetime
    from time import sleep

    from headway.cli.project import find
    from headway.cli.release_place import Place
    from headway.release.driver.api import Api
    from headway.release.driver.holder import here as this_process
    from headway.release.driver.world import OutOfReachError
    from headway.release.guard import LOOK_SECONDS, Guard

    api = Api(None) if in_cluster else Place(project=find(project), environment=environment, tenant=tenant, model="").api
    found = Guard(api, tenant, this_process(), lambda: datetime.now(UTC))
    while True:
        try:
            for model in found.look():
                print(f"{tenant}/{model}: nobody watched its release any more; all traffic is on the stable version again", flush=True)
        except OutOfReachError as failure:
            print(f"the API server does not answer ({failure})", file=sys.stderr, flush=True)
        sleep(LOOK_SECONDS)


# -- carrying out ----------------------------------------------------------------------------------------------------------------


def _drive(here: "Place", view: "View", running: "Rollout | None") -> "Rollout":
    """Drive it here, or follow whoever does; answers how it ended."""
    from headway.release.driver.driver import Driver
    from headway.release.driver.holder import gone
    from headway.release.driver.holder import here as this_runner
    from headway.release.evidence import reading
    from headway.release.ledger.division import released

    rollout = running or _running(here)
    driver = Driver(
        here.ledger(),
        here.world(released(here.store, here.chain, rollout.digest)),
        reading,
        this_runner(),
        gone=gone,
        told=view.told,
    )
    try:
        with _kept(driver):
            ended = driver.run()
    except UserError as refusal:
        if refusal.exit is not Exit.BUSY:
            raise
        view.say(f"{refusal.fact} Following it.")
        ended = _follow(here, view, rollout)
    from headway.release.report import summary

    summary.append(summary.markdown(here.chain, ended, here.ledger().read()))
    view.ended(ended)
    return ended


def _follow(here: "Place", view: "View", rollout: "Rollout") -> "Rollout":
    """Read the ledger until the release is over. Says when nobody drives it any more."""
    from datetime import UTC, datetime
    from time import sleep

    from headway.release.driver.rollout import fold

    ledger = here.ledger()
    service, told, alone = fold(()), 0, False
    while True:
        events = ledger.read()
        lease = ledger.lease()
        if not alone and not (lease and lease.live(datetime.now(UTC))):
            alone = True
            view.say(f"Nobody drives it now; `headway release resume {here.chain}` takes it over.")
        for event in events[told:]:
            service = fold((event,), service)
            view.told(event, service)
        told = len(events)
        found = next((r for r in (*service.past, *((service.rollout,) if service.rollout else ())) if r.number == rollout.number), None)
        if found and found.over:
            return found
        sleep(1.0)


@contextlib.contextmanager
def _kept(driver: "Driver") -> Generator[None]:
    """The lease is renewed beside whatever takes long."""
    stopped = threading.Event()
    keeper = threading.Thread(target=driver.keep, args=(stopped,), daemon=True)
    keeper.start()
    try:
        yield
    finally:
        stopped.set()
        keeper.join(timeout=5.0)


@contextlib.contextmanager
def _view(output: str, chain: str, notify: str | None) -> "Generator[View]":
    from headway.cli.release_view import Lines, Live, Objects
    from headway.release.notify import Webhook

    if output not in ("text", "json"):
        raise UserError(f"--output {output} is unknown.", "Nothing was done.", "Write text or json.", Exit.USAGE)
    hook = Webhook(notify, chain) if notify else None
    made = Objects(chain, hook) if output == "json" else Live(chain, hook) if sys.stdout.isatty() else Lines(chain, hook)
    with made as view:
        yield view


def _wish(service: str, wish: str, reason: str, environment: str, project: Path | None) -> None:
    from headway.cli.release_place import place
    from headway.release.driver.kinds import Wish

    here = place(service, environment, project)
    running = _running(here)
    if wish == Wish.PROMOTE and running.decision is None:
        raise UserError(
            f"Release {running.release} of {here.chain} has no traffic yet.",
            "Its replicas have not answered; there is nothing to promote.",
            "Ask again once it has its first weight, or its first copies.",
            Exit.REFUSED,
        )
    _ask(here, Wish(wish), reason)
    print(f"{here.chain}: asked to {wish}. The runner reads it within seconds; `headway release watch {here.chain}` shows it.")


def _ask(here: "Place", wish: "Wish", reason: str) -> None:
    from headway.release.driver.driver import ask

    ask(here.ledger(), wish, reason)


def _running(here: "Place") -> "Rollout":
    from headway.release.driver.rollout import fold

    found = fold(here.ledger().read()).running
    if found is None:
        raise UserError(
            f"No release of {here.chain} is under way.",
            "Nothing was done.",
            f"`headway release history {here.chain}` shows what was; `headway release start {here.chain}` begins one.",
            Exit.REFUSED,
        )
    return found


def _newest(here: "Place") -> "Rollout":
    return _chosen(here, None)


def _chosen(here: "Place", number: int | None) -> "Rollout":
    from headway.release.driver.rollout import fold

    known = _all(fold(here.ledger().read()))
    if not known or (number is not None and not 0 < number <= len(known)):
        what = f"no release {number}; there are {len(known)}" if known else "no release yet"
        raise UserError(
            f"{here.chain} has {what}.", "There is nothing to show.", f"`headway release history {here.chain}` lists them.", Exit.USAGE
        )
    return known[-1 if number is None else number - 1]


def _all(service: "Service") -> "tuple[Rollout, ...]":
    return (*service.past, *((service.running,) if service.running else ()))


def _places(service: str | None, environment: str, project: Path | None) -> "Sequence[Place]":
    from headway.cli.project import find
    from headway.cli.release_place import place, places

    return [place(service, environment, project)] if service else places(find(project), environment)


def _pool(here: "Place", model: Any) -> Any:
    from headway.contract.arithmetic.surge import pool_for

    return pool_for(model, here.pools)


def _commit(project: Path) -> str:
    import subprocess

    found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=project, capture_output=True, text=True, check=False)
    return found.stdout.strip() if found.returncode == 0 else ""


def _code(rollout: "Rollout") -> Exit:
    from headway.release.driver.kinds import Outcome

    codes = {Outcome.PROMOTED: Exit.OK, Outcome.ROLLED_BACK: Exit.ROLLED_BACK, Outcome.REFUSED: Exit.REFUSED}
    return codes[rollout.outcome] if rollout.outcome else Exit.UNDER_WAY
