"""NetworkPolicies name whom they let in and whom they lead to, and nothing beside them decides about packets.

Source of what a rule without a field means: Kubernetes API reference, NetworkPolicySpec. Every rule of a policy adds; none takes away.
"""

from collections.abc import Iterator, Mapping
from ipaddress import IPv4Network, IPv6Network, collapse_addresses, ip_address, ip_network
from typing import Any

from headway.wire import ARTIFACT_CACHE_NAMESPACE, GATEWAY_NAMESPACE, MESH_NAMESPACE, MONITORING_NAMESPACE, TENANT
from policies.guardrails import workloads as w
from policies.guardrails.rule import Breaches, Domain, PolicyRule, PolicySeverity, breach
from policies.guardrails.view import InputNode, ResourceView

NETWORK_POLICY = "kubernetes:networking.k8s.io/v1:NetworkPolicy"
_OTHERS = (
    "kubernetes:cilium.io/",
    "kubernetes:crd.projectcalico.org/",
    "kubernetes:networking.k8s.aws/",
    "kubernetes:policy.networking.k8s.io/",
    "kubernetes:projectcalico.org/",
)
"""Groups whose kinds admit packets past NetworkPolicies, before them or by another agent; PolicyEndpoints of the VPC CNI are in one of them."""
_NAMES = ("kubernetes.io/metadata.name", TENANT)
"""Labels of a namespace that say which it is: the API server sets the first, and the platform the second."""
METADATA = ("169.254.169.254", "fd00:ec2::254")
"""Where an instance answers with its node's credentials (Amazon EC2 user guide, instance metadata)."""
_FEW = 4096
"""Addresses that a policy may name one by one. More are a network of pods, whose addresses any tenant may have."""
_OPEN_PORTS = (
    f"{ARTIFACT_CACHE_NAMESPACE}:8087",
    f"{GATEWAY_NAMESPACE}:80",
    f"{GATEWAY_NAMESPACE}:443",
    f"{GATEWAY_NAMESPACE}:15021",
    f"{MESH_NAMESPACE}:15012",
    f"{MONITORING_NAMESPACE}:4317",
    f"{MONITORING_NAMESPACE}:9090",
)
"""Ports of the platform that are for everybody, or for every tenant."""


def _ports(rule: InputNode) -> tuple[InputNode, ...]:
    return tuple(rule["ports"].each())


def _named_here(selector: InputNode) -> bool:
    """Whether a namespaceSelector says by value which namespaces it means."""
    return any(selector["matchLabels"][key].filled for key in _NAMES) or any(
        each["key"].value in _NAMES and each["operator"].value == "In" for each in selector["matchExpressions"].each()
    )


def _networks(peer: InputNode) -> tuple[IPv4Network | IPv6Network, ...]:
    """The networks of an ipBlock without its exceptions; nothing for another peer."""
    block = peer["ipBlock"]
    if not block.present:
        return ()
    left: list[IPv4Network | IPv6Network] = [ip_network(str(block["cidr"].value), strict=False)]
    for exception in block["except"].each():
        hole = ip_network(str(exception.value), strict=False)
        left = [part for network in left for part in _without(network, hole)]
    return tuple(left)


def _without(network: Any, hole: Any) -> Iterator[Any]:
    if network.version != hole.version or not network.overlaps(hole):
        yield network
    elif hole.subnet_of(network) and hole != network:
        yield from network.address_exclude(hole)


def _size(networks: tuple[Any, ...]) -> int:
    """Addresses in all; of IPv6, subnets of 64 bits, of which a machine has one."""
    four = sum(n.num_addresses for n in collapse_addresses([n for n in networks if n.version == 4]))
    return four + sum(2 ** max(0, 64 - n.prefixlen) for n in collapse_addresses([n for n in networks if n.version == 6]))


def _many(rules: InputNode, side: str) -> tuple[Any, ...]:
    return tuple(network for rule in rules.each() for peer in rule[side].each() for network in _networks(peer))


def _wide(rule: InputNode, side: str) -> Iterator[tuple[InputNode, str]]:
    """Peers of a rule that are nobody in particular, and in words whom they let pass."""
    peers = list(rule[side].each())
    if not peers:
        yield rule, "everybody, inside the cluster and out"
    for peer in peers:
        spaces, block = peer["namespaceSelector"], peer["ipBlock"]
        if spaces.present and not _named_here(spaces):
            yield spaces, "pods of namespaces that it does not name"
        elif not spaces.present and not block.present and not peer["podSelector"].present:
            yield peer, "a peer that selects nothing by itself"


def _inward(r: ResourceView, c: Mapping[str, Any]) -> Breaches:
    rules, opened = r.at("spec", "ingress"), tuple(c["openPorts"])
    for rule in rules.each():
        ports = _ports(rule)
        known = ports and all(not p["endPort"].present and f"{w.namespace(r)}:{p['port'].value}" in opened for p in ports)
        for where, whom in _wide(rule, "from"):
            if not known:
                yield breach(where, f"lets in {whom}")
    if (size := _size(_many(rules, "from"))) > _FEW:
        yield breach(rules, f"lets in {size} addresses outside the cluster's selectors, a network of pods among them")


def _outward(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    for rule in r.at("spec", "egress").each():
        ports = _ports(rule)
        for where, whom in _wide(rule, "to"):
            yield breach(where, f"leads to {whom}")
        for peer in rule["to"].each():
            if not ports and _size(_networks(peer)) > _FEW:
                yield breach(peer["ipBlock"], "leads to a whole network on every port")


def _metadata(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    for rule in r.at("spec", "egress").each():
        if not _admits(_ports(rule), 80):
            continue
        if not rule["to"].filled:
            yield breach(rule, f"leads to {METADATA[0]}, which answers with the node's credentials")
        for peer in rule["to"].each():
            networks = _networks(peer)
            for address in (ip_address(each) for each in METADATA):
                if any(address.version == n.version and address in n for n in networks):
                    yield breach(peer["ipBlock"], f"leads to {address}, which answers with the node's credentials")


def _admits(ports: tuple[InputNode, ...], number: int) -> bool:
    """Whether a TCP packet to port `number` fits; a name may stand for any number."""
    for port in ports:
        first, last = port["port"].value, port["endPort"].value
        if port["protocol"].value not in (None, "TCP"):
            continue
        if not isinstance(first, int) or first <= number <= (last or first):
            return True
    return not ports


def _other(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    yield breach("", f"a {r.kind} decides about packets beside the NetworkPolicies")


RULES = (
    PolicyRule(
        id="network-policy-names-callers",
        domain=Domain.NETWORK,
        title="A NetworkPolicy names the namespaces whose pods it lets in; others may use the platform's open ports only.",
        rationale="Policies only add up: one that lets everybody in opens its pods whatever the others say, past the gateway, its tokens and its limits.",
        remedy="Select namespaces by kubernetes.io/metadata.name, and name few addresses; a port for all is listed in openPorts.",
        applies=(NETWORK_POLICY,),
        check=_inward,
        severity=PolicySeverity.CRITICAL,
        settings={"openPorts": {"type": "array", "items": {"type": "string"}, "default": list(_OPEN_PORTS)}},
    ),
    PolicyRule(
        id="network-policy-names-destinations",
        domain=Domain.NETWORK,
        title="A NetworkPolicy names where its pods may connect to.",
        rationale="A model server that may connect anywhere can carry weights and prompts out, and try every other tenant's ports.",
        remedy="Select namespaces by kubernetes.io/metadata.name; give a network the ports that are used.",
        applies=(NETWORK_POLICY,),
        check=_outward,
    ),
    PolicyRule(
        id="network-policy-leaves-metadata-out",
        domain=Domain.NETWORK,
        title="No NetworkPolicy leads to the instance metadata of nodes.",
        rationale="Whoever asks it has the node's role, and with it every image and every pod's network.",
        remedy=f"Except {METADATA[0]}/32 from the block, or name other ports than 80; workloads have identities of their own.",
        applies=(NETWORK_POLICY,),
        check=_metadata,
        severity=PolicySeverity.CRITICAL,
    ),
    PolicyRule(
        id="packets-by-network-policy-alone",
        domain=Domain.NETWORK,
        title="Only NetworkPolicies decide about packets.",
        rationale="Administrators' policies, Calico's, Cilium's and the VPC CNI's own objects overrule NetworkPolicies, which nobody would see in these.",
        remedy="Write a NetworkPolicy.",
        applies=_OTHERS,
        check=_other,
        severity=PolicySeverity.CRITICAL,
    ),
)
