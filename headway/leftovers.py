"""What AWS may still hold, and charge, after an environment was destroyed: found by tags and names, told with the
command that removes it.

Pulumi deletes what it made; the cluster itself made more (load balancers of Services, volumes of claims, network
interfaces of pods), and EKS writes its log group once more after it was deleted. Reads only, never deletes. While the
cluster lives, the same things are in use, so callers ask `cluster_exists` first.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headway.environment.aws import Clients, pages
from headway.environment.handover import handed_over
from headway.problem import Exit, UserError
from headway.wire import ARTIFACT_BUCKET_OUTPUT, ENVIRONMENT, TENANT, witness_path


@dataclass(frozen=True, kw_only=True)
class Leftover:
    """One thing. `why` says by what it was recognised, `remove` is a command for a shell."""

    kind: str
    id: str
    why: str
    state: str
    remove: str


@dataclass(frozen=True, kw_only=True)
class Search:
    """Which environment's things are looked for; `cluster` is the physical name of its EKS cluster."""

    environment: str
    cluster: str
    account_id: str
    region: str

    @property
    def owned(self) -> tuple[tuple[str, str], ...]:
        """Tags that say whose a thing is: the cluster's controllers', the network plugin's, this project's."""
        return (
            (f"kubernetes.io/cluster/{self.cluster}", "owned"),
            ("aws:eks:cluster-name", self.cluster),
            ("cluster.k8s.amazonaws.com/name", self.cluster),
            ("elbv2.k8s.aws/cluster", self.cluster),
            ("eks:cluster-name", self.cluster),
            (ENVIRONMENT, self.environment),
        )

    def why(self, tags: Mapping[str, str]) -> str:
        """The tag by which a thing belongs to the environment; empty if it does not."""
        return next((f"tag {key}={value}" for key, value in self.owned if tags.get(key) == value), "")

    def command(self, service: str, *words: str) -> str:
        return " ".join(("aws", service, *words, "--region", self.region))


def check_account(search: Search, clients: Clients) -> None:
    """Raises UserError unless the credentials are those of the environment's account."""
    found = clients("sts").get_caller_identity()["Account"]
    if found != search.account_id:
        raise UserError(
            f"The credentials are of account {found}; {search.environment} is in account {search.account_id}.",
            "What was found there would not be this environment's.",
            "Choose the right credentials (AWS_PROFILE), or correct headway:account in the stack file.",
            Exit.ENVIRONMENT,
        )


def cluster_exists(search: Search, clients: Clients) -> bool:
    """Whether the environment's cluster is still there, so that what belongs to it is in use."""
    eks = clients("eks")
    try:
        eks.describe_cluster(name=search.cluster)
    except eks.exceptions.ResourceNotFoundException:
        return False
    return True


def leftovers(search: Search, clients: Clients) -> tuple[Leftover, ...]:
    """Everything of the environment that is still there, in the order in which it can be removed."""
    found = [leftover for finder in FINDERS for leftover in finder(search, clients)] + list(_witnesses(search, "", clients))
    seen = {leftover.id for leftover in found}
    return (*found, *(other for other in _others(search, clients) if other.id not in seen and not _within(other.id, seen)))


def tenant_leftovers(search: Search, tenant: str, clients: Clients) -> tuple[Leftover, ...]:
    """What AWS still holds of one tenant, while its environment lives: by tag, roles by name and tag, artifacts by
    prefix, and the witnesses of its chains. What stays on purpose is no leftover: those chains, in the ledger.
    """
    finders = (_of_tenant, _roles_of_tenant, _artifacts_of_tenant, _witnesses)
    return tuple(found for finder in finders for found in finder(search, tenant, clients))


def _of_tenant(search: Search, tenant: str, clients: Clients) -> Iterator[Leftover]:
    filters = [{"Key": ENVIRONMENT, "Values": [search.environment]}, {"Key": TENANT, "Values": [tenant]}]
    for found in pages(clients("resourcegroupstaggingapi"), "get_resources", "ResourceTagMappingList", TagFilters=filters):
        arn = found["ResourceARN"]
        service = arn.split(":")[2]
        if service != "iam":  # below, whether or not the service lists them here
            remove = f"# {service}: remove {arn} by its service's own command"
            yield Leftover(kind=service, id=arn, why=f"tag {TENANT}={tenant}", state="", remove=remove)


def _roles_of_tenant(search: Search, tenant: str, clients: Clients) -> Iterator[Leftover]:
    iam = clients("iam")
    for found in pages(iam, "list_roles", "Roles"):
        name = found["RoleName"]
        if name.startswith(f"{search.cluster}-"):
            tags = _tags(iam.list_role_tags(RoleName=name)["Tags"])
            if (tags.get(ENVIRONMENT), tags.get(TENANT)) == (search.environment, tenant):
                remove = f"aws iam delete-role --role-name {name}  # after its policies"
                yield Leftover(kind="role", id=name, why=f"tag {TENANT}={tenant}", state="", remove=remove)


def _artifacts_of_tenant(search: Search, tenant: str, clients: Clients) -> Iterator[Leftover]:
    bucket = handed_over(search.environment, clients).get("cluster", {}).get(ARTIFACT_BUCKET_OUTPUT)
    if not bucket:
        return
    count = sum(1 for _ in _objects(clients("s3"), bucket, f"{tenant}/"))
    if count:
        place = f"s3://{bucket}/{tenant}/"
        yield Leftover(
            kind="artifacts", id=place, why="the tenant's prefix", state=f"{count} objects", remove=f"aws s3 rm {place} --recursive"
        )


def _witnesses(search: Search, tenant: str, clients: Clients) -> Iterator[Leftover]:
    """Runners write them, so no stack knows them. One that stays refuses a tenant of the same name whose ledger begins anew."""
    path = f"{witness_path(search.environment)}/{tenant}".rstrip("/")
    for found in pages(clients("ssm"), "get_parameters_by_path", "Parameters", Path=path, Recursive=True):
        name = found["Name"]
        remove = search.command("ssm", "delete-parameter", "--name", name)
        yield Leftover(kind="ledger witness", id=name, why=f"name {path}/*", state=str(found["Value"])[:20], remove=remove)


def _objects(s3: Any, bucket: str, prefix: str) -> Iterator[Any]:
    for page in s3.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        yield from page.get("Contents", ())


def _tags(listed: Sequence[Mapping[str, str]]) -> dict[str, str]:
    return {tag["Key"]: tag["Value"] for tag in listed}


def _load_balancers(search: Search, clients: Clients) -> Iterator[Leftover]:
    elb = clients("elbv2")
    for each in _tagged(elb, list(pages(elb, "describe_load_balancers", "LoadBalancers")), "LoadBalancerArn"):
        if why := search.why(each.tags):
            arn = each.about["LoadBalancerArn"]
            remove = search.command("elbv2", "delete-load-balancer", "--load-balancer-arn", arn)
            yield Leftover(kind="load balancer", id=arn, why=why, state=each.about["State"]["Code"], remove=remove)
    for each in _tagged(elb, list(pages(elb, "describe_target_groups", "TargetGroups")), "TargetGroupArn"):
        if why := search.why(each.tags):
            arn = each.about["TargetGroupArn"]
            remove = search.command("elbv2", "delete-target-group", "--target-group-arn", arn)
            yield Leftover(kind="target group", id=arn, why=why, state="", remove=remove)


def _classic_load_balancers(search: Search, clients: Clients) -> Iterator[Leftover]:
    elb = clients("elb")
    names = [found["LoadBalancerName"] for found in pages(elb, "describe_load_balancers", "LoadBalancerDescriptions")]
    for some in _in_groups(names):
        for described in elb.describe_tags(LoadBalancerNames=some)["TagDescriptions"]:
            if why := search.why(_tags(described["Tags"])):
                name = described["LoadBalancerName"]
                remove = search.command("elb", "delete-load-balancer", "--load-balancer-name", name)
                yield Leftover(kind="load balancer", id=name, why=why, state="classic", remove=remove)


def _instances(search: Search, clients: Clients) -> Iterator[Leftover]:
    ec2 = clients("ec2")
    for reservation in pages(ec2, "describe_instances", "Reservations"):
        for found in reservation["Instances"]:
            state = found["State"]["Name"]
            if state != "terminated" and (why := search.why(_tags(found.get("Tags", ())))):
                id = found["InstanceId"]
                remove = search.command("ec2", "terminate-instances", "--instance-ids", id)
                yield Leftover(kind="instance", id=id, why=why, state=state, remove=remove)


def _interfaces(search: Search, clients: Clients) -> Iterator[Leftover]:
    ec2 = clients("ec2")
    for found in pages(ec2, "describe_network_interfaces", "NetworkInterfaces"):
        why = search.why(_tags(found.get("TagSet", ())))
        if not why and found.get("Description") == f"Amazon EKS {search.cluster}":
            why = "its description: a control plane interface of the cluster"
        if why:
            id = found["NetworkInterfaceId"]
            remove = search.command("ec2", "delete-network-interface", "--network-interface-id", id)
            yield Leftover(kind="network interface", id=id, why=why, state=found["Status"], remove=remove)


def _security_groups(search: Search, clients: Clients) -> Iterator[Leftover]:
    ec2 = clients("ec2")
    for found in pages(ec2, "describe_security_groups", "SecurityGroups"):
        if found["GroupName"] != "default" and (why := search.why(_tags(found.get("Tags", ())))):
            id = found["GroupId"]
            remove = search.command("ec2", "delete-security-group", "--group-id", id)
            yield Leftover(kind="security group", id=id, why=why, state=found["GroupName"], remove=remove)


def _volumes(search: Search, clients: Clients) -> Iterator[Leftover]:
    ec2 = clients("ec2")
    for found in pages(ec2, "describe_volumes", "Volumes"):
        if why := search.why(_tags(found.get("Tags", ()))):
            id = found["VolumeId"]
            remove = search.command("ec2", "delete-volume", "--volume-id", id)
            yield Leftover(kind="volume", id=id, why=why, state=f"{found['State']}, {found['Size']} GiB", remove=remove)
    for found in pages(ec2, "describe_snapshots", "Snapshots", OwnerIds=["self"]):
        if why := search.why(_tags(found.get("Tags", ()))):
            id = found["SnapshotId"]
            remove = search.command("ec2", "delete-snapshot", "--snapshot-id", id)
            yield Leftover(kind="snapshot", id=id, why=why, state=found["State"], remove=remove)


def _log_groups(search: Search, clients: Clients) -> Iterator[Leftover]:
    logs = clients("logs")
    prefixes = (f"/aws/eks/{search.cluster}/", f"/aws/vpc/{search.cluster}/", f"/aws/containerinsights/{search.cluster}/")
    for prefix in prefixes:
        for found in pages(logs, "describe_log_groups", "logGroups", logGroupNamePrefix=prefix):
            name, days = found["logGroupName"], found.get("retentionInDays")
            state = f"kept {days} days" if days else "kept for ever"
            remove = search.command("logs", "delete-log-group", "--log-group-name", name)
            yield Leftover(kind="log group", id=name, why=f"name {prefix}*", state=state, remove=remove)


def _repositories(search: Search, clients: Clients) -> Iterator[Leftover]:
    """ECR makes one for each image that a cache is asked for; its creation template gives it no tag, and the end of a cache is the
    end of its rule alone (ECR API reference, DeletePullThroughCacheRule).
    """
    for found in pages(clients("ecr"), "describe_repositories", "repositories"):
        name = found["repositoryName"]
        if name.startswith((f"{search.cluster}/", f"{search.cluster}-")):
            remove = search.command("ecr", "delete-repository", "--repository-name", name, "--force")
            yield Leftover(kind="repository", id=found["repositoryArn"], why=f"name {search.cluster}*", state="", remove=remove)


def _others(search: Search, clients: Clients) -> Iterator[Leftover]:
    """Whatever else carries the environment's tag; keys that wait out their deletion are left out, for they cost
    nothing and go by themselves."""
    tagging, kms = clients("resourcegroupstaggingapi"), clients("kms")
    filters = [{"Key": ENVIRONMENT, "Values": [search.environment]}]
    for found in pages(tagging, "get_resources", "ResourceTagMappingList", TagFilters=filters):
        arn = found["ResourceARN"]
        service = arn.split(":")[2]
        if service == "kms" and kms.describe_key(KeyId=arn)["KeyMetadata"]["KeyState"] == "PendingDeletion":
            continue
        why = f"tag {ENVIRONMENT}={search.environment}"
        yield Leftover(kind=service, id=arn, why=why, state="", remove=f"# {service}: remove {arn} by its service's own command")


FINDERS: tuple[Callable[[Search, Clients], Iterator[Leftover]], ...] = (
    _load_balancers,
    _classic_load_balancers,
    _instances,
    _interfaces,
    _security_groups,
    _volumes,
    _log_groups,
    _repositories,
)
"""In the order in which what they find can be removed: a security group cannot go before the interfaces that carry it."""


@dataclass(frozen=True)
class _Tagged:
    about: Mapping[str, Any]
    tags: Mapping[str, str]


def _tagged(elb: Any, found: Sequence[Mapping[str, Any]], key: str) -> Iterator[_Tagged]:
    """Load balancers or target groups with their tags, which AWS tells twenty at a time."""
    by_arn = {each[key]: each for each in found}
    for some in _in_groups(list(by_arn)):
        for described in elb.describe_tags(ResourceArns=some)["TagDescriptions"]:
            yield _Tagged(by_arn[described["ResourceArn"]], _tags(described["Tags"]))


def _in_groups(names: Sequence[str], size: int = 20) -> Iterator[Sequence[str]]:
    for start in range(0, len(names), size):
        yield names[start : start + size]


def _within(arn: str, ids: set[str]) -> bool:
    """Whether an ARN is that of something found by its plain id."""
    last = arn.rpartition("/")[2]
    return last in ids or arn.partition(":log-group:")[2].removesuffix(":*") in ids
