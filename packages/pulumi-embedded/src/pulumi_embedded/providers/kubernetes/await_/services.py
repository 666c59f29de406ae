"""Readiness of what leads to pods: Service and Ingress, as pulumi-kubernetes judges them (provider/pkg/await/service.go).

The trap: a Service is not ready while any of its pods is not, so whoever skips the await of a Deployment skips its Service's too.
"""

from pulumi_embedded.engine.provider import Properties
from pulumi_embedded.providers.kubernetes.await_ import pods
from pulumi_embedded.providers.kubernetes.await_.verdict import READY, Lookup, ReadinessVerdict, at, settling, waiting
from pulumi_embedded.providers.kubernetes.kinds import ObjectKind

_ENDPOINTS = ObjectKind("", "v1", "Endpoints")


def service(live: Properties, look: Lookup) -> ReadinessVerdict:
    """A load balancer has its address, and the endpoints have settled without an address that is not ready.

    No pod at all is well. A headless Service, one without a selector and an ExternalName are not held against their endpoints.
    """
    if at(live, "spec", "type") == "LoadBalancer" and not at(live, "status", "loadBalancer", "ingress"):
        return waiting("no load balancer has given it an address")
    selector = at(live, "spec", "selector")
    if not selector or at(live, "spec", "clusterIP") == "None" or at(live, "spec", "type") == "ExternalName":
        return READY
    namespace, name = at(live, "metadata", "namespace") or "default", at(live, "metadata", "name")
    endpoints = look.get(_ENDPOINTS, namespace, name)
    if endpoints is None:
        return waiting("its endpoints are not listed yet")
    pending = sum(len(subset.get("notReadyAddresses") or ()) for subset in endpoints.get("subsets") or ())
    if not pending:
        return settling("its endpoints are settling", str(at(endpoints, "metadata", "resourceVersion")))
    behind = pods.of(namespace, ",".join(f"{key}={value}" for key, value in sorted(selector.items())), look)
    return waiting(f"{pending} of its pods take{'s' if pending == 1 else ''} no requests; {pods.troubles(behind) or 'they are starting'}")


def ingress(live: Properties, _look: Lookup) -> ReadinessVerdict:
    """An address has been given."""
    return READY if at(live, "status", "loadBalancer", "ingress") else waiting("no controller has given it an address")
