"""What a signal is: one measured thing, its unit and direction, and how each source answers it in PromQL.

The trap: a sum over replicas and a mean over replicas scale differently. KEDA divides a total by the number of replicas (AverageValue)
and compares a level as it is (Value); `Aggregation` says which one a query answers, so that query and metric type cannot disagree.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum, unique

DEFAULT_WINDOW = "1m"
"""Four scrapes at the usual 15 s: a rate survives one missed scrape."""

HELD = "10m:15s"
"""How long, and at which step, one looks back for what a replica carried that is there and cannot be read."""

GATEWAY_MONITOR = "mesh-proxies"
"""The PodMonitor by which the gateway's proxies are read."""

GATEWAY_JOB = f"monitoring/{GATEWAY_MONITOR}"
"""What Prometheus' operator calls that job: the monitor's namespace and name. No label of a pod can say so, for none holds a slash."""


_ADMITTED = 'response_code!~"401|403",grpc_response_status!~"7|16"'
"""Not what the gateway turned away for want of a token: its proxies count that as requests of the Service all the same (istio_stats.cc of
envoyproxy/envoy, `populatePeerInfo`, goes by the chosen route), so whoever has none would bring replicas that others pay for, and hide errors
among refusals. By gRPC a refusal is HTTP's 200 with PERMISSION_DENIED or UNAUTHENTICATED."""


RELEASES = "r[0-9a-f]{10}(?:-baseline)?"
"""How the mesh names an arm's Service: the model's name, a hyphen, and this. A model's name may begin as another one's."""


@unique
class Source(StrEnum):
    """Who measures. Not where it is stored: all of it is in Prometheus."""

    TRITON = "triton"
    VLLM = "vllm"
    MESH = "mesh"
    """The gateway's proxies: what the tenant's callers saw, failures of the way included."""
    DCGM = "dcgm"
    """The GPU itself; on shared GPUs it cannot tell whose work it saw."""


@unique
class Unit(StrEnum):
    REQUESTS = "requests"
    REQUESTS_PER_SECOND = "requests/s"
    TOKENS = "tokens"
    TOKENS_PER_SECOND = "tokens/s"
    SECONDS = "seconds"
    RATIO = "ratio"
    """0 to 1, never percent."""
    BYTES = "bytes"
    EVENTS = "events"


@unique
class Direction(StrEnum):
    """Which way is worse."""

    HIGHER_IS_WORSE = "higher-is-worse"
    LOWER_IS_WORSE = "lower-is-worse"
    NEITHER = "neither"
    """Describes the load; says nothing about health."""


@unique
class Aggregation(StrEnum):
    """What one number stands for: all replicas together, or each of them."""

    TOTAL = "total"
    LEVEL = "level"

    @property
    def keda_metric_type(self) -> str:
        return "AverageValue" if self is Aggregation.TOTAL else "Value"


@dataclass(frozen=True, kw_only=True)
class Scope:
    """Whose measurements: a model of a tenant, or one release of it."""

    tenant: str
    model: str
    release: str | None = None

    def matchers(self, source: Source) -> str:
        """PromQL label matchers. The mesh names Services (`<model>-<release>` in the tenant's namespace); all others carry pod labels."""
        if source is Source.MESH:
            service = (
                f'destination_service_name="{self.model}-{self.release}"'
                if self.release
                else f'destination_service_name=~"{self.model}-{RELEASES}"'
            )
            return f'destination_service_namespace="{self.tenant}",{service},reporter="source",{_ADMITTED}'
        release = f',platform_io_release="{self.release}"' if self.release else ""
        return f'platform_io_model="{self.model}"{release},platform_io_tenant="{self.tenant}"'


class UnknownSignalError(KeyError):
    """No signal of that name, or that source does not measure it; the message lists what there is."""


@dataclass(frozen=True, kw_only=True)
class Signal:
    """One measured thing. Expressions hold `$scope` (label matchers), `$window` and, where `quantiles`, `$quantile`."""

    name: str
    meaning: str
    unit: Unit
    direction: Direction
    aggregation: Aggregation
    expressions: Mapping[Source, str] = field(default_factory=dict[Source, str])
    """PromQL for the one number, by source."""
    quantiles: bool = False
    loads: Mapping[Source, str] = field(default_factory=dict[Source, str])
    """PromQL for what each replica carries, by source: the number of a total is their sum."""

    @property
    def sources(self) -> tuple[Source, ...]:
        return tuple(sorted({*self.expressions, *self.loads}))

    def expression(self, source: Source) -> str:
        """PromQL with its places still open. KeyError when the source does not measure it."""
        return f"sum({self.loads[source]})" if source in self.loads else self.expressions[source]

    def query(self, source: Source | str, scope: Scope, *, window: str = DEFAULT_WINDOW, quantile: float | None = None) -> str:
        """PromQL for one number, in `unit`. It is absent, not zero, when the source is silent, and zero without requests
        (a quantile is NaN then: there is nothing to rank).

        `quantile` (0 to 1) is required by, and only by, signals that have quantiles. Raises UnknownSignalError or ValueError.
        """
        self._check(source, quantile)
        text = _filled(self.expression(Source(source)), Source(source), scope, window)
        return text.replace("$quantile", f"{quantile:g}") if quantile is not None else text

    def held(self, source: Source | str, scope: Scope, *, window: str = DEFAULT_WINDOW) -> str:
        """PromQL for the total by which replicas are decided: a replica that is there and cannot be read counts with the most it carried lately.

        A plain sum would fall by what nobody could measure, and scale in. The most, not the last: a rate fades over its window once
        samples stop. Signals without loads answer their plain query.

        A proxy has no series of a service before its first request to it: while all of the gateway's proxies are read and none has one, the
        mesh's total is zero. KEDA takes an empty answer for a failure (`ignoreNullValues`), pages, and keeps replicas that nobody asks.
        """
        if source not in self.loads:
            plain = self.query(source, scope, window=window)
            if Source(source) is not Source.MESH or self.aggregation is not Aggregation.TOTAL:
                return plain
            told = f"count(max_over_time(istio_requests_total{{{scope.matchers(Source.MESH)}}}[{HELD.partition(':')[0]}]))"
            return f'{plain} or 0 * (min(up{{job="{GATEWAY_JOB}"}}) == 1 unless {told})'
        load = _filled(self.loads[Source(source)], Source(source), scope, window)
        return f"sum(max_over_time(({load})[{HELD}]) and on (pod) up{{{scope.matchers(Source(source))}}} == 0 or {load})"

    def by_release(self, source: Source | str, *, window: str = DEFAULT_WINDOW, quantile: float | None = None) -> str:
        """PromQL for the same number of every release at once, labelled `tenant`, `model` and `release`: what is recorded.

        Raises UnknownSignalError or ValueError as `query` does.
        """
        self._check(source, quantile)
        kept, everyone, names = _GROUPS[Source(source) is Source.MESH]
        grouped = _AGGREGATED.sub(
            lambda found: f"{found[1]} by ({', '.join((*kept, *_edges(found[2])))}) (", self.expression(Source(source))
        )
        text = grouped.replace("$scope", everyone).replace("$window", window)
        if quantile is not None:
            text = text.replace("$quantile", f"{quantile:g}")
        for label, (given, pattern, part) in names.items():
            text = f'label_replace({text}, "{label}", "{part}", "{given}", "{pattern}")'
        return f"sum by (tenant, model, release) ({text})"

    def _check(self, source: Source | str, quantile: float | None) -> None:
        if source not in self.sources:
            raise UnknownSignalError(f"{source} does not measure {self.name}; {', '.join(self.sources)} do")
        if self.quantiles != (quantile is not None):
            raise ValueError(f"{self.name} {'needs' if self.quantiles else 'has no'} quantile")
        if quantile is not None and not 0 < quantile < 1:
            raise ValueError(f"quantile {quantile} of {self.name} is not between 0 and 1")


_AGGREGATED = re.compile(r"\b(avg|max|sum)(?: by \((le)\))? ?\(")
_SERVICE = f"(.+)-({RELEASES})"
_GROUPS = {
    False: (
        ("platform_io_tenant", "platform_io_model", "platform_io_release"),
        'platform_io_model!=""',
        {name: (f"platform_io_{name}", "(.*)", "$1") for name in ("tenant", "model", "release")},
    ),
    True: (
        ("destination_service_namespace", "destination_service_name"),
        f'destination_service_name=~"{_SERVICE}",reporter="source",{_ADMITTED}',
        {
            "tenant": ("destination_service_namespace", "(.*)", "$1"),
            "model": ("destination_service_name", _SERVICE, "$1"),
            "release": ("destination_service_name", _SERVICE, "$2"),
        },
    ),
}
"""For sources with pod labels and for the mesh: labels to keep, what picks all releases, and where the labels of the result come from."""


def _edges(label: str | None) -> tuple[str, ...]:
    return (label,) if label else ()


def _filled(expression: str, source: Source, scope: Scope, window: str) -> str:
    return expression.replace("$scope", scope.matchers(source)).replace("$window", window)
