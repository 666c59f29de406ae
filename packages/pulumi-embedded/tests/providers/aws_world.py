"""A world for the aws double: an account in a temporary folder, a control plane in memory, an object store in process."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pulumi_embedded.engine.provider import CheckFailure, DiffResult, LiveResource, Properties, ProviderError
from pulumi_embedded.providers.aws.account import SimulatedAccount
from pulumi_embedded.providers.aws.assembly import backends
from pulumi_embedded.providers.aws.kind import ACCOUNT_ID
from pulumi_embedded.providers.aws.nodes import NodeGroup, NodeMaker, SimulatedNode
from pulumi_embedded.providers.aws.provider import AccountSite, AwsProvider
from pulumi_embedded.providers.control_plane import Address, NewTaints, NodeState, retainted

REGION = "us-west-2"
ZONES = tuple(f"{REGION}{letter}" for letter in "abc")
GROUP = "example.test/node-group"


def client(service: str, region: str, account: str = ACCOUNT_ID) -> Any:
    """A boto3 client of moto in this process, which takes the account of a request from a header."""
    import boto3

    made: Any = boto3.client(service, region_name=region, aws_access_key_id="test", aws_secret_access_key="test")  # pyright: ignore[reportCallIssue, reportArgumentType]
    made.meta.events.register("before-sign", lambda **sent: sent["request"].headers.add_header("x-moto-account-id", account))  # pyright: ignore[reportUnknownLambdaType]
    return made


def plain_nodes(group: NodeGroup, count: int) -> tuple[SimulatedNode, ...]:
    """Nodes without anything that a host would know of instance types."""
    offered = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    return tuple(
        SimulatedNode(
            name=f"{group.name}-{n}",
            labels=dict(group.labels),
            taints=[],
            capacity=offered,
            allocatable=offered,
            provider_id=f"aws:///{group.zones[n % len(group.zones)].name}/i-{n}-{group.template_version}-{group.release_version}",
        )
        for n in range(count)
    )


@dataclass
class Plane:
    """The control plane as the doubles see it. `down` makes it refuse; `broken` nodes never become ready."""

    manifests: dict[str, dict[str, Any]] = field(default_factory=dict)
    down: bool = False
    broken: set[str] = field(default_factory=set)
    deleted: list[str] = field(default_factory=list)

    def address(self) -> Address:
        if self.down:
            raise ProviderError("there is no control plane yet")
        return Address("https://127.0.0.1:6443", "Q0E=", {"clusters": [], "users": [{"name": "admin", "user": {"token": "t0p"}}]})

    def version(self) -> str:
        return "v1.36.2"

    def reachable(self) -> bool:
        return not self.down

    def nodes(self, group: str) -> list[NodeState]:
        own = {n: m for n, m in self.manifests.items() if m["metadata"]["annotations"][GROUP] == group}
        return [
            NodeState(n, n not in self.broken, m["spec"].get("providerID", ""), m["metadata"]["labels"], m["spec"].get("taints", []))
            for n, m in sorted(own.items())
        ]

    def create_node(self, node: SimulatedNode, group: str) -> None:
        self.manifests[node.name] = {
            "metadata": {"name": node.name, "labels": dict(node.labels), "annotations": {GROUP: group}},
            "spec": {"taints": [dict(taint) for taint in node.taints], "providerID": node.provider_id},
            "status": {"capacity": dict(node.capacity), "allocatable": dict(node.allocatable)},
        }

    def relabel(self, name: str, labels: Mapping[str, str | None], taints: NewTaints) -> None:
        merged = {**self.manifests[name]["metadata"]["labels"], **labels}
        self.manifests[name]["metadata"]["labels"] = {key: value for key, value in merged.items() if value is not None}
        self.manifests[name]["spec"]["taints"] = retainted(self.manifests[name]["spec"]["taints"], taints)

    def resize(self, name: str, capacity: Mapping[str, str], allocatable: Mapping[str, str]) -> None:
        self.manifests[name]["status"] |= {"capacity": dict(capacity), "allocatable": dict(allocatable)}

    def delete_node(self, name: str) -> None:
        self.deleted.append(name)
        self.manifests.pop(name, None)


@dataclass
class Watch:
    """A step that remembers what it was told."""

    preview: bool = False
    timeout: float = 0.2
    repeated: bool = False
    statuses: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def status(self, message: str) -> None:
        self.statuses.append(message)

    def warn(self, message: str) -> None:
        self.warnings.append(message)

    def cancelled(self) -> bool:
        return False


@dataclass
class Made:
    """One resource as the engine's state would hold it."""

    world: "World"
    urn: str
    type: str
    name: str
    id: str
    inputs: Properties
    outputs: Properties

    def diff(self, **changed: Any) -> DiffResult:
        new = self.world.checked(self.type, self.name, {**self.inputs, **changed}, old=self.inputs)
        return self.world.provider.diff(self.urn, self.type, self.id, self.inputs, self.outputs, new, ())

    def update(self, step: Watch | None = None, **changed: Any) -> Properties:
        new = {key: value for key, value in {**self.inputs, **changed}.items() if value is not None}
        step = step or Watch()
        outputs = self.world.provider.update(self.urn, self.type, self.id, self.inputs, self.outputs, new, step)
        if not step.preview:
            self.inputs, self.outputs = new, outputs
        return outputs

    def read(self) -> LiveResource | None:
        return self.world.provider.read(self.urn, self.type, self.id, self.inputs, self.outputs)

    def delete(self) -> Watch:
        step = Watch()
        self.world.provider.delete(self.urn, self.type, self.id, self.inputs, self.outputs, step)
        return step


def token(short: str) -> str:
    """`ec2/vpc` -> `aws:ec2/vpc:Vpc`."""
    name = short.split("/")[1]
    return f"aws:{short}:{name[0].upper()}{name[1:]}"


def urn_of(type: str, name: str) -> str:
    return f"urn:pulumi:dev::headway::{type}::{name}"


class World:
    """A configured provider and shorthands over it. `short` is `module/type`, such as `ec2/vpc`."""

    def __init__(self, folder: Path, make_nodes: NodeMaker = plain_nodes, **config: Any) -> None:
        self.folder, self.plane, self.make_nodes = folder, Plane(), make_nodes
        self.config: Properties = {"region": REGION, **config}
        self.provider = self.another()

    def another(self, *, takes_over: bool = False) -> AwsProvider:
        """A provider of a later operation, or of another process, over the same account."""

        def connect(id: str) -> AccountSite:
            account = SimulatedAccount(self.folder / f"account-{id}.sqlite")
            return AccountSite(account, backends(account, self.plane, self.make_nodes, lambda service, region: client(service, region, id)))

        provider = AwsProvider(connect, environment={}, clock=lambda: datetime(2026, 11, 21, tzinfo=UTC), takes_over=takes_over)
        provider.configure(self.config)
        return provider

    def check(self, short: str, **inputs: Any) -> tuple[CheckFailure, ...]:
        type = token(short)
        return self.provider.check(urn_of(type, "it"), type, "it", None, inputs).failures

    def checked(self, type: str, name: str, inputs: Properties, old: Properties | None = None) -> Properties:
        result = self.provider.check(urn_of(type, name), type, name, old, dict(inputs))
        assert not result.failures, result.failures
        return result.inputs

    def make(self, short: str, resource: str, /, **inputs: Any) -> Made:
        type = token(short)
        urn = urn_of(type, resource)
        new = self.checked(type, resource, inputs)
        id, outputs = self.provider.create(urn, type, resource, new, Watch())
        return Made(self, urn, type, resource, id, new, outputs)

    def preview(self, short: str, resource: str, /, **inputs: Any) -> Properties:
        type = token(short)
        id, outputs = self.provider.create(
            urn_of(type, resource), type, resource, self.checked(type, resource, inputs), Watch(preview=True)
        )
        assert id == ""
        return outputs

    # -- what many tests stand on

    def subnets(self) -> list[str]:
        vpc = self.make("ec2/vpc", "vpc", cidrBlock="10.0.0.0/16")
        made = [
            self.make("ec2/subnet", f"subnet-{n}", vpcId=vpc.id, cidrBlock=f"10.0.{n}.0/24", availabilityZone=zone)
            for n, zone in enumerate(ZONES)
        ]
        return [subnet.id for subnet in made]

    def role(self, resource: str = "role", service: str = "eks.amazonaws.com", /, **more: Any) -> Made:
        return self.make("iam/role", resource, assumeRolePolicy=trust(service), **more)

    def cluster(self, subnets: list[str], **more: Any) -> Made:
        role = self.role("cluster-role")
        return self.make(
            "eks/cluster", "cluster", **{"name": "dev", "roleArn": role.outputs["arn"], "vpcConfig": {"subnetIds": subnets}} | more
        )

    def node_group(self, size: int = 2, **more: Any) -> Made:
        subnets = self.subnets()
        cluster = self.cluster(subnets, version="1.36")
        role = self.role("node-role", "ec2.amazonaws.com")
        inputs = {
            "clusterName": cluster.id,
            "nodeRoleArn": role.outputs["arn"],
            "subnetIds": subnets,
            "nodeGroupName": "gpu",
            "instanceTypes": ["g6.xlarge"],
            "amiType": "AL2023_x86_64_NVIDIA",
            "scalingConfig": {"minSize": 0, "desiredSize": size, "maxSize": 8},
        }
        return self.make("eks/nodeGroup", "gpu", **inputs | more)


def trust(service: str) -> str:
    statement = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": service}}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def by_path(failures: Sequence[CheckFailure]) -> dict[str, str]:
    return {failure.property: failure.reason for failure in failures}
