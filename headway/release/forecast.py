"""Before a release: whether a service's traffic can prove a version within a day, and what would make it do so.

Asks the gate itself, on simulated releases of a version as good as the old one.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from headway.contract.model import Model
from headway.contract.rollout import Rollout, Strategy
from headway.problem import Problem, ProblemLevel
from headway.release.backtest.backtest import large_weights
from headway.release.backtest.rehearsal import RehearsalOutcome, rehearse
from headway.release.backtest.simulated import SimulatedTraffic
from headway.release.gate import GatePolicy
from headway.release.tick_length import ENOUGH, smallest_share, tick_seconds
from headway.release.worlds.scenarios import SCENARIOS
from headway.release.worlds.world import BASE

_HORIZON_MINUTES = 1440.0
_REHEARSALS = 15
_PROVEN = 0.8
"""Share of the rehearsals from which on a contract counts as provable."""


@dataclass(frozen=True, kw_only=True)
class VerdictForecast:
    """How rehearsals ended that were given the contract's time, a day at most."""

    requests_a_second: float
    tick_seconds: float
    within_minutes: float
    outcome: RehearsalOutcome

    @property
    def provable(self) -> bool:
        return self.outcome.promoted >= _PROVEN * self.outcome.rehearsals

    @property
    def median(self) -> float:
        """Minutes to the verdict."""
        return self.outcome.minutes or self.within_minutes

    @property
    def share(self) -> str:
        """How many were proven, in words."""
        of = f"{self.outcome.promoted} of {self.outcome.rehearsals} simulated releases of a version as good as the old one"
        return f"{of} are proven within {_time(self.within_minutes)}"


def forecast(policy: GatePolicy, requests_a_second: float, seconds_a_tick: float) -> VerdictForecast:
    """`policy`: in ticks of so many seconds."""
    within = min(policy.ticks_at_most * seconds_a_tick / 60, _HORIZON_MINUTES)
    identical = next(scenario for scenario in SCENARIOS if scenario.name == "identical versions")
    traffic = SimulatedTraffic(BASE, identical, requests_a_second, _REHEARSALS, 1, seconds_a_tick)
    longest = max(1, int(within * 60 / seconds_a_tick))
    asked = replace(policy, bake_ticks=1, golden=False, mirrored=None)
    outcome = rehearse(traffic, asked, "none", healthy=True, longest_ticks=longest, enough=_PROVEN)
    return VerdictForecast(requests_a_second=requests_a_second, tick_seconds=seconds_a_tick, within_minutes=within, outcome=outcome)


def forecast_of(rollout: Rollout, requests_a_second: float) -> VerdictForecast | None:
    """For a contract; None where its traffic is enough for any, or where the gate does not climb weights by itself."""
    if requests_a_second >= ENOUGH or rollout.strategy in (Strategy.ROLLING, Strategy.AB):
        return None
    seconds = tick_seconds(rollout, requests_a_second, smallest_share(GatePolicy.from_contract(rollout)))
    return forecast(GatePolicy.from_contract(rollout, tick_seconds=seconds), requests_a_second, seconds)


def shortfall(rollout: Rollout, found: VerdictForecast) -> Problem | None:
    """A warning where most releases could not be proven, with what would make them so; None where they can."""
    if found.provable:
        return None
    remedy = next(_remedies(rollout, found.requests_a_second), None)
    return Problem(
        rule="rollout-can-be-proven",
        path=("rollout", "usual_requests"),
        value=f"{found.requests_a_second:.3g}/s",
        level=ProblemLevel.WARNING,
        fact=f"at {found.requests_a_second:.3g} requests a second {found.share}",
        consequence="Most would end without a verdict, whatever the version is worth",
        remedy=remedy or "It cannot be proven by its own traffic: let a person look at its golden answers, and promote it with a reason",
    )


def _remedies(rollout: Rollout, requests_a_second: float) -> Iterator[str]:
    """What is enough, the least first."""
    for written, relaxed in _proposals(rollout):
        found = forecast_of(relaxed, requests_a_second)
        if found is not None and found.provable:
            yield f"Write {written}: then half of them are within {_time(found.median)}"


def _proposals(rollout: Rollout) -> Iterator[tuple[str, Rollout]]:
    large = list(large_weights(rollout.weights, lambda weight: weight.fraction))
    changes: list[tuple[str, dict[str, Any]]] = []
    if rollout.strategy is Strategy.CANARY:
        for weights in (large, large[-1:]):
            if list(rollout.weights) != weights:
                shown = [str(weight) for weight in weights]
                changes.append((f"rollout.weights: [{', '.join(shown)}]", {"weights": shown}))
    if rollout.mirror is None:
        copies = {"mirror": {"share": "100%"}}
        changes += [
            ("rollout.mirror: {share: 100%}", copies),
            *((f"{w} and rollout.mirror: {{share: 100%}}", {**c, **copies}) for w, c in changes),
        ]
    for written, change in changes:
        yield written, Rollout.model_validate({**rollout.model_dump(mode="json", exclude_unset=True), **change})


def said(rollout: Rollout, requests_a_second: float) -> Iterator[str]:
    """To whoever begins a release; nothing where traffic is enough for any."""
    found = forecast_of(rollout, requests_a_second)
    if found is None:
        return
    lacking = shortfall(rollout, found)
    where = f"At {requests_a_second:.3g} requests a second, in ticks of {found.tick_seconds / 60:.0f} min,"
    if lacking:
        yield f"{where} {found.share}. {lacking.consequence}. {lacking.remedy}."
    else:
        yield f"{where} half of good versions are promoted within {_time(found.median)}."


def unproven(_tenant: str, model: Model) -> Iterator[Problem]:
    """For `headway check`: what a contract that states its traffic cannot have proven."""
    rate = model.rollout.usual_requests
    found = forecast_of(model.rollout, rate.per_second) if rate else None
    problem = shortfall(model.rollout, found) if found is not None else None
    if problem is not None:
        yield problem


def _time(minutes: float) -> str:
    return f"{minutes / 60:.1f} h".replace(".0 h", " h") if minutes >= 120 else f"{minutes:.0f} min"
