"""The VPC of one environment: subnets by zone, a chosen way out, private ways to AWS, and a record of what flows.

The traps: whatever the zones and the way out, each zone keeps its own route table, so that changing the choice
replaces routes only; and a node that loses its way out before it is gone cannot give its network interfaces back,
which then hold the subnet, so nodes depend on `ready`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Literal

import pulumi
import pulumi_aws as aws

from components.naming import ROLE_LIMIT, physical
from components.network import endpoints
from components.network.plan import Tier, ZoneSubnets, subnet_name, subnets
from components.permissions import Statement, document, service_trust
from headway.contract.arithmetic.month import GATEWAY_ENDPOINTS

NatChoice = Literal["none", "single", "per-zone", "regional"]
ANYWHERE = "0.0.0.0/0"


@dataclass(frozen=True, kw_only=True)
class NetworkArgs:
    """`cluster_name` is the physical name that tags and role names carry; `logs_key_arn` encrypts the flow log;
    `deployers` are ARNs. `nat_zone` has the only gateway, if there is one: it must stay, for a gateway that moves is made anew while the
    first one has its address (pulumi/pulumi-aws#1483).
    """

    cluster_name: str
    account_id: str
    region: str
    cidr: IPv4Network
    zones: tuple[str, ...]
    nat: NatChoice
    nat_zone: str
    endpoints: tuple[str, ...]
    deployers: tuple[str, ...]
    flow_log_days: int
    logs_key_arn: pulumi.Input[str]
    boundary: str | None = None


class Network(pulumi.ComponentResource):
    """Creates a VPC with public, private and intra subnets in each zone, routes, NAT gateways, VPC endpoints and flow
    logs.

    Subnet ids are given by zone, in the order of the zones' letters.
    """

    vpc_id: pulumi.Output[str]
    private_subnet_ids: dict[str, pulumi.Output[str]]
    """By zone; nodes and pods live here."""
    intra_subnet_ids: dict[str, pulumi.Output[str]]
    """By zone; the control plane's interfaces live here."""
    ready: list[pulumi.Resource]
    """Every part of a node's way to AWS and to the internet: there before the first node, and gone after the last."""

    def __init__(self, name: str, args: NetworkArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("headway:network:Network", name, {}, opts)
        self._name, self._args, self._child = name, args, pulumi.ResourceOptions(parent=self)
        self._plan = subnets(args.cidr, args.zones)
        self.ready = []

        self._vpc = self._create_vpc()
        public = self._create_subnets("public", {"kubernetes.io/role/elb": "1"})
        private = self._create_subnets("private", {"kubernetes.io/role/internal-elb": "1"})
        intra = self._create_subnets("intra", {})
        internet = self._create_public_routes(public)
        private_tables = self._create_private_routes(private, self._create_nat(public, internet))
        intra_table = self._create_intra_routes(intra)
        self._create_endpoints(private, [*private_tables.values(), intra_table])
        self._create_flow_log()

        self.vpc_id = self._vpc.id
        self.private_subnet_ids = {zone: subnet.id for zone, subnet in private.items()}
        self.intra_subnet_ids = {zone: subnet.id for zone, subnet in intra.items()}
        self.register_outputs({"vpc_id": self.vpc_id})

    def _tags(self, role: str) -> dict[str, str]:
        return {"Name": f"{self._args.cluster_name}-{role}"}

    def _create_vpc(self) -> aws.ec2.Vpc:
        vpc = aws.ec2.Vpc(
            f"{self._name}-vpc",
            cidr_block=str(self._args.cidr),
            enable_dns_hostnames=True,
            enable_dns_support=True,
            tags=self._tags("vpc"),
            opts=self._child,
        )
        # Every VPC has a default security group that lets its members talk; with no rules it lets nobody.
        aws.ec2.DefaultSecurityGroup(f"{self._name}-closed", vpc_id=vpc.id, tags=self._tags("closed"), opts=self._child)
        return vpc

    def _create_subnets(self, tier: Tier, tags: dict[str, str]) -> dict[str, aws.ec2.Subnet]:
        def cidr(zone: ZoneSubnets) -> str:
            return str({"public": zone.public, "private": zone.private, "intra": zone.intra}[tier])

        return {
            zone.zone: aws.ec2.Subnet(
                f"{self._name}-{tier}-{zone.letter}",
                vpc_id=self._vpc.id,
                availability_zone=zone.zone,
                cidr_block=cidr(zone),
                map_public_ip_on_launch=False,
                tags={"Name": subnet_name(self._args.cluster_name, tier, zone.zone), **tags},
                opts=self._child,
            )
            for zone in self._plan
        }

    def _create_public_routes(self, public: dict[str, aws.ec2.Subnet]) -> aws.ec2.InternetGateway:
        gateway = aws.ec2.InternetGateway(f"{self._name}-internet", vpc_id=self._vpc.id, tags=self._tags("internet"), opts=self._child)
        table = aws.ec2.RouteTable(f"{self._name}-public", vpc_id=self._vpc.id, tags=self._tags("public"), opts=self._child)
        out = aws.ec2.Route(
            f"{self._name}-public-out",
            route_table_id=table.id,
            destination_cidr_block=ANYWHERE,
            gateway_id=gateway.id,
            opts=self._child,
        )
        self.ready += [out, *(self._associate(f"public-{zone[-1]}", subnet, table) for zone, subnet in public.items())]
        return gateway

    def _create_private_routes(
        self, private: dict[str, aws.ec2.Subnet], ways_out: dict[str, aws.ec2.NatGateway]
    ) -> dict[str, aws.ec2.RouteTable]:
        tables: dict[str, aws.ec2.RouteTable] = {}
        for zone, subnet in private.items():
            role = f"private-{zone[-1]}"
            tables[zone] = aws.ec2.RouteTable(f"{self._name}-{role}", vpc_id=self._vpc.id, tags=self._tags(role), opts=self._child)
            self.ready.append(self._associate(role, subnet, tables[zone]))
            if zone in ways_out:
                out = aws.ec2.Route(
                    f"{self._name}-{role}-out",
                    route_table_id=tables[zone].id,
                    destination_cidr_block=ANYWHERE,
                    nat_gateway_id=ways_out[zone].id,
                    opts=self._child,
                )
                self.ready.append(out)
        return tables

    def _create_nat(self, public: dict[str, aws.ec2.Subnet], internet: aws.ec2.InternetGateway) -> dict[str, aws.ec2.NatGateway]:
        """The NAT gateway that each zone routes through; AWS detaches no internet gateway while one of them has an
        address.
        """
        opts = pulumi.ResourceOptions(parent=self, depends_on=[internet])
        zones = [zone.zone for zone in self._plan]
        match self._args.nat:
            case "none":
                return {}
            case "regional":
                gateway = aws.ec2.NatGateway(
                    f"{self._name}-nat",
                    availability_mode="regional",
                    connectivity_type="public",
                    vpc_id=self._vpc.id,
                    tags=self._tags("nat"),
                    opts=opts,
                )
                return dict.fromkeys(zones, gateway)
            case "single":
                return dict.fromkeys(zones, self._create_zonal_nat("nat", public[self._args.nat_zone], opts))
            case "per-zone":
                return {zone: self._create_zonal_nat(f"nat-{zone[-1]}", public[zone], opts) for zone in zones}

    def _create_zonal_nat(self, role: str, subnet: aws.ec2.Subnet, opts: pulumi.ResourceOptions) -> aws.ec2.NatGateway:
        address = aws.ec2.Eip(f"{self._name}-{role}-address", domain="vpc", tags=self._tags(role), opts=opts)
        return aws.ec2.NatGateway(
            f"{self._name}-{role}",
            allocation_id=address.allocation_id,
            connectivity_type="public",
            subnet_id=subnet.id,
            tags=self._tags(role),
            opts=opts,
        )

    def _create_intra_routes(self, intra: dict[str, aws.ec2.Subnet]) -> aws.ec2.RouteTable:
        table = aws.ec2.RouteTable(f"{self._name}-intra", vpc_id=self._vpc.id, tags=self._tags("intra"), opts=self._child)
        for zone, subnet in intra.items():
            self._associate(f"intra-{zone[-1]}", subnet, table)
        return table

    def _associate(self, role: str, subnet: aws.ec2.Subnet, table: aws.ec2.RouteTable) -> aws.ec2.RouteTableAssociation:
        return aws.ec2.RouteTableAssociation(f"{self._name}-{role}", subnet_id=subnet.id, route_table_id=table.id, opts=self._child)

    def _create_endpoints(self, private: dict[str, aws.ec2.Subnet], tables: Sequence[aws.ec2.RouteTable]) -> None:
        if not self._args.endpoints:
            return
        group = aws.ec2.SecurityGroup(
            f"{self._name}-endpoints",
            vpc_id=self._vpc.id,
            description="Interface endpoints: HTTPS from inside the VPC",
            tags=self._tags("endpoints"),
            opts=self._child,
        )
        https = aws.vpc.SecurityGroupIngressRule(
            f"{self._name}-endpoints-https",
            security_group_id=group.id,
            description="HTTPS from inside the VPC",
            cidr_ipv4=str(self._args.cidr),
            ip_protocol="tcp",
            from_port=443,
            to_port=443,
            opts=self._child,
        )
        self.ready.append(https)
        for service in sorted(self._args.endpoints):
            gateway = service in GATEWAY_ENDPOINTS
            endpoint = aws.ec2.VpcEndpoint(
                f"{self._name}-endpoint-{service.replace('.', '-')}",
                vpc_id=self._vpc.id,
                service_name=f"com.amazonaws.{self._args.region}.{service}",
                vpc_endpoint_type="Gateway" if gateway else "Interface",
                policy=document(
                    *endpoints.statements(
                        service, self._args.account_id, self._args.region, self._args.deployers, nat=self._args.nat != "none"
                    )
                ),
                route_table_ids=[table.id for table in tables] if gateway else None,
                subnet_ids=None if gateway else [subnet.id for subnet in private.values()],
                security_group_ids=None if gateway else [group.id],
                private_dns_enabled=None if gateway else True,
                tags=self._tags(service),
                opts=self._child,
            )
            self.ready.append(endpoint)

    def _create_flow_log(self) -> None:
        group_name = f"/aws/vpc/{self._args.cluster_name}/flow"
        group = aws.cloudwatch.LogGroup(
            f"{self._name}-flow",
            name=group_name,
            retention_in_days=self._args.flow_log_days,
            kms_key_id=self._args.logs_key_arn,
            opts=self._child,
        )
        role = aws.iam.Role(
            f"{self._name}-flow-role",
            name=physical(self._args.cluster_name, "flow-log", limit=ROLE_LIMIT),
            description="VPC flow logs write to their log group",
            assume_role_policy=service_trust("vpc-flow-logs.amazonaws.com", self._args.account_id),
            permissions_boundary=self._args.boundary,
            opts=self._child,
        )
        groups = f"arn:aws:logs:{self._args.region}:{self._args.account_id}:log-group"
        arn = f"{groups}:{group_name}"
        # EC2 asks for it too (VPC user guide, "IAM role for publishing flow logs"), and it is asked of all groups.
        find = Statement(sid="FindGroup", actions=["logs:DescribeLogGroups"], resources=[f"{groups}:*"])
        write = Statement(
            sid="WriteFlowLog",
            actions=["logs:CreateLogStream", "logs:DescribeLogStreams", "logs:PutLogEvents"],
            resources=[arn, f"{arn}:log-stream:*"],
        )
        may = aws.iam.RolePolicy(f"{self._name}-flow-write", role=role.name, name="write", policy=document(find, write), opts=self._child)
        aws.ec2.FlowLog(
            f"{self._name}-flow-log",
            vpc_id=self._vpc.id,
            traffic_type="ALL",
            log_destination_type="cloud-watch-logs",
            log_destination=group.arn,
            iam_role_arn=role.arn,
            max_aggregation_interval=60,
            tags=self._tags("flow"),
            # Else its first deliveries may come before the role may write, and on the way down its last.
            opts=pulumi.ResourceOptions(parent=self, depends_on=[may]),
        )
