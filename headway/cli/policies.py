"""`headway policies`: the rules for resources, and what is exempt from them until when; also writes docs/policies.md.

An exemption counts by the day in UTC, as the packs count it. The page names dates and no ages, so that it changes only with them.
"""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from headway.cli.completion import policy_rules
from headway.problem import Exit, UserError

if TYPE_CHECKING:
    from policies.guardrails.exemptions import Exemption
    from policies.guardrails.rule import PolicyRule

SOON_DAYS = 30
"""An exemption that ends within this many days is marked: renewing takes a review."""


class PoliciesOutput(StrEnum):
    TEXT = "text"
    JSON = "json"
    MARKDOWN = "markdown"


def policies(
    rule: Annotated[
        str | None,
        typer.Argument(metavar="RULE", autocompletion=policy_rules, help="One rule, explained; all of them otherwise.", show_default=False),
    ] = None,
    output: Annotated[
        PoliciesOutput, typer.Option("--output", "-o", help="`text` for people, `json` for programs, `markdown` for docs/policies.md.")
    ] = PoliciesOutput.TEXT,
) -> None:
    """List every rule and which resources are exempt until when; or explain one: what it requires, why, what to do about a
    breach, and an example that it refuses.

    Exit codes: 0 listed, 1 an exemption has expired (every run with the packs fails until it is renewed or removed), 2 there is no such rule.
    """
    from policies.guardrails.registry import PACKS, RULES

    exemptions, today = _exemptions(RULES), datetime.now(UTC).date()

    if rule is not None and rule not in {r.id for r in RULES}:
        raise _unknown(rule, [r.id for r in RULES])
    chosen = tuple(r for r in RULES if rule in (None, r.id))
    packs = {r.id: tuple(sorted(layer for layer, rules in PACKS.items() if r in rules)) for r in RULES}
    if output is PoliciesOutput.JSON:
        typer.echo(json.dumps([_record(r, packs[r.id], exemptions) for r in chosen], indent=2))
    elif output is PoliciesOutput.MARKDOWN:
        typer.echo(markdown(RULES, packs, exemptions), nl=False)
    elif rule is not None:
        for line in explained(chosen[0], packs[rule], [e for e in exemptions if e.rule == rule], today):
            typer.echo(line)
    else:
        _print(RULES, exemptions, today)
    raise typer.Exit(Exit.REFUSED if any(e.expires < today for e in exemptions) else Exit.OK)


def _exemptions(rules: "Sequence[PolicyRule]") -> "tuple[Exemption, ...]":
    from policies.guardrails.exemptions import EXEMPTIONS_FILE, load

    try:
        return tuple(sorted(load(EXEMPTIONS_FILE, [r.id for r in rules]), key=lambda e: (e.rule, e.resource)))
    except ValueError as problem:
        raise UserError(str(problem), "Every run with the packs fails.", "Correct policies/exemptions.yaml.", Exit.REFUSED) from None


def standing(exemption: "Exemption", today: date) -> str:
    """How long it still holds, in words."""
    left = (exemption.expires - today).days
    if left < 0:
        return f"EXPIRED on {exemption.expires}: every run fails"
    return f"until {exemption.expires}" + (f", {left} days left" if left <= SOON_DAYS else "")


def _unknown(rule: str, known: Sequence[str]) -> UserError:
    from difflib import get_close_matches

    near = get_close_matches(rule, known, 3)
    said = f"Did you mean {' or '.join(near)}?" if near else "`headway policies` lists them."
    return UserError(f"There is no rule {rule}.", "Nothing is explained.", said, Exit.USAGE)


def explained(rule: "PolicyRule", packs: tuple[str, ...], exemptions: "Sequence[Exemption]", today: date) -> Iterator[str]:
    """One rule in lines, as somebody reads it whose plan it has just refused."""
    yield f"{rule.id}: {rule.title}"
    yield f"  {rule.severity.value} severity, {rule.level.value}, in the packs of {', '.join(packs)}"
    yield f"  Why: {rule.rationale}"
    yield f"  Remedy: {rule.remedy}"
    for name, schema in rule.settings.items():
        yield f"  Setting {name} ({schema['type']}), default {json.dumps(schema['default'])}, in policies/config/<environment>.json"
    yield from _set_otherwise(rule.id)
    yield from _refused(rule.id)
    yield from (f"  Exempt: {e.resource}, {standing(e, today)}, {e.owner}: {e.reason}" for e in exemptions)
    if not exemptions:
        yield "  Exempt: nothing (policies/exemptions.yaml)"


def _set_otherwise(rule: str) -> Iterator[str]:
    """The environments whose file sets the rule otherwise: their plans are judged by that, not by the default."""
    from headway.bounded_json import bounded_json
    from policies.guardrails.exemptions import EXEMPTIONS_FILE

    for file in sorted((EXEMPTIONS_FILE.parent / "config").glob("*.json")):
        try:
            found = bounded_json(file.read_bytes())
        except ValueError as problem:
            raise UserError(
                f"{file.name}: {problem}", "Every run with it fails.", f"Correct policies/config/{file.name}.", Exit.REFUSED
            ) from None
        said = found.get(rule) if isinstance(found, dict) else None
        if isinstance(said, dict):
            yield f"  In {file.stem}: " + ", ".join(f"{name} {json.dumps(value)}" for name, value in said.items())
        elif said is not None:
            yield f"  In {file.stem}: {said}"


def _refused(rule: str) -> "Iterator[str]":
    """The examples of what the rule refuses."""
    from headway.problem import dotted
    from policies.guardrails.refused_examples import ABSENT, REFUSED_EXAMPLES

    for found, kind, place, value, _ in REFUSED_EXAMPLES:
        if found == rule:
            what = f"without {dotted(place)}" if value is ABSENT else f"with {dotted(place)}: {json.dumps(value)}"
            yield f"  Refused, for example: {kind.rpartition(':')[2]} {what}"


def _record(rule: "PolicyRule", packs: tuple[str, ...], exemptions: "Sequence[Exemption]") -> dict[str, object]:
    return {
        "id": rule.id,
        "domain": rule.domain.value,
        "severity": rule.severity.value,
        "level": rule.level.value,
        "title": rule.title,
        "rationale": rule.rationale,
        "remedy": rule.remedy,
        "applies": list(rule.applies),
        "settings": {k: dict(v) for k, v in rule.settings.items()},
        "packs": list(packs),
        "exemptions": [
            {"resource": e.resource, "owner": e.owner, "reason": e.reason, "expires": e.expires.isoformat()}
            for e in exemptions
            if e.rule == rule.id
        ],
    }


def markdown(rules: "tuple[PolicyRule, ...]", packs: dict[str, tuple[str, ...]], exemptions: "Sequence[Exemption]") -> str:
    """The page docs/policies.md, whole; a test holds the committed page to it."""
    lines = [
        "# Policies",
        "",
        "What no resource may do, whoever writes the code. Generated by `headway policies --output markdown`; do not edit.",
        "",
        f"{len(rules)} rules. Each runs in the policy packs of the layers that it names, under its own name, level and configuration.",
        "Levels and settings of an environment are in `policies/config/<environment>.json`, exemptions in `policies/exemptions.yaml`.",
    ]
    for domain in sorted({r.domain for r in rules}):
        lines += ["", f"## {domain.value.capitalize()}"]
        for rule in (r for r in rules if r.domain is domain):
            kinds = ", ".join(sorted({a.rstrip(":/").rsplit(":", 1)[-1] for a in rule.applies}))
            lines += [
                "",
                f"### `{rule.id}`",
                "",
                rule.title,
                "",
                f"- Why: {rule.rationale}",
                f"- Remedy: {rule.remedy}",
                f"- {rule.severity.value.capitalize()} severity, {rule.level.value}; packs: {', '.join(packs[rule.id])}",
                f"- Applies to: {kinds}",
            ]
            lines += [
                f"- Setting `{name}` ({schema['type']}), default `{json.dumps(schema['default'])}`"
                for name, schema in rule.settings.items()
            ]
    lines += ["", "## Exemptions", "", "An exemption that has expired fails every run, whatever else is planned.", ""]
    lines += [f"- `{e.rule}` for `{e.resource}`, until {e.expires}, owner {e.owner}: {e.reason}" for e in exemptions] or ["None."]
    return "\n".join(lines) + "\n"


def _print(rules: "tuple[PolicyRule, ...]", exemptions: "Sequence[Exemption]", today: date) -> None:
    from rich.console import Console
    from rich.markup import escape

    from headway.cli.listing import print_listing

    console = Console()
    colours = {"critical": "red", "high": "yellow"}
    rows = (
        (rule.id, rule.domain.value, f"[{colours.get(rule.severity.value, 'default')}]{rule.severity.value}[/]", escape(rule.title))
        for rule in sorted(rules, key=lambda r: (r.domain, r.id))
    )
    print_listing(console, ("rule", "domain", "severity", "requirement"), rows, sentences=("requirement",), style="bold")
    if exemptions:
        console.print("\nExemptions", style="bold")
    for e in exemptions:
        colour = "red" if e.expires < today else "yellow" if (e.expires - today).days <= SOON_DAYS else "default"
        console.print(f"  {e.rule}  {e.resource}", highlight=False, markup=False)
        console.print(f"    [{colour}]{standing(e, today)}[/], {e.owner}: {e.reason}", highlight=False)
    console.print(
        f"\n{len(rules)} rules; `headway policies RULE` says why, what to do about a breach, and what is refused.",
        highlight=False,
    )
