"""When EKS replaces the nodes of a group, and how long Pulumi waits for it. Pure.

The traps: an update that names no release of the image takes the newest one (EKS API reference, UpdateNodegroupVersion), and the provider
names it only when it changes: a new template alone would bring another driver, and there is no way back. And the provider gives up after 60
minutes (hashicorp/terraform-provider-aws, `internal/service/eks/node_group.go`), EKS does not. The state then says that the update was
made, so the next `up` waits for nothing and begins the next zone beside it.
"""

from collections.abc import Sequence

import pulumi

from components.nodes.scaling import LiveGroup

TEMPLATE = "launchTemplate.version"
"""The input that waits for the next release."""

PROVIDERS_MINUTES = 60
"""What the provider waits without being told."""

NODE_MINUTES = 30
"""Most that one node takes. EKS gives up when its pods are not evicted after 15 minutes, and waits one more (EKS user guide, "Understand each
phase of node updates"); the rest is for EC2 to end it and for the next one to join.
"""


def postponed(live: LiveGroup | None, release: str, *, again: bool = False) -> Sequence[str]:
    """Inputs whose changes are ignored while a group keeps its `release`; one that is made `again` is told both."""
    return [TEMPLATE] if live is not None and live.release == release and not again else []


def wait(nodes: int, at_once: int = 1) -> pulumi.CustomTimeouts:
    """For a group that has `nodes` at most and replaces `at_once` of them together."""
    return pulumi.CustomTimeouts(update=f"{max(PROVIDERS_MINUTES, -(-nodes // at_once) * NODE_MINUTES)}m")
