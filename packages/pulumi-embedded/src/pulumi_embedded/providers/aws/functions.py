"""The functions of the aws provider that a program may call while it plans: those whose answer needs no live account, EKS's lists, and
parameters by their path.

All others are refused by name: a plan that depends on live reads differs between two runs of the same commit. The size of a node group is
such a read, and one that a plan cannot do without: an update of bounds sends the number of nodes, which an autoscaler has changed. The zones of
a control plane are another: they stay, whatever the network becomes.
Parameters are how one stack hands to another what a StackReference would read from its state.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pulumi_embedded.engine.provider import UNKNOWN, Properties, ProviderError
from pulumi_embedded.providers.aws import offerings
from pulumi_embedded.providers.aws.account import AccountObject
from pulumi_embedded.providers.aws.instances import GroupInstances
from pulumi_embedded.providers.aws.kind import PARTITION
from pulumi_embedded.providers.conform import closest, nonconformities
from pulumi_embedded.providers.schema import fields_of

CALLER = "user/sandbox"


@dataclass(frozen=True)
class Where:
    """What a provider's configuration says, and the objects of the account by type; None before it is configured."""

    region: str
    account: str
    tags: Mapping[str, str]
    objects: Callable[[str], Sequence[AccountObject]] | None


def answer(token: str, args: Properties, where: Where) -> Properties:
    """The result of `aws:module/function:function`; ProviderError for one that is not modelled or an argument that is not."""
    function = FUNCTIONS.get(token)
    if function is None:
        raise ProviderError(
            f"function {token} is not modelled by the embedded aws provider{closest(token, FUNCTIONS)}; it answers "
            f"{', '.join(sorted(FUNCTIONS))}. Pin the value in the program instead of reading it live"
        )
    given = {key: value for key, value in args.items() if value is not None}
    for key in given:
        if key not in function.args:
            legal = ", ".join(function.args) or "none"
            raise ProviderError(f"function {token} takes no argument {key} here{closest(key, function.args)}; legal are {legal}")
    region = str(given.get("region") or where.region)
    if not region:
        raise ProviderError(f"function {token} needs a region: set the configuration aws:region or the variable AWS_REGION")
    return function.run(given, replace(where, region=region))


@dataclass(frozen=True)
class _Function:
    run: Callable[[Properties, Where], Properties]
    args: tuple[str, ...] = ()


def _caller(_: Properties, where: Where) -> Properties:
    arn = f"arn:{PARTITION}:iam::{where.account}:{CALLER}"
    return {"accountId": where.account, "arn": arn, "id": where.account, "userId": "AIDASANDBOX"}


def _region(_: Properties, where: Where) -> Properties:
    if where.region not in offerings.regions():
        raise ProviderError(f"region {where.region} is not known to the double; it knows {', '.join(offerings.regions())}")
    endpoint = f"ec2.{where.region}.amazonaws.com"
    return {"description": where.region, "endpoint": endpoint, "id": where.region, "name": where.region, "region": where.region}


def _zones(args: Properties, where: Where) -> Properties:
    excluded = set(args.get("excludeNames") or [])
    names = [zone for zone in offerings.zones(where.region) if zone not in excluded]
    ids = {zone: offerings.zone_id(zone) for zone in names}
    dropped = set(args.get("excludeZoneIds") or [])
    names = [zone for zone in names if ids[zone] not in dropped and args.get("state", "available") == "available"]
    return {
        **args,
        "groupNames": [where.region],
        "id": where.region,
        "names": names,
        "region": where.region,
        "zoneIds": [ids[zone] for zone in names],
    }


def _partition(_: Properties, __: Where) -> Properties:
    return {"dnsSuffix": "amazonaws.com", "id": PARTITION, "partition": PARTITION, "reverseDnsPrefix": "com.amazonaws"}


def _tags(_: Properties, where: Where) -> Properties:
    return {"id": PARTITION, "tags": dict(where.tags)}


def _policy_document(args: Properties, _: Where) -> Properties:
    fields = fields_of("aws:iam:GetPolicyDocumentStatementArgs")
    wrong = [
        f"statements[{index}].{failure.property}: {failure.reason}"
        for index, item in enumerate(args.get("statements") or [])
        for failure in nonconformities(item, fields, "a statement")
    ]
    if wrong:
        raise ProviderError("; ".join(wrong))
    statements = [_statement(item) for item in args.get("statements") or []]
    document: dict[str, Any] = {"Version": args.get("version") or "2012-10-17"}
    if args.get("policyId"):
        document["Id"] = args["policyId"]
    for source in args.get("sourcePolicyDocuments") or []:
        statements = [*json.loads(source).get("Statement", []), *statements]
    for source in args.get("overridePolicyDocuments") or []:
        statements = _overridden(statements, json.loads(source).get("Statement", []))
    if statements:
        document["Statement"] = statements
    text = json.dumps(document, indent=2)
    # An unknown inside makes the whole text unknown; the engine sees it by the value itself.
    text, short = (UNKNOWN, UNKNOWN) if UNKNOWN in text else (text, json.dumps(document, separators=(",", ":")))
    number = str(int(hashlib.sha256(text.encode()).hexdigest()[:8], 16))
    return {**args, "id": number, "json": text, "minifiedJson": short, "version": document["Version"]}


def _overridden(statements: Sequence[Mapping[str, Any]], others: Sequence[Mapping[str, Any]]) -> list[Any]:
    by_sid = {item["Sid"]: item for item in others if item.get("Sid")}
    kept = [by_sid.pop(item.get("Sid", ""), item) for item in statements]
    return [*kept, *(item for item in others if not item.get("Sid") or item["Sid"] in by_sid)]


def _statement(item: Mapping[str, Any]) -> dict[str, Any]:
    written: dict[str, Any] = {"Sid": item["sid"]} if item.get("sid") else {}
    written["Effect"] = item.get("effect") or "Allow"
    for key, name in (("actions", "Action"), ("notActions", "NotAction"), ("resources", "Resource"), ("notResources", "NotResource")):
        if item.get(key):
            written[name] = _one_or_many(item[key])
    for key, name in (("principals", "Principal"), ("notPrincipals", "NotPrincipal")):
        if item.get(key):
            written[name] = _principals(item[key])
    conditions: dict[str, dict[str, Any]] = {}
    for condition in item.get("conditions") or []:
        conditions.setdefault(condition["test"], {})[condition["variable"]] = _one_or_many(condition["values"], ordered=True)
    if conditions:
        written["Condition"] = conditions
    return written


def _principals(items: Sequence[Mapping[str, Any]]) -> Any:
    gathered: dict[str, list[str]] = {}
    for item in items:
        gathered.setdefault(item["type"], []).extend(item["identifiers"])
    if gathered == {"*": ["*"]}:
        return "*"
    return {kind: _one_or_many(values) for kind, values in gathered.items()}


def _one_or_many(values: Sequence[str], *, ordered: bool = False) -> Any:
    """As the provider writes lists: sorted downwards (conditions keep their order), one element as text."""
    items = list(values) if ordered else sorted(values, reverse=True)
    return items[0] if len(items) == 1 else items


def _service_principal(args: Properties, where: Where) -> Properties:
    name = f"{args['serviceName']}.amazonaws.com"
    return {"id": name, "name": name, "region": where.region, "serviceName": args["serviceName"], "suffix": "amazonaws.com"}


def _clusters(_: Properties, where: Where) -> Properties:
    return {"id": where.region, "names": sorted(str(cluster.outputs["name"]) for cluster in _objects(_CLUSTER, where))}


def _objects(type: str, where: Where) -> list[AccountObject]:
    return [object for object in where.objects(type) if object.region == where.region] if where.objects else []


def _groups_of(args: Properties, where: Where) -> dict[str, AccountObject]:
    if args["clusterName"] not in _clusters({}, where)["names"]:
        raise ProviderError(f"ResourceNotFoundException: No cluster found for name: {args['clusterName']}.")
    mine = [group for group in _objects(_NODE_GROUP, where) if group.outputs["clusterName"] == args["clusterName"]]
    return {str(group.outputs["nodeGroupName"]): group for group in mine}


def _cluster(args: Properties, where: Where) -> Properties:
    """As much of a cluster as a plan goes by: the subnets of its control plane."""
    found = next((each for each in _objects(_CLUSTER, where) if each.outputs["name"] == args["name"]), None)
    if found is None:
        raise ProviderError(f"ResourceNotFoundException: No cluster found for name: {args['name']}.")
    network = {"subnetIds": sorted(found.inputs["vpcConfig"]["subnetIds"]), "vpcId": found.outputs["vpcConfig"].get("vpcId", "")}
    return {**args, "arn": found.outputs["arn"], "id": args["name"], "vpcConfig": network}


def _subnet(args: Properties, where: Where) -> Properties:
    found = next((each for each in _objects(_SUBNET, where) if each.id == args["id"]), None)
    if found is None:
        raise ProviderError("no matching EC2 Subnet found")
    return {**args, **{key: found.outputs.get(key) for key in ("arn", "availabilityZone", "availabilityZoneId", "cidrBlock", "vpcId")}}


def _node_groups(args: Properties, where: Where) -> Properties:
    return {**args, "id": args["clusterName"], "names": sorted(_groups_of(args, where))}


def _node_group(args: Properties, where: Where) -> Properties:
    group = _groups_of(args, where).get(args["nodeGroupName"])
    if group is None:
        raise ProviderError(f"ResourceNotFoundException: No node group found for name: {args['nodeGroupName']}.")
    bounds = group.inputs["scalingConfig"]
    size = {"desiredSize": GroupInstances.of(group).desired, "maxSize": int(bounds["maxSize"]), "minSize": int(bounds["minSize"])}
    return {
        **args,
        "id": f"{args['clusterName']}:{args['nodeGroupName']}",
        "arn": group.outputs["arn"],
        "releaseVersion": group.outputs["releaseVersion"],
        "capacityType": group.inputs.get("capacityType", "ON_DEMAND"),
        "instanceTypes": group.inputs.get("instanceTypes") or [],
        "labels": group.inputs.get("labels") or {},
        "scalingConfigs": [size],
        "status": "ACTIVE",
        "subnetIds": sorted(group.inputs["subnetIds"]),
    }


def _parameters_by_path(args: Properties, where: Where) -> Properties:
    """Those below the path; none is no failure (terraform-provider-aws, internal/service/ssm/parameters_by_path_data_source.go)."""
    path = str(args["path"]).rstrip("/")
    if not path.startswith("/"):
        raise ProviderError(f'ValidationException: The parameter path "{args["path"]}" must begin with "/"')
    named = {str(found.outputs["name"]): found.outputs for found in _objects(_PARAMETER, where)}
    below = [
        named[name]
        for name in sorted(named)
        if name.startswith(f"{path}/") and (args.get("recursive") is True or "/" not in name[len(path) + 1 :])
    ]
    return {
        **args,
        "arns": [each["arn"] for each in below],
        "id": args["path"],
        "names": [each["name"] for each in below],
        "region": where.region,
        "types": [each["type"] for each in below],
        "values": [each.get("value") or each.get("insecureValue") for each in below],
    }


_PARAMETER = "aws:ssm/parameter:Parameter"
_CLUSTER, _NODE_GROUP = "aws:eks/cluster:Cluster", "aws:eks/nodeGroup:NodeGroup"
_SUBNET = "aws:ec2/subnet:Subnet"
_POLICY_ARGS = ("statements", "version", "policyId", "sourcePolicyDocuments", "overridePolicyDocuments")

FUNCTIONS: Mapping[str, _Function] = {
    "aws:ec2/getSubnet:getSubnet": _Function(_subnet, ("id", "region")),
    "aws:eks/getCluster:getCluster": _Function(_cluster, ("name", "region")),
    "aws:eks/getClusters:getClusters": _Function(_clusters, ("region",)),
    "aws:eks/getNodeGroup:getNodeGroup": _Function(_node_group, ("clusterName", "nodeGroupName", "region")),
    "aws:eks/getNodeGroups:getNodeGroups": _Function(_node_groups, ("clusterName", "region")),
    "aws:iam/getPolicyDocument:getPolicyDocument": _Function(_policy_document, _POLICY_ARGS),
    "aws:index/getAvailabilityZones:getAvailabilityZones": _Function(_zones, ("state", "excludeNames", "excludeZoneIds", "region")),
    "aws:index/getCallerIdentity:getCallerIdentity": _Function(_caller),
    "aws:index/getDefaultTags:getDefaultTags": _Function(_tags),
    "aws:index/getPartition:getPartition": _Function(_partition),
    "aws:index/getRegion:getRegion": _Function(_region, ("region",)),
    "aws:index/getServicePrincipal:getServicePrincipal": _Function(_service_principal, ("serviceName", "region")),
    "aws:ssm/getParametersByPath:getParametersByPath": _Function(_parameters_by_path, ("path", "recursive", "region", "withDecryption")),
}
