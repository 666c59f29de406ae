"""The launch template of a node group, with the settings that no node goes without.

The trap: network interfaces in a template would replace the cluster's security group, so it has none.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pulumi
import pulumi_aws as aws

from components.nodes.launch import ROOT_DEVICE, NodeOptions, root_volume, user_data
from headway.contract.pool_parts import Disk


@dataclass(frozen=True, kw_only=True)
class TemplateArgs:
    """`more` are further arguments of the template, for one kind of pool only; `tags` are put on instances and
    volumes.
    """

    disk: Disk
    options: NodeOptions
    volumes_key_arn: pulumi.Input[str]
    tags: Mapping[str, str]
    more: Mapping[str, Any]


def create(name: str, args: TemplateArgs, opts: pulumi.ResourceOptions) -> aws.ec2.LaunchTemplate:
    """The template called `name`."""
    volume = root_volume(args.disk)
    # Default tags of the provider do not reach what a launch template makes.
    tags = [aws.ec2.LaunchTemplateTagSpecificationArgs(resource_type=kind, tags=dict(args.tags)) for kind in ("instance", "volume")]
    return aws.ec2.LaunchTemplate(
        name,
        description="Nodes with an encrypted root volume and instance metadata out of reach of pods",
        update_default_version=True,
        user_data=user_data(args.options),
        block_device_mappings=[
            aws.ec2.LaunchTemplateBlockDeviceMappingArgs(
                device_name=ROOT_DEVICE,
                ebs=aws.ec2.LaunchTemplateBlockDeviceMappingEbsArgs(
                    delete_on_termination="true",
                    encrypted="true",
                    kms_key_id=args.volumes_key_arn,
                    volume_type="gp3",
                    volume_size=volume.gibibytes,
                    iops=volume.iops,
                    throughput=volume.mebibytes_per_second,
                ),
            )
        ],
        # One hop: the node itself, never a pod. Pods get credentials by Pod Identity.
        metadata_options=aws.ec2.LaunchTemplateMetadataOptionsArgs(
            http_endpoint="enabled", http_tokens="required", http_put_response_hop_limit=1, instance_metadata_tags="disabled"
        ),
        monitoring=aws.ec2.LaunchTemplateMonitoringArgs(enabled=True),
        tag_specifications=tags,
        opts=opts,
        **args.more,
    )


def reference(template: aws.ec2.LaunchTemplate) -> aws.eks.NodeGroupLaunchTemplateArgs:
    """How a node group names its template: by version, so that a changed one reaches nodes with the group's next release (`rolling`)."""
    return aws.eks.NodeGroupLaunchTemplateArgs(id=template.id, version=template.latest_version.apply(lambda version: str(int(version))))
