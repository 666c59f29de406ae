"""EKS behind its records: a cluster is the control plane of the host, a node group is simulated nodes in it.

How many nodes a group has is the account's (`instances.py`), because an autoscaler changes it too: an update sends the number only where its
scaling configuration is another than the last (terraform-provider-aws, internal/service/eks/node_group.go, resourceNodeGroupUpdate).

Trap: node names are stable (group and ordinal), instances are not: a new AMI release or launch template version replaces each node under
its name, one after another, as a rolling update of the group does.
"""

import base64
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email import message_from_string
from ipaddress import IPv4Network
from typing import Any

from pulumi_embedded.engine.provider import PartialFailureError, Properties, ProviderError, ProviderStep
from pulumi_embedded.providers.aws.account import AccountObject, SimulatedAccount
from pulumi_embedded.providers.aws.backend import ObjectBackend
from pulumi_embedded.providers.aws.functions import CALLER
from pulumi_embedded.providers.aws.instance_regions import elsewhere, is_offered
from pulumi_embedded.providers.aws.instances import GroupInstances
from pulumi_embedded.providers.aws.kind import PARTITION, Facts
from pulumi_embedded.providers.aws.nodes import NodeGroup, NodeMaker, NodeZone, SimulatedNode
from pulumi_embedded.providers.control_plane import EksControlPlane, NewTaints, wait_until_ready

_TEMPLATE = "aws:ec2/launchTemplate:LaunchTemplate"
_SUBNET = "aws:ec2/subnet:Subnet"
_CLUSTER = "aws:eks/cluster:Cluster"
NODE_GROUP = "aws:eks/nodeGroup:NodeGroup"
_PRIVATE = tuple(map(IPv4Network, ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")))
_READY_SECONDS = 120.0
_UNVERSIONED = {"tags", "tagsAll", "name", "namePrefix", "updateDefaultVersion", "defaultVersion", "region"}


class LaunchTemplates(ObjectBackend):
    """Every change of the data is a new, immutable version; node groups name one."""

    def created(self, object: AccountObject, inputs: Properties, step: ProviderStep) -> Properties:
        return {"version": 1, "versions": {"1": _data(inputs)}}

    def updated(self, object: AccountObject, old: Properties, inputs: Properties, step: ProviderStep) -> Properties:
        version = int(object.extra.get("version", 1))
        versions: dict[str, Any] = dict(object.extra.get("versions") or {})
        if versions.get(str(version)) == _data(inputs):
            return dict(object.extra)
        return {"version": version + 1, "versions": {**versions, str(version + 1): _data(inputs)}}


def _data(inputs: Properties) -> Properties:
    return {key: value for key, value in inputs.items() if key not in _UNVERSIONED}


class CapacityReservations(ObjectBackend):
    """Nothing is reserved, and nothing is where EC2 has nothing to reserve (Amazon EC2 API reference, "Error codes": Unsupported)."""

    def before(self, facts: Facts) -> Properties:
        wanted = str(facts.inputs["instanceType"])
        if not is_offered(wanted, facts.region):
            raise ProviderError(f"Unsupported: instanceType: {facts.region} has no {wanted}; {elsewhere([wanted])}")
        return dict(facts.extra)


@dataclass(frozen=True)
class Clusters(ObjectBackend):
    """`aws:eks/cluster:Cluster`: every one of them is the one control plane of the host."""

    account: SimulatedAccount
    plane: EksControlPlane

    def before(self, facts: Facts) -> Properties:
        subnets = _subnets(self.account, facts.inputs["vpcConfig"]["subnetIds"], facts.region)
        zones = _zones(subnets)
        _refuse_private(facts.inputs)
        if len(zones) < 2:
            raise ProviderError("InvalidParameterException: vpcConfig.subnetIds: the subnets of a cluster must be in at least two zones")
        address = self.plane.address()
        return {"endpoint": address.server, "certificate": address.authority, "vpcId": subnets[0].outputs.get("vpcId", "")}

    def created(self, object: AccountObject, inputs: Properties, step: ProviderStep) -> Properties:
        self._say(inputs, step)
        return dict(object.extra)

    def updated(self, object: AccountObject, old: Properties, inputs: Properties, step: ProviderStep) -> Properties:
        before, after = old.get("version"), inputs.get("version")
        if before and after and _minor(str(after)) not in (_minor(str(before)), _minor(str(before)) + 1):
            raise ProviderError(
                f"InvalidParameterException: version: EKS upgrades one minor version at a time; {before} can become "
                f"1.{_minor(str(before)) + 1}, not {after}"
            )
        # EKS user guide, "View Amazon EKS networking requirements for VPC and subnets"; the words are those that EKS was seen to answer.
        made_in, asked_for = (_zones(_subnets(self.account, each["vpcConfig"]["subnetIds"], object.region)) for each in (old, inputs))
        if asked_for != made_in:
            raise ProviderError(
                f"InvalidParameterException: vpcConfig.subnetIds: Provided subnets belong to the AZs '{','.join(asked_for)}'. But they should "
                f"belong to the exact set of AZs '{','.join(made_in)}' in which subnets were provided during cluster creation."
            )
        _refuse_private(inputs)
        self._say(inputs, step)
        return dict(object.extra)

    def _say(self, inputs: Properties, step: ProviderStep) -> None:
        asked, runs = inputs.get("version"), self.plane.version()
        if asked and not runs.startswith(f"v{asked}."):
            step.warn(f"EKS would run Kubernetes {asked}; the control plane is {runs} whatever version is asked for")


def _refuse_private(inputs: Properties) -> None:
    """EKS user guide, "Configure network access to cluster API server endpoint": no reserved addresses; the words are those that it was seen
    to answer for private ones.
    """
    named = [IPv4Network(cidr) for cidr in inputs["vpcConfig"].get("publicAccessCidrs") or ()]
    if private := [str(cidr) for cidr in named if cidr.prefixlen and any(cidr.overlaps(each) for each in _PRIVATE)]:
        raise ProviderError(
            f"InvalidParameterException: vpcConfig.publicAccessCidrs: The following CIDRs are not allowed in publicAccessCidrs: "
            f"[{', '.join(private)}]"
        )


@dataclass(frozen=True)
class AccessEntries(ObjectBackend):
    """`aws:eks/accessEntry:AccessEntry`. Where whoever creates a cluster stays its administrator, EKS has made their entry already
    (pulumi/pulumi-eks#2373).
    """

    account: SimulatedAccount

    def before(self, facts: Facts) -> Properties:
        cluster = self.account.get(_CLUSTER, str(facts.inputs["clusterName"]), facts.region)
        access = (cluster.inputs.get("accessConfig") if cluster else None) or {}
        stays = "API" in str(access.get("authenticationMode")) and access.get("bootstrapClusterCreatorAdminPermissions") is not False
        if stays and facts.inputs["principalArn"] == f"arn:{PARTITION}:iam::{facts.account}:{CALLER}":
            raise ProviderError(
                "ResourceInUseException: principalArn: The specified access entry resource is already in use on this cluster."
            )
        return dict(facts.extra)


@dataclass(frozen=True)
class NodeGroups(ObjectBackend):
    """`aws:eks/nodeGroup:NodeGroup`: as many simulated nodes as it is to have."""

    account: SimulatedAccount
    plane: EksControlPlane
    make: NodeMaker
    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    def before(self, facts: Facts) -> Properties:
        cluster = self.account.get(_CLUSTER, str(facts.inputs["clusterName"]), facts.region)
        version = str(facts.inputs.get("version") or (cluster.outputs.get("version") if cluster else ""))
        _subnets(self.account, facts.inputs["subnetIds"], facts.region)
        if foreign := [str(name) for name in facts.inputs.get("instanceTypes") or [] if not is_offered(str(name), facts.region)]:
            # terraform-aws-modules/terraform-aws-eks#3648
            raise ProviderError(
                f"CREATE_FAILED: Ec2LaunchTemplateInvalidConfiguration: The specified instance type {', '.join(foreign)} is not valid "
                f"(in {facts.region}; {elsewhere(foreign)})"
            )
        extra = {"version": version, "releaseVersion": facts.inputs.get("releaseVersion") or f"{version}.0-00000000"}
        group = self._group(facts.inputs, "arn", facts.region, extra)
        if refused := unread(group.ami_type, str(group.template.get("userData") or "")):
            raise ProviderError(f"CREATE_FAILED: Ec2LaunchTemplateInvalidConfiguration: {refused}")
        # Refuse what cannot be simulated before anything is recorded.
        self.make(group, 1)
        return extra

    def created(self, object: AccountObject, inputs: Properties, step: ProviderStep) -> Properties:
        self._converge(object, inputs, step)
        return dict(object.extra)

    def updated(self, object: AccountObject, old: Properties, inputs: Properties, step: ProviderStep) -> Properties:
        if old.get("launchTemplate") != inputs.get("launchTemplate") and old.get("releaseVersion") == inputs.get("releaseVersion"):
            # The provider sends what changes alone (hashicorp/terraform-provider-aws, `internal/service/eks/node_group.go`), and EKS takes
            # the newest where it is told none (API reference, UpdateNodegroupVersion). Which that is, only AWS knows.
            version = inputs.get("version") or object.extra.get("version")
            step.warn(f"EKS takes the newest AMI release of {version}: the update names a launch template and no release")
        if old.get("scalingConfig") != inputs.get("scalingConfig"):
            self._resize(object, int(inputs["scalingConfig"]["desiredSize"]))
        self._converge(object, inputs, step)
        return dict(object.extra)

    def deleted(self, object: AccountObject, step: ProviderStep) -> None:
        if not self.plane.reachable():
            # A host that was reset has no control plane, and so no nodes.
            step.warn("the local cluster does not answer: nodes of this group that it may hold were not removed")
            return
        for node in self.plane.nodes(object.outputs["arn"]):
            step.status(f"removing node {node.name}")
            self.plane.delete_node(node.name)

    def live(self, object: AccountObject, inputs: Properties) -> Properties | None:
        if not self.plane.reachable():
            return inputs
        booting = [each for each in GroupInstances.of(object).instances if not each.due(self.clock())]
        count = len(self.plane.nodes(object.outputs["arn"])) + len(booting)
        return {**inputs, "scalingConfig": {**inputs["scalingConfig"], "desiredSize": count}}

    def drifted(self, object: AccountObject) -> tuple[str, ...]:
        if not self.plane.reachable():
            return ()
        there = {node.name for node in self.plane.nodes(object.outputs["arn"])}
        wanted = {node.name for node in self._joined(object, object.inputs)}
        # What an Auto Scaling group repairs by itself, an update of the group repairs here.
        return ("resources",) if there != wanted else ()

    def resolved(self, object: AccountObject, inputs: Properties) -> NodeGroup:
        """The group with what its launch template adds."""
        return self._group({**object.outputs, **inputs}, object.outputs["arn"], object.region, object.extra)

    def of_ordinals(self, object: AccountObject, inputs: Properties, ordinals: Sequence[int]) -> dict[int, SimulatedNode]:
        """What the node of each of these instances is."""
        made = self.make(self.resolved(object, inputs), max(ordinals, default=-1) + 1)
        return {ordinal: made[ordinal] for ordinal in ordinals}

    def _joined(self, object: AccountObject, inputs: Properties) -> list[SimulatedNode]:
        """Nodes of the instances that have booted; the others come by themselves."""
        fresh = self.account.get(NODE_GROUP, object.id, object.region) or object
        ordinals = [each.ordinal for each in GroupInstances.of(fresh).instances if each.due(self.clock())]
        return list(self.of_ordinals(object, inputs, ordinals).values())

    def _resize(self, object: AccountObject, count: int) -> None:
        """An update waits until the nodes are ready, so those that it adds have joined when it ends."""
        self.account.keep_beside(object.key, lambda record: GroupInstances.read(object, record).resized(count, self.clock()).record())

    def _converge(self, object: AccountObject, inputs: Properties, step: ProviderStep) -> None:
        """Make, replace, relabel and remove nodes until they are what the group says."""
        arn = object.outputs["arn"]
        wanted = {node.name: node for node in self._joined(object, inputs)}
        there = {node.name: node for node in self.plane.nodes(arn)}
        for name in sorted(there.keys() - wanted.keys(), reverse=True):
            step.status(f"removing node {name}")
            self.plane.delete_node(name)
        for name, node in wanted.items():
            live = there.get(name)
            if live is None or live.provider_id != node.provider_id:
                step.status(f"{'replacing' if live else 'starting'} node {name}")
                self.plane.create_node(node, arn)
                if live is not None:
                    self._await(object, [name], step)
            else:
                dropped = {key for key in live.labels if key.startswith("nvidia.com/")} | _removed(object, inputs)
                gone: dict[str, str | None] = dict.fromkeys(sorted(dropped - node.labels.keys()))
                self.plane.relabel(name, {**gone, **node.labels}, _new_taints(object, inputs, node))
                self.plane.resize(name, node.capacity, node.allocatable)
        self._await(object, list(wanted), step)

    def _await(self, object: AccountObject, names: list[str], step: ProviderStep) -> None:
        # EKS itself gives up, however long the provider would wait for it.
        seconds = min(step.timeout or _READY_SECONDS, _READY_SECONDS)
        missing = wait_until_ready(self.plane, object.outputs["arn"], names, seconds, step)
        if missing:
            reason = f"NodeCreationFailure: {len(missing)} of {len(names)} nodes did not become ready: {', '.join(missing[:5])}"
            raise PartialFailureError(object.id, object.outputs, [reason])

    def _group(self, inputs: Properties, arn: str, region: str, extra: Mapping[str, Any]) -> NodeGroup:
        template_id, version, data = self._template(inputs.get("launchTemplate"), region)
        types = [str(name) for name in inputs.get("instanceTypes") or []] or [str(data.get("instanceType") or "t3.medium")]
        subnets = _subnets(self.account, inputs["subnetIds"], region)
        zones = [NodeZone(name=str(s.outputs["availabilityZone"]), id=str(s.outputs["availabilityZoneId"])) for s in subnets]
        return NodeGroup(
            name=str(inputs["nodeGroupName"]),
            arn=arn,
            region=region,
            instance_type=types[0],
            ami_type=str(inputs.get("amiType") or "AL2023_x86_64_STANDARD"),
            capacity_type=str(inputs.get("capacityType") or "ON_DEMAND"),
            release_version=str(extra.get("releaseVersion", "")),
            labels=inputs.get("labels") or {},
            taints=inputs.get("taints") or [],
            zones=zones,
            template=data,
            template_id=template_id,
            template_version=version,
            disk_gibibytes=int(inputs.get("diskSize") or 20),
        )

    def _template(self, named: Any, region: str) -> tuple[str, str, Properties]:
        if not named:
            return "", "", {}
        by = "id" if named.get("id") else "name"
        found = next((o for o in self.account.of(_TEMPLATE) if o.region == region and _answers(o, by, named[by])), None)
        if found is None:
            raise ProviderError(f"InvalidRequestException: launchTemplate.{by} {named[by]} does not exist in {region}")
        latest = str(found.extra.get("version", 1))
        asked = str(named["version"])
        default = str(found.outputs.get("defaultVersion", 1))
        version = {"$Latest": latest, "$Default": default}.get(asked, asked)
        versions = found.extra.get("versions") or {}
        if version not in versions:
            raise ProviderError(
                f"InvalidRequestException: launchTemplate.version: {found.id} has no version {asked}; it has {', '.join(versions)}"
            )
        return found.id, version, versions[version]


def unread(ami_type: str, user_data: str) -> str:
    """Why EKS cannot merge a template's user data, in base64, with its own; empty where it can.

    Source: EKS user guide, "Customize managed nodes with launch templates", "Amazon EC2 user data"; the words are those of
    terraform-aws-modules/terraform-aws-eks#1729 and aws-ia/terraform-aws-eks-blueprints#843.
    """
    text = base64.b64decode(user_data).decode(errors="replace")
    if not text or ami_type.startswith("WINDOWS"):
        return ""
    if not ami_type.startswith("BOTTLEROCKET"):
        return "" if message_from_string(text).is_multipart() else "User data was not in the MIME multipart format."
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return "User data was not a TOML format that could be processed."
    return ""


def _answers(template: AccountObject, by: str, value: str) -> bool:
    return (template.id if by == "id" else template.outputs.get("name")) == value


def _removed(object: AccountObject, inputs: Properties) -> set[str]:
    return set(object.inputs.get("labels") or {}) - set(inputs.get("labels") or {})


def _new_taints(object: AccountObject, inputs: Properties, node: SimulatedNode) -> NewTaints:
    """Those that the group gets or loses. EKS writes these to nodes that are there, and does not put back one that was
    taken off a node (EKS user guide, "Node taints on managed node groups"; cilium/cilium#17103)."""
    before, after = object.inputs.get("taints") or [], inputs.get("taints") or []
    changed = {str(taint["key"]) for taint in (*before, *after) if (taint in before) != (taint in after)}
    return {key: [taint for taint in node.taints if taint["key"] == key] for key in sorted(changed)}


def _subnets(account: SimulatedAccount, ids: list[str], region: str) -> list[AccountObject]:
    found = [account.get(_SUBNET, id, region) for id in ids]
    missing = [id for id, subnet in zip(ids, found, strict=True) if subnet is None]
    if missing:
        raise ProviderError(f"InvalidSubnetID.NotFound: {', '.join(missing)} do not exist in {region}")
    return [subnet for subnet in found if subnet is not None]


def _zones(subnets: Sequence[AccountObject]) -> list[str]:
    return sorted({str(subnet.outputs.get("availabilityZone")) for subnet in subnets})


def _minor(version: str) -> int:
    match = re.match(r"1\.(\d+)", version)
    return int(match[1]) if match else 0
