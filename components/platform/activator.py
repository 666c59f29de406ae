"""What holds a request to a service that has no replica until one serves: `headway loops activate`, where the environment names an image.
Pure.

The gateway's proxies ask it about each request to a service that may be scaled to zero, and send the request on when they are answered, or
at once where they are not. It sees no request, only whose service is asked; and it may read which endpoints there are, and nothing else. The
mesh lets the gateway ask and nobody else, for who waits brings a replica. Its series are scraped past its proxy.

KEDA's own HTTP add-on stands in the path of every request and knows one Service a host, so no arms of a release; and it is in beta.
"""

from typing import Any

from components import rbac
from components.manifests import Manifest
from components.platform import loops
from headway.wire import ACTIVATOR_NAMESPACE

NAME = ACTIVATOR_NAMESPACE
PORT, SHOWN_PORT, SHOWN_PORT_NAME = 8080, 8081, "metrics"
CLUSTER = f"outbound|{PORT}||{NAME}.{ACTIVATOR_NAMESPACE}.svc.cluster.local"
"""istiod's name for it in the configuration of a proxy."""
GRACE_SECONDS = 600
"""Who waits is answered before it ends."""
_RULES = rbac.rules(("discovery.k8s.io", ("endpointslices",), ("list",)))


def path(tenant: str, model: str, seconds: int) -> str:
    """What a proxy asks for; it adds `/` and how many bytes it keeps meanwhile."""
    return f"/hold/{tenant}/{model}/{seconds}"


def manifests(image: str) -> tuple[Manifest, ...]:
    """Identity, rights, the process itself, who may ask it, and what scrapes it; `image`: one of headway by digest. Needs the Prometheus
    operator's definitions and the mesh's."""
    return (
        *loops.identity(NAME, _RULES),
        loops.gateway_alone(NAME, PORT),
        loops.service(NAME, "http", PORT),
        Manifest(
            role="activator",
            after=("account", "binding", "callers"),
            body=loops.deployment(
                NAME,
                NAME,
                _container(image),
                grace_seconds=GRACE_SECONDS,
                annotations={"traffic.sidecar.istio.io/excludeInboundPorts": str(SHOWN_PORT)},
            ),
        ),
        Manifest(role="budget", body=loops.budget(NAME, NAME)),
        Manifest(role="monitor", body=loops.monitor(NAME, NAME, SHOWN_PORT_NAME, series=1000)),
    )


def _container(image: str) -> dict[str, Any]:
    return {
        "image": image,
        "args": ["loops", "activate", "--serve", f"0.0.0.0:{PORT}", "--show", f"0.0.0.0:{SHOWN_PORT}"],
        "ports": [
            {"name": "http", "containerPort": PORT, "protocol": "TCP"},
            {"name": SHOWN_PORT_NAME, "containerPort": SHOWN_PORT, "protocol": "TCP"},
        ],
        # Each request that waits has a thread: `MOST_AT_ONCE` of headway/listening.py.
        "resources": {"requests": {"cpu": "25m", "memory": "96Mi"}, "limits": {"cpu": "500m", "memory": "192Mi"}},
        **loops.probes(SHOWN_PORT_NAME),
    }
