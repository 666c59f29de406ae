"""What the gateway's proxies measure of streams of tokens, as callers get them: when the first came, and how long each further one took. Pure.

The times are found by the script that counts tokens (`gateway_scripts.py`) and become histograms by `stats_log.py`. Envoy knows no tokens:
a stream's mean over all its tokens but the first is the finest that is honest here, for a chunk may hold several events, and an event
several tokens. How the gaps of one stream differ, the server alone says. The trap: a proxy of Istio emits no statistic that it was not told
to, and the logger no value under a name that it was not given, so tags are what contracts say and never what callers write.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from components.platform import stats_log
from components.platform.gateway_scripts import BETWEEN, FIRST, TENANT_STATE, TOKENS_STATE

STATISTICS = "headway"
"""How the names of these begin; for Prometheus `envoy_headway_`."""
FIRST_EDGES_MS = (1, 5, 10, 20, 40, 60, 80, 100, 250, 500, 750, 1_000, 2_500, 5_000, 7_500, 10_000, 20_000, 40_000, 80_000, 160_000)
BETWEEN_EDGES_MS = (10, 25, 50, 75, 100, 150, 200, 300, 400, 500, 750, 1_000, 2_500, 5_000, 7_500, 10_000, 20_000, 40_000, 80_000)
"""Those of vLLM, so that what callers get and what a server says are told by the same edges."""
_EDGES: Mapping[str, Sequence[int]] = {FIRST: FIRST_EDGES_MS, BETWEEN: BETWEEN_EDGES_MS}


def edges() -> dict[str, list[int]]:
    """By how a statistic's name begins."""
    return {f"{STATISTICS}.{name}": list(found) for name, found in _EDGES.items()}


def access_log() -> list[dict[str, Any]]:
    """One logger for each time, which hears of the requests alone that have it."""
    tags = [stats_log.tag("tenant", TENANT_STATE, "name"), stats_log.tag("model", TENANT_STATE, "model")]
    return [
        stats_log.histogram(
            STATISTICS, stats_log.present(TOKENS_STATE, name), name, "Milliseconds", stats_log.written(TOKENS_STATE, name), tags
        )
        for name in _EDGES
    ]


def quantile(name: str, share: float, tenant: str, model: str, window: str = "5m") -> str:
    """PromQL: seconds below which a share of streams lies."""
    found = f'envoy_{STATISTICS}_{name}_bucket{{tenant="{tenant}",model="{model}"}}'
    return f"histogram_quantile({share:g}, sum by (le) (rate({found}[{window}]))) / 1000"
