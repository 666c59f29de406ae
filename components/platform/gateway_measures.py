"""What the gateway's proxies measure of streams of tokens, as callers get them: when the first came, and how long each further one took. Pure.

The times are found by the script that counts tokens (`gateway_scripts.py`) and become histograms by Envoy's stats access logger, which
istiod's proxies of 1.31 hold (istio/proxy, bazel/extension_config). Envoy knows no tokens: a stream's mean over all its tokens but the first
is the finest that is honest here, for a chunk may hold several events, and an event several tokens. How the gaps of one stream differ, the
server alone says. The trap: a proxy of Istio emits no statistic that it was not told to, and the logger no value under a name that it was
not given, so tags are what contracts say and never what callers write.
"""

from collections.abc import Mapping, Sequence
from typing import Any

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
    tags = [_tag("tenant", TENANT_STATE, "name"), _tag("model", TENANT_STATE, "model")]
    return [
        {
            "name": "envoy.access_loggers.stats",
            "filter": {
                "metadata_filter": {
                    "matcher": {"filter": TOKENS_STATE, "path": [{"key": name}], "value": {"present_match": True}},
                    "match_if_key_not_found": False,
                }
            },
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.access_loggers.stats.v3.Config",
                "stat_prefix": STATISTICS,
                "histograms": [
                    {
                        "stat": {"name": name, "tags": tags},
                        "unit": "Milliseconds",
                        "value_format": f"%DYNAMIC_METADATA({TOKENS_STATE}:{name})%",
                    }
                ],
            },
        }
        for name in _EDGES
    ]


def _tag(name: str, state: str, key: str) -> dict[str, str]:
    return {"name": name, "value_format": f"%DYNAMIC_METADATA({state}:{key})%"}


def quantile(name: str, share: float, tenant: str, model: str, window: str = "5m") -> str:
    """PromQL: seconds below which a share of streams lies."""
    found = f'envoy_{STATISTICS}_{name}_bucket{{tenant="{tenant}",model="{model}"}}'
    return f"histogram_quantile({share:g}, sum by (le) (rate({found}[{window}]))) / 1000"
