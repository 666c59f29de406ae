"""A language model whose gateway asks an endpoint picker which engine answers a prompt: a pool of engines for each arm, the route that leads to
them, and the picker that they name. Pure. No environment takes these objects yet (ADR 28).

By Istio 1.31: the gateway alone takes a picked host (`BuildClusters`, pilot/pkg/networking/core/cluster.go), so callers inside the mesh keep the
VirtualService. A route has one picker, so one serves all arms. The traps: an answer passes through the picker, so it may end only when the
longest has; and a label of the model on its pod would let the model's Services, limits and monitors take it for a replica.
"""

from collections.abc import Iterator
from typing import Any

from components import rbac
from components.addons.istio import PROXY_CONFIG
from components.addons.placement import ON_SYSTEM_NODES, RESTRICTED_POD
from components.labels import labels
from components.manifests import Manifest, object_
from components.model_service import vllm
from components.model_service.observing import PAGE_LIMITS
from components.model_service.pod import grace_seconds
from components.model_service.serving import RELAY_PORT
from components.model_service.workload import arm_name, arm_selector
from components.naming import physical
from components.platform import loops
from components.platform.mesh import GATEWAY
from components.tenant.isolation import HTTPS_PORT, PRIVATE_RANGES
from components.tenant.surroundings import Surroundings
from headway.contract.model import Model
from headway.ledger.traffic_split import TrafficArm, TrafficSplit
from headway.wire import ENDPOINT_PICKER_COMMAND, RELEASE_HEADER

GROUP = "inference.networking.k8s.io"
PICKER = ENDPOINT_PICKER_COMMAND
PORT, PAGES_PORT = 9002, 9090
"""Where gateways ask, as the reference picker has it, and where it shows itself."""

SERIES = "headway_endpoint_picker_.*"
"""What a picker says of itself (headway/endpoint_picker/process.py)."""


def picker_name(model: str) -> str:
    """Of the picker's Service, and of all that is its own."""
    return physical(model, PICKER)


def _marks(tenant: str, model: str) -> dict[str, str]:
    return {**labels(PICKER, tenant=tenant), "app.kubernetes.io/name": picker_name(model)}


def pool(tenant: str, model: Model, live: TrafficArm) -> dict[str, Any]:
    """The engines of an arm. Without a ready picker they answer by turns."""
    return object_(
        f"{GROUP}/v1",
        "InferencePool",
        arm_name(model.name, live),
        namespace=tenant,
        labels=labels("route", tenant=tenant, model=model.name, release=live.release),
        spec={
            "selector": {"matchLabels": arm_selector(tenant, model.name, live)},
            "targetPorts": [{"number": vllm.PORT}],
            "endpointPickerRef": {"name": picker_name(model.name), "port": {"number": PORT}, "failureMode": "FailOpen"},
        },
    )


def route(tenant: str, model: Model, split: TrafficSplit, surroundings: Surroundings) -> dict[str, Any]:
    """From the gateway to the pools, by weight."""
    seconds, rest = divmod(int(model.envelope.largest_request.timeout) // 1000, 1000)
    namespace, _, _ = surroundings.gateway.partition("/")
    return object_(
        "gateway.networking.k8s.io/v1",
        "HTTPRoute",
        model.name,
        namespace=tenant,
        labels=labels("route", tenant=tenant, model=model.name),
        spec={
            "parentRefs": [{"name": GATEWAY, "namespace": namespace}],
            "hostnames": surroundings.public_hosts(tenant, model.name),
            "rules": [
                {
                    "backendRefs": [_backend(model, live) for live in split.ordered],
                    "timeouts": {"request": f"{seconds}s{rest}ms"},
                }
            ],
        },
    )


def _backend(model: Model, live: TrafficArm) -> dict[str, Any]:
    said = {"set": [{"name": RELEASE_HEADER, "value": live.key}]}
    return {
        "group": GROUP,
        "kind": "InferencePool",
        "name": arm_name(model.name, live),
        "weight": live.weight.whole_percent,
        "filters": [{"type": "ResponseHeaderModifier", "responseHeaderModifier": said}],
    }


def picker(tenant: str, model: Model, image: str) -> Iterator[Manifest]:
    """The picker of a service, with no rights but to list its pools and their pods. `image`: one of headway by digest."""
    name, marks = picker_name(model.name), _marks(tenant, model.name)
    picked = {"matchLabels": marks}
    role = rbac.role(name, rbac.rules(("", ("pods",), ("list",)), (GROUP, ("inferencepools",), ("list",))), marks, tenant)
    yield Manifest(role="picker-account", body=object_("v1", "ServiceAccount", name, namespace=tenant, labels=marks))
    yield Manifest(role="picker-rights", body=role)
    yield Manifest(
        role="picker-rights-binding", body=rbac.binding(role, [rbac.account(name, tenant)]), after=("picker-account", "picker-rights")
    )
    # The API server is among the private addresses; the mesh lets through to it alone.
    out = [{"to": [{"ipBlock": {"cidr": cidr}} for cidr in PRIVATE_RANGES], "ports": [{"port": HTTPS_PORT, "protocol": "TCP"}]}]
    yield Manifest(
        role="picker-egress",
        body=object_(
            "networking.k8s.io/v1",
            "NetworkPolicy",
            name,
            namespace=tenant,
            labels=marks,
            spec={"podSelector": picked, "policyTypes": ["Egress"], "egress": out},
        ),
    )
    yield Manifest(role="picker", body=_deployment(tenant, model, image), after=("picker-rights-binding", "picker-egress"))
    ports = [{"name": "grpc", "port": PORT, "targetPort": "grpc", "protocol": "TCP", "appProtocol": "grpc"}]
    spec = {"type": "ClusterIP", "selector": marks, "ports": ports}
    yield Manifest(role="picker-service", body=object_("v1", "Service", name, namespace=tenant, labels=marks, spec=spec))
    policy = {"tls": {"mode": "ISTIO_MUTUAL"}, "connectionPool": {"tcp": {"connectTimeout": "1s"}}}
    yield Manifest(
        role="picker-balancing",
        body=object_(
            "networking.istio.io/v1",
            "DestinationRule",
            name,
            namespace=tenant,
            labels=marks,
            spec={"host": f"{name}.{tenant}.svc.cluster.local", "trafficPolicy": policy},
        ),
    )
    # A deployer may label any pod so.
    yield Manifest(role="picker-monitor", body=loops.monitor(name, tenant, "metrics", marks=marks, believed=SERIES, **PAGE_LIMITS))


def _deployment(tenant: str, model: Model, image: str) -> dict[str, Any]:
    """One replica: each of two would know half of the prompts. The next one is ready before it ends."""
    name, marks = picker_name(model.name), _marks(tenant, model.name)
    drain = model.health.drain.whole_seconds
    probe = {"httpGet": {"path": "/healthz", "port": "metrics"}, "periodSeconds": 5, "timeoutSeconds": 2}
    special = {
        "image": image,
        "args": [
            *(ENDPOINT_PICKER_COMMAND, name, "--in-cluster", "--namespace", tenant, "--page-port", str(RELAY_PORT)),
            *("--serve", f"0.0.0.0:{PORT}", "--metrics", f"0.0.0.0:{PAGES_PORT}", "--grace", str(drain)),
        ],
        "ports": [
            {"name": "grpc", "containerPort": PORT, "protocol": "TCP"},
            {"name": "metrics", "containerPort": PAGES_PORT, "protocol": "TCP"},
        ],
        # Bodies that wait take 256 MiB at most (`headway/endpoint_picker/exchange.py`).
        "resources": {"requests": {"cpu": "500m", "memory": "512Mi"}, "limits": {"cpu": "1", "memory": "2Gi"}},
        # It says no before it knows its engines, and while it ends: neither is cured by a new one.
        "readinessProbe": {**probe, "failureThreshold": 1},
        "livenessProbe": {**probe, "httpGet": {"path": "/metrics", "port": "metrics"}, "failureThreshold": 6},
    }
    pod = {
        "automountServiceAccountToken": True,
        "containers": [loops.container(PICKER, special)],
        "enableServiceLinks": False,
        "nodeSelector": dict(ON_SYSTEM_NODES),
        "securityContext": dict(RESTRICTED_POD),
        "serviceAccountName": name,
        "terminationGracePeriodSeconds": grace_seconds(drain),
        "volumes": [dict(loops.SCRATCH_VOLUME)],
    }
    annotations = {
        PROXY_CONFIG: f'{{"holdApplicationUntilProxyStarts":true,"terminationDrainDuration":"{grace_seconds(drain)}s"}}',
        "sidecar.istio.io/nativeSidecar": "true",
        "traffic.sidecar.istio.io/excludeInboundPorts": str(PAGES_PORT),
        # Engines show their pages outside of the mesh, as Prometheus reads them.
        "traffic.sidecar.istio.io/excludeOutboundPorts": str(RELAY_PORT),
    }
    return object_(
        "apps/v1",
        "Deployment",
        name,
        namespace=tenant,
        labels=marks,
        spec={
            "replicas": 1,
            "selector": {"matchLabels": marks},
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {"metadata": {"labels": marks, "annotations": annotations}, "spec": pod},
        },
    )
