"""What an environment takes of the account's service quotas at its largest, and whether they suffice. Pure.

EC2 counts vCPUs by family and by purchase, not instances (Amazon EC2 user guide, "Instance quotas"). A reservation
counts as on demand. A capacity block is left out: it was bought for a time, whatever the quota. Of volumes the nodes' are
counted; those that pods claim are small beside them.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from headway.capacity.described import Described
from headway.contract.accelerators import INSTANCE_TYPES
from headway.contract.pool import Pool, SystemPool
from headway.doctor.check import DoctorResult, Unanswered, judged, unknown
from headway.problem import Problem

QUOTAS = "quotas"
SPOT, ON_DEMAND = "spot", "on demand"

CODES: Mapping[tuple[str, str], str] = {
    ("g", ON_DEMAND): "L-DB2E81BA",  # Running On-Demand G and VT instances
    ("g", SPOT): "L-3819A6DF",  # All G and VT Spot Instance Requests
    ("p", ON_DEMAND): "L-417A185B",  # Running On-Demand P instances
    ("p", SPOT): "L-7212CCBC",  # All P4, P3 and P2 Spot Instance Requests
    ("p5", SPOT): "L-C4BD4855",  # All P5 Spot Instance Requests
    ("standard", ON_DEMAND): "L-1216C47A",  # Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances
    ("standard", SPOT): "L-34B43A08",  # All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests
}
"""Quota codes of the service `ec2`, by family and purchase, as the Service Quotas API lists them."""

ADDRESSES, GATEWAYS, GROUPS, NETWORKS, STORAGE = "L-0263D0A3", "L-FE5A380F", "L-6D54EA21", "L-F678F1CE", "L-7A658B76"
"""EC2-VPC Elastic IPs; NAT gateways per Availability Zone; Managed node groups per cluster; VPCs per Region; Storage for General Purpose SSD
(gp3) volumes, in TiB.
"""
SERVICES: Mapping[str, str] = {ADDRESSES: "ec2", GATEWAYS: "vpc", GROUPS: "eks", NETWORKS: "vpc", STORAGE: "ebs"}
"""Service of each; those of CODES are `ec2`'s."""


@dataclass(frozen=True)
class ServiceQuota:
    """A service quota: its name, its value, and how much of it others use already where that is known."""

    name: str
    value: float
    used: float = 0


@dataclass(frozen=True)
class QuotaNeed:
    """What the pools take of one quota at their largest: vCPUs, and the pools that take them, sorted."""

    code: str
    vcpus: int
    pools: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class CountedNeed:
    """What the cluster layer takes of a quota that counts things, or TiB. `who` needs it; `otherwise` is another way."""

    code: str
    wanted: float
    path: tuple[str, ...]
    who: str
    consequence: str
    otherwise: str


def needs(layer: Described) -> tuple[QuotaNeed, ...]:
    """Every quota of vCPUs that the environment's nodes count against, by code."""
    taken: dict[str, list[tuple[str, int]]] = {}
    for name, code, vcpus in _parts((layer.system_pool, *layer.pools)):
        taken.setdefault(code, []).append((name, vcpus))
    return tuple(
        QuotaNeed(code, sum(vcpus for _, vcpus in parts), tuple(sorted(name for name, _ in parts))) for code, parts in sorted(taken.items())
    )


def counted(layer: Described) -> tuple[CountedNeed, ...]:
    """Every other quota that the cluster layer counts against; none of which it takes nothing."""
    half_made = "The network fails in the middle of its creation"
    found = (
        CountedNeed(
            code=NETWORKS,
            wanted=1,
            path=("network",),
            who="its network needs",
            consequence="The cluster layer fails at its first resource",
            otherwise="delete a network that nobody uses",
        ),
        CountedNeed(
            code=ADDRESSES,
            wanted=addresses(layer),
            path=("network", "nat"),
            who="the NAT gateways need",
            consequence=half_made,
            otherwise="choose another network.nat",
        ),
        CountedNeed(
            code=GATEWAYS,
            wanted=min(1, addresses(layer)),
            path=("network", "nat"),
            who="each zone with a NAT gateway needs",
            consequence=half_made,
            otherwise="choose other zones or another network.nat",
        ),
        CountedNeed(
            code=GROUPS,
            wanted=1 + sum(len(pool.zones) for pool in layer.pools),
            path=("pools",),
            who="the system pool and each zone of the others need",
            consequence="EKS refuses the groups past it, after the others are made",
            otherwise="give the pools fewer zones",
        ),
        CountedNeed(
            code=STORAGE,
            wanted=storage(layer),
            path=("pools",),
            who="the root volumes of all nodes may take",
            consequence="Nodes past the quota never start, and pods wait for them without an end",
            otherwise="lower size.max or disk.size of the pools",
        ),
    )
    return tuple(need for need in found if need.wanted)


def addresses(layer: Described) -> int:
    """Elastic IP addresses that the network takes, one for each NAT gateway; a regional gateway brings its own."""
    return {"none": 0, "single": 1, "per-zone": len(layer.zones), "regional": 0}[layer.nat]


def storage(layer: Described) -> float:
    """TiB of the nodes' root volumes, every pool at its largest."""
    return sum(int(pool.disk.size) * _most(pool) for pool in (layer.system_pool, *layer.pools)) / 2**40


def judge_quotas(layer: Described, quotas: Mapping[str, ServiceQuota] | Unanswered) -> DoctorResult:
    """Whether each suffices. `quotas` are by code; one that nobody listed is left out."""
    if isinstance(quotas, Unanswered):
        return unknown(QUOTAS, quotas)
    problems = [
        Problem(
            rule=QUOTAS,
            subject=need.code,
            value=int(quota.value),
            fact=f"{quota.name} is {quota.value:g} vCPUs, and {_listed(need.pools)} may take {need.vcpus}",
            consequence="Nodes past the quota never start, and pods wait for them without an end",
            remedy=f"{_more('ec2', need.code, need.vcpus)}; or lower the size.max of the pools",
        )
        for need in needs(layer)
        if (quota := quotas.get(need.code)) is not None and quota.value < need.vcpus
    ]
    problems += [
        Problem(
            rule=QUOTAS,
            subject=need.code,
            path=need.path,
            fact=f"{quota.name} is {quota.value:g}, of which {quota.used:.3g} are in use, and {need.who} {need.wanted:.3g}",
            consequence=need.consequence,
            remedy=f"{_more(SERVICES[need.code], need.code, -(-(quota.used + need.wanted) // 1))}; or {need.otherwise}",
        )
        for need in counted(layer)
        if (quota := quotas.get(need.code)) is not None and quota.value - quota.used < need.wanted
    ]
    return judged(
        QUOTAS, f"{len(needs(layer))} quotas of vCPUs and {len(counted(layer))} others suffice for every pool at its largest.", problems
    )


def _parts(pools: Iterable[Pool | SystemPool]) -> Iterator[tuple[str, str, int]]:
    for pool in pools:
        kind = pool.capacity.kind if isinstance(pool, Pool) else "on_demand"
        if kind == "block":
            continue
        purchase = SPOT if kind == "spot" else ON_DEMAND
        largest = max(pool.instance_types, key=lambda name: INSTANCE_TYPES[name].vcpus)
        yield pool.name, CODES[_family(largest, purchase), purchase], INSTANCE_TYPES[largest].vcpus * _most(pool)


def _most(pool: Pool | SystemPool) -> int:
    """With those that wait warm, which run once before they do."""
    if isinstance(pool, SystemPool):
        return pool.size.max
    return pool.max_nodes + (pool.warm.size * len(pool.zones) if pool.warm else 0)


def _family(instance_type: str, purchase: str) -> str:
    if purchase == SPOT and instance_type.startswith("p5"):
        return "p5"
    return instance_type[0] if instance_type[0] in "gp" else "standard"


def _more(service: str, code: str, wanted: float) -> str:
    return (
        f"Ask for more: `aws service-quotas request-service-quota-increase --service-code {service} "
        f"--quota-code {code} --desired-value {wanted:g}`"
    )


def _listed(names: Sequence[str]) -> str:
    return f"pool {names[0]}" if len(names) == 1 else f"pools {', '.join(names)}"
