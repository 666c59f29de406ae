"""How large each node group is now, and of which image: the second live read of a plan, beside the release ledger's (`stacks/live.py`).

`components/nodes/scaling.py` says why a plan from the stack file alone would end nodes that serve.
"""

import re
from collections.abc import Mapping

import pulumi
import pulumi_aws as aws

from components.nodes.scaling import LiveGroup

_MADE_UP = re.compile(r"-[0-9a-f]{7}$")
"""What Pulumi's autonaming adds to a logical name."""


def live_sizes(cluster: str, provider: aws.Provider) -> Mapping[str, LiveGroup]:
    """The groups of `cluster` by logical name; none before there is a cluster. Of two, while one replaces the other,
    the larger.
    """
    options = pulumi.InvokeOptions(provider=provider)
    found: dict[str, LiveGroup] = {}
    if cluster not in aws.eks.get_clusters(opts=options).names:
        return found
    for name in sorted(aws.eks.get_node_groups(cluster_name=cluster, opts=options).names):
        group = aws.eks.get_node_group(cluster_name=cluster, node_group_name=name, opts=options)
        (size,), logical = group.scaling_configs, _MADE_UP.sub("", name)
        live = LiveGroup(desired=size.desired_size, min=size.min_size, max=size.max_size, release=group.release_version)
        found[logical] = max(live, found.get(logical, live), key=lambda group: group.desired)
    return found
