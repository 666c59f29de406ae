"""Objectives as rules: how fast each promise of a contract is being broken, and when that wakes somebody.

For each objective the share of bad requests is recorded over every window, and alerts compare two windows at once:
the long one says that it matters, the short one that it still goes on (multi-window burn rates of the Google SRE
workbook, chapter 5). The traps: a model with five requests an hour misses 99.9 % with its first error, so each alert
also asks for the contract's minimum of requests in its long window; a service younger than a window would break all of
them at once, so the longer ones are held; and the lower an objective, the later its first page (at 95 % after 43
minutes in which nothing goes well, at 93 % never), so a breakdown has an alert of its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from components.addons.grafana_pages import leads, service_uid
from components.labels import labels
from components.manifests import object_
from components.model_service import stuck_release
from components.tenant.surroundings import Surroundings
from headway.contract.model import Model
from headway.contract.runtime import Engine
from headway.contract.slo import Availability, LatencyObjective, Slo, SloSignal
from headway.contract.units import Duration
from headway.signals.buckets import latency_edges_milliseconds
from headway.signals.catalogue import signal
from headway.signals.definition import Scope, Source
from headway.wire import BURN_ALERT

TTFT_EDGES_S = (0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80, 160, 640, 2560)
INTER_TOKEN_EDGES_S = (0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80)
QUEUE_EDGES_S = (0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680)
"""vLLM's buckets. Source: vllm/v1/metrics/loggers.py of 0.33."""


@dataclass(frozen=True, kw_only=True)
class Burn:
    """One alert: over which windows, at which multiple of the allowed rate (for 30 days), and how long it must hold."""

    long: str
    short: str
    factor: float
    severity: str
    hold: str = "0s"


BURNS = (
    Burn(long="1h", short="5m", factor=14.4, severity="page"),
    Burn(long="6h", short="30m", factor=6, severity="page", hold="15m"),
    Burn(long="1d", short="2h", factor=3, severity="ticket", hold="1h"),
    Burn(long="3d", short="6h", factor=1, severity="ticket", hold="3h"),
)
BREAKDOWN = ("5m", "1m")
"""Over both most of what may go well goes badly: of a breakdown somebody hears after half of the first."""
MONTH_SECONDS = 30 * 86_400
"""The factors are given for a budget of 30 days; another window of the objective scales them."""
WINDOWS = ("5m", "30m", "1h", "2h", "6h", "1d", "3d")


def rules(tenant: str, model: Model, surroundings: Surroundings) -> dict[str, Any]:
    """The PrometheusRule of a model service."""
    return object_(
        "monitoring.coreos.com/v1",
        "PrometheusRule",
        model.name,
        namespace=tenant,
        labels=labels("objectives", tenant=tenant, model=model.name),
        spec={
            "groups": [
                *(_group(tenant, model, slo, surroundings) for slo in model.slo),
                stuck_release.group(tenant, model, surroundings),
            ]
        },
    )


def _group(tenant: str, model: Model, slo: Slo, surroundings: Surroundings) -> dict[str, Any]:
    name = objective_name(slo)
    marks = {"model": model.name, "objective": name, "tenant": tenant}
    alerts = burns(slo)
    windows = sorted({*WINDOWS, *(burn.short for burn in alerts)}, key=_seconds)
    recorded = [
        {"record": f"headway:slo_bad:share{window}", "expr": bad_share(tenant, model, slo, window), "labels": marks} for window in windows
    ]
    allowed = {"record": "headway:slo_allowed:share", "expr": f"vector({1 - slo.objective.fraction:g})", "labels": marks}
    return {
        "name": f"{tenant}-{model.name}-{name}",
        "rules": [allowed, *recorded, *(_alert(tenant, model, slo, burn, surroundings) for burn in alerts)],
    }


def burns(slo: Slo) -> Sequence[Burn]:
    """The alerts of an objective: those of `BURNS` that can fire, and before them that of a breakdown where the first page would be later."""
    allowed = 1 - slo.objective.fraction
    scale = slo.window.seconds / MONTH_SECONDS
    found = [burn for burn in BURNS if burn.factor * scale * allowed < 1]
    long, short = BREAKDOWN
    if BURNS[0].factor * scale * allowed * _seconds(BURNS[0].long) > _seconds(long) / 2:
        found.insert(0, Burn(long=long, short=short, factor=(1 + allowed) / 2 / allowed / scale, severity="page"))
    return found


def objective_name(slo: Slo) -> str:
    """Names an objective within its model: the signal and, where there may be several, its quantile and threshold."""
    signal_name = slo.signal.value.replace("_", "-")
    if isinstance(slo, Availability):
        return signal_name
    return f"{signal_name}-p{slo.quantile.fraction * 100:g}-{slo.threshold}"


def _alert(tenant: str, model: Model, slo: Slo, burn: Burn, surroundings: Surroundings) -> dict[str, Any]:
    name = objective_name(slo)
    picks = f'model="{model.name}",objective="{name}",tenant="{tenant}"'
    factor = burn.factor * slo.window.seconds / MONTH_SECONDS
    limit = factor * (1 - slo.objective.fraction)
    requests = signal("request_rate").query(Source.MESH, Scope(tenant=tenant, model=model.name), window=burn.long)
    enough = f"{requests} * {_seconds(burn.long)} >= {slo.minimum_requests}"
    objective = f"{slo.objective} of requests " + (
        "without error" if isinstance(slo, Availability) else f"with {slo.signal.value.replace('_', ' ')} under {slo.threshold}"
    )
    annotations = {
        "summary": f"{tenant}/{model.name} burns the error budget of its objective ({objective}) at {burn.factor:.3g}x the allowed rate",
        "description": f"Measured over the last {burn.long} and {burn.short}; the window of the objective is {slo.window}. Owner: {_literal(model.owner)}."
        f" Begin with `headway diagnose {tenant}/{model.name} -e {surroundings.environment}`.",
        "runbook_url": f"{surroundings.runbooks}/slo-burn-rate.md",
        **leads(surroundings.grafana, service_uid(tenant, model.name), {"tenant": tenant, "model": model.name}),
    }
    if model.observability.runbook:
        annotations["team_runbook_url"] = _literal(model.observability.runbook)
    return {
        "alert": BURN_ALERT,
        "expr": (
            f"headway:slo_bad:share{burn.long}{{{picks}}} > {limit:g}"
            f" and headway:slo_bad:share{burn.short}{{{picks}}} > {limit:g}"
            f" and on () {enough}"
        ),
        "for": burn.hold,
        "labels": {
            "layer": "request",
            "long_window": burn.long,
            "model": model.name,
            "namespace": tenant,  # by which Alertmanager knows whose alert it is
            "objective": name,
            "owner": model.observability.receiver,
            "receiver": model.observability.receiver,
            "severity": burn.severity,
            "tenant": tenant,
        },
        "annotations": annotations,
    }


def _literal(text: str) -> str:
    """A contract's own words in a template of Prometheus, which would run what stands between braces over everybody's
    series, or refuse the rule.
    """
    return text.replace("{{", '{{"{{"}}')


def bad_share(tenant: str, model: Model, slo: Slo, window: str) -> str:
    """PromQL: the share of requests, over `window`, that broke the promise; absent when nobody measures."""
    scope = Scope(tenant=tenant, model=model.name)
    if isinstance(slo, Availability):
        return signal("error_ratio").query(Source.MESH, scope, window=window)
    return _slow_share(model, slo, scope, window)


def _slow_share(model: Model, slo: LatencyObjective, scope: Scope, window: str) -> str:
    if slo.signal is SloSignal.QUEUE_TIME and model.runtime.engine is Engine.TRITON:
        # Triton has no histogram of queue times: a minute whose mean is too long counts as a bad minute.
        mean = signal("queue_time").query(Source.TRITON, scope)
        return f"avg_over_time((({mean}) > bool {slo.threshold.seconds:g})[{window}:1m])"
    histogram, source, edges, scale = {
        SloSignal.LATENCY: ("istio_request_duration_milliseconds", Source.MESH, latency_edges_milliseconds(), 1000),
        SloSignal.TTFT: ("vllm:time_to_first_token_seconds", Source.VLLM, TTFT_EDGES_S, 1),
        SloSignal.INTER_TOKEN: ("vllm:inter_token_latency_seconds", Source.VLLM, INTER_TOKEN_EDGES_S, 1),
        SloSignal.QUEUE_TIME: ("vllm:request_queue_time_seconds", Source.VLLM, QUEUE_EDGES_S, 1),
    }[slo.signal]
    matchers = scope.matchers(source)
    edge = edge_within(slo.threshold, edges, scale)
    fast = f'sum(rate({histogram}_bucket{{{matchers},le="{edge}"}}[{window}]))'
    return f"1 - {fast} / clamp_min(sum(rate({histogram}_count{{{matchers}}}[{window}])), 1e-9)"


def edge_within(threshold: Duration, edges: Sequence[float], scale: int) -> str:
    """The largest bucket edge that is not above the threshold: rather too strict than too lenient. Written as Prometheus 3
    stores `le`, always as a float (its migration guide, "le and quantile label values"); edges lie below a million, from
    which on it would use an exponent.
    """
    limit = threshold.seconds * scale
    within = [edge for edge in edges if edge <= limit] or [edges[0]]
    return repr(float(max(within)))


def _seconds(window: str) -> int:
    return int(window[:-1]) * {"m": 60, "h": 3600, "d": 86_400}[window[-1]]
