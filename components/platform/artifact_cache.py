"""The node's own store of artifacts on latency pools: `headway artifact-cache`, where the environment names an image of
headway. Pure.

A DaemonSet a pool fetches what the releases on that pool are made of and hands each file to pods of the tenant whose
it is, on the same node only. Pods say who they are by a token for this audience alone. A pod must start without it,
so nothing here is ever waited for; and its role reads every tenant's artifacts, so nothing else runs as its service
account.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components import rbac
from components.addons.placement import RESTRICTED_CONTAINER, RESTRICTED_POD
from components.addons.service_account import Annotations
from components.labels import labels
from components.manifests import Manifest, object_
from components.nodes import gpu_node
from components.permissions import Statement
from components.platform import loops
from components.platform.capacity import PLATFORM_PRIORITY
from components.platform.namespaces import ARTIFACT_CACHE_PORT
from headway.contract.model import Model
from headway.contract.placement import WorkloadClass
from headway.contract.pool import Pool
from headway.contract.units import Bytes
from headway.wire import ARTIFACT_CACHE_COMMAND, ARTIFACT_CACHE_NAMESPACE, POOL

NAME = ARTIFACT_CACHE_NAMESPACE
"""Its objects have the name of their namespace."""
ADDRESS = f"http://{NAME}.{ARTIFACT_CACHE_NAMESPACE}.svc.cluster.local:{ARTIFACT_CACHE_PORT}"
TOKEN_SECONDS = 3600
METRICS, METRICS_PORT = "metrics", 8088
_PORT = "tcp-artifacts"
"""Its first part tells the mesh to pass bytes on and not to read them."""
_STORE = "/store"
_MARGIN = 64 * 2**20
_UNAWAITED = {"pulumi.com/skipAwait": "true"}
"""There may be no node, and an update must not wait for one; nor for a store on a broken node, for which a Service is held up or, after a
refresh, the next update (pulumi-kubernetes, provider/pkg/await/service.go, `endpointsPending`).
"""
_RULES = rbac.rules(
    # What releases are made of: their ConfigMaps, which hold no secret, in every tenant's namespace.
    ("", ("configmaps",), ("list", "watch")),
    ("authentication.k8s.io", ("tokenreviews",), ("create",)),
)


@dataclass(frozen=True, kw_only=True)
class NodeCache:
    """A pool whose nodes keep artifacts, and how many bytes of them."""

    pool: Pool
    room: Bytes


def kept_on(pool: Pool) -> bool:
    """Whether nodes of the pool keep artifacts: where a start is waited for."""
    return pool.workload_class is WorkloadClass.LATENCY


def manifests(image: str, region: str, stores: Sequence[NodeCache], annotations: Annotations = None) -> tuple[Manifest, ...]:
    """Service account with its `annotations`, rights, the Service, and a DaemonSet for each pool; needs the Prometheus operator's definitions."""
    return (
        *loops.identity(NAME, _RULES, annotations),
        Manifest(role="service", body=_service()),
        Manifest(role="monitor", body=loops.monitor(NAME, ARTIFACT_CACHE_NAMESPACE, METRICS, podTargetLabels=[POOL])),
        *(
            Manifest(role=f"nodes-{store.pool.name}", after=("binding", "service"), body=_daemon_set(image, region, store))
            for store in sorted(stores, key=lambda store: store.pool.name)
        ),
    )


def permissions(models: Mapping[str, Sequence[Model]], bucket: str) -> tuple[Statement, ...]:
    """Read the artifacts of these tenants' models, where they lie below `s3://BUCKET/TENANT/`; nothing for none.
    `bucket` is the environment's own.
    """
    prefixes = {
        f"{place}/{tenant}"
        for tenant, found in models.items()
        for place, _, key in (model.artifact.located(bucket).removeprefix("s3://").partition("/") for model in found)
        if key.startswith(f"{tenant}/")
    }
    resources = [f"arn:aws:s3:::{prefix}/*" for prefix in sorted(prefixes)]
    return (Statement(sid="ReadArtifacts", actions=["s3:GetObject"], resources=resources),) if resources else ()


def _service() -> dict[str, Any]:
    """Reaches the pod of the caller's own node and no other: without one there, the caller goes to S3."""
    spec = {
        "type": "ClusterIP",
        "internalTrafficPolicy": "Local",
        "selector": loops.picked(NAME),
        "ports": [{"name": _PORT, "port": ARTIFACT_CACHE_PORT, "targetPort": _PORT, "protocol": "TCP"}],
    }
    return object_("v1", "Service", NAME, namespace=ARTIFACT_CACHE_NAMESPACE, labels=labels(NAME), annotations=_UNAWAITED, spec=spec)


def _daemon_set(image: str, region: str, store: NodeCache) -> dict[str, Any]:
    pool, picked = store.pool, {**loops.picked(NAME), POOL: store.pool.name}
    return object_(
        "apps/v1",
        "DaemonSet",
        f"{NAME}-{pool.name}",
        namespace=ARTIFACT_CACHE_NAMESPACE,
        labels={**labels(NAME), POOL: pool.name},
        annotations=_UNAWAITED,
        spec={
            "selector": {"matchLabels": picked},
            "template": {"metadata": {"labels": {**labels(NAME), **picked}}, "spec": _pod(image, region, store)},
            # A store that is replaced begins empty: a few nodes at a time.
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%"}},
        },
    )


def _pod(image: str, region: str, store: NodeCache) -> dict[str, Any]:
    disk = Bytes(-(-(int(store.room) + _MARGIN) // 2**20) * 2**20).kubernetes
    container = {
        "name": NAME,
        "image": image,
        "args": [
            *(ARTIFACT_CACHE_COMMAND, "--in-cluster", "--pool", store.pool.name, "--folder", _STORE, "--room", str(int(store.room))),
            *("--serve", f"0.0.0.0:{ARTIFACT_CACHE_PORT}", "--metrics", str(METRICS_PORT)),
        ],
        "env": [{"name": "AWS_DEFAULT_REGION", "value": region}, {"name": "TMPDIR", "value": loops.SCRATCH}],
        "ports": [
            {"name": METRICS, "containerPort": METRICS_PORT, "protocol": "TCP"},
            {"name": _PORT, "containerPort": ARTIFACT_CACHE_PORT, "protocol": "TCP"},
        ],
        "resources": {
            "requests": {"cpu": "100m", "memory": "384Mi", "ephemeral-storage": disk},
            "limits": {"cpu": "2", "memory": "768Mi", "ephemeral-storage": disk},
        },
        "livenessProbe": {
            "httpGet": {"path": "/healthz", "port": METRICS},
            "periodSeconds": 20,
            "timeoutSeconds": 5,
            "failureThreshold": 3,
        },
        "readinessProbe": {"httpGet": {"path": "/ready", "port": METRICS}, "periodSeconds": 5, "timeoutSeconds": 5, "failureThreshold": 1},
        "securityContext": dict(RESTRICTED_CONTAINER),
        "volumeMounts": [{"name": "store", "mountPath": _STORE}, {"name": "scratch", "mountPath": loops.SCRATCH}],
    }
    return {
        "automountServiceAccountToken": True,
        "containers": [container],
        "enableServiceLinks": False,
        "nodeSelector": {POOL: store.pool.name},
        "priorityClassName": PLATFORM_PRIORITY,
        "securityContext": dict(RESTRICTED_POD),
        "serviceAccountName": NAME,
        "terminationGracePeriodSeconds": 10,
        "tolerations": [gpu_node.toleration(taint) for taint in gpu_node.born_with(store.pool)],
        # On GPU nodes an emptyDir lies on the striped NVMe; no path of the node is needed, and the kubelet counts the space.
        "volumes": [
            {"name": "store", "emptyDir": {"sizeLimit": disk}},
            {"name": "scratch", "emptyDir": {"sizeLimit": "16Mi"}},
        ],
    }
