"""Truth tables of every pod to every pod, as Kubernetes' own end-to-end tests state them, and rows of the API reference.

Titles and worlds are those of kubernetes/kubernetes, test/e2e/network/netpol/network_policy.go: namespaces x, y and z, each with pods a, b
and c, which serve ports 80 and 81 under names. Like there, nobody asks himself.
"""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from headway.verify.policies import PacketEnd, UnmodelledError, admits, passes, sends

NAME = "kubernetes.io/metadata.name"
NUMBERS = {("serve-80-tcp", "TCP"): 80, ("serve-81-tcp", "TCP"): 81, ("serve-80-udp", "UDP"): 80}
PODS = {
    f"{space}/{pod}": PacketEnd(
        namespace=space, namespace_labels={NAME: space}, labels={"pod": pod}, address=f"10.0.{n}.{m}", ports=NUMBERS
    )
    for n, space in enumerate("xyz", start=1)
    for m, pod in enumerate("abc", start=1)
}
Pair = Callable[[str, str], bool]
"""Whether the first pod reaches the second."""


def policy(namespace: str = "x", pods: Mapping[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"namespace": namespace}, "spec": {"podSelector": pods or {}, **spec}}


def ingress(*rules: dict[str, Any], namespace: str = "x", pods: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return policy(namespace, pods, policyTypes=["Ingress"], ingress=list(rules))


def egress(*rules: dict[str, Any], namespace: str = "x", pods: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return policy(namespace, pods, policyTypes=["Egress"], egress=list(rules))


def pod(*names: str) -> dict[str, Any]:
    if len(names) == 1:
        return {"podSelector": {"matchLabels": {"pod": names[0]}}}
    return {"podSelector": {"matchExpressions": [{"key": "pod", "operator": "In", "values": list(names)}]}}


def space(*names: str, operator: str = "In") -> dict[str, Any]:
    if len(names) == 1 and operator == "In":
        return {"namespaceSelector": {"matchLabels": {NAME: names[0]}}}
    return {"namespaceSelector": {"matchExpressions": [{"key": NAME, "operator": operator, "values": list(names)}]}}


def to_a(allowed: Callable[[str], bool]) -> Pair:
    """Only pod a of namespace x is isolated, and takes what `allowed` says of its callers."""
    return lambda source, target: target != "x/a" or allowed(source)


A = {"matchLabels": {"pod": "a"}}
DENY = ingress()
PORT_81 = {"ports": [{"port": 81, "protocol": "TCP"}]}
NAMED = {"ports": [{"port": "serve-81-tcp"}]}

CASES: list[tuple[str, list[dict[str, Any]], tuple[int, str], Pair]] = [
    ("no policy", [], (80, "TCP"), lambda s, t: True),
    ("default-deny-ingress", [DENY], (80, "TCP"), lambda s, t: t[0] != "x"),
    ("default-deny-all", [policy(policyTypes=["Ingress", "Egress"])], (80, "TCP"), lambda s, t: "x" not in (s[0], t[0])),
    ("pods within server namespace based on PodSelector", [ingress({"from": [pod("b")]}, pods=A)], (80, "TCP"), to_a(lambda s: s == "x/b")),
    (
        "ingress traffic for a target",
        [DENY, ingress({"from": [{"podSelector": {}, "namespaceSelector": {}}]}, pods=A)],
        (80, "TCP"),
        lambda s, t: t[0] != "x" or t == "x/a",
    ),
    ("pods in all namespaces", [ingress({"from": [{"namespaceSelector": {}}]}, pods=A)], (80, "TCP"), lambda s, t: True),
    ("different namespace, NamespaceSelector", [ingress({"from": [space("y")]}, pods=A)], (80, "TCP"), to_a(lambda s: s[0] == "y")),
    ("PodSelector with MatchExpressions", [ingress({"from": [pod("b", "c")]}, pods=A)], (80, "TCP"), to_a(lambda s: s in ("x/b", "x/c"))),
    (
        "NamespaceSelector with MatchExpressions",
        [ingress({"from": [space("y", "w")]}, pods=A)],
        (80, "TCP"),
        to_a(lambda s: s[0] == "y"),
    ),
    (
        "PodSelector or NamespaceSelector",
        [ingress({"from": [space("x", operator="NotIn"), pod("b")]}, pods=A)],
        (80, "TCP"),
        to_a(lambda s: s[0] != "x" or s == "x/b"),
    ),
    (
        "PodSelector and NamespaceSelector",
        [ingress({"from": [{**space("x", operator="NotIn"), **pod("b")}]}, pods=A)],
        (80, "TCP"),
        to_a(lambda s: s in ("y/b", "z/b")),
    ),
    (
        "multiple PodSelectors and NamespaceSelectors",
        [ingress({"from": [{**space("x", operator="NotIn"), **pod("b", "c")}]}, pods=A)],
        (80, "TCP"),
        to_a(lambda s: s in ("y/b", "y/c", "z/b", "z/c")),
    ),
    ("any PodSelectors", [ingress({"from": [pod("b"), pod("c")]}, pods=A)], (80, "TCP"), to_a(lambda s: s in ("x/b", "x/c"))),
    (
        "a pod in a different namespace",
        [ingress({"from": [{**space("y"), **pod("a")}]}, pods=A)],
        (80, "TCP"),
        to_a(lambda s: s == "y/a"),
    ),
    ("based on Ports", [ingress({"from": [space("y")], **PORT_81}, pods=A)], (81, "TCP"), to_a(lambda s: s[0] == "y")),
    ("based on Ports, another port", [ingress({"from": [space("y")], **PORT_81}, pods=A)], (80, "TCP"), to_a(lambda s: False)),
    (
        "multiple, stacked policies with overlapping podSelectors",
        [ingress({"from": [space("y")], **PORT_81}, pods=A), ingress({"from": [space("y")], "ports": [{"port": 80}]}, pods=A)],
        (80, "TCP"),
        to_a(lambda s: s[0] == "y"),
    ),
    ("allow-all policy", [DENY, ingress({})], (81, "TCP"), lambda s, t: True),
    ("ingress access on one named port", [ingress(NAMED)], (81, "TCP"), lambda s, t: True),
    ("ingress access on one named port, another port", [ingress(NAMED)], (80, "TCP"), lambda s, t: t[0] != "x"),
    ("from namespace on one named port", [ingress({"from": [space("y")], **NAMED}, pods=A)], (81, "TCP"), to_a(lambda s: s[0] == "y")),
    ("egress access on one named port", [egress(NAMED)], (81, "TCP"), lambda s, t: True),
    ("egress access on one named port, another port", [egress(NAMED)], (80, "TCP"), lambda s, t: s[0] != "x"),
    ("deny ingress from pods on other namespaces", [ingress({"from": [{"podSelector": {}}]})], (80, "TCP"), lambda s, t: t[0] != "x" or s[0] == "x"),
    (
        "egress to a server in a different namespace",
        [egress({"to": [{**space("y"), **pod("a")}]}, pods=A)],
        (80, "TCP"),
        lambda s, t: s != "x/a" or t == "y/a",
    ),
    ("ingress allow-all policy taking precedence", [ingress({"from": [pod("b")]}), ingress({})], (80, "TCP"), lambda s, t: True),
    ("egress allow-all policy taking precedence", [egress({"to": [pod("b")]}), egress({})], (80, "TCP"), lambda s, t: True),
    (
        "egress access to server in CIDR block",
        [egress({"to": [{"ipBlock": {"cidr": "10.0.2.2/32"}}]}, pods=A)],
        (80, "TCP"),
        lambda s, t: s != "x/a" or t == "y/b",
    ),
    (
        "except clause while egress access to server in CIDR block",
        [egress({"to": [{"ipBlock": {"cidr": "10.0.0.0/16", "except": ["10.0.1.2/32", "10.0.3.0/24"]}}]}, pods=A)],
        (80, "TCP"),
        lambda s, t: s != "x/a" or (t[0] != "z" and t != "x/b"),
    ),
    (
        "an IP overlapping both IPBlock.CIDR and IPBlock.Except is allowed",
        [egress({"to": [{"ipBlock": {"cidr": "10.0.1.0/24", "except": ["10.0.1.2/32"]}}, {"ipBlock": {"cidr": "10.0.1.2/32"}}]}, pods=A)],
        (80, "TCP"),
        lambda s, t: s != "x/a" or t[0] == "x",
    ),
    (
        "ingress and egress controlled independently based on PodSelector",
        [policy("x", A, policyTypes=["Ingress", "Egress"], ingress=[{"from": [pod("b")]}], egress=[{"to": [pod("c")]}])],
        (80, "TCP"),
        lambda s, t: (t != "x/a" or s == "x/b") and (s != "x/a" or t == "x/c"),
    ),
    ("SCTP is not mistaken for TCP", [ingress({"ports": [{"port": 80, "protocol": "SCTP"}]})], (80, "TCP"), lambda s, t: t[0] != "x"),
    ("isolates pods that are selected by a policy allowing SCTP", [ingress({"ports": [{"protocol": "SCTP"}]}, pods=A)], (81, "TCP"), to_a(lambda s: False)),
    ("no access by TCP when a policy specifies only UDP", [ingress({"ports": [{"port": 80, "protocol": "UDP"}]}, pods=A)], (80, "TCP"), to_a(lambda s: False)),
    ("access by UDP when a policy specifies UDP", [ingress({"ports": [{"port": 80, "protocol": "UDP"}]}, pods=A)], (80, "UDP"), lambda s, t: True),
    ("a named port of UDP", [ingress({"ports": [{"port": "serve-80-udp", "protocol": "UDP"}]}, pods=A)], (80, "UDP"), lambda s, t: True),
    ("no types, and rules of egress that are none", [policy(ingress=[{}], egress=[])], (80, "TCP"), lambda s, t: True),
    (
        "NotIn picks what has not the label",
        [ingress({"from": [{"podSelector": {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["front"]}]}}]}, pods=A)],
        (80, "TCP"),
        to_a(lambda s: s[0] == "x"),
    ),
    ("an endPort", [ingress({"ports": [{"port": 79, "endPort": 81}]}, pods=A)], (81, "TCP"), lambda s, t: True),
    ("an endPort below", [ingress({"ports": [{"port": 70, "endPort": 80}]}, pods=A)], (81, "TCP"), to_a(lambda s: False)),
]  # fmt: skip


@pytest.mark.parametrize(("policies", "packet", "reaches"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_every_pod_reaches_whom_the_upstream_case_says(policies: list[dict[str, Any]], packet: tuple[int, str], reaches: Pair) -> None:
    pairs = [(source, target) for source in PODS for target in PODS if source != target]
    seen = {pair: passes(policies, PODS[pair[0]], PODS[pair[1]], *packet) for pair in pairs}
    assert seen == {pair: reaches(*pair) for pair in pairs}


OUTSIDE = PacketEnd(namespace=None, address="203.0.113.7")
SIX = PacketEnd(namespace=None, address="2001:db8::7")
TO_MANY = {"to": [{"ipBlock": {"cidr": "0.0.0.0/0", "except": ["10.0.0.0/8"]}}], "ports": [{"port": 443}]}


@pytest.mark.parametrize(
    ("policies", "source", "target", "port", "passed"),
    [
        ([DENY], OUTSIDE, PODS["x/a"], 80, False),
        ([ingress({"from": [{"namespaceSelector": {}}]})], OUTSIDE, PODS["x/a"], 80, False),
        ([ingress({"from": [{"ipBlock": {"cidr": "203.0.113.0/24"}}]})], OUTSIDE, PODS["x/a"], 80, True),
        ([ingress({"from": [{"ipBlock": {"cidr": "203.0.113.0/24", "except": ["203.0.113.7/32"]}}]})], OUTSIDE, PODS["x/a"], 80, False),
        ([ingress({})], OUTSIDE, PODS["x/a"], 80, True),
        ([egress(TO_MANY)], PODS["x/a"], OUTSIDE, 443, True),
        ([egress(TO_MANY)], PODS["x/a"], OUTSIDE, 80, False),
        ([egress(TO_MANY)], PODS["x/a"], PODS["y/a"], 443, False),
        ([egress(TO_MANY)], PODS["x/a"], SIX, 443, False),
        ([egress({"to": [{"namespaceSelector": {}}]})], PODS["x/a"], OUTSIDE, 443, False),
        ([egress({"ports": [{"port": "serve-80-tcp"}]})], PODS["x/a"], OUTSIDE, 80, False),
        ([policy(egress=[TO_MANY])], PODS["x/a"], OUTSIDE, 80, False),
        ([policy(egress=[TO_MANY])], PODS["y/a"], PODS["x/a"], 80, False),
        ([policy(ingress=[{}])], PODS["x/a"], OUTSIDE, 80, True),
    ],
)
def test_an_address_outside_is_no_pod(
    policies: list[dict[str, Any]], source: PacketEnd, target: PacketEnd, port: int, passed: bool
) -> None:
    assert passes(policies, source, target, port) is passed


def test_an_end_without_an_address_may_have_any() -> None:
    block = ingress({"from": [{"ipBlock": {"cidr": "192.0.2.0/24", "except": ["192.0.2.0/25"]}}]})
    assert admits([block], PacketEnd(namespace="y"), PODS["x/a"], 80)
    assert sends([egress({"to": [{"ipBlock": {"cidr": "192.0.2.0/24"}}]})], PODS["x/a"], PacketEnd(namespace="y"), 80)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"tiers": []}, "tiers of a NetworkPolicy is not modelled"),
        ({"ingress": [{"from": [], "action": "Deny"}]}, "action of"),
        ({"ingress": [{"from": [{"fqdn": "a"}]}]}, "fqdn of"),
        ({"ingress": [{"from": [{}]}]}, "say whom it means"),
        ({"ingress": [{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}, "podSelector": {}}]}]}, "not both"),
        ({"ingress": [{"ports": [{"port": "http", "endPort": 90}]}]}, "endPort stands beside"),
        ({"ingress": [{"ports": [{"port": 80, "protocol": "ICMP"}]}]}, "ICMP is no protocol"),
        ({"podSelector": {"matchExpressions": [{"key": "a", "operator": "Like"}]}}, "Like is no operator"),
    ],
)
def test_what_is_not_modelled_is_refused(spec: dict[str, Any], said: str) -> None:
    whole = policy()
    whole["spec"] |= spec
    with pytest.raises(UnmodelledError, match=said):
        passes([whole], PODS["y/a"], PODS["x/a"], 80)
