"""How large each node group is now: the second live read of a plan, beside the release ledger's (`stacks/live.py`).

`components/nodes/scaling.py` says why a plan from the stack file alone would end nodes that serve.
"""

import re
from collections.abc import Mapping

import pulumi
import pulumi_aws as aws

from components.nodes.scaling import LiveSize

_MADE_UP = re.compile(r"-[0-9a-f]{7}$")
"""What Pulumi's autonaming adds to a logical name."""


def live_sizes(cluster: str, provider: aws.Provider) -> Mapping[str, LiveSize]:
    """The groups of `cluster` by logical name; none before there is a cluster. Of two, while one replaces the other,
    the larger.
    """
    options = pulumi.InvokeOptions(provider=provider)
    found: dict[str, LiveSize] = {}
    if cluster not in aws.eks.get_clusters(opts=options).names:
        return found
    for name in sorted(aws.eks.get_node_groups(cluster_name=cluster, opts=options).names):
        (size,) = aws.eks.get_node_group(cluster_name=cluster, node_group_name=name, opts=options).scaling_configs
        live, logical = LiveSize(desired=size.desired_size, min=size.min_size, max=size.max_size), _MADE_UP.sub("", name)
        found[logical] = max(live, found.get(logical, live), key=lambda group: group.desired)
    return found
