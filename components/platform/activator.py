"""What holds a request to a service that has no replica until one serves: `headway loops activate`, where the environment names an image.
Pure.

The gateway's proxies ask it about each request to a service that may be scaled to zero, and send the request on when they are answered, or
at once where they are not. It sees no request, only whose service is asked; and it may read which endpoints there are, and nothing else. The
mesh lets the gateway ask and nobody else, for who waits brings a replica. Its series are scraped past its proxy.

KEDA's own HTTP add-on stands in the path of every request and knows one Service a host, so no arms of a release; and it is in beta.
"""

from typing import Any

from components import rbac
from components.labels import labels
from components.manifests import Manifest, object_
from components.platform import loops
from headway.wire import ACTIVATOR_NAMESPACE, GATEWAY_NAMESPACE

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
    found, rights = labels(NAME), rbac.role(f"headway-{NAME}", _RULES, labels(NAME))
    callers = {"from": [{"source": {"namespaces": [GATEWAY_NAMESPACE]}}], "to": [{"operation": {"ports": [str(PORT)]}}]}
    only = {"selector": {"matchLabels": loops.picked(NAME)}, "action": "ALLOW", "rules": [callers]}
    ports = [{"name": "http", "port": PORT, "targetPort": PORT, "protocol": "TCP"}]
    return (
        Manifest(role="account", body=object_("v1", "ServiceAccount", NAME, namespace=NAME, labels=found)),
        Manifest(role="rights", body=rights),
        Manifest(role="binding", after=("account", "rights"), body=rbac.binding(rights, [rbac.account(NAME, NAME)])),
        Manifest(
            role="callers", body=object_("security.istio.io/v1", "AuthorizationPolicy", NAME, namespace=NAME, labels=found, spec=only)
        ),
        Manifest(
            role="service",
            body=object_("v1", "Service", NAME, namespace=NAME, labels=found, spec={"selector": loops.picked(NAME), "ports": ports}),
        ),
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
