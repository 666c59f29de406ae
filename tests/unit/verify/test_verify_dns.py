"""Whether pods resolve names: which of them failed, for whom, and what to do then."""

import socket

import pytest

from components.tenant import isolation
from headway.environment.port import Facility
from headway.verify import dns, inside, mesh, packets
from headway.verify.outcome import VerifyState
from tests.components.contracts import SURROUNDINGS
from tests.unit.verify.verify_world import World

FOUND = {dns.INSIDE: "found", dns.OUTSIDE: "found"}
SILENT = "Temporary failure in name resolution"
NOTHING = {dns.INSIDE: SILENT, dns.OUTSIDE: SILENT}


def test_names_that_pods_resolve_pass() -> None:
    seen = dns.look(World(words={dns.FREE: FOUND, dns.BOUND: FOUND}).site())
    assert seen.state is VerifyState.PASSED
    assert seen.evidence == ("Pods resolve kubernetes.default and sts.amazonaws.com, also where a policy admits DNS and nothing else.",)


@pytest.mark.parametrize(
    ("free", "bound", "fact", "remedy"),
    [
        (NOTHING, NOTHING, f"A pod does not resolve kubernetes.default ({SILENT})", "-l k8s-app=kube-dns"),
        ({**FOUND, dns.OUTSIDE: SILENT}, {**FOUND, dns.OUTSIDE: SILENT}, "and not sts.amazonaws.com", "enableDnsSupport"),
        (FOUND, NOTHING, "whose NetworkPolicy admits DNS does not resolve kubernetes.default", "aws/amazon-vpc-cni-k8s#3553"),
        (FOUND, {**FOUND, dns.OUTSIDE: "now found and then x and then x"}, "does not resolve sts.amazonaws.com (now", "#3553"),
    ],
)
def test_what_fails_for_whom_names_the_remedy(free: dict[str, str], bound: dict[str, str], fact: str, remedy: str) -> None:
    (problem,) = dns.look(World(words={dns.FREE: free, dns.BOUND: bound}).site()).problems
    assert fact in problem.fact and remedy in problem.remedy and problem.consequence


def test_probes_that_never_ran_leave_it_unanswered() -> None:
    seen = dns.look(World(words={dns.FREE: FOUND}, pending="0/3 nodes are available").site())
    assert seen.state is VerifyState.UNANSWERED
    assert "bound-dns: Pending Unschedulable: 0/3 nodes are available" in seen.unanswered[0]


def test_an_environment_without_a_dns_server_of_its_own_sends_no_probe() -> None:
    world = World(lacks={Facility.NAMES: "nothing runs CoreDNS"})
    seen = dns.look(world.site())
    assert (seen.state, seen.not_shown) == (VerifyState.NOT_SHOWN, ("No name was asked for: nothing runs CoreDNS.",))
    assert world.made == {}


def test_the_bound_probe_asks_by_the_rule_that_tenants_pods_have() -> None:
    world = World(words={dns.FREE: FOUND, dns.BOUND: FOUND})
    dns.look(world.site())
    (policy,) = (body for body in world.made.values() if body["kind"] == "NetworkPolicy")
    rendered = [rule for _, body in isolation.network_policies("vision", SURROUNDINGS) for rule in body["spec"].get("egress", ())]
    assert policy["spec"]["egress"] == [rendered[0]]
    selected = policy["spec"]["podSelector"]["matchLabels"].items()
    pods = {body["metadata"]["name"]: body["metadata"]["labels"] for body in world.made.values() if body["kind"] == "Pod"}
    assert {name for name, labels in pods.items() if selected <= labels.items()} == {dns.BOUND}


def test_a_probe_says_of_each_name_whether_it_resolves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RES_OPTIONS", "")
    monkeypatch.setattr(inside, "PAUSE_SECONDS", 0.0)
    said = inside.names({"names": ["localhost", "no-such-name.invalid"]})
    assert said["localhost"] == "found" and said["no-such-name.invalid"] not in ("", "found")


def test_a_name_that_resolves_only_at_first_counts_as_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy reaches a new pod after some seconds: what passed before it says nothing."""
    tries = iter(range(inside.TRIES))

    def answer(*_: object) -> list[object]:
        if next(tries) >= inside.TRIES - 1:
            raise socket.gaierror(socket.EAI_AGAIN, SILENT)
        return []

    monkeypatch.setenv("RES_OPTIONS", "")
    monkeypatch.setattr(inside, "PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(socket, "getaddrinfo", answer)
    assert inside.names({"names": ["x"]}) == {"x": f"now found and then found and then {SILENT}"}


def test_no_other_probe_has_the_policies_of_the_one_that_is_bound() -> None:
    """The agent knows a pod on its node by its name up to the last hyphen, and gives all that share it the same policies (`GetPodIdentifier`
    in pkg/utils of aws/aws-network-policy-agent; its issue 327)."""
    names = [dns.FREE, dns.BOUND, mesh.PLAIN, mesh.SERVER, mesh.TRUSTED, packets.ALLOWED, packets.LISTENER, packets.STRANGER]
    known = [name.rpartition("-")[0] or name for name in names]
    assert len(set(known)) == len(names), known
