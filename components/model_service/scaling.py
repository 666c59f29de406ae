"""The ScaledObject of an arm: which signals move its replicas, and what happens when they fall silent.

Each trigger takes query and metric type from the signals catalogue, where they are one thing. The arithmetic, per
metric type: AverageValue asks for ceil(total / target) replicas; Value for ceil(replicas x level / target). The
trap: KEDA takes an empty answer for zero load unless told otherwise, and would scale in because Prometheus forgot a
series.
"""

from typing import Any

from components.labels import labels
from components.manifests import object_
from components.model_service.workload import arm_name
from components.naming import physical
from components.tenant.surroundings import Surroundings
from headway.contract.model import Model
from headway.contract.runtime import Engine
from headway.contract.scaling import CountTrigger, RateTrigger, ScalingPolicy, ScalingSignal, TimeTrigger, Trigger
from headway.ledger.traffic_split import TrafficArm
from headway.signals.catalogue import signal
from headway.signals.definition import Aggregation, Scope, Signal, Source
from headway.wire import WAITING_REQUESTS

FALLBACK_FAILURES = 3
"""Unanswered polls before the fallback: Prometheus may restart within the first two."""
MOST_WAITING = 1000.0
"""More than are ever held of a service at once (`MOST_OF_A_SERVICE` of headway/activator/waiting.py, by each of its pods)."""
SCALE_UP_PODS, SCALE_UP_SECONDS = 4, 60
SCALE_DOWN_PERCENT, SCALE_DOWN_SECONDS = 20, 120


def scaled_object(tenant: str, arm: TrafficArm, model: Model, surroundings: Surroundings) -> dict[str, Any]:
    scaling, name = model.scaling, arm_name(model.name, arm)
    low, high = max(scaling.min_replicas, arm.at_least or 0), max(scaling.max_replicas, arm.at_least or 0)
    if arm.at_most is not None:
        low, high = min(arm.at_least or scaling.min_replicas, arm.at_most), arm.at_most
    if arm.replicas is not None:
        low = high = arm.replicas
    scope = Scope(tenant=tenant, model=model.name, release=arm.release)
    return object_(
        "keda.sh/v1alpha1",
        "ScaledObject",
        name,
        namespace=tenant,
        labels=labels("autoscaler", tenant=tenant, model=model.name, release=arm.release, workload_class=model.workload_class.value),
        spec={
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "minReplicaCount": low,
            "maxReplicaCount": high,
            "pollingInterval": scaling.polling.whole_seconds,
            # Acts on the way to zero only; everything above is the HPA's stabilisation window.
            "cooldownPeriod": scaling.scale_down_after.whole_seconds,
            "fallback": {
                "failureThreshold": FALLBACK_FAILURES,
                "replicas": max(1, low),
                "behavior": "currentReplicasIfHigher",
            },
            # KEDA admits no name beyond a label's (`verifyName` in its apis/keda/v1alpha1/scaledobject_webhook.go, 2.20.2).
            "advanced": {"horizontalPodAutoscalerConfig": {"name": physical("keda", name), "behavior": _behaviour(model)}},
            "triggers": [
                *(_trigger(trigger, model, scope, surroundings, empty=low == 0) for trigger in scaling.triggers),
                *(_waking(model, scope, surroundings) if low == 0 else ()),
            ],
        },
    )


def _behaviour(model: Model) -> dict[str, Any]:
    return {
        "scaleUp": {
            "stabilizationWindowSeconds": 0,
            "selectPolicy": "Max",
            "policies": [{"type": "Pods", "value": SCALE_UP_PODS, "periodSeconds": SCALE_UP_SECONDS}],
        },
        "scaleDown": {
            "stabilizationWindowSeconds": model.scaling.scale_down_after.whole_seconds,
            "selectPolicy": "Max",
            # A policy that allows less than one replica would never scale in.
            "policies": [
                {"type": "Percent", "value": SCALE_DOWN_PERCENT, "periodSeconds": SCALE_DOWN_SECONDS},
                {"type": "Pods", "value": 1, "periodSeconds": SCALE_DOWN_SECONDS},
            ],
        },
    }


def _trigger(trigger: Trigger, model: Model, scope: Scope, surroundings: Surroundings, *, empty: bool) -> dict[str, Any]:
    """`empty`: there may be no replica, and so no series, which is no failure then."""
    measured = signal(trigger.signal.value)
    source = _source(trigger.signal, model)
    query = measured.held(source, scope)
    query = f"{query} or vector(0)" if empty and source is not Source.MESH else query
    target = _target(trigger)
    square_root = model.scaling.policy is ScalingPolicy.SQUARE_ROOT
    if square_root and measured.aggregation is Aggregation.TOTAL:
        query, target = _with_headroom(query, target, model.scaling.headroom), 1.0
    return _asked(trigger.signal.value.replace("_", "-"), measured, query, target, surroundings)


def _waking(model: Model, scope: Scope, surroundings: Surroundings) -> tuple[dict[str, Any], ...]:
    """What brings the first replica: requests as the gateway's proxies count them, those that nobody answered too, and requests that are held
    meanwhile, which are counted only when they are over. While the proxies' count cannot be read, the fallback does.
    """
    measured, waiting = signal("request_rate"), f'sum({WAITING_REQUESTS}{{tenant="{scope.tenant}",model="{scope.model}"}}) or vector(0)'
    return (
        _asked("requests-at-the-gateway", measured, measured.held(Source.MESH, scope), model.scaling.capacity.per_second, surroundings),
        # One is enough: what it brings more, the contract's triggers say.
        _asked("requests-that-wait", measured, waiting, MOST_WAITING, surroundings),
    )


def _asked(name: str, measured: Signal, query: str, target: float, surroundings: Surroundings) -> dict[str, Any]:
    return {
        "type": "prometheus",
        "name": name,
        "metricType": measured.aggregation.keda_metric_type,
        "metadata": {
            "serverAddress": surroundings.prometheus,
            "query": query,
            "threshold": f"{target:g}",
            "ignoreNullValues": "false",
        },
    }


def _with_headroom(query: str, target: float, headroom: float) -> str:
    """Replicas for the load, and a headroom that grows with its root: n + c * sqrt(n), where n is load over target."""
    replicas = f"({query}) / {target:g}"
    return f"{replicas} + {headroom:g} * sqrt({replicas})"


def _source(name: ScalingSignal, model: Model) -> Source:
    """Who measures the signal for this runtime."""
    if name is ScalingSignal.GPU_ACTIVITY:
        return Source.DCGM
    return {Engine.TRITON: Source.TRITON, Engine.VLLM: Source.VLLM, Engine.CONTAINER: Source.MESH}[model.runtime.engine]


def _target(trigger: Trigger) -> float:
    """The target in the signal's unit: requests, requests a second, seconds, or a ratio."""
    if isinstance(trigger, CountTrigger):
        return float(trigger.target)
    if isinstance(trigger, RateTrigger):
        return trigger.target.per_second
    return trigger.target.seconds if isinstance(trigger, TimeTrigger) else trigger.target.fraction
