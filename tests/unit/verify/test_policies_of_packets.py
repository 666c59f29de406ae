"""Which packets NetworkPolicies admit, by the rules of the Kubernetes documentation, one row each."""

from collections.abc import Mapping
from typing import Any

import pytest

from components.tenant import isolation
from headway.verify.outcome import VerifyState
from headway.verify.packets import judge_packets, judge_policies
from headway.verify.policies import PacketEnd, admits
from headway.verify.probe import ProbeSeen
from headway.wire import TENANT
from tests.components.contracts import SURROUNDINGS

NAME = "kubernetes.io/metadata.name"
HERE = PacketEnd(namespace="vision", namespace_labels={NAME: "vision"}, labels={"app": "model"})
NEIGHBOUR = PacketEnd(namespace="assist", namespace_labels={NAME: "assist"})
DENY: Mapping[str, Any] = {"podSelector": {}, "policyTypes": ["Ingress"]}


def allow(**rule: Any) -> dict[str, Any]:
    return {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [rule]}


@pytest.mark.parametrize(
    ("specs", "admitted"),
    [
        ([], True),
        ([DENY], False),
        ([{"podSelector": {"matchLabels": {"app": "other"}}, "policyTypes": ["Ingress"]}], True),
        ([{"podSelector": {}, "policyTypes": ["Egress"]}], True),
        ([{"podSelector": {}}], False),
        ([DENY, allow()], True),
        ([DENY, allow(**{"from": []})], True),
        ([DENY, allow(**{"from": [{"podSelector": {}}]})], False),
        ([DENY, allow(**{"from": [{"namespaceSelector": {}}]})], True),
        ([DENY, allow(**{"from": [{"namespaceSelector": {"matchLabels": {NAME: "vision"}}}]})], False),
        ([DENY, allow(**{"from": [{"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "x"}}}]})], False),
        ([DENY, allow(**{"from": [{"ipBlock": {"cidr": "10.0.0.0/8"}}]})], True),
        ([DENY, allow(ports=[{"port": 8000}])], True),
        ([DENY, allow(ports=[{"port": 9000}])], False),
        ([DENY, allow(ports=[{"port": 7000, "endPort": 9000}])], True),
        ([DENY, allow(ports=[{"port": 8000, "protocol": "UDP"}])], False),
        (
            [DENY, allow(**{"from": [{"namespaceSelector": {"matchExpressions": [{"key": NAME, "operator": "NotIn", "values": ["x"]}]}}]})],
            True,
        ),
    ],
)
def test_a_packet_is_admitted_as_the_documentation_says(specs: list[Mapping[str, Any]], admitted: bool) -> None:
    assert admits([{"spec": spec} for spec in specs], NEIGHBOUR, HERE, 8000) is admitted


def namespaces(*names: str) -> list[dict[str, Any]]:
    return [{"metadata": {"name": name, "labels": {NAME: name, TENANT: name}}} for name in names]


def policies(*tenants: str) -> list[dict[str, Any]]:
    return [body for tenant in tenants for _, body in isolation.network_policies(tenant, SURROUNDINGS)]


def test_what_a_tenant_layer_renders_parts_the_tenants() -> None:
    seen = judge_policies(namespaces("assist", "vision"), policies("assist", "vision"))
    assert (seen.state, seen.problems) == (VerifyState.PASSED, ())


def test_a_tenant_whose_policies_were_removed_is_found() -> None:
    seen = judge_policies(namespaces("assist", "vision"), policies("assist"))
    assert seen.state is VerifyState.FAILED
    assert {problem.subject for problem in seen.problems} == {"tenant vision"}
    assert seen.problems[0].fact == "The 0 NetworkPolicies of vision admit packets from namespace assist"


def test_a_policy_that_somebody_added_for_all_is_found() -> None:
    hole = {"metadata": {"namespace": "vision", "name": "debug"}, "spec": allow()}
    seen = judge_policies(namespaces("assist", "vision"), [*policies("assist", "vision"), hole])
    assert [problem.fact.partition(" admit ")[2] for problem in seen.problems] == [
        "packets from namespace assist",
        "packets from any namespace",
    ]


def test_a_policy_that_cannot_be_read_leaves_the_question_unanswered() -> None:
    odd = {"metadata": {"namespace": "vision", "name": "odd"}, "spec": allow(**{"from": [{"fqdn": "a.example"}]})}
    seen = judge_policies(namespaces("assist", "vision"), [*policies("assist", "vision"), odd])
    assert seen.state is VerifyState.UNANSWERED
    assert "NetworkPolicies of vision say what cannot be judged here: fqdn" in seen.unanswered[0]


def word(**came: str) -> ProbeSeen:
    return ProbeSeen(phase="Succeeded", word=came)


@pytest.mark.parametrize(
    ("allowed", "stranger", "state", "fact"),
    [
        (word(listener="taken"), word(listener="silent", vision="silent"), VerifyState.PASSED, ""),
        (word(listener="taken"), word(listener="taken", vision="silent"), VerifyState.FAILED, "reached listener (taken)"),
        (word(listener="taken"), word(listener="silent", vision="refused"), VerifyState.FAILED, "reached vision (refused)"),
        (word(listener="silent"), word(listener="silent"), VerifyState.FAILED, "did not arrive (silent)"),
        (word(listener="taken"), ProbeSeen(phase="Pending"), VerifyState.UNANSWERED, ""),
    ],
)
def test_silence_proves_a_refusal_only_beside_a_packet_that_arrived(
    allowed: ProbeSeen, stranger: ProbeSeen, state: VerifyState, fact: str
) -> None:
    seen = judge_packets(allowed, stranger)
    assert seen.state is state
    assert fact in "".join(problem.fact for problem in seen.problems)
