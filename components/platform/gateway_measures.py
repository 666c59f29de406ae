"""What the gateway's proxies measure of the requests of each model: how many there were, their bytes and attempts, whether callers repeat
them; and of streams of tokens, as callers get them, when the first came and how long each further one took. Pure.

Istio's own request sizes are histograms for each kind of answer of each release, which `mesh.py` switches off; here they are a sum. Who
repeats a request says so by the header of its client: gRPC's (gRFC A6), or OpenAI's and those generated as it is (`_build_headers` of
openai/_base_client.py); of a client that says nothing nobody knows it.

The times are found by the script that counts tokens (`gateway_scripts.py`) and become histograms by `stats_log.py`. Envoy knows no tokens:
a stream's mean over all its tokens but the first is the finest that is honest here, for a chunk may hold several events, and an event
several tokens. How the gaps of one stream differ, the server alone says. The trap: a proxy of Istio emits no statistic that it was not told
to, and the logger no value under a name that it was not given, so tags are what contracts say and never what callers write.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from components.platform import stats_log
from components.platform.gateway_scripts import BETWEEN, FIRST, TENANT_STATE, TOKENS_STATE
from headway.wire import GATEWAY_STATISTICS, REPEATED_REQUESTS, WORKED_ATTEMPTS, WORKED_BYTES, WORKED_REQUESTS

FIRST_EDGES_MS = (1, 5, 10, 20, 40, 60, 80, 100, 250, 500, 750, 1_000, 2_500, 5_000, 7_500, 10_000, 20_000, 40_000, 80_000, 160_000)
BETWEEN_EDGES_MS = (10, 25, 50, 75, 100, 150, 200, 300, 400, 500, 750, 1_000, 2_500, 5_000, 7_500, 10_000, 20_000, 40_000, 80_000)
"""Those of vLLM, so that what callers get and what a server says are told by the same edges."""
_EDGES: Mapping[str, Sequence[int]] = {FIRST: FIRST_EDGES_MS, BETWEEN: BETWEEN_EDGES_MS}


REPEATS = ("grpc-previous-rpc-attempts", "x-stainless-retry-count")
"""Headers by which a client says how often it has asked before."""
_COUNTS: Mapping[str, dict[str, Any]] = {
    WORKED_REQUESTS: {"value_fixed": 1},
    WORKED_BYTES: {"value_format": "%BYTES_RECEIVED%"},
    WORKED_ATTEMPTS: {"value_format": "%UPSTREAM_REQUEST_ATTEMPT_COUNT%"},
}


def edges() -> dict[str, list[int]]:
    """By how a statistic's name begins."""
    return {f"{GATEWAY_STATISTICS}.{name}": list(found) for name, found in _EDGES.items()}


def access_log() -> list[dict[str, Any]]:
    """Loggers of counts, and one for each time, which hears of the requests alone that have it."""
    tags = [stats_log.tag("tenant", TENANT_STATE, "name"), stats_log.tag("model", TENANT_STATE, "model")]

    def counter(name: str, value: Mapping[str, Any]) -> dict[str, Any]:
        return {"stat": {"name": name, "tags": tags}, **value}

    known = stats_log.present(TENANT_STATE, "model")
    worked = stats_log.every(known, stats_log.either(stats_log.status("LE", 399), stats_log.status("GE", 500)))
    again = stats_log.every(known, stats_log.either(*(stats_log.header(name, "[1-9][0-9]*") for name in REPEATS)))
    return [
        stats_log.logger(GATEWAY_STATISTICS, worked, counters=[counter(name, value) for name, value in _COUNTS.items()]),
        stats_log.logger(GATEWAY_STATISTICS, again, counters=[counter(REPEATED_REQUESTS, {"value_fixed": 1})]),
        *(
            stats_log.histogram(
                GATEWAY_STATISTICS, stats_log.present(TOKENS_STATE, name), name, "Milliseconds", stats_log.written(TOKENS_STATE, name), tags
            )
            for name in _EDGES
        ),
    ]


def quantile(name: str, share: float, tenant: str, model: str, window: str = "5m") -> str:
    """PromQL: seconds below which a share of streams lies."""
    found = f'envoy_{GATEWAY_STATISTICS}_{name}_bucket{{tenant="{tenant}",model="{model}"}}'
    return f"histogram_quantile({share:g}, sum by (le) (rate({found}[{window}]))) / 1000"
