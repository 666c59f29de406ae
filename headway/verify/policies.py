"""Which packets NetworkPolicies let pass, both ways, as the Kubernetes API reference (NetworkPolicySpec v1) and the page
"Network Policies" say it. Pure.

A pod that some policy of a direction selects sends, or takes, what any of these policies allows, and nothing else; a pod
that none selects is open in that direction. A packet passes where its source may send it and its target may take it. A
peer with both selectors means pods in those namespaces; a rule without peers means everybody, one without ports every
port. Nobody is kept from himself, and a node is not kept from its own pods: of these two no end here is one.

A field that is not known here is refused, for a rule that is half read may be read as open or as closed.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Any

Labels = Mapping[str, str]
PROTOCOLS = ("SCTP", "TCP", "UDP")
_SPEC, _PORT = {"egress", "ingress", "podSelector", "policyTypes"}, {"endPort", "port", "protocol"}
_PEER, _BLOCK = {"ipBlock", "namespaceSelector", "podSelector"}, {"cidr", "except"}
_SIDES = {"Ingress": ("ingress", "from"), "Egress": ("egress", "to")}


class UnmodelledError(ValueError):
    """A NetworkPolicy says what is not modelled here, or what the API server would not take."""


@dataclass(frozen=True, kw_only=True)
class PacketEnd:
    """Who sends or takes a packet: a pod with its namespace's labels, `kubernetes.io/metadata.name` among them, its own
    labels and its named ports; or, without a namespace, an address outside of the cluster's pods.
    """

    namespace: str | None
    namespace_labels: Labels = field(default_factory=dict[str, str])
    labels: Labels = field(default_factory=dict[str, str])
    address: str | None = None
    """Nothing where it is not known: then every block may hold it, so that no judgement calls closed what may be open."""
    ports: Mapping[tuple[str, str], int] = field(default_factory=dict[tuple[str, str], int])
    """Number by name and protocol."""


def passes(policies: Sequence[Mapping[str, Any]], source: PacketEnd, target: PacketEnd, port: int, protocol: str = "TCP") -> bool:
    """Whether `policies`, those of all namespaces, let a packet from `source` reach `port` of `target`.

    Raises:
        UnmodelledError: a policy of either end says what is not modelled.
    """
    return sends(_of(policies, source), source, target, port, protocol) and admits(_of(policies, target), source, target, port, protocol)


def admits(policies: Sequence[Mapping[str, Any]], source: PacketEnd, target: PacketEnd, port: int, protocol: str = "TCP") -> bool:
    """Whether the `policies` of the target's namespace let a packet from `source` in."""
    return target.namespace is None or _open(policies, "Ingress", target, source, (target, port, protocol))


def sends(policies: Sequence[Mapping[str, Any]], source: PacketEnd, target: PacketEnd, port: int, protocol: str = "TCP") -> bool:
    """Whether the `policies` of the source's namespace let a packet to `target` out."""
    return source.namespace is None or _open(policies, "Egress", source, target, (target, port, protocol))


_Packet = tuple[PacketEnd, int, str]
"""Whom it goes to, on which port, by which protocol."""


def _of(policies: Sequence[Mapping[str, Any]], end: PacketEnd) -> list[Mapping[str, Any]]:
    return [policy for policy in policies if policy["metadata"]["namespace"] == end.namespace]


def _open(policies: Iterable[Mapping[str, Any]], direction: str, here: PacketEnd, there: PacketEnd, packet: _Packet) -> bool:
    rules, peers = _SIDES[direction]
    specs = [_known(policy["spec"], _SPEC) for policy in policies]
    selecting = [spec for spec in specs if direction in _types(spec) and selected(spec.get("podSelector") or {}, here.labels)]
    return not selecting or any(_rule(rule, peers, here, there, packet) for spec in selecting for rule in spec.get(rules) or ())


def _types(spec: Mapping[str, Any]) -> Sequence[str]:
    """Policies without types are for what comes in, and for what goes out where they have rules of it."""
    return spec.get("policyTypes") or ["Ingress", *(["Egress"] if spec.get("egress") else [])]


def _rule(rule: Mapping[str, Any], side: str, here: PacketEnd, there: PacketEnd, packet: _Packet) -> bool:
    _known(rule, {side, "ports"})
    ports, peers = rule.get("ports"), rule.get(side)
    if ports and not any(_port(each, packet) for each in ports):
        return False
    return not peers or any(_peer(peer, here, there) for peer in peers)


def _port(entry: Mapping[str, Any], packet: _Packet) -> bool:
    target, number, protocol = packet
    wanted, first, last = (_known(entry, _PORT).get(key) for key in ("protocol", "port", "endPort"))
    if (wanted or "TCP") not in PROTOCOLS:
        raise UnmodelledError(f"{wanted} is no protocol of a NetworkPolicy")
    if last is not None and not isinstance(first, int):
        raise UnmodelledError("endPort stands beside the number of a port only")
    if protocol != (wanted or "TCP"):
        return False
    if isinstance(first, str):
        return target.ports.get((first, protocol)) == number
    return first is None or first <= number <= (last or first)


def _peer(peer: Mapping[str, Any], here: PacketEnd, there: PacketEnd) -> bool:
    _known(peer, _PEER)
    block, spaces, pods = (peer.get(key) for key in ("ipBlock", "namespaceSelector", "podSelector"))
    if block is not None:
        if spaces is not None or pods is not None:
            raise UnmodelledError("a peer is an ipBlock or selectors, not both")
        return _block(_known(block, _BLOCK), there)
    if spaces is None and pods is None:
        raise UnmodelledError("a peer has to say whom it means")
    if there.namespace is None or (spaces is None and there.namespace != here.namespace):
        return False
    return selected(spaces or {}, there.namespace_labels) and selected(pods or {}, there.labels)


def _block(block: Mapping[str, Any], end: PacketEnd) -> bool:
    networks = [ip_network(cidr, strict=False) for cidr in (block["cidr"], *(block.get("except") or ()))]
    if end.address is None:
        return True
    address = ip_address(end.address)
    held = [address.version == network.version and address in network for network in networks]
    return held[0] and not any(held[1:])


def _known(part: Mapping[str, Any], fields: set[str]) -> Mapping[str, Any]:
    if more := set(part) - fields:
        raise UnmodelledError(f"{', '.join(sorted(more))} of a NetworkPolicy {'is' if len(more) == 1 else 'are'} not modelled")
    return part


def selected(selector: Mapping[str, Any], labels: Labels) -> bool:
    """Whether a label selector picks what has these labels; an empty one picks everything."""
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    return all(_holds(each, labels) for each in selector.get("matchExpressions") or ())


def _holds(requirement: Mapping[str, Any], labels: Labels) -> bool:
    key, values = requirement["key"], requirement.get("values") or ()
    match requirement["operator"]:
        case "In":
            return labels.get(key) in values
        case "NotIn":
            return key not in labels or labels[key] not in values
        case "Exists":
            return key in labels
        case "DoesNotExist":
            return key not in labels
        case other:
            raise UnmodelledError(f"{other} is no operator of a label selector")
