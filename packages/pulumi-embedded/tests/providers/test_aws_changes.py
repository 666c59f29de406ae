"""Which difference is a change, and which change needs a new object."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulumi_embedded.engine.provider import UNKNOWN, DiffResult
from pulumi_embedded.providers.aws.catalogue import CATALOGUE
from pulumi_embedded.providers.aws.changes import compare

GROUP = "aws:eks/nodeGroup:NodeGroup"
CLUSTER = "aws:eks/cluster:Cluster"


def change(type: str, old: dict[str, Any], new: dict[str, Any], *, same_name: bool = False) -> DiffResult:
    return compare(CATALOGUE[type], old, new, same_name=same_name)


@given(st.lists(st.text("abc", max_size=3), max_size=5), st.randoms())
def test_the_order_of_a_set_is_no_change(items: list[str], random: Any) -> None:
    shuffled = [*items]
    random.shuffle(shuffled)
    assert not change(GROUP, {"subnetIds": items}, {"subnetIds": shuffled}).details


def test_the_order_of_instance_types_is_a_change_because_eks_tries_them_in_turn() -> None:
    result = change(GROUP, {"instanceTypes": ["a", "b"]}, {"instanceTypes": ["b", "a"]})
    assert set(result.replaces) == {"instanceTypes[0]", "instanceTypes[1]"}


@given(st.dictionaries(st.text("ab", min_size=1), st.integers() | st.lists(st.text("xy"))))
def test_white_space_and_order_in_a_json_document_are_no_change(document: dict[str, Any]) -> None:
    old, new = json.dumps(document), json.dumps(document, indent=3, sort_keys=True)
    assert not change("aws:iam/policy:Policy", {"policy": old}, {"policy": new}).details


def test_another_document_is_a_change() -> None:
    assert change("aws:iam/policy:Policy", {"policy": '{"a": 1}'}, {"policy": '{"a": 2}'}).details == {"policy": "update"}


@pytest.mark.parametrize("field", ["amiType", "capacityType", "nodeRoleArn", "clusterName", "nodeGroupName"])
def test_what_eks_cannot_change_in_a_group_replaces_it(field: str) -> None:
    result = change(GROUP, {field: "a"}, {field: "b"})
    assert result.replaces == (field,) and result.details == {field: "update-replace"}


@pytest.mark.parametrize("field", ["labels", "taints", "scalingConfig", "releaseVersion", "updateConfig", "nodeRepairConfig"])
def test_what_eks_can_change_in_a_group_does_not_replace_it(field: str) -> None:
    assert change(GROUP, {field: "a"}, {field: "b"}).replaces == ()


def test_a_part_of_an_object_replaces_also_when_the_whole_object_appears() -> None:
    assert change(CLUSTER, {}, {"kubernetesNetworkConfig": {"ipFamily": "ipv6"}}).replaces == ("kubernetesNetworkConfig",)
    assert change(CLUSTER, {}, {"kubernetesNetworkConfig": {"elasticLoadBalancing": {"enabled": True}}}).replaces == ()


def test_an_object_that_cannot_be_updated_is_replaced_by_any_change() -> None:
    assert change("aws:ec2/flowLog:FlowLog", {"trafficType": "ALL"}, {"trafficType": "REJECT"}).replaces == ("trafficType",)


def test_tags_replace_nothing() -> None:
    assert change("aws:ec2/flowLog:FlowLog", {"tags": {"a": "b"}}, {"tags": {"a": "c"}}).replaces == ()


def test_a_replacement_deletes_first_only_when_the_name_stays() -> None:
    old, new = {"amiType": "a"}, {"amiType": "b"}
    assert change(GROUP, old, new, same_name=True).delete_before_replace
    assert not change(GROUP, old, new).delete_before_replace


def test_a_value_that_becomes_unknown_is_a_change() -> None:
    assert change(GROUP, {"nodeRoleArn": "arn"}, {"nodeRoleArn": UNKNOWN}).replaces == ("nodeRoleArn",)
