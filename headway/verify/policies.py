"""Which packets the NetworkPolicies of a namespace admit, as the Kubernetes API reference and the page "Network Policies"
say it. Pure.

A pod that some policy of a direction selects takes what any of these policies admits, and nothing else; a pod that none
selects takes everything. A peer with both selectors means pods in those namespaces; a rule without peers means
everybody, one without ports every port. What is not modelled (named ports, address blocks as sources of pods) counts as
admitted, so that a judgement never calls closed what may be open.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Labels = Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class PacketEnd:
    """A pod that sends or takes a packet: its namespace's labels, `kubernetes.io/metadata.name` among them, and its own."""

    namespace: str
    namespace_labels: Labels = field(default_factory=dict[str, str])
    labels: Labels = field(default_factory=dict[str, str])


def admits(policies: Sequence[Mapping[str, Any]], source: PacketEnd, target: PacketEnd, port: int) -> bool:
    """Whether the `policies` of the target's namespace let a TCP packet from `source` in."""
    selecting = [policy["spec"] for policy in policies if _applies(policy["spec"], "Ingress") and _selects(policy["spec"], target.labels)]
    return not selecting or any(_rule(rule, source, target, port) for spec in selecting for rule in spec.get("ingress") or ())


def _applies(spec: Mapping[str, Any], direction: str) -> bool:
    """Policies without types are for what comes in, and for what goes out where they have rules of it."""
    return direction in (spec.get("policyTypes") or ["Ingress", *(["Egress"] if spec.get("egress") else [])])


def _selects(spec: Mapping[str, Any], labels: Labels) -> bool:
    return selected(spec.get("podSelector") or {}, labels)


def _rule(rule: Mapping[str, Any], source: PacketEnd, target: PacketEnd, port: int) -> bool:
    ports = rule.get("ports")
    if ports and not any(_port(each, port) for each in ports):
        return False
    peers = rule.get("from")
    return not peers or any(_peer(peer, source, target) for peer in peers)


def _port(entry: Mapping[str, Any], port: int) -> bool:
    if entry.get("protocol", "TCP") != "TCP":
        return False
    number = entry.get("port")
    if not isinstance(number, int):
        return True
    return number <= port <= entry.get("endPort", number)


def _peer(peer: Mapping[str, Any], source: PacketEnd, target: PacketEnd) -> bool:
    if "ipBlock" in peer:
        return True
    if "namespaceSelector" in peer:
        if not selected(peer["namespaceSelector"] or {}, source.namespace_labels):
            return False
    elif source.namespace != target.namespace:
        return False
    return selected(peer.get("podSelector") or {}, source.labels)


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
            raise ValueError(f"{other} is no operator of a label selector")
