"""Ends the EC2 instance behind a node, in its Auto Scaling group, which then starts another one."""

from typing import Any

from headway.node_health.facts import GpuNode
from headway.problem import UserError


class AutoScaling:
    """Ends instances through their group, so that the group's size stays. `client` is boto3's `autoscaling`; made at
    first use if None."""

    def __init__(self, region: str | None = None, client: Any = None) -> None:
        self._region, self._client = region, client

    def __call__(self, node: GpuNode) -> None:
        """Raises UserError when the node is no EC2 instance, or AWS refuses."""
        from botocore.exceptions import BotoCoreError, ClientError

        instance = node.provider_id.rpartition("/")[2]
        if not node.provider_id.startswith("aws://") or not instance.startswith("i-"):
            raise UserError(
                f"Node {node.name} has no EC2 instance behind it (provider id {node.provider_id!r}).",
                "It cannot be replaced from here; it stays in quarantine.",
                "End its machine where it was made, or release it.",
            )
        try:
            self._autoscaling().terminate_instance_in_auto_scaling_group(InstanceId=instance, ShouldDecrementDesiredCapacity=False)
        except (BotoCoreError, ClientError) as failure:
            raise UserError(
                f"AWS did not end {instance}: {failure}",
                "The node stays in quarantine, and its group keeps paying for it.",
                "Check the loop's identity: it needs autoscaling:TerminateInstanceInAutoScalingGroup on the cluster's groups.",
            ) from None

    def _autoscaling(self) -> Any:
        if self._client is None:
            import boto3

            self._client = boto3.client("autoscaling", region_name=self._region)
        return self._client


def refused(node: GpuNode) -> None:
    """A replacer for who may not replace."""
    raise UserError(
        f"Node {node.name} must be replaced, and this loop may not end instances.",
        "It stays in quarantine.",
        "Run `headway nodes watch --replace` with AWS credentials, or end the instance yourself.",
    )
