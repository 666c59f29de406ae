"""What each version of a service does now: how much it is asked, what fails or is refused, how slow it is, and where its time
goes. From the series that the platform records every half minute (`components/observability/recording.py`), and from the mesh's
own count of what is refused, which no signal is. Pure but for the asking.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

from headway.signals.definition import RELEASES

_MESH = {"headway:request_rate": "rate", "headway:error_ratio": "errors", "headway:latency:p99": "p99"}
_SERVER = {"headway:queue_time": "queue", "headway:compute_time": "compute"}
_ONCE_EACH = 'source="mesh"', 'source!="mesh"'
_REFUSED = "401|403|429"


@dataclass(frozen=True, kw_only=True)
class PresentFigures:
    """One version. `rate` in requests a second, `errors` a share of 0 to 1, times in seconds: `p99` as callers see it, `queue`
    and `compute` a request's mean in its server. None where nobody measures it. `refused`: requests a second that the gateway
    refused, by the code of its answer."""

    release: str
    rate: float
    errors: float | None = None
    p99: float | None = None
    queue: float | None = None
    compute: float | None = None
    refused: tuple[tuple[str, float], ...] = ()

    def document(self) -> dict[str, Any]:
        return {
            "release": self.release,
            "requests_per_second": self.rate,
            "errors": self.errors,
            "p99_seconds": self.p99,
            "queue_seconds": self.queue,
            "compute_seconds": self.compute,
            "refused_per_second": dict(self.refused),
        }


def asked(ask: Callable[[str], Sequence[tuple[Mapping[str, str], float]]], tenant: str, model: str) -> tuple[PresentFigures, ...]:
    """Of every version that is asked now, by release; `ask` evaluates a query."""
    found: dict[str, dict[str, float]] = {}
    for names, source in zip((_MESH, _SERVER), _ONCE_EACH, strict=True):
        picks = f'__name__=~"{"|".join(names)}",{source},tenant="{tenant}",model="{model}"'
        for labels, value in ask(f"{{{picks}}}"):
            if not isnan(value):
                found.setdefault(labels.get("release", ""), {})[names[labels["__name__"]]] = value
    refused = _refused(ask, tenant, model)
    return tuple(
        PresentFigures(release=release, refused=tuple(sorted(refused.get(release, {}).items())), **values)
        for release, values in sorted(found.items())
        if values.get("rate") or release in refused
    )


def _refused(ask: Callable[[str], Sequence[tuple[Mapping[str, str], float]]], tenant: str, model: str) -> Mapping[str, Mapping[str, float]]:
    """By release and code; nothing where nothing was refused in the last minute."""
    service = "destination_service_name"
    picks = f'reporter="source",destination_service_namespace="{tenant}",{service}=~"{model}-{RELEASES}",response_code=~"{_REFUSED}"'
    found: dict[str, dict[str, float]] = {}
    for labels, value in ask(f"sum by ({service}, response_code) (rate(istio_requests_total{{{picks}}}[1m])) > 0"):
        found.setdefault(labels[service].removeprefix(f"{model}-"), {})[labels["response_code"]] = value
    return found
