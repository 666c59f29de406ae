"""How a diagnosis looks: the chain from symptom to cause, where the time went, what was ruled out, and what next. Pure."""

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.tree import Tree

from headway.diagnosis.asking import UNSAID
from headway.diagnosis.figures import clock, shown, signed
from headway.diagnosis.measure import FigureUnit
from headway.diagnosis.reasoning import ChainLink, Diagnosis, DiagnosisVerdict, Doubt, LatencyPhase
from headway.diagnosis.wording import BLIND, NOTHING, cause_words, next_steps, why_unknown
from headway.problem import printable


def drawn(found: Sequence[Diagnosis], environment: str, *, alone: bool) -> RenderableType:
    """For people. `alone`: one service, of which it is also said that nothing is wrong."""
    parts = list[RenderableType]()
    hurt = [each for each in found if each.verdict is not DiagnosisVerdict.NOTHING]
    for each in found if alone else hurt:
        parts += [*_one(each, environment), ""]
    if not found:
        parts.append(f"Environment {escape(environment)} has no model service.")
    elif not hurt and not alone:
        parts.append(f"Nothing is wrong with the {len(found)} services of {escape(environment)}, as far as can be seen.")
    return Group(*parts)


def _one(this: Diagnosis, environment: str) -> Iterator[RenderableType]:
    name = f"[bold]{escape(this.chain)}[/bold]"
    match this.verdict:
        case DiagnosisVerdict.NOTHING:
            yield f"{name}: {NOTHING}."
        case DiagnosisVerdict.BLIND:
            yield f"{name}: [yellow]{BLIND}.[/yellow]"
        case _:
            began = f", since {clock(this.onset, this.at)}" if this.onset is not None else ", since before one looked"
            began = "" if this.over else began
            also = "".join(f"; also {each.value.replace('-', ' ')}" for each in this.also)
            yield f"{name}: [red]{escape(this.links[0].says)}[/red]{began}{also}"
            yield _cause(this)
            yield _chain(this)
    if this.phases:
        yield _phases(this.phases)
    yield from _listed("Ruled out", this.ruled_out)
    yield from _listed("Could also be", this.could_be)
    if this.blind:
        yield "[yellow]Not seen[/yellow]"
        yield from (f"  {escape(printable(each.what))}: {escape(printable(each.why))}" for each in this.blind)
    commands = list(next_steps(this, environment))
    if commands:
        yield "Next"
        yield from (f"  {escape(each)}" for each in commands)
    if this.runbook:
        yield f"  docs/runbooks/{this.runbook}.md"


def _chain(this: Diagnosis) -> RenderableType:
    """Each link within the one that it explains, with its figures."""
    trunk = Tree(_labelled(this.links[0]), guide_style="dim")
    branch = trunk
    for link in this.links[1:]:
        branch = branch.add(_labelled(link))
    return trunk


def _labelled(link: ChainLink) -> str:
    return "\n".join([escape(printable(link.says)), *(f"[dim]{escape(printable(each))}[/dim]" for each in link.evidence)])


def _cause(this: Diagnosis) -> str:
    if this.verdict is DiagnosisVerdict.CAUSE:
        return f"[bold]Cause:[/bold] {escape(cause_words(this))} [dim]({this.cause}, layer {this.layer})[/dim]"
    return f"[bold]The cause is unknown:[/bold] {why_unknown(this)}."


def _phases(parts: Sequence[LatencyPhase]) -> RenderableType:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for column in ("where an answer's time goes", "before", "since", "added"):
        table.add_column(column, justify="left" if column.startswith("where") else "right")
    for each in (*parts, LatencyPhase(name="in all", before=sum(p.before for p in parts), since=sum(p.since for p in parts))):
        table.add_row(
            each.name,
            shown(each.before, FigureUnit.SECONDS),
            shown(each.since, FigureUnit.SECONDS),
            signed(each.since - each.before, FigureUnit.SECONDS),
        )
    return table


def _listed(head: str, doubts: Sequence[Doubt]) -> Iterator[RenderableType]:
    """Each with what speaks for or against it; those that no object speaks of are named together."""
    unsaid = [each for each in doubts if each.said.startswith(UNSAID)]
    if doubts:
        table = Table(box=None, padding=(0, 2, 0, 2), pad_edge=False, header_style="", title_justify="left")
        table.add_column(head, overflow="fold", ratio=2)
        table.add_column("", overflow="fold", ratio=3, style="dim")
        for each in doubts:
            if each not in unsaid:
                table.add_row(f"  {escape(each.says)}", escape(printable(each.said)))
        if unsaid:
            table.add_row(
                "  what the cluster would say", escape(f"{UNSAID}: {', '.join(each.said.removeprefix(UNSAID).strip() for each in unsaid)}")
            )
        yield table
