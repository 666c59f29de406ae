"""The address plan: which subnet of which zone gets which addresses. Pure.

The VPC is cut into eight equal blocks. Blocks 0 to 5 are the private subnets of zones a to f, block 6 holds the
public subnets, block 7 the intra subnets. A subnet's addresses depend on the VPC's range and its zone's letter
alone: the trap avoided is a plan by position in a list, where a zone added in front moves, and so replaces, every
subnet behind it.
"""

from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Literal

Tier = Literal["public", "private", "intra"]

ZONE_LETTERS = "abcdef"
BLOCK_BITS = 3
PUBLIC_BITS = 6
"""A 64th of the VPC: load balancers take 8 addresses a zone and 100 at most while they scale."""
INTRA_PREFIX = 28
"""EKS puts a few network interfaces of the control plane into each, and asks for 6 free addresses, better 16."""


@dataclass(frozen=True, kw_only=True)
class ZoneSubnets:
    """The addresses of one zone. Nodes and pods live in `private`, load balancers in `public`, the control plane's
    interfaces in `intra`.
    """

    zone: str
    private: IPv4Network
    public: IPv4Network
    intra: IPv4Network

    @property
    def letter(self) -> str:
        return self.zone[-1]


def subnet_name(cluster: str, tier: Tier, zone: str) -> str:
    """Tag `Name` of a zone's subnet, by which the Load Balancer Controller finds it too."""
    return f"{cluster}-{tier}-{zone[-1]}"


def subnets(cidr: IPv4Network, zones: tuple[str, ...]) -> tuple[ZoneSubnets, ...]:
    """The subnets of `zones`, by zone. Raises ValueError for a zone that has no place in the plan."""
    blocks = list(cidr.subnets(prefixlen_diff=BLOCK_BITS))
    public = list(blocks[6].subnets(new_prefix=cidr.prefixlen + PUBLIC_BITS))
    intra = blocks[7].subnets(new_prefix=INTRA_PREFIX)
    intra_of = {letter: next(intra) for letter in ZONE_LETTERS}
    found: list[ZoneSubnets] = []
    for zone in sorted(set(zones)):
        index = ZONE_LETTERS.find(zone[-1:])
        if index < 0 or not zone:
            raise ValueError(f"{zone!r} has no place in the plan, which holds the zones {', '.join(ZONE_LETTERS)} of a region")
        found.append(ZoneSubnets(zone=zone, private=blocks[index], public=public[index], intra=intra_of[zone[-1]]))
    return tuple(found)
