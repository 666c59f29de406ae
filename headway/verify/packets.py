"""Whether NetworkPolicies part the tenants: what they say, and what becomes of packets. The judgements are pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headway.environment.port import Facility
from headway.problem import Problem
from headway.verify.outcome import Sighting, failed, together
from headway.verify.policies import PacketEnd, UnmodelledError, admits
from headway.verify.probe import LABELS, NAME_LABEL, Probe, ProbeSeen
from headway.verify.site import Site
from headway.wire import TENANT

RULE = "packets"
LISTENER, ALLOWED, STRANGER = "listener", "allowed", "stranger"
PORT, SERVING_PORT = 8080, 8000
SECONDS = 180.0
_POLICIES = "/apis/networking.k8s.io/v1/networkpolicies"
_NAME = "kubernetes.io/metadata.name"


def look(site: Site) -> Sighting:
    """Judge every tenant's policies, then send packets where there are any."""
    tenants = site.tenants()
    parts = [judge_policies(tenants, site.items(_POLICIES))]
    if reason := site.environment.cannot_show(Facility.PACKETS):
        parts.append(Sighting(not_shown=(f"No packet was sent: {reason}.",)))
    else:
        parts.append(_sent(site, tenants))
    return together(parts)


def judge_policies(tenants: Sequence[Mapping[str, Any]], policies: Sequence[Mapping[str, Any]]) -> Sighting:
    """Whether one tenant's pod may reach another's by what the policies say, each pair on the port of model servers."""
    ends = [
        PacketEnd(
            namespace=each["metadata"]["name"],
            namespace_labels={_NAME: each["metadata"]["name"], **(each["metadata"].get("labels") or {})},
            labels={TENANT: each["metadata"]["name"]},
        )
        for each in tenants
    ]
    stranger = PacketEnd(namespace="somewhere", namespace_labels={_NAME: "somewhere"})
    problems, unread = list[Problem](), list[str]()
    for target in ends:
        own = [policy for policy in policies if policy["metadata"]["namespace"] == target.namespace]
        others = (*(end for end in ends if end is not target), stranger)
        try:
            open_to = [str(each.namespace) for each in others if admits(own, each, target, SERVING_PORT)]
            shut = bool(own) and not admits(own, target, target, SERVING_PORT)
        except UnmodelledError as unmodelled:
            unread.append(f"NetworkPolicies of {target.namespace} say what cannot be judged here: {unmodelled}.")
            continue
        problems += [_open(source, str(target.namespace), len(own)) for source in open_to]
        if shut:
            problems.append(
                Problem(
                    rule=RULE,
                    subject=f"tenant {target.namespace}",
                    fact=f"NetworkPolicies of {target.namespace} refuse its own pods",
                    consequence="Models that ask one another, and batch workers, are not answered",
                    remedy=f"Deploy the tenant layer again; `kubectl get networkpolicy -n {target.namespace}` shows what differs",
                )
            )
    said = f"NetworkPolicies of {len(ends)} tenants admit no pod of another: {', '.join(str(end.namespace) for end in ends)}."
    return Sighting(evidence=(said,) if ends and not problems and not unread else (), problems=tuple(problems), unanswered=tuple(unread))


def _open(source: str, target: str, policies: int) -> Problem:
    who = "any namespace" if source == "somewhere" else f"namespace {source}"
    return Problem(
        rule=RULE,
        subject=f"tenant {target}",
        fact=f"The {policies} NetworkPolicies of {target} admit packets from {who}",
        consequence="Whoever runs a pod there reaches the tenant's model servers past the gateway, its tokens and its limits",
        remedy=f"Deploy the tenant layer again, and find out who removed or changed a policy: `kubectl get networkpolicy -n {target}`",
    )


def listener_policy() -> dict[str, Any]:
    """Only the probe `allowed` may reach the listener."""
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": LISTENER, "labels": dict(LABELS)},
        "spec": {
            "podSelector": {"matchLabels": {NAME_LABEL: LISTENER}},
            "policyTypes": ["Ingress"],
            "ingress": [{"from": [{"podSelector": {"matchLabels": {NAME_LABEL: ALLOWED}}}]}],
        },
    }


def clients(listener: str, tenants: Mapping[str, tuple[str, int]]) -> tuple[Probe, Probe]:
    """Who may reach the listener at an address, and who may reach neither it nor any tenant's pod."""
    own = {LISTENER: (listener, PORT)}
    return Probe(name=ALLOWED, task="connect", question={"targets": own}), Probe(
        name=STRANGER, task="connect", question={"targets": {**own, **tenants}}
    )


def judge_packets(allowed: ProbeSeen, stranger: ProbeSeen) -> Sighting:
    """A packet allowed and packets refused, by the two clients' last words."""
    if allowed.word is None or stranger.word is None:
        said = f"allowed: {allowed.phase} {allowed.pending}; stranger: {stranger.phase} {stranger.pending}"
        return Sighting(unanswered=(f"The probes have not said what became of their packets ({said}).",))
    if allowed.word.get(LISTENER) != "taken":
        return failed(
            Problem(
                rule=RULE,
                fact=f"A packet that a NetworkPolicy admits did not arrive ({allowed.word.get(LISTENER)})",
                consequence="Pods that should talk to one another cannot, and no refusal proves anything",
                remedy="Look at the network policy agent: `kubectl logs -n kube-system -l k8s-app=aws-node -c aws-eks-nodeagent`",
            ),
        )
    problems = [
        Problem(
            rule=RULE,
            subject=name,
            fact=f"A packet that no NetworkPolicy admits reached {name} ({came})",
            consequence="Policies are written and not enforced: every pod of the cluster reaches the tenants' model servers",
            remedy="See that the VPC CNI add-on has `enableNetworkPolicy` and that its node agent runs on every node",
        )
        for name, came in sorted(stranger.word.items())
        if came != "silent"
    ]
    others = ", ".join(sorted(stranger.word))
    return Sighting(
        evidence=("A packet that a policy admits arrived.", *(() if problems else (f"Packets that none admits were dropped: {others}.",))),
        problems=tuple(problems),
    )


def _sent(site: Site, tenants: Sequence[Mapping[str, Any]]) -> Sighting:
    site.create("/apis/networking.k8s.io/v1/networkpolicies", listener_policy())
    site.start([Probe(name=LISTENER, task="serve", question={"port": PORT, "seconds": SECONDS}, port=PORT)])
    listener = site.until(LISTENER, lambda found: found.running and bool(found.address), SECONDS)
    if not listener.running:
        return Sighting(unanswered=(f"The probe that listens does not run ({listener.pending or listener.phase}).",))
    both = clients(listener.address, dict(_served(site, tenants)))
    found = site.finished(both, SECONDS)
    return judge_packets(found[ALLOWED], found[STRANGER])


def _served(site: Site, tenants: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, tuple[str, int]]]:
    """One running pod of each tenant, with the first port that its server names."""
    for tenant in tenants:
        name = tenant["metadata"]["name"]
        for body in site.items(f"/api/v1/namespaces/{name}/pods"):
            status = body.get("status") or {}
            if status.get("phase") == "Running" and status.get("podIP"):
                ports = [port["containerPort"] for each in body["spec"]["containers"] for port in each.get("ports") or ()]
                yield f"tenant {name}", (str(status["podIP"]), int(next(iter(ports), SERVING_PORT)))
                break
