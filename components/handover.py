"""What a layer hands to the layers above it: one parameter in SSM for each layer, with nothing secret in it.

Not outputs of stacks: who reads another stack's output on a self-managed backend reads its whole state. A parameter is
read by its path, and a policy names the path. The kubeconfig holds no credentials: whoever uses it signs its token with
an AWS identity of their own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws

from headway.wire import handover_path

LONGEST = 4096
"""Characters of a standard parameter's value (Systems Manager API reference, PutParameter)."""


@dataclass(frozen=True, kw_only=True)
class HandoverArgs:
    """`values` by name; none of them may be secret."""

    environment: str
    layer: str
    values: Mapping[str, pulumi.Input[Any]]
    after: Sequence[pulumi.Resource] = ()
    """All that must stand before anything is built upon the layer: values alone are known long before it does."""


class Handover(pulumi.ComponentResource):
    """Publishes what the layers above need of this one."""

    def __init__(self, name: str, args: HandoverArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("headway:handover:Handover", name, {}, opts)
        aws.ssm.Parameter(
            f"{name}-parameter",
            name=f"{handover_path(args.environment)}/{args.layer}",
            description=f"What the layers above {args.environment}-{args.layer} stand on; nothing secret",
            type="String",
            tier="Standard",
            value=pulumi.Output.json_dumps(dict(args.values), separators=(",", ":"), sort_keys=True),
            opts=pulumi.ResourceOptions(parent=self, depends_on=list(args.after)),
        )
        self.register_outputs({})


def kubeconfig(cluster: str, region: str, endpoint: str, authority: str) -> dict[str, Any]:
    """The way to an EKS cluster without credentials: AWS CLI makes a token of whatever AWS identity runs it.

    Source: EKS user guide, "Connect kubectl to an EKS cluster by creating a kubeconfig file". `authority` is base64.
    """
    login = {
        "apiVersion": "client.authentication.k8s.io/v1beta1",
        "command": "aws",
        "args": ["--region", region, "eks", "get-token", "--cluster-name", cluster, "--output", "json"],
        "interactiveMode": "Never",
    }
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": cluster, "cluster": {"server": endpoint, "certificate-authority-data": authority}}],
        "users": [{"name": cluster, "user": {"exec": login}}],
        "contexts": [{"name": cluster, "context": {"cluster": cluster, "user": cluster}}],
        "current-context": cluster,
    }
