"""How long Pulumi waits while EKS replaces the nodes of a group. Pure.

The trap: the provider gives up after 60 minutes (hashicorp/terraform-provider-aws, `internal/service/eks/node_group.go`), EKS does not. The
state then says that the update was made, so the next `up` waits for nothing and begins the next zone beside it.
"""

import pulumi

PROVIDERS_MINUTES = 60
"""What the provider waits without being told."""

NODE_MINUTES = 30
"""Most that one node takes. EKS gives up when its pods are not evicted after 15 minutes, and waits one more (EKS user guide, "Understand each
phase of node updates"); the rest is for EC2 to end it and for the next one to join.
"""


def wait(nodes: int, at_once: int = 1) -> pulumi.CustomTimeouts:
    """For a group that has `nodes` at most and replaces `at_once` of them together."""
    return pulumi.CustomTimeouts(update=f"{max(PROVIDERS_MINUTES, -(-nodes // at_once) * NODE_MINUTES)}m")
