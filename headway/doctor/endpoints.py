"""Whether AWS can make the network's VPC endpoints: each is offered in the region and in every zone, and takes a policy. Pure.

The trap: a service without endpoint policies is refused with one, however sound the policy ("only supports the full-access endpoint policy"),
and no document lists which services those are; only EC2 itself says so, of each region (`VpcEndpointPolicySupported`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from headway.capacity.described import Described
from headway.contract.arithmetic.month import GATEWAY_ENDPOINTS
from headway.doctor.check import DoctorResult, Unanswered, judged, unknown
from headway.problem import Problem

ENDPOINTS = "endpoints"


@dataclass(frozen=True)
class EndpointFacts:
    """What EC2 says of an endpoint service: the zones where it is, and whether its endpoints take a policy."""

    zones: frozenset[str]
    policy: bool


def service_name(region: str, endpoint: str) -> str:
    """What EC2 calls the service of an endpoint."""
    return f"com.amazonaws.{region}.{endpoint}"


def kind(endpoint: str) -> str:
    """Which of a service's two kinds of endpoint the network makes."""
    return "Gateway" if endpoint in GATEWAY_ENDPOINTS else "Interface"


def judge_endpoints(layer: Described, found: Mapping[str, EndpointFacts] | Unanswered) -> DoctorResult:
    """`found` is by the endpoint's name in the stack file; what the region does not offer is absent."""
    if isinstance(found, Unanswered):
        return unknown(ENDPOINTS, found)
    problems = [problem for endpoint in sorted(layer.endpoints) for problem in _faults(layer, endpoint, found.get(endpoint))]
    return judged(ENDPOINTS, f"All {len(layer.endpoints)} VPC endpoints are offered in every zone, and take a policy.", problems)


def _faults(layer: Described, endpoint: str, facts: EndpointFacts | None) -> Iterator[Problem]:
    if facts is None:
        yield _problem(
            endpoint,
            f"{layer.region} has no {kind(endpoint).lower()} endpoint {service_name(layer.region, endpoint)}",
            "Take it out of network.endpoints, with a network.nat that leads out; or choose another region",
        )
        return
    missing = [zone for zone in layer.zones if zone not in facts.zones] if kind(endpoint) == "Interface" else []
    if missing:
        yield _problem(
            endpoint,
            f"{service_name(layer.region, endpoint)} is not in {', '.join(missing)}",
            f"Take the zone out of network.zones, or the endpoint out of network.endpoints; it is in {', '.join(sorted(facts.zones))}",
        )
    if not facts.policy:
        yield _problem(
            endpoint,
            f"Endpoints of {service_name(layer.region, endpoint)} take no policy, and the network gives each one",
            "Take it out of network.endpoints, with a network.nat that leads out; or make it without a policy in "
            "components/network/network.py, and know that it then admits credentials of any account",
        )


def _problem(endpoint: str, fact: str, remedy: str) -> Problem:
    return Problem(
        rule=ENDPOINTS,
        path=("network", "endpoints"),
        value=endpoint,
        fact=fact,
        consequence="EC2 refuses the endpoint, and the network fails in the middle of its creation",
        remedy=remedy,
    )
