"""The ModelService component: registers what `manifests` builds for one model service, and the queues of its batch
variant.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pulumi
import pulumi_aws as aws

from components.manifests import register
from components.model_service.manifests import ServicePlan


@dataclass(frozen=True, kw_only=True)
class ModelServiceArgs:
    """`service` shapes everything; the ARN of the key that messages are encrypted with only flows. `after` is what
    the first pod needs: the tenant's foundation.
    """

    service: ServicePlan
    data_key_arn: pulumi.Input[str]
    after: Sequence[pulumi.Resource] = field(default=())


class ModelService(pulumi.ComponentResource):
    """Creates what serves one model: its route, and for each live release a Deployment, a Service and an autoscaler."""

    hosts: list[str]
    """Where applications reach it."""
    releases: dict[str, int]
    """Weight by arm, in percent."""
    objects: dict[str, pulumi.Resource]

    def __init__(self, name: str, args: ModelServiceArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("headway:model_service:ModelService", name, {}, opts)

        def options(needed: list[pulumi.Resource]) -> pulumi.ResourceOptions:
            return pulumi.ResourceOptions(parent=self, depends_on=[*args.after, *needed])

        before: list[pulumi.Resource] = []
        for role, arguments in args.service.queues:
            child = pulumi.ResourceOptions(parent=self, depends_on=list(before))
            before.append(aws.sqs.Queue(f"{name}-{role}", kms_master_key_id=args.data_key_arn, opts=child, **arguments))
        self.objects = register(name, args.service.manifests(), options)
        self.hosts = args.service.public_hosts
        self.releases = {arm.key: arm.weight.whole_percent for arm in args.service.traffic.ordered}
        self.register_outputs({"hosts": self.hosts, "releases": self.releases})
