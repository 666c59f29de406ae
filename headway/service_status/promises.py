"""How each promise of a contract stands: the share of requests that broke it in the last hour, and how fast that uses its
error budget up. The names of the series are those that a service's rules record. Pure but for the asking."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

BROKEN, ALLOWED = "headway:slo_bad:share1h", "headway:slo_allowed:share"
"""Recorded for each objective (`components/model_service/objectives.py`)."""

Measured = Iterable[tuple[Mapping[str, str], float]]
"""Labels and newest value of each series."""


@dataclass(frozen=True, kw_only=True)
class Promise:
    """One objective of a service over the last hour. Shares lie in 0 to 1."""

    chain: str
    objective: str
    broken: float
    allowed: float

    @property
    def burn(self) -> float:
        """How many times as fast as it may the error budget is used up."""
        return self.broken / self.allowed if self.allowed else float("inf") if self.broken else 0.0

    def document(self) -> dict[str, Any]:
        return {"objective": self.objective, "broken": self.broken, "allowed": self.allowed}


def promises(broken: Measured, allowed: Measured) -> tuple[Promise, ...]:
    """Of both series, those that have both; sorted."""
    limits = {_whose(labels): value for labels, value in allowed}
    found = [
        Promise(chain=whose[0], objective=whose[1], broken=value, allowed=limits[whose])
        for labels, value in broken
        if (whose := _whose(labels)) in limits and not isnan(value)  # nobody asked
    ]
    return tuple(sorted(found, key=lambda each: (each.chain, each.objective)))


def asked(ask: Callable[[str], Sequence[tuple[Mapping[str, str], float]]]) -> tuple[Promise, ...]:
    """All promises of an environment; `ask` evaluates a query."""
    return promises(ask(BROKEN), ask(ALLOWED))


def _whose(labels: Mapping[str, str]) -> tuple[str, str]:
    return f"{labels.get('tenant')}/{labels.get('model')}", str(labels.get("objective"))
