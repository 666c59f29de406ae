"""Machines: launch templates, capacity blocks, Auto Scaling tags and schedules, account-wide EC2 defaults."""

import base64
import binascii

from pulumi_embedded.engine.provider import UNKNOWN, CheckFailure, Properties
from pulumi_embedded.providers.aws.catalogue.references import EXTERNAL_KEY, EXTERNAL_ROLE
from pulumi_embedded.providers.aws.kind import FALSE, TRUE, AwsKind, Facts, Naming, Ref, const
from pulumi_embedded.providers.aws.rules import Failures, among, between, exclusive, zone

_VOLUME = "blockDeviceMappings[].ebs"
_EBS = "EBS user guide, volume types"
_GP3_IOPS_PER_GIB, _GP3_IOPS_PER_MIB = 500, 4


def _volumes(inputs: Properties, _: str) -> Failures:
    """What EC2 refuses only when an instance starts, hours after the template was accepted."""
    for index, mapping in enumerate(inputs.get("blockDeviceMappings") or []):
        ebs = mapping.get("ebs") if isinstance(mapping, dict) else None
        if not isinstance(ebs, dict):
            continue
        path = f"blockDeviceMappings[{index}].ebs"
        size, iops, throughput = ebs.get("volumeSize"), ebs.get("iops"), ebs.get("throughput")
        if ebs.get("kmsKeyId") is not None and ebs.get("encrypted") not in ("true", UNKNOWN):
            yield CheckFailure(f"{path}.kmsKeyId", 'needs encrypted "true"')
        if throughput is not None and ebs.get("volumeType") not in ("gp3", UNKNOWN):
            yield CheckFailure(f"{path}.throughput", "only gp3 volumes take a throughput")
        if ebs.get("volumeType") != "gp3":
            continue
        if isinstance(iops, (int, float)) and isinstance(size, (int, float)) and iops > size * _GP3_IOPS_PER_GIB:
            yield CheckFailure(
                f"{path}.iops", f"gp3 gives at most {_GP3_IOPS_PER_GIB} IOPS a GiB: {iops:g} need {iops / 500:g} GiB, not {size:g}"
            )
        if isinstance(throughput, (int, float)) and throughput > (iops if isinstance(iops, (int, float)) else 3000) / _GP3_IOPS_PER_MIB:
            yield CheckFailure(f"{path}.throughput", f"gp3 gives 1 MiB/s for each 4 IOPS: {throughput:g} need {throughput * 4:g} IOPS")


def _user_data(inputs: Properties, _: str) -> Failures:
    text = inputs.get("userData")
    if not isinstance(text, str) or text == UNKNOWN:
        return
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        yield CheckFailure("userData", "InvalidUserData.Malformed: must be base64")
        return
    if len(data) > 16_384:
        yield CheckFailure("userData", f"{len(data)} bytes; EC2 allows 16384")


def _reservation(inputs: Properties, _: str) -> Failures:
    given = inputs.get("capacityReservationSpecification")
    if (
        isinstance(given, dict)
        and given.get("capacityReservationTarget")
        and given.get("capacityReservationPreference") in ("none", "open")
    ):
        yield CheckFailure("capacityReservationSpecification.capacityReservationPreference", "open and none exclude a target")


def _version(facts: Facts) -> object:
    """Each change of the data is a new version: counted by the provider in `extra`."""
    return facts.extra.get("version", 1) if facts.known else UNKNOWN


def _default_version(facts: Facts) -> object:
    return _version(facts) if facts.inputs.get("updateDefaultVersion") else 1


KINDS = (
    AwsKind(
        type="aws:ec2/launchTemplate:LaunchTemplate",
        operation="ec2.CreateLaunchTemplate.LaunchTemplateData",
        api={
            "name": "ec2.CreateLaunchTemplate:LaunchTemplateName",
            "description": "ec2.CreateLaunchTemplate:VersionDescription",
            "tags": "",
            "vpcSecurityGroupIds": "securityGroupIds",
            "securityGroupNames": "securityGroups",
        },
        id="lt-0{hex}",
        arn="arn:aws:ec2:{region}:{account}:launch-template/{id}",
        named=Naming(longest=125),
        references={
            "vpcSecurityGroupIds[]": Ref("security group", "free", "InvalidGroup.NotFound"),
            "networkInterfaces[].securityGroups[]": Ref("security group", "free", "InvalidGroup.NotFound"),
            "networkInterfaces[].subnetId": Ref("subnet", "free", "InvalidSubnetID.NotFound"),
            "iamInstanceProfile.arn": Ref("instance profile ARN", "free", "InvalidIamInstanceProfileArn", EXTERNAL_ROLE),
            "iamInstanceProfile.name": Ref("instance profile", "free", "InvalidIamInstanceProfileName"),
            f"{_VOLUME}.kmsKeyId": Ref("KMS key", "free", "InvalidParameterValue", EXTERNAL_KEY),
            "placement.groupName": Ref("placement group", "free", "InvalidPlacementGroup.Unknown"),
            "placement.groupId": Ref("placement group id", "free", "InvalidPlacementGroup.Unknown"),
            "capacityReservationSpecification.capacityReservationTarget.capacityReservationId": Ref(
                "capacity reservation", "free", "InvalidCapacityReservationId.NotFound"
            ),
        },
        handles={"launch template": ("id",), "launch template name": ("name",)},
        outputs={"latestVersion": _version, "defaultVersion": _default_version},
        volatile=("latestVersion", "defaultVersion"),
        replaces=("name", "namePrefix"),
        ordered=("blockDeviceMappings", "networkInterfaces"),
        rules=(
            exclusive("defaultVersion", "updateDefaultVersion"),
            exclusive("vpcSecurityGroupIds", "securityGroupNames"),
            between("metadataOptions.httpPutResponseHopLimit", 1, 64, "EC2 API reference"),
            between(f"{_VOLUME}.volumeSize", 1, 65536, _EBS),
            between(f"{_VOLUME}.iops", 100, 256_000, _EBS),
            between(f"{_VOLUME}.throughput", 125, 2000, _EBS),
            between(f"{_VOLUME}.volumeInitializationRate", 100, 300, _EBS),
            between("networkInterfaces[].networkCardIndex", 0, 31, "EC2 API reference"),
            among("networkInterfaces[].interfaceType", ("interface", "efa", "efa-only"), "EC2 API reference"),
            zone("placement.availabilityZone"),
            _volumes,
            _user_data,
            _reservation,
        ),
    ),
    AwsKind(
        type="aws:ec2/capacityBlockReservation:CapacityBlockReservation",
        operation="ec2.PurchaseCapacityBlock",
        id="cr-0{hex}",
        arn="arn:aws:ec2:{region}:{account}:capacity-reservation/{id}",
        handles={"capacity reservation": ("id",)},
        outputs={
            "createdDate": "{created}",
            "startDate": "{created}",
            "endDateType": const("limited"),
            "reservationType": const("capacity-block"),
            "tenancy": const("default"),
            "ebsOptimized": FALSE,
        },
        absent=dict.fromkeys(
            ("availabilityZone", "endDate", "instanceCount", "instanceType", "outpostArn", "placementGroupArn"),
            "an offering's content is known to AWS alone",
        ),
        updatable=False,
    ),
    AwsKind(
        type="aws:autoscaling/tag:Tag",
        operation="autoscaling.CreateOrUpdateTags",
        api={"tag": "Tags"},
        id=lambda f: f"{f.inputs['autoscalingGroupName']},{f.inputs['tag']['key']}" if f.known else UNKNOWN,
        references={"autoscalingGroupName": Ref("Auto Scaling group", "falls", "ValidationError")},
        replaces=("autoscalingGroupName", "tag.key"),
    ),
    AwsKind(
        type="aws:autoscaling/schedule:Schedule",
        operation="autoscaling.PutScheduledUpdateGroupAction",
        id="{scheduledActionName}",
        arn="arn:aws:autoscaling:{region}:{account}:scheduledUpdateGroupAction:{hex}:autoScalingGroupName/{autoscalingGroupName}"
        ":scheduledActionName/{scheduledActionName}",
        references={"autoscalingGroupName": Ref("Auto Scaling group", "falls", "ValidationError")},
        replaces=("autoscalingGroupName", "scheduledActionName"),
        outputs={"desiredCapacity": const(-1), "maxSize": const(-1), "minSize": const(-1)},
    ),
    AwsKind(
        type="aws:autoscaling/lifecycleHook:LifecycleHook",
        operation="autoscaling.PutLifecycleHook",
        id="{name}",
        named=Naming(longest=255, prefix=""),
        references={
            "autoscalingGroupName": Ref("Auto Scaling group", "falls", "ValidationError"),
            "roleArn": Ref("role ARN", "free", "ValidationError", EXTERNAL_ROLE),
        },
        outputs={"defaultResult": const("ABANDON")},
        replaces=("name", "autoscalingGroupName"),
        rules=(
            between("heartbeatTimeout", 30, 7200, "Auto Scaling API reference"),
            among(
                "lifecycleTransition",
                ("autoscaling:EC2_INSTANCE_LAUNCHING", "autoscaling:EC2_INSTANCE_TERMINATING"),
                "Auto Scaling API reference",
            ),
        ),
    ),
    AwsKind(type="aws:ebs/encryptionByDefault:EncryptionByDefault", id="terraform-{hex}", outputs={"enabled": TRUE}),
    AwsKind(
        type="aws:ebs/defaultKmsKey:DefaultKmsKey",
        id="{keyArn}",
        references={"keyArn": Ref("KMS key", "free", "InvalidKey.NotFound", EXTERNAL_KEY)},
        updatable=False,
    ),
    AwsKind(
        type="aws:ec2/instanceMetadataDefaults:InstanceMetadataDefaults",
        operation="ec2.ModifyInstanceMetadataDefaults",
        id="{region}",
        rules=(between("httpPutResponseHopLimit", -1, 64, "EC2 API reference"),),
    ),
)
