"""The three probes of a model server: each runs the script beside this module, which asks for an answer.

Only the startup probe may wait: it works in slices, one a period, and the number of slices is the start-up budget.
The trap: a probe that outlasts its period delays the next one, so a slice is always longer than the longest request
it may have to wait for.
"""

from collections.abc import Mapping
from typing import Any

from components.model_service.scripts.probe import DRIVER_SECONDS
from components.model_service.scripts.probe import PROVEN as PROVEN_FILE
from components.model_service.serving import Serving
from headway.contract.model import Model
from headway.contract.units import Duration
from headway.wire import SCRIPTS_FOLDER

STATE = "/tmp/headway"  # noqa: S108  on the pod's scratch volume
PROVEN = f"{STATE}/{PROVEN_FILE}"
SCRIPT, CONFIG = "probe.py", "probe.json"
INFERENCE = "inference.py"
"""Lies beside the script where it asks by gRPC."""

SLICE_SECONDS = 60
MARGIN_SECONDS = 5
"""What Python and the kubelet need around a slice."""
READY_FAILURES = 2
"""One slow answer is no reason to lose a replica; two in a row are."""
METRICS_TIMEOUT_SECONDS = 2
_MIB = 2**20


def configuration(model: Model, serving: Serving) -> dict[str, Any]:
    """What the script reads; see its own text for the words."""
    health, gpu = model.health, model.envelope.gpu
    longest = model.envelope.largest_request.timeout.seconds
    warmup = [
        {
            "name": plan["name"],
            "requests": health.warmup.requests,
            "budget_seconds": health.warmup.p99.seconds,
            "request": {**plan["request"], "timeout_seconds": longest},
        }
        for plan in serving.warmup
    ]
    asked, *others = serving.golden
    free = health.warmup.memory_headroom
    alone = gpu.share == "whole"
    return {
        "base": serving.base,
        "state": STATE,
        "slice_seconds": slice_seconds(model) - MARGIN_SECONDS,
        "timeout_seconds": longest,
        "fresh_seconds": health.liveness.interval.seconds / 2,
        "no_progress_seconds": health.liveness.no_progress.seconds,
        "memory_limit_mib": (int(gpu.memory) - free.of(int(gpu.memory))) // _MIB if alone else None,
        "ready": list(serving.ready),
        "warmup": warmup,
        "golden": [
            {**asked, "timeout_seconds": health.liveness.timeout.seconds},
            *({**golden, "timeout_seconds": longest} for golden in others),
        ],
        "progress": {
            "url": serving.metrics_url,
            "counters": list(serving.progress),
            "timeout_seconds": METRICS_TIMEOUT_SECONDS,
        },
    }


def slice_seconds(model: Model) -> int:
    """Length of one startup probe: longer than any single request that it waits for."""
    return max(SLICE_SECONDS, model.envelope.largest_request.timeout.whole_seconds + 2 * MARGIN_SECONDS)


def probes(model: Model) -> dict[str, Any]:
    """Startup, readiness and liveness probe of the server container."""
    health = model.health
    period = slice_seconds(model)
    interval = health.liveness.interval.whole_seconds
    patience = health.liveness.timeout.whole_seconds + METRICS_TIMEOUT_SECONDS + 1
    return {
        "startupProbe": {
            **_ask("startup"),
            "periodSeconds": period,
            "timeoutSeconds": period,
            "failureThreshold": _slices(health.startup_budget, period),
        },
        "readinessProbe": {
            **_ask("ready"),
            "periodSeconds": interval,
            "timeoutSeconds": patience + DRIVER_SECONDS,
            "failureThreshold": READY_FAILURES,
        },
        "livenessProbe": {
            **_ask("live"),
            "periodSeconds": interval,
            "timeoutSeconds": patience,
            "failureThreshold": health.liveness.failures,
        },
    }


def _slices(budget: Duration, period: int) -> int:
    """So many that the probe never gives up before the budget is spent."""
    return max(2, -(-budget.whole_seconds // period))


def _ask(mode: str) -> Mapping[str, Any]:
    return {"exec": {"command": ["python3", "-I", f"{SCRIPTS_FOLDER}/{SCRIPT}", mode, f"{SCRIPTS_FOLDER}/{CONFIG}"]}}
