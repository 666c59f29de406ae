"""The page `docs/reference/isolation.md`: every kind of pod that an environment has to every other, by its rendered NetworkPolicies.

Kinds are found in the policies: of each namespace a pod, and one more for each set of labels that a policy selects there. A cell says which
of the ports that any policy names are open; one more port that none names stands for all others.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from ipaddress import ip_network
from typing import Any

from components.identity import POD_IDENTITY_AGENT
from components.model_service.triton import HTTP_PORT
from headway.verify.policies import PacketEnd, passes
from headway.wire import TENANT
from policies.guardrails.packets import METADATA

NAME = "kubernetes.io/metadata.name"
API_SERVER = "API server"
SYSTEM, STRANGER = "kube-system", "default"
ANY_OTHER = 1
"""A port that no policy names."""
ALL, CLOSED = "all", "—"
MOST_NAMED = 2
"""Zones that a column names; of more, the page lists them once."""
Port = tuple[int, str]


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of pod, or of address outside; `zone` is the row and the column that it stands in."""

    zone: str
    end: PacketEnd
    calls: bool = True
    tenant: bool = False


@dataclass(frozen=True, kw_only=True)
class Matrix:
    """Ports open from zone to zone. A column may stand for several sources, which reach the same outside of their own namespaces."""

    sources: tuple[tuple[str, ...], ...]
    targets: tuple[str, ...]
    cells: Mapping[tuple[str, str], str] = field(repr=False)

    def cell(self, sources: tuple[str, ...], target: str) -> str:
        apart = [self.cells[source, target] for source in sources if _space(source) != _space(target)]
        return apart[0] if apart else self.cells[sources[0], target]


@dataclass(frozen=True, kw_only=True)
class Reason:
    """Why ports of some zones are open to others; shell patterns, and the first that fits counts."""

    sources: str
    targets: str
    ports: str
    why: str


def kinds(namespaces: Sequence[Mapping[str, Any]], policies: Sequence[Mapping[str, Any]]) -> tuple[Kind, ...]:
    """Pods of every namespace, and whom they may meet outside."""
    cidrs = [
        peer["ipBlock"]["cidr"]
        for policy in policies
        for rule in policy["spec"].get("ingress") or ()
        for peer in rule.get("from") or ()
        if "ipBlock" in peer
    ]
    control_plane = ip_network(min(cidrs))
    vpc = control_plane.supernet(new_prefix=16)
    found: list[Kind] = []
    labelled: dict[str, Mapping[str, str]] = {space["metadata"]["name"]: space["metadata"].get("labels") or {} for space in namespaces}
    ordered = sorted(labelled, key=lambda name: (TENANT in labelled[name], name))
    for name in (*ordered, SYSTEM, STRANGER):
        own = {**labelled.get(name, {}), NAME: name}
        owner = {TENANT: name} if TENANT in own else {}
        for labels in ({}, *_selected(name, policies)):
            end = PacketEnd(namespace=name, namespace_labels=own, labels={**owner, **labels}, address=str(vpc[4096 + len(found)]))
            found.append(Kind(zone="/".join((name, *labels.values())), end=end, tenant=TENANT in own))
    outside = {
        API_SERVER: str(control_plane[1]),
        "VPC": str(vpc[2048]),
        "internet": "203.0.113.7",
        "Pod Identity agent": POD_IDENTITY_AGENT.partition("/")[0],
        "instance metadata": METADATA[0],
    }
    silent = ("Pod Identity agent", "instance metadata")
    ends = {zone: PacketEnd(namespace=None, address=address) for zone, address in outside.items()}
    return (*found, *(Kind(zone=zone, end=end, calls=zone not in silent) for zone, end in ends.items()))


def _space(zone: str) -> str:
    return zone.partition("/")[0]


def _selected(namespace: str, policies: Sequence[Mapping[str, Any]]) -> Iterator[dict[str, str]]:
    """Sets of labels that policies tell apart in a namespace: by what they are for, or by whom they let in or lead to."""
    seen = [policy["spec"]["podSelector"] for policy in policies if policy["metadata"]["namespace"] == namespace]
    seen += [
        peer.get("podSelector") or {}
        for policy in policies
        for side, who in (("ingress", "from"), ("egress", "to"))
        for rule in policy["spec"].get(side) or ()
        for peer in rule.get(who) or ()
        if (peer.get("namespaceSelector") or {}).get("matchLabels") == {NAME: namespace}
    ]
    picked = [selector.get("matchLabels") or {} for selector in seen]
    yield from (dict(labels) for labels in sorted({tuple(sorted(labels.items())) for labels in picked if labels}))


def ports(policies: Sequence[Mapping[str, Any]]) -> tuple[Port, ...]:
    named = {
        (int(port["port"]), str(port.get("protocol", "TCP")))
        for policy in policies
        for side in ("ingress", "egress")
        for rule in policy["spec"].get(side) or ()
        for port in rule.get("ports") or ()
    }
    return tuple(sorted({*named, (HTTP_PORT, "TCP"), (ANY_OTHER, "TCP"), (ANY_OTHER, "UDP")}))


def matrix(found: Sequence[Kind], policies: Sequence[Mapping[str, Any]]) -> Matrix:
    probes = ports(policies)
    cells = {
        (source.zone, target.zone): _said({port for port in probes if passes(policies, source.end, target.end, *port)}, probes)
        for source in found
        for target in found
        if source.calls and (source.end.namespace or target.end.namespace)
    }
    targets, groups = tuple(kind.zone for kind in found), list[list[Kind]]()
    for kind in (each for each in found if each.calls):
        if not kind.tenant and (same := next((group for group in groups if not group[0].tenant and _alike(cells, kind, group)), None)):
            same.append(kind)
        else:
            groups.append([kind])
    return Matrix(sources=tuple(tuple(kind.zone for kind in group) for group in groups), targets=targets, cells=cells)


def _alike(cells: Mapping[tuple[str, str], str], kind: Kind, group: Sequence[Kind]) -> bool:
    other = group[0]
    if (kind.end.namespace is None) != (other.end.namespace is None):
        return False
    mine, theirs = ({target: cell for (source, target), cell in cells.items() if source == each.zone} for each in (kind, other))
    own = {kind.end.namespace, *(each.end.namespace for each in group)} - {None}
    return all(mine[target] == theirs[target] for target in mine if _space(target) not in own)


def _said(opened: set[Port], probes: tuple[Port, ...]) -> str:
    if opened == set(probes):
        return ALL
    return ", ".join(f"{number}" if protocol == "TCP" else f"{number}/{protocol}" for number, protocol in sorted(opened)) or CLOSED


def holes(found: Matrix) -> Iterator[tuple[tuple[str, ...], str, str]]:
    """(sources, target, ports) of every cell that is open between two namespaces, or to or from outside."""
    for sources in found.sources:
        for target in found.targets:
            apart = tuple(source for source in sources if _space(source) != _space(target) and (source, target) in found.cells)
            if apart and (cell := found.cell(apart, target)) != CLOSED:
                yield apart, target, cell


_MESH = "a packet that arrives is still answered by mutual TLS alone"
REASONS = (
    Reason(
        sources="monitoring/*",
        targets="diagnosis",
        ports=ALL,
        why="Alertmanager asks why a page fires; Prometheus scrapes.",
    ),
    Reason(
        sources="diagnosis",
        targets="monitoring/alertmanager",
        ports="9090, 9093",
        why="The loop gives Alertmanager what explains alerts. Whoever reaches it may silence them too; 9090 as for Prometheus.",
    ),
    Reason(
        sources="monitoring*",
        targets="*",
        ports=ALL,
        why="Prometheus scrapes pods on whatever port their metrics are; the collector writes to AWS.",
    ),
    Reason(
        sources="istio-ingress",
        targets="tenant",
        ports=ALL,
        why=(f"The gateway calls model servers on the ports of their contracts; {_MESH}, to the gateway's identity and the tenant's own."),
    ),
    Reason(sources="tenant*", targets="istio-system", ports="15012", why="Each proxy fetches its certificate and configuration, by TLS."),
    Reason(
        sources="tenant*",
        targets="artifact-cache",
        ports="8087",
        why=("The node's store of artifacts: it asks for a token of the pod, and gives a tenant its own."),
    ),
    Reason(
        sources="tenant*",
        targets="monitoring/otel-collector",
        ports="4317",
        why="Spans of proxies, to the collector and to nothing else there.",
    ),
    Reason(
        sources="tenant*",
        targets="Pod Identity agent",
        ports="80",
        why="Where a pod gets the credentials of its own identity.",
    ),
    Reason(sources="tenant/batch", targets="kube-system/kube-dns", ports="53, 53/UDP, 443", why="Names; and 443 as for SQS."),
    Reason(sources="tenant*", targets="kube-system/kube-dns", ports="53, 53/UDP", why="Names."),
    Reason(
        sources="tenant*",
        targets="internet",
        ports="443",
        why=(
            "Artifacts: S3 has public addresses, behind the gateway endpoint. The proxy lets hosts of AWS pass that are "
            "registered, by name; it sees no address."
        ),
    ),
    Reason(
        sources="tenant/batch",
        targets="*",
        ports="443",
        why=(
            "SQS answers at an endpoint in the subnets of nodes and pods, at an address that AWS chooses. The proxy lets "
            "registered hosts of AWS pass, by name."
        ),
    ),
    Reason(sources="API server", targets="istio-ingress", ports="80, 443, 15021", why="As for anybody."),
    Reason(
        sources="API server",
        targets="kube-system*",
        ports=ALL,
        why="No NetworkPolicy of the platform stands in kube-system, where AWS's add-ons run.",
    ),
    Reason(
        sources="API server",
        targets="default",
        ports=ALL,
        why="Nothing of the platform runs in `default`, and no NetworkPolicy stands there.",
    ),
    Reason(
        sources="API server",
        targets="*",
        ports="*",
        why=("Webhooks, the external metrics API and proxied questions come from the control plane's interfaces, in subnets of their own."),
    ),
    Reason(sources="*", targets="istio-ingress", ports="80, 443, 15021", why="The one entrance: clients, and the load balancer's probes."),
    Reason(
        sources="*",
        targets="istio-system",
        ports="15012",
        why=("Proxies may be anywhere; istiod answers by TLS, to who brings a token of a service account."),
    ),
    Reason(
        sources="*",
        targets="monitoring*",
        ports="9090",
        why=(
            "KEDA asks Prometheus, and releases do through the API server. Whoever reaches it reads metrics of all tenants;"
            " tenants' pods do not."
        ),
    ),
    Reason(
        sources="*",
        targets="monitoring/otel-collector",
        ports="4317, 9090",
        why=("Proxies of the platform send spans to the collector; 9090 as for Prometheus, the collector does not listen on it."),
    ),
    Reason(
        sources="istio-ingress",
        targets="activator",
        ports="8080",
        why=f"The gateway asks whether a service has a replica; {_MESH}, to the gateway's identity.",
    ),
    Reason(
        sources="istio-ingress",
        targets="endpoint-picker",
        ports="9002",
        why=f"The gateway asks which engine answers a prompt; {_MESH}, to the gateway's identity.",
    ),
    Reason(
        sources="istio-ingress",
        targets="rate-limit",
        ports="8081",
        why=f"The gateway asks how much a tenant has used; {_MESH}, to the gateway's identity.",
    ),
    Reason(
        sources="*",
        targets="kube-system*",
        ports=ALL,
        why="No NetworkPolicy of the platform stands in kube-system, where AWS's add-ons run.",
    ),
    Reason(sources="*", targets="default", ports=ALL, why="Nothing of the platform runs in `default`, and no NetworkPolicy stands there."),
    Reason(
        sources="*",
        targets="instance metadata",
        ports=ALL,
        why=(
            "Pods of the platform have no egress rules; metadata answers one hop from its node only, so no pod but a node's"
            " own agents is answered."
        ),
    ),
    Reason(
        sources="*",
        targets="*",
        ports=ALL,
        why=("Pods of the platform have no egress rules: they run the platform's code, and ask the API server, AWS and charts' servers."),
    ),
)
OTHERS = "others"


def reason(sources: tuple[str, ...], target: str, ports: str, tenants: Sequence[str]) -> Reason | None:
    """Why it is open, or nothing where nobody has said."""
    source, goal = _class(sources[0], tenants), _class(target, tenants)
    return next(
        (
            r
            for r in REASONS
            if fnmatchcase(source, r.sources) and fnmatchcase(goal, r.targets.replace("tenant", "tenant*")) and fnmatchcase(ports, r.ports)
        ),
        None,
    )


def _class(zone: str, tenants: Sequence[str]) -> str:
    """A tenant's zones without its name: all tenants are alike."""
    space = _space(zone)
    return f"tenant{zone.removeprefix(space)}" if space in tenants else zone


def title(sources: tuple[str, ...]) -> str:
    if len(sources) > MOST_NAMED:
        return OTHERS
    return " and ".join(sources if len({_space(source) for source in sources}) > 1 or "/" in sources[0] else sources[:1])


def page(found: Matrix, tenants: Sequence[str]) -> str:
    """The page whole. A hole without a reason says so, and a test refuses it."""
    titles = [title(sources) for sources in found.sources]
    others = next(sources for sources in found.sources if title(sources) == OTHERS)
    inside = [zone for zone in found.targets if found.cells.get((zone, zone), ALL) != ALL and "/" not in zone]
    lines = [
        "# Isolation by packets",
        "",
        "Which pod reaches which, by the NetworkPolicies that production's platform and tenants render, evaluated both ways",
        "(`headway/verify/policies.py`). Generated by `tests/components/stacks/test_isolation_page.py`; do not edit.",
        "",
        f"A column is who connects, a row where to; a cell has the open ports (TCP, or as said), `{ALL}`, or `{CLOSED}` for none. Inside",
        f"a namespace all ports are open, but not in {', '.join(inside)}. `{OTHERS}` are {', '.join(others)}.",
        "`vision/batch` are workers of a batch variant, which production has not now. `VPC` is any address of the network that is no pod.",
        "",
        "The policies are enforced by the VPC CNI's agent on each node. They do not bind pods in the host's network (node exporter, the",
        "device plugin, the CNI's own), nor a node to its own pods (kubelet's probes). Identities and paths are the mesh's to judge.",
        "",
        f"| to \\ from | {' | '.join(titles)} |",
        f"|---{'|---' * len(titles)}|",
    ]
    for target in found.targets:
        cells = [_shown(found, sources, target) for sources in found.sources]
        lines.append(f"| {target} | {' | '.join(cells)} |")
    lines += ["", "## Holes", "", "Everything that is open between two namespaces, or to or from outside, and why.", ""]
    lines += ["| from | to | ports | why |", "|---|---|---|---|", *_rows(found, tenants)]
    return "\n".join(lines) + "\n"


def _rows(found: Matrix, tenants: Sequence[str]) -> Iterator[str]:
    """Holes of one source and reason in a row, and sources of one such row together."""
    targets: dict[tuple[str, str, str], list[str]] = {}
    for sources, target, cell in holes(found):
        why = reason(sources, target, cell, tenants)
        name = next(title(group) for group in found.sources if set(sources) <= set(group))
        targets.setdefault((name, cell, why.why if why else "NOT SAID"), []).append(target)
    together: dict[tuple[str, str, str], list[str]] = {}
    for (name, cell, why), goals in targets.items():
        together.setdefault((", ".join(goals), cell, why), []).append(name)
    yield from (f"| {', '.join(names)} | {goals} | {cell} | {why} |" for (goals, cell, why), names in together.items())


def _shown(found: Matrix, sources: tuple[str, ...], target: str) -> str:
    return found.cell(sources, target) if (sources[0], target) in found.cells else ""
