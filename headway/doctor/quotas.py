"""How many vCPUs the pools of an environment may take, by the quota of EC2 that counts them. Pure.

EC2 counts vCPUs by family and by purchase, not instances (Amazon EC2 user guide, "Instance quotas"). A reservation
counts as on demand. A capacity block is left out: it was bought for a time, whatever the quota.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from headway.capacity.described import Described
from headway.contract.accelerators import INSTANCE_TYPES
from headway.contract.pool import Pool, SystemPool

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

ADDRESSES = "L-0263D0A3"
"""EC2-VPC Elastic IPs, of which each NAT gateway takes one."""


@dataclass(frozen=True)
class QuotaNeed:
    """What the pools take of one quota at their largest: vCPUs, and the pools that take them, sorted."""

    code: str
    vcpus: int
    pools: tuple[str, ...]


def needs(layer: Described) -> tuple[QuotaNeed, ...]:
    """Every quota that the environment's nodes count against, by code."""
    taken: dict[str, list[tuple[str, int]]] = {}
    for name, code, vcpus in _parts((layer.system_pool, *layer.pools)):
        taken.setdefault(code, []).append((name, vcpus))
    return tuple(
        QuotaNeed(code, sum(vcpus for _, vcpus in parts), tuple(sorted(name for name, _ in parts))) for code, parts in sorted(taken.items())
    )


def _parts(pools: Iterable[Pool | SystemPool]) -> Iterator[tuple[str, str, int]]:
    for pool in pools:
        kind = pool.capacity.kind if isinstance(pool, Pool) else "on_demand"
        if kind == "block":
            continue
        purchase = SPOT if kind == "spot" else ON_DEMAND
        largest = max(pool.instance_types, key=lambda name: INSTANCE_TYPES[name].vcpus)
        most = pool.max_nodes if isinstance(pool, Pool) else pool.size.max
        yield pool.name, CODES[_family(largest, purchase), purchase], INSTANCE_TYPES[largest].vcpus * most


def _family(instance_type: str, purchase: str) -> str:
    if purchase == SPOT and instance_type.startswith("p5"):
        return "p5"
    return instance_type[0] if instance_type[0] in "gp" else "standard"


def addresses(layer: Described) -> int:
    """Elastic IP addresses that the network takes; a regional gateway brings its own."""
    return {"none": 0, "single": 1, "per-zone": len(layer.zones), "regional": 0}[layer.nat]
