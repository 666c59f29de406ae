"""Day two of an environment: what an upgrade touches and in which order, what a rename keeps, how everything goes."""

import json
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from headway.contract.accelerators import INSTANCE_TYPES
from headway.contract.arithmetic.cost import HOURS_A_MONTH
from tests.environments.environments import Environment, Step, environment

pytestmark = pytest.mark.needs("in-memory providers")

NODE_GROUP, ADDON = "aws:eks/nodeGroup:NodeGroup", "aws:eks/addon:Addon"
NEW_RELEASE = "import components.versions as versions\nversions.NODE_RELEASES = {'1.36.3-20261101': '580.159.03'}\n"
OLD_KUBERNETES = """
import components.versions as versions
versions.KUBERNETES = "1.35"
versions.NODE_RELEASES = {"1.35.6-20260714": "580.159.03"}
versions.ADDONS = {name: version.replace("eksbuild.", "eksbuild.9") for name, version in versions.ADDONS.items()}
"""


ZONES = "zones: [us-west-2a]\n      size: {min: 0, max: 2}", "zones: [us-west-2a, us-west-2b]\n      size: {min: 1, max: 2}"
"""GPU nodes in two zones."""


FORMER_ISSUER = """
from types import SimpleNamespace
import pulumi_eks as eks
import components.cluster.control_plane as control_plane
made = eks.Cluster
control_plane.eks.Cluster = lambda *names, **given: made(*names, create_oidc_provider=True, **given)
control_plane.ControlPlane._introduce_issuer = lambda self, name: SimpleNamespace(arn=self.eks.oidc_provider_arn)
"""
"""As the EKS component told IAM of the cluster's issuer."""


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[Environment]:
    """`dev`, deployed, with GPU nodes in two zones."""
    with environment(tmp_path, "dev-cluster") as found:
        found.settings(*ZONES)
        result = found.up()
        assert (result.ok, result.errors) == (True, ())
        yield found


@pytest.fixture
def older(tmp_path: Path) -> Iterator[Environment]:
    """The same, of the Kubernetes version before."""
    with environment(tmp_path, "dev-cluster") as found:
        found.settings(*ZONES)
        found.settings("1.36.2-20260714", "1.35.6-20260714")
        found.program(OLD_KUBERNETES)
        result = found.up()
        assert (result.ok, result.errors) == (True, ())
        yield found


def places(found: Environment, type: str) -> list[int]:
    return [place for place, step in enumerate(found.changes()) if step.type == type]


def shown(steps: list[Step]) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(step.op, step.name, step.changed) for step in steps]


def test_an_environment_that_is_up_changes_nothing_when_it_is_brought_up_again(dev: Environment) -> None:
    result = dev.up()
    assert set(result.changes) == {"same"}
    assert dev.changes() == []
    dev.settings("creator_is_administrator: false", "creator_is_administrator: true")
    dev.preview()
    assert dev.changes() == [], "a cluster, and every node group with it, would be replaced for a flag that counts when it is made"


def test_a_preview_ends_with_what_the_month_costs_before_and_after(dev: Environment) -> None:
    dev.settings("min: 1, max: 2", "min: 1, max: 3")
    code, said = dev.command("pulumi preview --stack dev-cluster")
    (before, after), *others = re.findall(r'~ cost_a_month.at_most: "([0-9,]+) USD" => "([0-9,]+) USD"', said)
    node = INSTANCE_TYPES["g6.4xlarge"].price.dollars * HOURS_A_MONTH
    grown = int(after.replace(",", "")) - int(before.replace(",", ""))
    assert (code, others) == (0, [])
    assert 2 * node < grown < 2.2 * float(node), "a node with its disk in each of two zones"


def test_a_changed_disk_reaches_no_node_before_the_next_release(dev: Environment) -> None:
    dev.rewrite(lambda sections: sections["pools"][0].update(disk={"size": "300Gi"}))
    assert dev.up().ok
    assert [(step.op, step.name) for step in dev.changes()] == [("update", "l4-template")]


def test_the_issuer_stays_known_when_iam_is_told_without_its_certificate(tmp_path: Path) -> None:
    with environment(tmp_path, "dev-cluster") as found:
        found.program(FORMER_ISSUER)
        assert found.up().ok
        found.program()
        result = found.up()
        assert (result.ok, result.errors) == (True, ())
        touched = [(step.op, step.name) for step in found.changes() if "openIdConnectProvider" in step.type]
        assert not [op for op, _ in touched if op not in ("same", "update")], "IAM takes no second provider of one issuer"


def test_a_new_ami_release_touches_node_groups_only_and_gpus_last(dev: Environment) -> None:
    dev.program(NEW_RELEASE)
    dev.settings("1.36.2-20260714", "1.36.3-20261101")
    assert dev.up().ok
    changes = shown(dev.changes())
    assert {(op, fields) for op, _, fields in changes} == {("update", ("releaseVersion",))}, "something else than the release changed"
    names = [name for _, name, _ in changes]
    assert sorted(names) == ["l4-a", "l4-b", "l4-batch-a", "l4-batch-b", "system-nodes"]
    assert names[0] == "system-nodes", "what every pool stands on proves a release first"
    assert names.index("l4-a") < names.index("l4-b") and names.index("l4-batch-a") < names.index("l4-batch-b")


def test_a_new_kubernetes_version_goes_from_the_control_plane_outwards(older: Environment) -> None:
    older.program()
    older.settings("1.35.6-20260714", "1.36.2-20260714")
    assert older.up().ok
    assert {step.op for step in older.changes()} == {"update"}, "an upgrade replaced something"
    assert {step.changed for step in older.changes()} == {("version",), ("addonVersion",), ("releaseVersion", "version")}
    plane = older.began("Cluster control-plane-eks-eksCluster")
    joining = [older.began(f"Addon joining-{name}") for name in ("eks-pod-identity-agent", "kube-proxy", "vpc-cni")]
    running = [
        older.began(f"Addon running-{name}") for name in ("aws-ebs-csi-driver", "coredns", "eks-node-monitoring-agent", "metrics-server")
    ]
    pools = [older.began(f"NodeGroup {name}") for name in ("l4-a", "l4-b", "l4-batch-a", "l4-batch-b")]
    assert pools[0] < pools[1] and pools[2] < pools[3], "the second zone must serve on until the first one does"
    system = older.began("NodeGroup system-nodes")
    assert plane < min(joining) and max(joining) < system < min(running) and max(running) < min(pools)


def test_a_renamed_component_with_an_alias_keeps_everything_in_it(tmp_path: Path) -> None:
    renamed = """
import pulumi
import components.cluster.addons as addons

class Renamed(addons.Addons):
    def __init__(self, name, args, opts=None):
        moved = pulumi.ResourceOptions(aliases=[pulumi.Alias(name=name)]) if ALIAS else None
        super().__init__(name.replace("running", "later"), args, pulumi.ResourceOptions.merge(opts, moved))

addons.Addons = Renamed
"""
    with environment(tmp_path, "dev-cluster") as found:
        assert found.up().ok
        found.program("ALIAS = False" + renamed)
        moved = found.preview()
        assert moved.errors == ()
        assert {"create", "delete"} <= set(moved.changes), "without an alias a rename makes everything anew: the test would prove nothing"
        found.program("ALIAS = True" + renamed)
        result = found.up()
        assert (result.ok, set(result.changes)) == (True, {"same"})
        found.program(renamed.replace("if ALIAS else None", "if False else None"))
        assert set(found.preview().changes) == {"same"}, "the alias is needed once: then the new names are the recorded ones"


def test_a_destroy_takes_nodes_before_what_they_need_to_leave(dev: Environment) -> None:
    assert dev.destroy().ok
    assert dev.plane.manifests == {}, "nodes stayed in the cluster"
    groups, addons = places(dev, NODE_GROUP), places(dev, ADDON)
    cluster = dev.began("Cluster control-plane-eks-eksCluster")
    ways_out = [
        place for kind in ("route:Route", "natGateway:NatGateway", "vpcEndpoint:VpcEndpoint") for place in places(dev, f"aws:ec2/{kind}")
    ]
    subnets = places(dev, "aws:ec2/subnet:Subnet")
    assert max(groups) < min(ways_out), "a draining node could not give its network interfaces back"
    assert max(groups) < dev.began("Addon joining-vpc-cni"), "pods would lose their network while they drain"
    assert max(*groups, *addons) < cluster < dev.began("LogGroup control-plane-logs"), "EKS would make its log group again"
    assert max(groups) < dev.began("RolePolicyAttachment nodes-worker"), "a node without its role cannot leave the cluster"
    assert max(*ways_out, *subnets, cluster) < dev.began("Vpc network-vpc")
    assert dev.began("Key keys-volumes") > max(groups), "nodes could not be started or stopped without their volumes' key"


def test_a_pools_minimum_may_rise_above_the_nodes_that_there_are(dev: Environment) -> None:
    dev.settings("size: {min: 1, max: 2}", "size: {min: 2, max: 4}")
    result = dev.up()
    assert (result.ok, result.errors) == (True, ()), "EKS refuses a minimum above the number of nodes"
    assert {step.changed for step in dev.changes() if step.type == NODE_GROUP} == {
        ("scalingConfig.desiredSize", "scalingConfig.maxSize", "scalingConfig.minSize")
    }
    assert set(dev.up().changes) == {"same"}


def grown(found: Environment, group: str, nodes: int) -> None:
    """What the autoscaler does: the number of nodes of a group changes, and the state does not hear of it."""
    with closing(sqlite3.connect(found.folder / "account-111111111111.sqlite")) as account, account:
        for key, text in account.execute("SELECT key, inputs FROM objects WHERE type = ?", (NODE_GROUP,)).fetchall():
            inputs = json.loads(text)
            if inputs["nodeGroupName"].startswith(f"{group}-"):
                inputs["scalingConfig"]["desiredSize"] = nodes
                account.execute("UPDATE objects SET inputs = ? WHERE key = ?", (json.dumps(inputs), key))


def test_system_nodes_that_get_other_zones_are_made_anew_as_many_as_they_are(dev: Environment) -> None:
    grown(dev, "system-nodes", 5)
    dev.rewrite(lambda sections: sections["system_pool"].update(zones=["us-west-2a"]))
    assert dev.up().ok
    made = [name for name in dev.plane.manifests if name.startswith("system-nodes-")]
    assert len(made) == 5, "the former nodes have five minutes, and what ran on the two above the minimum has no place"
    assert set(dev.up().changes) == {"same"}


def test_a_new_maximum_ends_no_node_that_the_autoscaler_made(dev: Environment) -> None:
    grown(dev, "l4-a", 2)
    dev.settings("size: {min: 1, max: 2}", "size: {min: 1, max: 4}")
    assert dev.up().ok
    kept = [name for name in dev.plane.manifests if name.startswith("l4-a-")]
    assert len(kept) == 2, "EKS would end a node that serves"
