"""Networks: VPC, subnets, gateways, routes, endpoints, security groups, flow logs."""

from pulumi_embedded.engine.provider import UNKNOWN, CheckFailure, Properties
from pulumi_embedded.providers.aws.catalogue.references import (
    ALLOCATION,
    EXTERNAL_ROLE,
    OTHER_ACCOUNT,
    ROUTE_TABLE,
    SECURITY_GROUP,
    SUBNET,
    VPC,
)
from pulumi_embedded.providers.aws.kind import FALSE, TRUE, AwsKind, Facts, Naming, Ref, account, const, later, made
from pulumi_embedded.providers.aws.offerings import zone_id, zones
from pulumi_embedded.providers.aws.rules import (
    Failures,
    between,
    exclusive,
    instance_type,
    network,
    numbers_among,
    one_of,
    policy,
    required,
    zone,
)

_OWNER = account
_EC2_ARN = "arn:aws:ec2:{region}:{account}:"
_GROUP_RULES = ("ingress", "egress")
_IN_A_VPC = required("vpcId", "the simulated account has no default VPC")


def _subnet_zone(facts: Facts) -> str:
    """EC2 picks a zone for a subnet that names none; here always the first."""
    return zones(facts.region)[0] if facts.known else UNKNOWN


def _subnet_zone_id(facts: Facts) -> str:
    zone = facts.inputs.get("availabilityZone") or _subnet_zone(facts)
    return UNKNOWN if zone == UNKNOWN else zone_id(zone)


def _address(facts: Facts) -> str:
    """A public address of the documentation range 203.0.113.0/24 (RFC 5737)."""
    return f"203.0.113.{int(facts.digest('address')[:4], 16) % 254 + 1}" if facts.known else UNKNOWN


def _is_regional(facts: Facts) -> bool:
    return facts.inputs.get("availabilityMode") == "regional"


def _nat(inputs: Properties, _: str) -> Failures:
    regional = inputs.get("availabilityMode") == "regional"
    public = inputs.get("connectivityType", "public") == "public"
    if regional:
        if inputs.get("vpcId") is None:
            yield CheckFailure("vpcId", "is required by a regional NAT gateway")
        for name in ("subnetId", "allocationId", "privateIp", "secondaryAllocationIds"):
            if inputs.get(name) is not None:
                yield CheckFailure(name, "belongs to a zonal NAT gateway; a regional one takes vpcId and availabilityZoneAddresses")
        if not public:
            yield CheckFailure("connectivityType", "a regional NAT gateway must be public")
        return
    if inputs.get("subnetId") is None:
        yield CheckFailure("subnetId", "is required by a zonal NAT gateway; a regional one needs availabilityMode regional and vpcId")
    if public and inputs.get("allocationId") is None:
        yield CheckFailure("allocationId", "a public zonal NAT gateway needs an Elastic IP; give one or make it private")
    if not public and inputs.get("allocationId") is not None:
        yield CheckFailure("allocationId", "a private NAT gateway takes no Elastic IP")


def _endpoint(inputs: Properties, region: str) -> Failures:
    kind, name = inputs.get("vpcEndpointType", "Gateway"), inputs.get("serviceName")
    if (
        isinstance(name, str)
        and name != UNKNOWN
        and not name.startswith((f"com.amazonaws.{region}.", f"com.amazonaws.vpce.{region}.", "aws."))
    ):
        yield CheckFailure("serviceName", f'"{name}" is no service of {region}; AWS names them com.amazonaws.{region}.<service>')
    if kind == "Gateway":
        if isinstance(name, str) and name != UNKNOWN and not name.endswith((".s3", ".dynamodb")):
            yield CheckFailure("vpcEndpointType", "only s3 and dynamodb have gateway endpoints; all others need Interface")
        for field in ("subnetIds", "securityGroupIds", "privateDnsEnabled"):
            if inputs.get(field):
                yield CheckFailure(field, "belongs to an interface endpoint; a gateway endpoint takes routeTableIds")
    elif kind == "Interface" and inputs.get("routeTableIds"):
        yield CheckFailure("routeTableIds", "belongs to a gateway endpoint; an interface endpoint takes subnetIds and securityGroupIds")


def _flow_log(inputs: Properties, _: str) -> Failures:
    watched = any(inputs.get(name) for name in ("vpcId", "subnetId", "eniId", "regionalNatGatewayId"))
    if watched and inputs.get("trafficType") is None:
        yield CheckFailure("trafficType", "is required for a VPC, subnet or interface: ACCEPT, REJECT or ALL")
    kind = inputs.get("logDestinationType", "cloud-watch-logs")
    if kind == "cloud-watch-logs" and inputs.get("iamRoleArn") is None:
        yield CheckFailure("iamRoleArn", "is required to deliver to CloudWatch Logs: a role that vpc-flow-logs.amazonaws.com may assume")
    if inputs.get("logDestination") is None:
        yield CheckFailure("logDestination", "is required: ARN of a log group or bucket")


_GATEWAYS = (
    "carrierGatewayId", "coreNetworkArn", "egressOnlyGatewayId", "gatewayId", "localGatewayId", "natGatewayId", "networkInterfaceId",
    "odbNetworkArn", "transitGatewayId", "vpcEndpointId", "vpcPeeringConnectionId",
)  # fmt: skip
_ROUTE_REFERENCES = {
    "natGatewayId": Ref("NAT gateway", "free", "InvalidNatGatewayID.NotFound"),
    "gatewayId": Ref("internet gateway", "free", "InvalidInternetGatewayID.NotFound", external="local"),
    "vpcEndpointId": Ref("VPC endpoint", "free", "InvalidVpcEndpointId.NotFound"),
}

KINDS = (
    AwsKind(
        type="aws:ec2/vpc:Vpc",
        operation="ec2.CreateVpc",
        id="vpc-0{hex}",
        arn=_EC2_ARN + "vpc/{id}",
        handles={
            "VPC": ("id",),
            "security group": ("defaultSecurityGroupId",),
            "network ACL": ("defaultNetworkAclId",),
            "route table": ("mainRouteTableId",),
        },
        outputs={
            "enableDnsSupport": TRUE,
            "enableDnsHostnames": FALSE,
            "enableNetworkAddressUsageMetrics": FALSE,
            "instanceTenancy": const("default"),
            "defaultNetworkAclId": made("acl-"),
            "mainRouteTableId": made("rtb-"),
            "defaultRouteTableId": made("rtb-"),
            "defaultSecurityGroupId": made("sg-"),
            "dhcpOptionsId": made("dopt-"),
            "ownerId": _OWNER,
        },
        absent={"ipv6AssociationId": "no IPv6"},
        replaces=("cidrBlock", "ipv4IpamPoolId", "ipv4NetmaskLength", "instanceTenancy"),
        rules=(network("cidrBlock", 16, 28), one_of("cidrBlock", "ipv4IpamPoolId")),
    ),
    AwsKind(
        type="aws:ec2/vpcIpv4CidrBlockAssociation:VpcIpv4CidrBlockAssociation",
        id="vpc-cidr-assoc-0{hex}",
        references={"vpcId": VPC},
        updatable=False,
        rules=(network("cidrBlock", 16, 28),),
    ),
    AwsKind(
        type="aws:ec2/subnet:Subnet",
        operation="ec2.CreateSubnet",
        api={"privateDnsHostnameTypeOnLaunch": "ec2.ModifySubnetAttribute:PrivateDnsHostnameTypeOnLaunch"},
        id="subnet-0{hex}",
        arn=_EC2_ARN + "subnet/{id}",
        references={"vpcId": VPC},
        handles={"subnet": ("id",)},
        outputs={
            "availabilityZone": _subnet_zone,
            "availabilityZoneId": _subnet_zone_id,
            "assignIpv6AddressOnCreation": FALSE,
            "enableDns64": FALSE,
            "mapPublicIpOnLaunch": FALSE,
            "privateDnsHostnameTypeOnLaunch": const("ip-name"),
            "ownerId": _OWNER,
        },
        absent={"ipv6CidrBlockAssociationId": "no IPv6"},
        replaces=("vpcId", "cidrBlock", "availabilityZone", "availabilityZoneId", "ipv6Native"),
        rules=(network("cidrBlock", 16, 28), zone("availabilityZone"), exclusive("availabilityZone", "availabilityZoneId")),
    ),
    AwsKind(
        type="aws:ec2/internetGateway:InternetGateway",
        id="igw-0{hex}",
        arn=_EC2_ARN + "internet-gateway/{id}",
        references={"vpcId": VPC},
        handles={"internet gateway": ("id",)},
        outputs={"ownerId": _OWNER},
    ),
    AwsKind(
        type="aws:ec2/eip:Eip",
        operation="ec2.AllocateAddress",
        id="eipalloc-0{hex}",
        arn=_EC2_ARN + "elastic-ip/{id}",
        handles={"Elastic IP allocation": ("id",)},
        outputs={
            "domain": const("vpc"),
            "allocationId": "{id}",
            "publicIp": _address,
            "publicDns": lambda f: f"ec2-{_address(f).replace('.', '-')}.{f.region}.compute.amazonaws.com" if f.known else UNKNOWN,
            "publicIpv4Pool": const("amazon"),
            "networkBorderGroup": lambda f: f.region,
            "ptrRecord": const(""),
        },
        absent={
            "associationId": "the double attaches no interfaces",
            "carrierIp": "no Wavelength zones",
            "customerOwnedIp": "no Outposts",
            "privateDns": "the double attaches no interfaces",
            "privateIp": "the double attaches no interfaces",
        },
        replaces=("domain", "address", "publicIpv4Pool", "networkBorderGroup"),
    ),
    AwsKind(
        type="aws:ec2/natGateway:NatGateway",
        operation="ec2.CreateNatGateway",
        id="nat-0{hex}",
        references={
            "subnetId": SUBNET,
            "vpcId": VPC,
            "allocationId": ALLOCATION,
            "secondaryAllocationIds[]": ALLOCATION,
            "availabilityZoneAddresses[].allocationIds[]": ALLOCATION,
        },
        handles={"NAT gateway": ("id",), "route table": ("routeTableId",)},
        outputs={
            "availabilityMode": const("zonal"),
            "connectivityType": const("public"),
            "associationId": made("eipassoc-"),
            "networkInterfaceId": lambda f: "" if _is_regional(f) else f.made("eni-"),
            "privateIp": lambda f: "" if _is_regional(f) else f"10.255.{int(f.digest('ip')[:2], 16)}.10" if f.known else UNKNOWN,
            "publicIp": lambda f: "" if f.inputs.get("connectivityType") == "private" else _address(f),
            "autoProvisionZones": lambda f: "enabled" if _is_regional(f) else "disabled",
            "autoScalingIps": lambda f: "enabled" if _is_regional(f) else "disabled",
            "regionalNatGatewayAutoMode": lambda f: "enabled" if _is_regional(f) else "disabled",
            "regionalNatGatewayAddresses": lambda f: [] if f.known or not _is_regional(f) else UNKNOWN,
            "routeTableId": lambda f: f.made("rtb-") if _is_regional(f) else "",
        },
        replaces=("subnetId", "vpcId", "allocationId", "connectivityType", "availabilityMode", "privateIp"),
        rules=(_nat, zone("availabilityZoneAddresses[].availabilityZone")),
    ),
    AwsKind(
        type="aws:ec2/routeTable:RouteTable",
        id="rtb-0{hex}",
        arn=_EC2_ARN + "route-table/{id}",
        references={"vpcId": VPC, **{f"routes[].{name}": ref for name, ref in _ROUTE_REFERENCES.items()}},
        handles={"route table": ("id",)},
        outputs={"ownerId": _OWNER},
        replaces=("vpcId",),
        rules=(network("routes[].cidrBlock", 0, 32),),
    ),
    AwsKind(
        type="aws:ec2/defaultRouteTable:DefaultRouteTable",
        id="{defaultRouteTableId}",
        arn=_EC2_ARN + "route-table/{id}",
        references={
            "defaultRouteTableId": Ref("route table", "falls", "InvalidRouteTableID.NotFound"),
            **{f"routes[].{name}": ref for name, ref in _ROUTE_REFERENCES.items()},
        },
        outputs={"ownerId": _OWNER},
        absent={"vpcId": "adopts a table that the double keeps inside its VPC"},
        replaces=("defaultRouteTableId",),
    ),
    AwsKind(
        type="aws:ec2/route:Route",
        id="r-{routeTableId}{hex}",
        references={"routeTableId": Ref("route table", "falls", "InvalidRouteTableID.NotFound"), **_ROUTE_REFERENCES},
        outputs={"origin": const("CreateRoute"), "state": const("active")},
        absent={"instanceId": "no instance routes", "instanceOwnerId": "no instance routes"},
        replaces=("routeTableId", "destinationCidrBlock", "destinationIpv6CidrBlock", "destinationPrefixListId"),
        rules=(
            one_of("destinationCidrBlock", "destinationIpv6CidrBlock", "destinationPrefixListId"),
            one_of(*_GATEWAYS),
            network("destinationCidrBlock", 0, 32),
        ),
    ),
    AwsKind(
        type="aws:ec2/routeTableAssociation:RouteTableAssociation",
        id="rtbassoc-0{hex}",
        references={
            "routeTableId": ROUTE_TABLE,
            "subnetId": Ref("subnet", "falls", "InvalidSubnetID.NotFound"),
            "gatewayId": Ref("internet gateway", "falls", "InvalidInternetGatewayID.NotFound"),
        },
        replaces=("subnetId", "gatewayId"),
        rules=(one_of("subnetId", "gatewayId"),),
    ),
    AwsKind(
        type="aws:ec2/vpcEndpoint:VpcEndpoint",
        operation="ec2.CreateVpcEndpoint",
        api={"policy": "policyDocument", "subnetIds": "subnetIds"},
        id="vpce-0{hex}",
        arn=_EC2_ARN + "vpc-endpoint/{id}",
        references={"vpcId": VPC, "routeTableIds[]": ROUTE_TABLE, "subnetIds[]": SUBNET, "securityGroupIds[]": SECURITY_GROUP},
        handles={"VPC endpoint": ("id",)},
        outputs={
            "vpcEndpointType": const("Gateway"),
            "privateDnsEnabled": FALSE,
            "ipAddressType": lambda f: "ipv4" if f.inputs.get("vpcEndpointType") == "Interface" else "",
            "cidrBlocks": later([]),
            "dnsEntries": lambda f: [{"dnsName": f.text("{id}-{hex}.vpce.amazonaws.com"), "hostedZoneId": f.made("Z", 14)}],
            "networkInterfaceIds": lambda f: (
                [f.made(f"eni-{n}") for n in range(len(f.inputs.get("subnetIds") or []))] if f.known else UNKNOWN
            ),
            "ownerId": _OWNER,
            "prefixListId": lambda f: f.made("pl-") if f.inputs.get("vpcEndpointType", "Gateway") == "Gateway" else "",
            "requesterManaged": FALSE,
            "state": const("available"),
            "policy": const('{"Statement":[{"Action":"*","Effect":"Allow","Principal":"*","Resource":"*"}],"Version":"2008-10-17"}'),
            "securityGroupIds": later([]),
            "subnetIds": later([]),
            "routeTableIds": later([]),
        },
        replaces=("vpcId", "serviceName", "vpcEndpointType", "serviceRegion", "resourceConfigurationArn", "serviceNetworkArn"),
        rules=(one_of("serviceName", "resourceConfigurationArn", "serviceNetworkArn"), _endpoint, policy("policy", "resource")),
    ),
    AwsKind(
        type="aws:ec2/vpcEndpointPolicy:VpcEndpointPolicy",
        id="{vpcEndpointId}",
        references={"vpcEndpointId": Ref("VPC endpoint", "falls", "InvalidVpcEndpointId.NotFound")},
        replaces=("vpcEndpointId",),
        rules=(policy("policy", "resource"),),
    ),
    AwsKind(
        type="aws:ec2/vpcEndpointRouteTableAssociation:VpcEndpointRouteTableAssociation",
        id="a-{vpcEndpointId}{hex}",
        references={"vpcEndpointId": Ref("VPC endpoint", "falls", "InvalidVpcEndpointId.NotFound"), "routeTableId": ROUTE_TABLE},
        updatable=False,
    ),
    AwsKind(
        type="aws:ec2/vpcEndpointSubnetAssociation:VpcEndpointSubnetAssociation",
        id="a-{vpcEndpointId}{hex}",
        references={"vpcEndpointId": Ref("VPC endpoint", "falls", "InvalidVpcEndpointId.NotFound"), "subnetId": SUBNET},
        updatable=False,
    ),
    AwsKind(
        type="aws:ec2/flowLog:FlowLog",
        operation="ec2.CreateFlowLogs",
        api={"tagFieldSpecifications.resourceType": "", "eniId": "", "subnetId": ""},
        id="fl-0{hex}",
        arn=_EC2_ARN + "vpc-flow-log/{id}",
        references={
            "vpcId": Ref("VPC", "falls", "InvalidVpcId.NotFound"),
            "subnetId": Ref("subnet", "falls", "InvalidSubnetID.NotFound"),
            "regionalNatGatewayId": Ref("NAT gateway", "falls", "InvalidNatGatewayID.NotFound"),
            "iamRoleArn": Ref("role ARN", "free", "InvalidParameter", EXTERNAL_ROLE),
            "logDestination": Ref("log destination", "free", "InvalidParameter", OTHER_ACCOUNT, r"(arn:aws:s3:::[^/]+)|(.+?)(?::\*)?$"),
        },
        outputs={
            "logDestinationType": const("cloud-watch-logs"),
            "logFormat": const(
                "${version} ${account-id} ${interface-id} ${srcaddr} ${dstaddr} ${srcport} ${dstport} ${protocol} "
                "${packets} ${bytes} ${start} ${end} ${action} ${log-status}"
            ),
            "maxAggregationInterval": const(600),
        },
        updatable=False,
        rules=(
            one_of("vpcId", "subnetId", "eniId", "transitGatewayId", "transitGatewayAttachmentId", "regionalNatGatewayId"),
            numbers_among("maxAggregationInterval", (60, 600), "EC2 API reference"),
            _flow_log,
        ),
    ),
    AwsKind(
        type="aws:ec2/defaultNetworkAcl:DefaultNetworkAcl",
        id="{defaultNetworkAclId}",
        arn=_EC2_ARN + "network-acl/{id}",
        references={"defaultNetworkAclId": Ref("network ACL", "falls", "InvalidNetworkAclID.NotFound")},
        outputs={"ownerId": _OWNER},
        absent={"vpcId": "adopts an ACL that the double keeps inside its VPC"},
        replaces=("defaultNetworkAclId",),
    ),
    AwsKind(
        type="aws:ec2/tag:Tag",
        id="{resourceId},{key}",
        references={},
        replaces=("resourceId", "key"),
    ),
    AwsKind(
        type="aws:ec2/placementGroup:PlacementGroup",
        operation="ec2.CreatePlacementGroup",
        id="{name}",
        arn=_EC2_ARN + "placement-group/{name}",
        named=Naming(longest=255, prefix=""),
        handles={"placement group": ("name",), "placement group id": ("placementGroupId",)},
        outputs={"placementGroupId": made("pg-")},
        updatable=False,
    ),
    AwsKind(
        type="aws:ec2/capacityReservation:CapacityReservation",
        operation="ec2.CreateCapacityReservation",
        id="cr-0{hex}",
        arn=_EC2_ARN + "capacity-reservation/{id}",
        handles={"capacity reservation": ("id",)},
        outputs={
            "ebsOptimized": FALSE,
            "endDateType": const("unlimited"),
            "ephemeralStorage": FALSE,
            "instanceMatchCriteria": const("open"),
            "ownerId": _OWNER,
            "tenancy": const("default"),
        },
        replaces=(
            "availabilityZone",
            "instancePlatform",
            "instanceType",
            "ebsOptimized",
            "ephemeralStorage",
            "instanceMatchCriteria",
            "tenancy",
        ),
        rules=(zone("availabilityZone"), instance_type("instanceType"), between("instanceCount", 1, 1000, "EC2 API reference")),
    ),
)
