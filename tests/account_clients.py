"""Clients of AWS for a simulated account: what the doubles made, as the services would list it, and beside it what a test planted in moto.

Answers what `headway leftovers` asks (its module names the calls), in the shape of botocore's service models.
"""

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from headway.environment.aws import Clients
from headway.wire import ENVIRONMENT
from pulumi_embedded.providers.aws.account import AccountObject, SimulatedAccount
from pulumi_embedded.providers.aws.catalogue import CATALOGUE
from pulumi_embedded.providers.aws.naming import is_made_up
from sandbox.cloud import objectstore

Listing = Callable[..., Sequence[Mapping[str, Any]]]
STORES = ("s3", "sqs")


def account_clients(
    held: Callable[[], Sequence[AccountObject]], account: str, region: str, stores: Callable[[str], Any] | None = None
) -> Clients:
    """`held` answers what the account holds now; `stores` makes clients of its object store, where that is no moto of this process."""
    seen = _Account(held, account)

    def client(service: str) -> Any:
        if service in STORES and stores is not None:
            return stores(service)
        return _Merged(objectstore.client(service, region, None, account), seen.listings(service), seen.answers(service))

    return client


class _Merged:
    """A client of moto whose lists and answers begin with those of the account."""

    def __init__(self, planted: Any, listings: Mapping[str, tuple[str, Listing]], answers: Mapping[str, Callable[..., Any]]) -> None:
        self._planted, self._listings, self._answers = planted, listings, answers

    def get_paginator(self, operation: str) -> Any:
        key, listing = self._listings.get(operation, ("", lambda **_: ()))
        inner = self._planted.get_paginator(operation)

        class Pages:
            def paginate(self, **arguments: Any) -> Iterator[Any]:
                if key:
                    yield {key: list(listing(**arguments))}
                yield from inner.paginate(**arguments)

        return Pages()

    def __getattr__(self, name: str) -> Any:
        return self._answers.get(name) or getattr(self._planted, name)


class _Account:
    def __init__(self, held: Callable[[], Sequence[AccountObject]], account: str) -> None:
        self._held, self._id = held, account

    def listings(self, service: str) -> Mapping[str, tuple[str, Listing]]:
        """By operation: the key of its list, and the list."""
        return {
            "iam": {"list_roles": ("Roles", lambda: [{"RoleName": each.id} for each in self._of("iam/role:Role")])},
            "logs": {"describe_log_groups": ("logGroups", self._log_groups)},
            "resourcegroupstaggingapi": {"get_resources": ("ResourceTagMappingList", self._tagged)},
            "ssm": {"get_parameters_by_path": ("Parameters", self._parameters)},
        }.get(service, {})

    def answers(self, service: str) -> Mapping[str, Callable[..., Any]]:
        return {
            "eks": {"describe_cluster": self._cluster},
            "iam": {"list_role_tags": self._role_tags},
            "kms": {"describe_key": lambda **_: {"KeyMetadata": {"KeyState": "Enabled"}}},
            "sts": {"get_caller_identity": lambda: {"Account": self._id}},
        }.get(service, {})

    def _of(self, type: str) -> list[AccountObject]:
        return [each for each in self._held() if each.type == f"aws:{type}"]

    def _tagged(self, **asked: Any) -> list[Mapping[str, Any]]:
        wanted = {each["Key"]: each["Values"] for each in asked["TagFilters"]}
        found = [(str(each.outputs.get("arn", "")), each.outputs.get("tagsAll") or {}) for each in self._held()]
        return [{"ResourceARN": arn} for arn, tags in found if arn and all(tags.get(key) in values for key, values in wanted.items())]

    def _log_groups(self, **asked: Any) -> list[Mapping[str, Any]]:
        groups = self._of("cloudwatch/logGroup:LogGroup")
        return [{"logGroupName": each.id, "retentionInDays": 7} for each in groups if each.id.startswith(asked["logGroupNamePrefix"])]

    def _parameters(self, **asked: Any) -> list[Mapping[str, Any]]:
        return [
            {"Name": each.inputs["name"], "Value": each.inputs["value"]}
            for each in self._of("ssm/parameter:Parameter")
            if each.inputs["name"].startswith(asked["Path"])
        ]

    def _role_tags(self, **asked: Any) -> Mapping[str, Any]:
        (role,) = [each for each in self._of("iam/role:Role") if each.id == asked["RoleName"]]
        return {"Tags": [{"Key": key, "Value": value} for key, value in (role.outputs.get("tagsAll") or {}).items()]}

    def _cluster(self, name: str) -> Any:
        if any(each.inputs.get("name") == name for each in self._of("eks/cluster:Cluster")):
            return {"cluster": {"name": name}}
        error = {"Error": {"Code": "ResourceNotFoundException", "Message": f"No cluster found for name: {name}."}}
        raise objectstore.client("eks", "us-east-1", None, self._id).exceptions.ResourceNotFoundException(error, "DescribeCluster")


def planted(clients: Clients, cluster: str, environment: str, zone: str) -> Mapping[str, str]:
    """What a cluster's own controllers make and may leave, by kind: ids. Their tags are those of the EBS CSI driver and of the AWS Load
    Balancer Controller (docs of both: "Tagging", "Resource tags"); EKS writes its log group again after its deletion.
    """
    ec2, own = clients("ec2"), [{"Key": f"kubernetes.io/cluster/{cluster}", "Value": "owned"}]
    balancers = [{"Key": "elbv2.k8s.aws/cluster", "Value": cluster}]
    vpc = ec2.create_vpc(CidrBlock="10.250.0.0/16")["Vpc"]["VpcId"]
    subnet = ec2.create_subnet(VpcId=vpc, CidrBlock="10.250.1.0/24", AvailabilityZone=zone)["Subnet"]["SubnetId"]
    volume = ec2.create_volume(AvailabilityZone=zone, Size=20, TagSpecifications=[{"ResourceType": "volume", "Tags": own}])
    group = ec2.create_security_group(
        GroupName="k8s-traffic",
        Description="of balancers",
        VpcId=vpc,
        TagSpecifications=[{"ResourceType": "security-group", "Tags": balancers}],
    )
    balancer = clients("elbv2").create_load_balancer(Name="k8s-istio", Type="network", Subnets=[subnet], Tags=balancers)["LoadBalancers"][0]
    clients("logs").create_log_group(logGroupName=f"/aws/eks/{cluster}/cluster")
    tagged = clients("sqs").create_queue(QueueName="forgotten", tags={ENVIRONMENT: environment})["QueueUrl"]
    return {
        "volume": volume["VolumeId"],
        "security group": group["GroupId"],
        "load balancer": balancer["LoadBalancerArn"],
        "log group": f"/aws/eks/{cluster}/cluster",
        "sqs": tagged.rpartition("/")[2],
    }


def adoption_rows(held: Sequence[AccountObject]) -> list[dict[str, Any]]:
    """What a person writes down of an account for `stacks/adopted`: each object's id, and its name if the provider made that up."""
    written: list[dict[str, Any]] = []
    for each in held:
        row: dict[str, Any] = {"type": each.type, "name": each.name, "id": each.id}
        named = CATALOGUE[each.type].named
        if named and isinstance(given := each.inputs.get(named.field), str) and is_made_up(named, each.name, given):
            row["inputs"] = {named.field: given}
        written.append(row)
    return written


def held_in(file: Path) -> list[AccountObject]:
    """Every object of the account in a file, in the order in which they were made."""
    with closing(sqlite3.connect(file)) as rows:
        types = [type for (type,) in rows.execute("SELECT DISTINCT type FROM objects")]
    account = SimulatedAccount(file)
    try:
        return sorted((each for type in types for each in account.of(type)), key=lambda each: each.key)
    finally:
        account.close()
