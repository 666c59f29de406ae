"""How many nodes a group is told to have, where the autoscaler owns their number. Pure.

The trap: an update of a group's bounds sends EKS all three numbers. Of what the state remembers, the number of nodes
is the one of the group's creation: EKS would end nodes that serve until it is reached, or refuse a minimum above it
("Minimum capacity 2 can't be greater than desired size 1", terraform-aws-modules/terraform-aws-eks#3521). A group that is made anew would
get that number too, and the nodes of the former one have five minutes to be drained (EKS user guide, "Delete a managed node group").
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headway.contract.pool_parts import Size

DESIRED = "scalingConfig.desiredSize"
"""The input that is left to the autoscaler."""


def system_group(pool: str) -> str:
    """Logical name of the system pool's group."""
    return f"{pool}-nodes"


def zone_group(pool: str, zone: str) -> str:
    """Logical name of a GPU pool's group in a zone."""
    return f"{pool}-{zone[-1]}"


@dataclass(frozen=True, kw_only=True)
class LiveGroup:
    """What EKS says of a group: its nodes, the bounds that it has now, the release of its image, how which instances are bought, in which zones,
    and their labels.
    """

    desired: int
    min: int
    max: int
    release: str = ""
    bought: str = ""
    instance_types: tuple[str, ...] = ()
    zones: frozenset[str] = frozenset()
    labels: Mapping[str, str] = field(default_factory=dict[str, str])


def anew(live: LiveGroup | None, bought: str, instance_types: Sequence[str], zones: Sequence[str]) -> bool:
    """Whether the group is made a second time, because none of these can be changed (hashicorp/terraform-provider-aws,
    `internal/service/eks/node_group.go`, ForceNew; of zones its `subnet_ids`).
    """
    if live is None:
        return False
    otherwise = bool(live.bought) and (live.bought, live.instance_types) != (bought, tuple(instance_types))
    return otherwise or (bool(live.zones) and live.zones != frozenset(zones))


def desired(size: Size, live: LiveGroup | None, *, again: bool = False) -> tuple[int, Sequence[str]]:
    """The number to send, and the inputs whose changes are ignored: with other bounds, or for a group that is made `again`, the live number,
    brought between them; otherwise nobody looks at it.
    """
    if live is None or (not again and (live.min, live.max) == (size.min, size.max)):
        return size.min, [DESIRED]
    return min(max(live.desired, size.min), size.max), []
