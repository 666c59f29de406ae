"""Whether pods resolve names: the cluster's and the world's, with no policy on them and with one that admits DNS alone. The
judgement is pure.

Two probes tell two faults apart. Network policies of vpc-cni 1.21 have dropped everything where there was no policy
(aws/aws-network-policy-agent#553), CoreDNS's own questions with it, and what policies admit (aws/amazon-vpc-cni-k8s#3553).
"""

from typing import Any

from headway.environment.port import Facility
from headway.problem import Problem
from headway.verify.outcome import Sighting, failed
from headway.verify.probe import LABELS, NAME_LABEL, Probe, ProbeSeen
from headway.verify.site import Site

RULE = "dns"
FREE, BOUND = "free-dns", "bound-dns"
"""Not alike up to the last hyphen: the agent would give both the policies of each (aws/aws-network-policy-agent#327)."""
INSIDE, OUTSIDE = "kubernetes.default", "sts.amazonaws.com"
"""A name that CoreDNS knows, and one for which it asks the network's resolver, also where there is no NAT."""
SECONDS = 240.0
_NEWEST = "take the newest vpc-cni that `aws eks describe-addon-versions --addon-name vpc-cni` offers (components/versions.py)"


def look(site: Site) -> Sighting:
    """Let both probes ask for both names."""
    if reason := site.environment.cannot_show(Facility.NAMES):
        return Sighting(not_shown=(f"No name was asked for: {reason}.",))
    site.create("/apis/networking.k8s.io/v1/networkpolicies", policy())
    probes = [Probe(name=name, task="names", question={"names": [INSIDE, OUTSIDE]}) for name in (FREE, BOUND)]
    found = site.finished(probes, SECONDS)
    return judge(found[FREE], found[BOUND])


def policy() -> dict[str, Any]:
    """The second probe may ask the cluster's DNS and nobody else, by the rule that every tenant's pods have."""
    dns = {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "kube-system"}},
        "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}},
    }
    ports = [{"port": 53, "protocol": protocol} for protocol in ("TCP", "UDP")]
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": BOUND, "labels": dict(LABELS)},
        "spec": {
            "podSelector": {"matchLabels": {NAME_LABEL: BOUND}},
            "policyTypes": ["Egress"],
            "egress": [{"to": [dns], "ports": ports}],
        },
    }


def judge(free: ProbeSeen, bound: ProbeSeen) -> Sighting:
    """What failed for whom, by the two probes' last words."""
    if free.word is None or bound.word is None:
        said = f"{FREE}: {free.phase} {free.pending}; {BOUND}: {bound.phase} {bound.pending}"
        return Sighting(unanswered=(f"The probes have not said which names they found ({said}).",))
    lost = {who: {name: str(seen.word.get(name)) for name in (INSIDE, OUTSIDE) if seen.word.get(name) != "found"}
            for who, seen in ((FREE, free), (BOUND, bound)) if seen.word is not None}  # fmt: skip
    if why := lost[FREE].get(INSIDE):
        problem = _problem(
            f"A pod does not resolve {INSIDE} ({why})",
            "No pod finds a service or AWS by its name: releases of charts time out, and models fetch nothing",
            "`kubectl -n kube-system get pods -l k8s-app=kube-dns`; if its log speaks of i/o timeouts, the network policy agent drops "
            f"packets where there is no policy: {_NEWEST}",
        )
    elif why := lost[FREE].get(OUTSIDE):
        problem = _problem(
            f"A pod resolves {INSIDE}, and not {OUTSIDE} ({why})",
            "Pods find one another, and neither AWS nor any registry by its name",
            "CoreDNS asks the resolver of the VPC: see its log, that `enableDnsSupport` of the VPC is on, and that no rule of Route 53 "
            "Resolver's DNS firewall blocks the name",
        )
    elif lost[BOUND]:
        name, why = next(iter(lost[BOUND].items()))
        problem = _problem(
            f"A pod whose NetworkPolicy admits DNS does not resolve {name} ({why}); one without a policy does",
            "Tenants' pods have such a policy: their models find neither their artifacts nor one another",
            f"The network policy agent denies what policies admit (aws/amazon-vpc-cni-k8s#3553): {_NEWEST}",
        )
    else:
        return Sighting(evidence=(f"Pods resolve {INSIDE} and {OUTSIDE}, also where a policy admits DNS and nothing else.",))
    return failed(problem)


def _problem(fact: str, consequence: str, remedy: str) -> Problem:
    return Problem(rule=RULE, fact=fact, consequence=consequence, remedy=remedy)
