"""Recording rules: every signal of the catalogue, for every release at once, under one name and the same three labels.

Dashboards and people read `headway:<signal>{tenant, model, release, source}`; nobody spells a server's own metric.
Gates and autoscaling do not read these: a recorded value is up to one evaluation old, and a quantile of it is no
quantile.
"""

from collections.abc import Iterator
from typing import Any

from headway.signals.catalogue import SIGNALS
from headway.signals.definition import Signal, Source

PREFIX = "headway:"
INTERVAL = "30s"
QUANTILES = (0.5, 0.95, 0.99)


def recorded_name(signal: Signal, quantile: float | None = None) -> str:
    """The series of a signal; with a quantile, `headway:latency:p99`."""
    return f"{PREFIX}{signal.name}" + (f":p{quantile * 100:g}" if quantile is not None else "")


def groups() -> list[dict[str, Any]]:
    """One group a source: what one of them cannot answer stops no other."""
    return [{"name": f"headway-signals-{source.value}", "interval": INTERVAL, "rules": list(_rules(source))} for source in sorted(Source)]


def _rules(source: Source) -> Iterator[dict[str, Any]]:
    for signal in SIGNALS.values():
        if source not in signal.sources:
            continue
        for quantile in QUANTILES if signal.quantiles else (None,):
            yield {
                "record": recorded_name(signal, quantile),
                "expr": signal.by_release(source, quantile=quantile),
                "labels": {"source": source.value},
            }
