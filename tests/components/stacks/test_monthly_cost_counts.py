"""The monthly estimate counts what the program registers, no less and no more."""

import pytest

from components.naming import cluster_name as physical
from headway.capacity.described import cluster_name, described
from headway.contract.arithmetic.month import Item, cluster_month
from tests.components.program import PROJECT, layer, run
from tests.components.recording import Recording

ENVIRONMENTS = ("dev", "prod", "sandbox", "staging")


def counted(environment: str) -> dict[str, Item]:
    return {item.what: item for item in cluster_month(described(PROJECT, f"{environment}-cluster")[1].billed).items}


def registered(environment: str) -> Recording:
    return layer(f"{environment}-cluster")


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_what_stands_around_the_nodes_is_counted_as_it_is_registered(environment: str) -> None:
    found, items = registered(environment), counted(environment)
    interfaces = sum(len(r.inputs.get("subnetIds", ())) for r in found.of_type("aws:ec2/vpcEndpoint:VpcEndpoint"))
    assert {what: items[what].most for what in ("NAT gateways", "public addresses", "endpoint interfaces", "keys")} == {
        "NAT gateways": len(found.of_type("aws:ec2/natGateway:NatGateway")),
        "public addresses": len(found.of_type("aws:ec2/eip:Eip")),
        "endpoint interfaces": interfaces,
        "keys": len(found.of_type("aws:kms/key:Key")),
    }


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_every_node_group_is_counted_at_its_bounds(environment: str) -> None:
    sizes: dict[str, tuple[int, int]] = {}
    for r in registered(environment).of_type("aws:eks/nodeGroup:NodeGroup"):
        name = f"{r.inputs['labels']['platform.io/pool']} nodes"
        low, high = sizes.get(name, (0, 0))
        sizes[name] = (low + int(r.inputs["scalingConfig"]["minSize"]), high + int(r.inputs["scalingConfig"]["maxSize"]))
    items = counted(environment)
    assert {what: (item.fewest, item.most) for what, item in items.items() if what.endswith(" nodes") and "warm" not in what} == sizes


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_commands_know_the_cluster_by_the_name_that_the_program_gives_it(environment: str) -> None:
    assert cluster_name(environment) == physical(environment)


@pytest.mark.parametrize("environment", ENVIRONMENTS)
def test_the_cluster_layer_exports_the_cost_that_the_command_says(environment: str) -> None:
    said = cluster_month(described(PROJECT, f"{environment}-cluster")[1].billed).said
    assert registered(environment).exports["cost_a_month"] == said


def test_a_preview_knows_the_cost_before_anything_is_deployed() -> None:
    found = run("dev-platform", preview=True, deployed=False).exports["cost_a_month"]
    assert found["at_least"].endswith(" USD")
