"""How many nodes a group is told to have, where the autoscaler owns their number. Pure.

The trap: an update of a group's bounds sends EKS all three numbers. Of what the state remembers, the number of nodes
is the one of the group's creation: EKS would end nodes that serve until it is reached, or refuse a minimum above it
("Minimum capacity 2 can't be greater than desired size 1", terraform-aws-modules/terraform-aws-eks#3521).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from headway.contract.pool_parts import Size

DESIRED = "scalingConfig.desiredSize"
"""The input that is left to the autoscaler."""


@dataclass(frozen=True, kw_only=True)
class LiveGroup:
    """What EKS says of a group: its nodes, the bounds that it has now, and the release of its image."""

    desired: int
    min: int
    max: int
    release: str = ""


def desired(size: Size, live: LiveGroup | None) -> tuple[int, Sequence[str]]:
    """The number to send, and the inputs whose changes are ignored: with other bounds the live number, brought between
    them; otherwise nobody looks at it.
    """
    if live is None or (live.min, live.max) == (size.min, size.max):
        return size.min, [DESIRED]
    return min(max(live.desired, size.min), size.max), []
