"""What runs a release: Deployment, configuration, the Services that name it, the disruption budget.

Replicas are left out of the Deployment: the autoscaler owns them. The trap: without an autoscaler Kubernetes makes
that one replica, not the contract's minimum; a cluster that runs no KEDA therefore serves every model with one.
"""

from typing import Any

from components.labels import labels, selector
from components.manifests import object_
from components.model_service.pod import SERVER, template
from components.model_service.release import Release
from components.model_service.serving import METRICS, Serving
from components.naming import physical
from headway.contract.arithmetic.startup import longest_start
from headway.contract.model import Model
from headway.contract.pool import Pool
from headway.contract.rollout import Surge
from headway.contract.routing import Routing
from headway.ledger.traffic_split import ArmRole, TrafficArm
from headway.wire import ARM, POOL, PREFIX, ROUTING

PROGRESS_MARGIN_SECONDS = 60
SKIP_AWAIT, AWAIT_SECONDS = "pulumi.com/skipAwait", "pulumi.com/timeoutSeconds"
"""Annotations of pulumi-kubernetes, which otherwise waits 600 s (provider/pkg/await/deployment.go, service.go)."""
HISTORY = 2
"""Rollback is a weight between releases; older templates of one release are of no use."""


def arm_name(model: str, arm: TrafficArm) -> str:
    """Name of all objects of one arm: `<model>-<release>`, or `<model>-<release>-baseline`."""
    return physical(model, arm.key)


def arm_selector(tenant: str, model: str, arm: TrafficArm) -> dict[str, str]:
    return {ARM: "baseline" if arm.key != arm.release else "release", **selector(tenant=tenant, model=model, release=arm.release)}


def configuration(tenant: str, release: Release, name: str, files: dict[str, str], kept_on: Pool | None = None) -> dict[str, Any]:
    """The ConfigMap; `name` holds a digest of `files`. Nodes of the pool `kept_on` read in it which artifact to
    keep.
    """
    found = labels("configuration", tenant=tenant, model=release.model.name, release=release.id)
    if kept_on is not None:
        found[POOL] = kept_on.name
    return object_("v1", "ConfigMap", name, namespace=tenant, labels=found, immutable=True, data=files)


def deployment(
    tenant: str,
    arm: TrafficArm,
    release: Release,
    pool: Pool,
    serving: Serving,
    configuration: str,
    service_account: str,
    *,
    artifact_cache: bool = False,
) -> dict[str, Any]:
    model = release.model
    name = arm_name(model.name, arm)
    picks = arm_selector(tenant, model.name, arm)
    pod = template(tenant, release, pool, serving, configuration, service_account, artifact_cache=artifact_cache)
    pod["metadata"]["labels"] = dict(sorted({**pod["metadata"]["labels"], ARM: picks[ARM]}.items()))
    return object_(
        "apps/v1",
        "Deployment",
        name,
        namespace=tenant,
        labels=labels(SERVER, tenant=tenant, model=model.name, release=release.id, workload_class=model.workload_class.value),
        annotations={f"{PREFIX}/description": model.description, f"{PREFIX}/owner": model.owner, **_awaited(arm, model, pool)},
        spec={
            "selector": {"matchLabels": picks},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": _replacement(model)},
            "progressDeadlineSeconds": progress_seconds(model, pool),
            "revisionHistoryLimit": HISTORY,
            "template": pod,
        },
    )


def progress_seconds(model: Model, pool: Pool) -> int:
    """Seconds without a further ready replica after which a rollout has failed: one replica's longest start."""
    return longest_start(model, pool).whole_seconds + PROGRESS_MARGIN_SECONDS


def _awaited(arm: TrafficArm, model: Model, pool: Pool) -> dict[str, str]:
    """An update waits for each replica of the stable arm, which are replaced one after the other. It does not wait for a
    candidate's: its release's driver does, which also knows when to give it up.
    """
    if arm.role is not ArmRole.STABLE:
        return {SKIP_AWAIT: "true"}
    return {AWAIT_SECONDS: str(model.scaling.max_replicas * progress_seconds(model, pool))}


def _replacement(model: Model) -> dict[str, int]:
    """When a pod must be replaced within its release (an upgrade of the platform): one first, only where the
    contract counts on room.
    """
    return {"maxSurge": 1, "maxUnavailable": 0} if model.rollout.surge is Surge.SURGE else {"maxSurge": 0, "maxUnavailable": 1}


def service(
    tenant: str,
    name: str,
    picks: dict[str, str],
    serving: Serving,
    model: str,
    release: str | None,
    routing: Routing = Routing.LEAST_REQUESTS,
) -> dict[str, Any]:
    """A cluster-internal name. Traffic from outside comes through the gateway only.

    Nobody awaits it: a single replica that is not ready would fail the update, be it a candidate's or one that KEDA has just added.
    """
    return object_(
        "v1",
        "Service",
        name,
        namespace=tenant,
        labels={
            **labels("route", tenant=tenant, model=model, release=release),
            **({} if routing is Routing.LEAST_REQUESTS else {ROUTING: routing.value}),
        },
        annotations={SKIP_AWAIT: "true"},
        spec={
            "type": "ClusterIP",
            "selector": picks,
            "ports": [
                {"name": port, "port": number, "targetPort": port, "protocol": "TCP"}
                for port, number in sorted(serving.ports.items())
                if port != METRICS
            ],
        },
    )


def disruption_budget(tenant: str, arm: TrafficArm, model: Model) -> dict[str, Any]:
    """One replica at a time may be moved; none less, or node repair would wait for ever."""
    name = arm_name(model.name, arm)
    return object_(
        "policy/v1",
        "PodDisruptionBudget",
        name,
        namespace=tenant,
        labels=labels("disruption", tenant=tenant, model=model.name, release=arm.release),
        spec={
            "maxUnavailable": 1,
            "selector": {"matchLabels": arm_selector(tenant, model.name, arm)},
            "unhealthyPodEvictionPolicy": "AlwaysAllow",
        },
    )
