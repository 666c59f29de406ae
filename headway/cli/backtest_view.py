"""A backtest as people read it: is the promise kept, what is found, and where the time goes."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from headway.contract.units import Duration
    from headway.release.backtest.backtest import Backtest, RelaxedPart
    from headway.release.backtest.rehearsal import RehearsalOutcome

_LEAST_SHOWN = 0.05
"""Minutes."""


def backtest_lines(found: "Backtest", title: str, promised: float, longest: float, bake: "Duration") -> "Iterator[str]":
    """`title`: the model and what it was rehearsed on; `longest`: minutes of a rehearsal."""
    yield title
    yield f"{found.outcomes[0].rehearsals} releases of each line, {longest:g} minutes at most, without the bake."
    healthy = [one for one in found.outcomes if one.healthy]
    worse = [one for one in found.outcomes if not one.healthy]
    if healthy:
        yield ""
        yield from _aligned(
            [("as good as the old version", "rolled back", "undecided", "promoted after", "why rolled back"), *map(_row, healthy)]
        )
    if worse:
        heads = ("worse than the old version", "promoted", "undecided", "found after", "users had it for", "why rolled back")
        yield ""
        yield from _aligned([heads, *(_with_exposure(one) for one in worse)])
    if healthy:
        yield from _time(healthy[0], found.relaxed, bake)
    yield ""
    if found.pods == 1:
        yield "There was only one pod, so its requests were divided. These figures do not show how pods differ from each other."
    promise = f"its promise of at most {promised:.2%} false rollbacks."
    advice = "Widen the tolerances, or decide about rollbacks yourself until it does."
    yield f"The policy keeps {promise}" if found.calibrated(promised) else f"The policy does NOT keep {promise} {advice}"


def _row(one: "RehearsalOutcome") -> tuple[str, ...]:
    most = "-" if one.minutes_p90 is None else f"{one.minutes_p90:.0f}"
    decided = "-" if one.minutes is None else f"{one.minutes:.0f} min (9 of 10: {most})"
    why = ", ".join(f"{reason} {count}" for reason, count in one.reasons.items())
    return one.change, f"{one.wrong} of {one.rehearsals} (up to {one.interval()[1]:.1%})", str(one.undecided), decided, why


def _with_exposure(one: "RehearsalOutcome") -> tuple[str, ...]:
    *first, why = _row(one)
    return *first, f"{one.exposure:.2f} min of full traffic", why


def _time(healthy: "RehearsalOutcome", parts: "Sequence[RelaxedPart]", bake: "Duration") -> "Iterator[str]":
    from headway.release.backtest.waiting import WORDS, WaitingFor

    yield ""
    yield f"In the mean a release of '{healthy.change}' takes {healthy.minutes_spent:.0f} minutes. It waits for"
    waited = sorted(healthy.waited.items(), key=lambda item: -item[1])
    words = [(f"  {minutes:.1f}", *WORDS[WaitingFor[name.upper()]]) for name, minutes in waited if minutes >= _LEAST_SHOWN]
    yield from _aligned([(minutes, what, field or "the gate") for minutes, what, field in words])
    yield f"and then bakes for {bake} at least (rollout.bake). If one part asked for less, it would take"
    yield from _aligned([(f"  {part.outcome.minutes_spent:.0f}", f"with {part.field}: {part.value}") for part in parts])
    yield _costliest(parts, healthy)


def _costliest(parts: "Sequence[RelaxedPart]", healthy: "RehearsalOutcome") -> str:
    saved = healthy.minutes_spent - parts[0].outcome.minutes_spent if parts else 0.0
    if saved < 1:
        return "No single part costs a minute or more."
    return f"{parts[0].field} costs most: {saved:.0f} of {healthy.minutes_spent:.0f} minutes. Less of it also proves less."


def _aligned(rows: "Sequence[Sequence[str]]") -> "Iterable[str]":
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
