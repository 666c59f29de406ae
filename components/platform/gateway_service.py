"""The way in: the gateway's Service, its network load balancer with the pods' own addresses, and its public name. Pure.

An object of ours and not of Istio's chart, so that policies see it, the layer waits for its address and knows it.
The balancer hands connections on under its own address: a caller in the cluster that kept its own would be answered
past the balancer, and hang. And it is told its subnets: left to find them, the controller looks once, so that a zone
added later would have gateways whose readiness gate never opens, and one taken away a subnet that cannot be deleted.
Sources: kubernetes-sigs/aws-load-balancer-controller v3.5.0, "Service annotations" of its guide, and
`pkg/service/model_build_load_balancer.go` (buildLoadBalancerSubnets); kubernetes/cloud-provider-aws#206 and #1160.
"""

from collections.abc import Mapping, Sequence
from ipaddress import IPv4Network
from typing import Any

from components.addons.istio import GATEWAY_DRAIN_SECONDS, GATEWAY_LABELS, GATEWAY_RELEASE
from components.addons.load_balancer import LOAD_BALANCER_CLASS
from components.labels import labels
from components.manifests import Manifest, object_
from components.platform.mesh import SILENT_SECONDS
from headway.wire import GATEWAY_NAMESPACE

IDLE_SECONDS = SILENT_SECONDS + 60
"""The balancer forgets a connection on which nobody has said anything for so long. By itself after 350 s: an answer that takes longer, or a
request that is held for a replica, would come to nobody. 60 to 6000 (Elastic Load Balancing, "Update the TCP idle timeout for your Network
Load Balancer listener").
"""
READY_PORT, READY_PATH = 15021, "/healthz/ready"
"""Where a proxy says whether it takes requests; it says no while it drains."""

_ANNOTATION = "service.beta.kubernetes.io/aws-load-balancer-"


def manifest(*, public: bool, encrypted: bool, clients: Sequence[IPv4Network], subnets: Sequence[str]) -> Manifest:
    """The Service. `clients` are the ranges that the balancer's security group admits, `subnets` the names of those where it stands."""
    ports = {"http": 80, **({"https": 443} if encrypted else {})}
    return Manifest(
        role="service",
        body=object_(
            "v1",
            "Service",
            GATEWAY_RELEASE,
            namespace=GATEWAY_NAMESPACE,
            labels=labels("gateway"),
            annotations=annotations(public=public, subnets=subnets, ports=sorted(ports.values())),
            spec={
                "type": "LoadBalancer",
                "loadBalancerClass": LOAD_BALANCER_CLASS,
                "loadBalancerSourceRanges": sorted(str(network) for network in clients),
                # Nothing goes by way of a node.
                "allocateLoadBalancerNodePorts": False,
                "selector": dict(GATEWAY_LABELS),
                "ports": [{"name": name, "port": port, "targetPort": port, "protocol": "TCP"} for name, port in ports.items()],
            },
        ),
    )


def annotations(*, public: bool, subnets: Sequence[str], ports: Sequence[int]) -> dict[str, str]:
    """What the controller makes of the Service."""
    attributes = {
        "deregistration_delay.timeout_seconds": str(GATEWAY_DRAIN_SECONDS),
        "preserve_client_ip.enabled": "false",
    }
    said = {
        "attributes": "load_balancing.cross_zone.enabled=true",
        "healthcheck-path": READY_PATH,
        "healthcheck-port": str(READY_PORT),
        "healthcheck-protocol": "http",
        **{f"listener-attributes.TCP-{port}": f"tcp.idle_timeout.seconds={IDLE_SECONDS}" for port in ports},
        "nlb-target-type": "ip",
        "scheme": "internet-facing" if public else "internal",
        "subnets": ",".join(subnets),
        "target-group-attributes": ",".join(f"{key}={value}" for key, value in sorted(attributes.items())),
    }
    return {f"{_ANNOTATION}{key}": value for key, value in sorted(said.items())}


def address(status: Any) -> str | None:
    """The balancer's name in a Service's `status`; None before there is one.

    The SDK hands out a type of its own whose keys are Python's, or, where the object was given as a mapping, the
    API's own document.
    """
    balancer = _of(status, "load_balancer", "loadBalancer")
    return next((name for each in _of(balancer, "ingress", "ingress") or () if (name := _of(each, "hostname", "hostname"))), None)


def _of(found: Any, attribute: str, key: str) -> Any:
    if not found:
        return None
    return found.get(key, found.get(attribute)) if isinstance(found, Mapping) else getattr(found, attribute)
