"""Security groups and their rules."""

from pulumi_embedded.engine.provider import CheckFailure, Properties
from pulumi_embedded.providers.aws.catalogue.references import (
    VPC,
)
from pulumi_embedded.providers.aws.kind import FALSE, AwsKind, Naming, Ref, account, const, later, made
from pulumi_embedded.providers.aws.rules import (
    Failures,
    among,
    between,
    network,
    one_of,
    required,
)

_OWNER = account
_EC2_ARN = "arn:aws:ec2:{region}:{account}:"
_GROUP_RULES = ("ingress", "egress")
_IN_A_VPC = required("vpcId", "the simulated account has no default VPC")


def _group_rule(inputs: Properties, _: str) -> Failures:
    protocol, low, high = inputs.get("ipProtocol"), inputs.get("fromPort"), inputs.get("toPort")
    if protocol == "-1":
        for name in ("fromPort", "toPort"):
            if inputs.get(name) is not None:
                yield CheckFailure(name, "a rule for all protocols (-1) has no ports")
    elif protocol in ("tcp", "udp", "6", "17"):
        for name in ("fromPort", "toPort"):
            if inputs.get(name) is None:
                yield CheckFailure(name, f"is required by protocol {protocol}")
        if isinstance(low, (int, float)) and isinstance(high, (int, float)) and low > high:
            yield CheckFailure("toPort", f"{high} is below fromPort {low}")


_RULE_OUTPUTS = {"securityGroupRuleId": "{id}"}
_RULE_TARGETS = ("cidrIpv4", "cidrIpv6", "prefixListId", "referencedSecurityGroupId")
_RULE_REPLACES = ("securityGroupId",)


def _rule_kind(name: str) -> AwsKind:
    return AwsKind(
        type=f"aws:vpc/securityGroup{name}Rule:SecurityGroup{name}Rule",
        id="sgr-0{hex}",
        arn=_EC2_ARN + "security-group-rule/{id}",
        references={
            "securityGroupId": Ref("security group", "falls", "InvalidGroup.NotFound"),
            "referencedSecurityGroupId": Ref("security group", "blocks", "InvalidGroup.NotFound"),
        },
        outputs=_RULE_OUTPUTS,
        replaces=_RULE_REPLACES,
        rules=(
            one_of(*_RULE_TARGETS),
            network("cidrIpv4", 0, 32),
            between("fromPort", -1, 65535, "EC2 API reference"),
            between("toPort", -1, 65535, "EC2 API reference"),
            _group_rule,
        ),
    )


KINDS = (
    AwsKind(
        type="aws:ec2/securityGroup:SecurityGroup",
        id="sg-0{hex}",
        arn=_EC2_ARN + "security-group/{id}",
        named=Naming(longest=255),
        references={
            "vpcId": VPC,
            "ingress[].securityGroups[]": Ref("security group", "blocks", "InvalidGroup.NotFound"),
            "egress[].securityGroups[]": Ref("security group", "blocks", "InvalidGroup.NotFound"),
        },
        handles={"security group": ("id",)},
        outputs={
            "description": const("Managed by Pulumi"),
            "ownerId": _OWNER,
            "ingress": later([]),
            "egress": later([]),
        },
        replaces=("name", "namePrefix", "description", "vpcId"),
        rules=(_IN_A_VPC, *(network(f"{name}[].cidrBlocks[]", 0, 32) for name in _GROUP_RULES)),
    ),
    AwsKind(
        type="aws:ec2/defaultSecurityGroup:DefaultSecurityGroup",
        id="sg-0{hex}",
        arn=_EC2_ARN + "security-group/{id}",
        references={
            "vpcId": Ref("VPC", "falls", "InvalidVpcID.NotFound"),
            "ingress[].securityGroups[]": Ref("security group", "blocks", "InvalidGroup.NotFound"),
            "egress[].securityGroups[]": Ref("security group", "blocks", "InvalidGroup.NotFound"),
        },
        outputs={
            "name": const("default"),
            "description": const("default VPC security group"),
            "ownerId": _OWNER,
            "ingress": later([]),
            "egress": later([]),
        },
        absent={"namePrefix": "the default group has a fixed name"},
        replaces=("vpcId",),
        rules=(_IN_A_VPC,),
    ),
    AwsKind(
        type="aws:ec2/securityGroupRule:SecurityGroupRule",
        id="sgrule-{hex}",
        references={
            "securityGroupId": Ref("security group", "falls", "InvalidGroup.NotFound"),
            "sourceSecurityGroupId": Ref("security group", "blocks", "InvalidGroup.NotFound"),
        },
        outputs={"securityGroupRuleId": made("sgr-"), "self": FALSE},
        replaces=(
            "securityGroupId",
            "type",
            "protocol",
            "fromPort",
            "toPort",
            "cidrBlocks",
            "sourceSecurityGroupId",
            "self",
            "prefixListIds",
        ),
        rules=(
            among("type", ("ingress", "egress"), "the provider"),
            network("cidrBlocks[]", 0, 32),
            between("fromPort", -1, 65535, "EC2 API reference"),
            between("toPort", -1, 65535, "EC2 API reference"),
        ),
    ),
    _rule_kind("Ingress"),
    _rule_kind("Egress"),
)
