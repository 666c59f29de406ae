"""The pod of a replica: fetch and prove the artifact, serve it, answer probes, leave in order.

Restricted by Pod Security: no root, no privilege, no writable root file system, no service account token. Everything
here belongs to the immutable release; nothing that may change in place (objectives, scaling, owners) must enter it.
"""

import math
from collections.abc import Mapping
from typing import Any

from components.addons.istio import PROXY_CONFIG
from components.labels import labels, selector
from components.model_service.configuration import FATE_SCRIPT, FETCH_CONFIG, FETCH_SCRIPT, RELAY_SCRIPT, TOKEN, TOKENS
from components.model_service.probing import PROVEN, probes
from components.model_service.release import Release
from components.model_service.serving import METRICS, MODELS, Serving
from components.nodes.gpu_node import NO_DEVICES, SAFE_TO_EVICT, taints, toleration, use_is_seen
from components.platform import replica_measures
from components.platform.artifact_cache import TOKEN_SECONDS
from components.tenant.priority import priority_class
from headway.contract.arithmetic.replica import FETCH_CPU, FETCH_MEMORY, RELAY_CPU, RELAY_MEMORY
from headway.contract.placement import Packing
from headway.contract.pool import Pool
from headway.contract.units import Bytes
from headway.wire import ARTIFACT_CACHE_AUDIENCE, GPU_MEMORY, POOL, PREFIX, RELEASE, RUNTIME, SCRIPTS_FOLDER, SERVER_CONTAINER

VERSION = f"{PREFIX}/version"
ARTIFACT = f"{PREFIX}/artifact"
"""SHA-256 of the artifact's file list."""

_TOKEN_VOLUME = ARTIFACT_CACHE_AUDIENCE
SERVER, FETCH, RELAY = SERVER_CONTAINER, "fetch", "metrics"
USER = 10001
"""Any user but root, and none that a node has: images whose own user is root run as this one."""

PRE_STOP_SECONDS = 15
"""Endpoints and proxies need some seconds to forget a replica; until then it must go on answering."""
KILL_MARGIN_SECONDS = 5
SHORTEST_GRACE_SECONDS = 30

CACHE_HEADROOM = 1.05
"""The cache also holds rendered files and file system overhead."""


def grace_seconds(drain_seconds: int) -> int:
    """From the order to stop to the kill: time for proxies to notice, then the contract's drain."""
    return max(SHORTEST_GRACE_SECONDS, drain_seconds + PRE_STOP_SECONDS + KILL_MARGIN_SECONDS)


def exit_seconds(drain_seconds: int) -> int:
    """What is left of the grace period for the server itself, after SIGTERM."""
    return grace_seconds(drain_seconds) - PRE_STOP_SECONDS - KILL_MARGIN_SECONDS


def template(
    tenant: str, release: Release, pool: Pool, serving: Serving, configuration: str, service_account: str, *, artifact_cache: bool = False
) -> dict[str, Any]:
    """The pod template; `configuration` is the name of the release's ConfigMap, `artifact_cache` whether the node
    may have the artifact.
    """
    model = release.model
    drain = model.health.drain.whole_seconds
    found = labels(SERVER, tenant=tenant, model=model.name, release=release.id, workload_class=model.workload_class.value)
    return {
        "metadata": {
            "labels": dict(sorted({**found, RUNTIME: model.runtime.engine.value, VERSION: model.artifact.version}.items())),
            "annotations": _annotations(release, pool, serving, drain),
        },
        "spec": {
            "serviceAccountName": service_account,
            "automountServiceAccountToken": False,
            "enableServiceLinks": False,
            "priorityClassName": priority_class(tenant, model.workload_class, model.envelope.gpu.accelerator),
            "nodeSelector": {POOL: pool.name},
            "tolerations": [toleration(taint) for taint in taints(pool)],
            **_layout(tenant, release, pool),
            "terminationGracePeriodSeconds": grace_seconds(drain),
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": USER,
                "runAsGroup": USER,
                "fsGroup": USER,
                "fsGroupChangePolicy": "OnRootMismatch",
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "initContainers": [*([_relay(release, serving)] if serving.relayed else []), _fetch(release, artifact_cache)],
            "containers": [_server(release, serving)],
            "volumes": [*_volumes(release, configuration), *([_token()] if artifact_cache else [])],
        },
    }


def _annotations(release: Release, pool: Pool, serving: Serving, drain_seconds: int) -> dict[str, str]:
    model = release.model
    return {
        ARTIFACT: f"sha256:{model.artifact.digest}",
        GPU_MEMORY: model.envelope.gpu.memory.kubernetes,
        # A node that the autoscaler empties takes densely packed replicas with it; replicas people wait for stay, and
        # so does every replica whose GPU the autoscaler cannot see.
        SAFE_TO_EVICT: "true" if model.workload_class.packing is Packing.PACK and use_is_seen(pool) else "false",
        "kubectl.kubernetes.io/default-container": SERVER,
        PROXY_CONFIG: f'{{"holdApplicationUntilProxyStarts":true,"terminationDrainDuration":"{grace_seconds(drain_seconds)}s"}}',
        **replica_measures.annotations(),
        # A native sidecar starts before the fetching init container and ends after the server.
        "sidecar.istio.io/nativeSidecar": "true",
        # Metrics are read in plain text by the scraper, which is not part of the mesh; NetworkPolicy says from where.
        "traffic.sidecar.istio.io/excludeInboundPorts": str(serving.ports[METRICS]),
        # The Pod Identity agent answers on the node's own link-local address. It stands here under IRSA too, where no packet may go there:
        # a template that changed with the setting would restart replicas while their association, which goes last, still counts.
        "traffic.sidecar.istio.io/excludeOutboundIPRanges": "169.254.170.23/32",
    }


def _layout(tenant: str, release: Release, pool: Pool) -> dict[str, Any]:
    """Apart, so that a lost node costs little, or dense, which the scheduler does by itself (MostAllocated).

    A preference, not a condition: GPUs are scarce by zone, and a replica in the wrong zone is worth more than one
    that waits.
    """
    if (pool.packing or release.model.workload_class.packing) is Packing.PACK:
        return {}
    replicas = {"matchLabels": selector(tenant=tenant, model=release.model.name), "matchLabelKeys": [RELEASE]}
    return {
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": key,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": replicas["matchLabels"]},
                "matchLabelKeys": replicas["matchLabelKeys"],
            }
            for key in ("topology.kubernetes.io/zone", "kubernetes.io/hostname")
        ]
    }


SECURITY: Mapping[str, Any] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
}


def _cache(release: Release) -> Bytes:
    return Bytes(math.ceil(int(release.model.artifact.size) * CACHE_HEADROOM / 2**20) * 2**20 + 2**20)


def _exactly(amounts: Mapping[str, str]) -> dict[str, Any]:
    """Requests equal limits: nothing is borrowed, nothing overcommitted."""
    return {"requests": dict(amounts), "limits": dict(amounts)}


def _fetch(release: Release, artifact_cache: bool) -> dict[str, Any]:
    model = release.model
    amounts = {"cpu": str(FETCH_CPU), "memory": FETCH_MEMORY.kubernetes, "ephemeral-storage": _storage(release)}
    return {
        "name": FETCH,
        "image": model.runtime.image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-I", f"{SCRIPTS_FOLDER}/{FETCH_SCRIPT}", f"{SCRIPTS_FOLDER}/{FETCH_CONFIG}"],
        "env": [dict(NO_DEVICES)],
        "resources": _exactly(amounts),
        "securityContext": dict(SECURITY),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": "artifact", "mountPath": MODELS},
            {"name": "configuration", "mountPath": SCRIPTS_FOLDER, "readOnly": True},
            {"name": "scratch", "mountPath": "/tmp"},  # noqa: S108
            *([{"name": _TOKEN_VOLUME, "mountPath": TOKENS, "readOnly": True}] if artifact_cache else []),
        ],
    }


def _token() -> dict[str, Any]:
    """Says to the node's store of artifacts whose pod this is, and nothing to anybody else; the fetcher alone has
    it.
    """
    source = {"serviceAccountToken": {"audience": ARTIFACT_CACHE_AUDIENCE, "expirationSeconds": TOKEN_SECONDS, "path": TOKEN}}
    return {"name": _TOKEN_VOLUME, "projected": {"defaultMode": 0o440, "sources": [source]}}


def _relay(release: Release, serving: Serving) -> dict[str, Any]:
    """A native sidecar: started before the server, stopped after it."""
    return {
        "name": RELAY,
        "image": release.model.runtime.image,
        "imagePullPolicy": "IfNotPresent",
        "restartPolicy": "Always",
        "command": ["python3", "-I", f"{SCRIPTS_FOLDER}/{RELAY_SCRIPT}", str(serving.ports[METRICS]), str(serving.relayed)],
        "env": [dict(NO_DEVICES)],
        "ports": [{"name": METRICS, "containerPort": serving.ports[METRICS]}],
        "resources": _exactly({"cpu": str(RELAY_CPU), "memory": RELAY_MEMORY.kubernetes, "ephemeral-storage": "16Mi"}),
        "securityContext": dict(SECURITY),
        "volumeMounts": [{"name": "configuration", "mountPath": SCRIPTS_FOLDER, "readOnly": True}],
    }


def _storage(release: Release) -> str:
    return Bytes(int(_cache(release)) + int(release.model.envelope.scratch)).kubernetes


def _server(release: Release, serving: Serving) -> dict[str, Any]:
    model = release.model
    envelope = model.envelope
    amounts = {
        "cpu": str(envelope.cpu),
        "memory": envelope.memory.kubernetes,
        "ephemeral-storage": _storage(release),
        envelope.gpu.resource: str(envelope.gpu.count),
    }
    bound = ["python3", "-I", f"{SCRIPTS_FOLDER}/{FATE_SCRIPT}", PROVEN] if serving.bound else []
    command = {"command": [*bound, *serving.command]} if serving.command else {}
    shared = [{"name": "shm", "mountPath": "/dev/shm"}] if envelope.shared_memory else []  # noqa: S108
    return {
        "name": SERVER,
        "image": model.runtime.image,
        "imagePullPolicy": "IfNotPresent",
        **command,
        "env": [{"name": name, "value": value} for name, value in sorted(serving.environment.items())],
        "ports": [
            {"name": name, "containerPort": port}
            for name, port in sorted(serving.ports.items())
            if name != METRICS or serving.relayed is None
        ],
        "resources": _exactly(amounts),
        **probes(model),
        "lifecycle": {"preStop": {"sleep": {"seconds": PRE_STOP_SECONDS}}},
        "securityContext": dict(SECURITY),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [
            {"name": "artifact", "mountPath": MODELS, "readOnly": True},
            {"name": "configuration", "mountPath": SCRIPTS_FOLDER, "readOnly": True},
            {"name": "scratch", "mountPath": "/tmp"},  # noqa: S108
            *shared,
        ],
    }


def _volumes(release: Release, configuration: str) -> list[dict[str, Any]]:
    """The artifact's cache is an emptyDir: on GPU nodes those lie on the striped NVMe, and Pod Security allows no
    path of the node.
    """
    envelope = release.model.envelope
    found: list[dict[str, Any]] = [
        {"name": "artifact", "emptyDir": {"sizeLimit": _cache(release).kubernetes}},
        {"name": "configuration", "configMap": {"name": configuration, "defaultMode": 0o444}},
        {"name": "scratch", "emptyDir": {"sizeLimit": envelope.scratch.kubernetes}},
    ]
    if envelope.shared_memory:
        found.append({"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": envelope.shared_memory.kubernetes}})
    return found
