"""`headway release status|history|report|verify`: what became of releases, read from the ledger alone.

Nothing here writes, and nothing needs the cluster. A ledger that was written by another gate is sound and yet cannot be
decided again; that is said, and is no flaw.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.completion import services
from headway.cli.environment_choice import EnvironmentOption, to_read
from headway.cli.output import Output, OutputOption
from headway.cli.release_options import ProjectOption, ServiceArgument
from headway.problem import Exit, UserError

if TYPE_CHECKING:
    from headway.ledger.chain import Ledger
    from headway.ledger.events import Event
    from headway.ledger.witness import WitnessWord
    from headway.release.driver.rollout_state import RolloutState
    from headway.release.driver.verify import Recomputed
    from headway.release.evaluator.after_promotion import AfterPromotion
    from headway.release.service_place import ServicePlace


def status(
    service: Annotated[
        str | None, typer.Argument(metavar="TENANT/MODEL", autocompletion=services, help="One service; all of them otherwise.")
    ] = None,
    environment: EnvironmentOption = None,
    project: ProjectOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """What serves, what is under way and what the gate says of it. Exit code 6 while a named service has a release
    under way."""
    from headway.cli import release_status, release_view
    from headway.release.driver.rollout_state import fold
    from headway.release.report.measured import figures_of

    places = _places(service, to_read(environment, project), project)
    found = {here.chain: here.ledger() for here in places}
    events = {chain: compared(ledger) for chain, ledger in found.items()}
    services = {chain: fold(of) for chain, of in events.items()}
    named = service or output is Output.JSON
    since = {here.chain: after_promotion(here, services[here.chain].stable) if named else None for here in places}
    if output is Output.JSON:
        told = {chain: release_view.document(one, figures_of(events[chain]), since[chain]) for chain, one in sorted(services.items())}
        print(json.dumps(told, indent=2))
    elif service:
        about = f"{service} -e {places[0].environment}"
        rows = release_status.standing(about, services[service], driver(found[service]), datetime.now(UTC), since[service])
        release_status.show(service, rows, services[service].rollout, figures_of(events[service]))
    else:
        release_view.overview(services)
    if service and services[service].running:
        raise typer.Exit(Exit.UNDER_WAY)


def after_promotion(here: "ServicePlace", release: str | None) -> "AfterPromotion":
    """What is known of a release since it serves."""
    from headway.release.evaluator.after_promotion import AfterPromotion

    return AfterPromotion.of(release, evaluations=compared(here.evaluations()), drift=compared(here.drifts()))


def compared(ledger: "Ledger") -> "Sequence[Event]":
    """A chain as this look finds it; that its witness does not answer is said on standard error."""
    events = ledger.look()
    if unheard := ledger.word and ledger.word.unheard(ledger.chain):
        print(f"! {unheard.brief}", file=sys.stderr)
    return events


def driver(ledger: "Ledger") -> str | None:
    """Who holds the lease of a chain that was read, and lives."""
    from headway.release.driver.holder import gone

    lease = ledger.lease()
    return lease.holder if lease and lease.kept(gone) else None


def history(
    service: ServiceArgument,
    environment: EnvironmentOption = None,
    project: ProjectOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Every release of a service: who, when, how it ended and why."""
    from headway.cli import release_view
    from headway.release.driver.rollout_state import fold
    from headway.release.service_place import place

    here = place(service, to_read(environment, project), project)
    state = fold(compared(here.ledger()))
    if output is Output.JSON:
        print(json.dumps([release_view.summary(rollout) for rollout in state.all], indent=2))
    else:
        release_view.past(here.chain, state.all)


def report(
    service: ServiceArgument,
    number: Annotated[int | None, typer.Option("--number", help="Which release, by the number in `history`; the newest otherwise.")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="The file; standard output otherwise.")] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="A short summary in Markdown, as for a GitHub step.")] = False,
    picture: Annotated[bool, typer.Option("--picture", help="A PNG picture for chat, into the file of --out.")] = False,
    environment: EnvironmentOption = None,
    project: ProjectOption = None,
) -> None:
    """One page about a release that needs nothing else: evidence against its boundary, traffic, differences, the
    verdict in plain words."""
    from headway.release.report import page, summary
    from headway.release.service_place import place

    if picture and (markdown or out is None):
        raise UserError(
            "A picture needs a file of its own.",
            "Nothing was written.",
            "Give --picture with --out FILE.png, and without --markdown.",
            Exit.USAGE,
        )
    here = place(service, to_read(environment, project), project)
    events = compared(here.ledger())
    rollout = chosen(here, events, number)
    if picture and out is not None:
        from headway.release.report.picture import png

        out.write_bytes(png(here.chain, here.environment, rollout, events))
        print(f"{out}: a picture of release {rollout.release} of {here.chain} in {here.environment}")
        return
    text = (
        summary.markdown(here.chain, rollout, events)
        if markdown
        else page.html(here.chain, here.environment, rollout, events, after_promotion(here, rollout.release))
    )
    if out is None:
        print(text)
    else:
        out.write_text(text, encoding="utf-8")
        print(f"{out}: the report of release {rollout.release} of {here.chain} in {here.environment}")


def verify(
    service: ServiceArgument,
    head: Annotated[str | None, typer.Option("--head", help="Hash of the last event as known from a report.")] = None,
    environment: EnvironmentOption = None,
    project: ProjectOption = None,
    output: OutputOption = Output.TEXT,
) -> None:
    """Check a service's whole ledger: nothing altered, missing or reordered, and every decision is what its saved
    counts give."""
    from headway.ledger import reading as chains
    from headway.ledger.serving import released
    from headway.ledger.witness import ask
    from headway.release.driver.rollout_state import fold
    from headway.release.driver.verify import Recomputed, recomputed
    from headway.release.evaluation.standing import evaluation_chain
    from headway.release.evaluation.watched import drift_chain
    from headway.release.evidence import reading
    from headway.release.service_place import place

    here = place(service, to_read(environment, project), project)
    besides = {"evaluations": evaluation_chain(here.chain), "drift": drift_chain(here.chain)}
    words = {name: ask(here.port.ledger_witness, chain) for name, chain in {"": here.chain, **besides}.items()}  # before the ledger is read
    word = words[""]
    flaws = list(chains.verify(here.store, here.chain, here.environment, head, word))
    for name, beside in besides.items():
        flaws += (f"{name}: {flaw}" for flaw in chains.verify(here.store, beside, here.environment, word=words[name]))
    count, last, bound, again = 0, "", True, Recomputed(0, (), (), 0)
    if not flaws:
        ledger = here.ledger()
        events = ledger.read()
        count, last, bound = len(events), ledger.head, ledger.bound
        again = recomputed(events, reading)
        flaws += again.flaws
        try:
            known = fold(events).known
        except UserError as newer:  # a sound chain all the same
            known, again = {}, replace(again, foreign=(*again.foreign, newer.fact.rstrip(".")))
        for content in sorted(set(known.values())):
            try:
                released(here.store, here.chain, content)
            except UserError as error:
                flaws.append(error.fact)
    if output is Output.JSON:
        found = {"sound": not flaws, "flaws": flaws, "events": count, "head": last, "bound": bound, "witnessed": word.number}
        decisions = {"decisions": again.decided + again.undecided, "decided_again": again.decided, "not_decided_again": again.foreign}
        print(json.dumps({**found, **decisions}, indent=2))
    else:
        for line in _verified(here.chain, flaws, count, again):
            print(line)
        if not bound:
            print(f"! it does not say of which service and environment it is; `headway release bind {here.chain} -e {here.environment}`")
        if count and not flaws:
            print(_witnessed(word))
            print(f"  head {last}")
    if flaws:
        raise typer.Exit(Exit.REFUSED)


def _witnessed(word: "WitnessWord") -> str:
    """How much of a sound chain is known outside its store."""
    if word.number:
        return f"✓ its witness agrees up to event {word.number}"
    why = f"the witness does not answer ({word.silent})" if word.silent else "nobody has witnessed it yet"
    return f"! another whole chain would pass for it: {why}"


def _verified(chain: str, flaws: Sequence[str], count: int, again: "Recomputed") -> Iterator[str]:
    """What was proven, what was refuted, and what was neither."""
    yield from (f"✗ {flaw}" for flaw in flaws)
    if flaws:
        return
    if not count:
        yield f"{chain} is not in the ledger yet: there is nothing to verify"
        return
    yield f"✓ {chain}: {count} events follow each other unaltered"
    every = again.decided + again.undecided
    if again.decided or not every:
        yield f"✓ {again.decided} of {every} decisions were made again from their counts, and are the same bit for bit"
    for other in again.foreign:
        yield f"! {other}"
    if again.foreign:
        yield "  To make them again, run `headway release verify` of the Headway that made them."


def chosen(here: "ServicePlace", events: "Sequence[Event]", number: int | None) -> "RolloutState":
    from headway.release.driver.rollout_state import fold

    known = fold(events).all
    if not known or (number is not None and not 0 < number <= len(known)):
        about = f"{here.chain} -e {here.environment}"
        what = f"no release {number}; there are {len(known)}" if known else "no release yet"
        remedy = f"`headway release history {about}` lists them." if known else f"`headway release start {about}` begins one."
        raise UserError(f"{here.chain} has {what}.", "There is nothing to show.", remedy, Exit.USAGE)
    return known[-1 if number is None else number - 1]


def _places(service: str | None, environment: str, project: Path | None) -> "Sequence[ServicePlace]":
    from headway.environment.checkout import find
    from headway.release.service_place import place, places

    return [place(service, environment, project)] if service else places(find(project), environment)
