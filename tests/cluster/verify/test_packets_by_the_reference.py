"""The judgement of packets beside that of kube-network-policies, SIG Network's reference implementation, on worlds made by chance."""

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headway.verify.policies import PROTOCOLS, PacketEnd, passes
from sandbox.cluster.toolchain import ensure_toolchain
from sandbox.layout import Layout
from sandbox.progress import Silent
from tests.cluster.conftest import PROJECT

pytestmark = pytest.mark.needs("network-policies")

NAME = "kubernetes.io/metadata.name"
SPACES = {"x": {"team": "a"}, "y": {"team": "b"}, "z": {}}
LABELS = ({"pod": "a"}, {"pod": "b", "tier": "front"})
PORTS = {("web", "TCP"): 80, ("dns", "UDP"): 53, ("dns", "TCP"): 5353}
PODS = tuple(
    PacketEnd(namespace=space, namespace_labels={NAME: space, **own}, labels=labels, address=f"10.{n}.0.{m}", ports=PORTS)
    for n, (space, own) in enumerate(SPACES.items())
    for m, labels in enumerate(LABELS)
)
OUTSIDE = tuple(PacketEnd(namespace=None, address=address) for address in ("10.9.0.1", "203.0.113.7", "2001:db8::7"))
PACKETS = ((80, "TCP"), (53, "UDP"), (5353, "TCP"), (81, "TCP"), (80, "SCTP"))


def selectors(key: str, values: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    some = st.lists(st.sampled_from(values), min_size=1, max_size=2, unique=True)
    listed = st.builds(
        lambda operator, chosen: {"key": key, "operator": operator, "values": chosen}, st.sampled_from(["In", "NotIn"]), some
    )
    bare = st.builds(lambda operator: {"key": key, "operator": operator}, st.sampled_from(["Exists", "DoesNotExist"]))
    return st.one_of(
        st.just({}),
        st.sampled_from(values).map(lambda value: {"matchLabels": {key: value}}),
        st.lists(listed | bare, min_size=1, max_size=2).map(lambda each: {"matchExpressions": each}),
    )


PODS_PICKED = selectors("pod", ["a", "b", "c"]) | selectors("tier", ["front"])
SPACES_PICKED = selectors(NAME, ["x", "y", "z"]) | selectors("team", ["a", "b"])
BLOCKS = st.sampled_from(
    [
        {"cidr": "0.0.0.0/0"},
        {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]},
        {"cidr": "10.0.0.0/16", "except": ["10.0.0.1/32", "10.0.0.0/32"]},
        {"cidr": "203.0.113.0/24"},
        {"cidr": "::/0", "except": ["2001:db8::/64"]},
        {"cidr": "2001:db8::/32"},
    ]
)
PEERS = st.one_of(
    BLOCKS.map(lambda block: {"ipBlock": block}),
    PODS_PICKED.map(lambda pods: {"podSelector": pods}),
    SPACES_PICKED.map(lambda spaces: {"namespaceSelector": spaces}),
    st.builds(lambda spaces, pods: {"namespaceSelector": spaces, "podSelector": pods}, SPACES_PICKED, PODS_PICKED),
)
PORTS_OPEN = st.one_of(
    st.builds(lambda port, protocol: {"port": port, "protocol": protocol}, st.sampled_from([53, 80, 81]), st.sampled_from(PROTOCOLS)),
    st.sampled_from(["web", "dns", "none"]).map(lambda name: {"port": name}),
    st.sampled_from([{"protocol": "UDP"}, {}, {"port": 80, "endPort": 81}, {"port": 1, "endPort": 80}, {"port": "dns", "protocol": "UDP"}]),
)


def rules(side: str) -> st.SearchStrategy[list[dict[str, Any]]]:
    one = st.fixed_dictionaries({}, optional={side: st.lists(PEERS, max_size=2), "ports": st.lists(PORTS_OPEN, max_size=2)})
    return st.lists(one, max_size=2)


SPECS = st.fixed_dictionaries(
    {"podSelector": PODS_PICKED},
    optional={
        "policyTypes": st.sampled_from([["Ingress"], ["Egress"], ["Ingress", "Egress"], []]),
        "ingress": rules("from"),
        "egress": rules("to"),
    },
)
POLICIES = st.lists(st.tuples(st.sampled_from(sorted(SPACES)), SPECS), max_size=4)


@pytest.fixture(scope="module")
def reference() -> Iterator["subprocess.Popen[str]"]:
    program = ensure_toolchain(Layout.of(PROJECT), Silent(), ("network-policies",)).binary("network-policies")
    with subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        assert process.stdin
        process.stdin.close()


def judged(
    reference: "subprocess.Popen[str]", policies: list[dict[str, Any]], pairs: list[tuple[PacketEnd, PacketEnd, int, str]]
) -> list[bool]:
    ports = [{"name": name, "containerPort": number, "protocol": protocol} for (name, protocol), number in PORTS.items()]
    asked = {
        "namespaces": [{"metadata": {"name": name, "labels": {NAME: name, **labels}}} for name, labels in SPACES.items()],
        "pods": [
            {
                "metadata": {"name": f"pod-{number}", "namespace": pod.namespace, "labels": dict(pod.labels)},
                "spec": {"nodeName": "node", "containers": [{"name": "server", "ports": ports}]},
                "status": {"phase": "Running", "podIPs": [{"ip": pod.address}]},
            }
            for number, pod in enumerate(PODS)
        ],
        "policies": policies,
        "packets": [
            {"source": source.address, "target": target.address, "port": port, "protocol": protocol}
            for source, target, port, protocol in pairs
        ],
    }
    assert reference.stdin and reference.stdout
    reference.stdin.write(json.dumps(asked) + "\n")
    reference.stdin.flush()
    answer: list[bool] = json.loads(reference.stdout.readline())
    return answer


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(made=POLICIES)
def test_every_packet_is_judged_as_the_reference_does(reference: "subprocess.Popen[str]", made: list[tuple[str, dict[str, Any]]]) -> None:
    policies = [{"metadata": {"namespace": space, "name": f"policy-{n}"}, "spec": spec} for n, (space, spec) in enumerate(made)]
    ends = (*PODS, *OUTSIDE)
    pairs = [(a, b, port, protocol) for a in ends for b in ends if a.namespace or b.namespace for port, protocol in PACKETS]
    expected = judged(reference, policies, pairs)
    assert [passes(policies, *packet) for packet in pairs] == expected
