"""What names an engine for each prompt, of services that ask for it: `headway endpoint-picker`, where the environment names an image. Pure.

The gateway's proxies ask it with the request's body, and send the request by their own balancer where it does not answer. One replica: each of
two would know half of the prompts. It may read which endpoints there are, and engines' metrics pages, as Prometheus does past their proxies.
The mesh lets the gateway ask and nobody else, for prompts are told here.
"""

from typing import Any

from components import rbac
from components.manifests import Manifest
from components.platform import loops
from headway.wire import ENDPOINT_PICKER_COMMAND, ENDPOINT_PICKER_NAMESPACE, RELAY_PORT

NAME = ENDPOINT_PICKER_NAMESPACE
PORT, SHOWN_PORT, SHOWN_PORT_NAME = 9002, 9090, "metrics"
CLUSTER = f"outbound|{PORT}||{NAME}.{NAME}.svc.cluster.local"
"""istiod's name for it in the configuration of a proxy."""
GRACE_SECONDS = 30
_RULES = rbac.rules(("discovery.k8s.io", ("endpointslices",), ("list",)))


def manifests(image: str) -> tuple[Manifest, ...]:
    """Identity, rights, the process itself, who may ask it, and what scrapes it; `image`: one of headway by digest. Needs the Prometheus
    operator's definitions and the mesh's."""
    # Past the proxy: the scraper of its series, and the pages of engines, which show theirs so.
    past = {
        "traffic.sidecar.istio.io/excludeInboundPorts": str(SHOWN_PORT),
        "traffic.sidecar.istio.io/excludeOutboundPorts": str(RELAY_PORT),
    }
    running = loops.deployment(NAME, NAME, _container(image), grace_seconds=GRACE_SECONDS, annotations=past)
    running["spec"]["replicas"] = 1
    return (
        *loops.identity(NAME, _RULES),
        loops.gateway_alone(NAME, PORT),
        loops.service(NAME, "grpc", PORT),
        Manifest(role="picker", after=("account", "binding", "callers"), body=running),
        Manifest(role="monitor", body=loops.monitor(NAME, NAME, SHOWN_PORT_NAME, series=1000)),
    )


def _container(image: str) -> dict[str, Any]:
    probes = loops.probes(SHOWN_PORT_NAME)
    # It says no before it knows its engines, which no new one cures.
    probes["livenessProbe"]["httpGet"] = {**probes["livenessProbe"]["httpGet"], "path": "/metrics"}
    serve, show = f"0.0.0.0:{PORT}", f"0.0.0.0:{SHOWN_PORT}"
    return {
        "image": image,
        "args": [ENDPOINT_PICKER_COMMAND, "--in-cluster", "--serve", serve, "--metrics", show, "--page-port", str(RELAY_PORT)],
        "ports": [
            {"name": "grpc", "containerPort": PORT, "protocol": "TCP"},
            {"name": SHOWN_PORT_NAME, "containerPort": SHOWN_PORT, "protocol": "TCP"},
        ],
        # What it believes of an engine's cache takes about 4 MiB.
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
        **probes,
    }
