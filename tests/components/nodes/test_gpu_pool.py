"""GPU nodes: labelled and tainted for what they are, described to the autoscaler before they exist, launched as they
are bought.
"""

import base64
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pulumi
import pulumi_aws as aws
import pytest
from botocore.loaders import Loader
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from components.nodes.gpu_node import UNCUT_TAINT, labels, scale_from_zero, taints
from components.nodes.gpu_pool import GpuPool, GpuPoolArgs
from components.nodes.launch import NodeOptions, root_volume, user_data
from components.nodes.scaling import LiveGroup, anew
from components.nodes.sharing import mig_configs, plugin_configs
from headway.contract.pool import MOST_LABELS, Pool
from headway.contract.pool_parts import Disk
from tests.components.program import cloud_outputs
from tests.components.recording import Recording, record

HINT = "k8s.io/cluster-autoscaler/node-template/"
NOW = datetime(2026, 11, 21, tzinfo=UTC)


def pool(**changes: Any) -> Pool:
    """An H100 pool in one zone, changed."""
    given: dict[str, Any] = {
        "name": "h100",
        "instance_types": ["p5.48xlarge"],
        "zones": ["us-east-1c"],
        "size": {"min": 0, "max": 4},
        "workload_class": "throughput",
        "ami": {"release": "1.36.2-20260714", "driver": "580.159.03"},
    }
    return Pool(**{**given, **changes})


def registered(wanted: Pool, live: Mapping[str, LiveGroup] | None = None, now: datetime = NOW) -> Recording:
    def program() -> None:
        args = GpuPoolArgs(
            pool=wanted,
            cluster_name="headway-test",
            kubernetes_version="1.36",
            role_arn="arn:aws:iam::123456789012:role/nodes",
            subnet_ids={zone: f"subnet-{zone[-1]}" for zone in wanted.zones},
            volumes_key_arn="arn:aws:kms:us-east-1:123456789012:key/volumes",
            tags={"platform.io/environment": "test"},
            live=live or {},
            after=[],
            now=now,
        )
        GpuPool(wanted.name, args, pulumi.ResourceOptions(provider=aws.Provider("aws", region="us-east-1")))

    return record(program, outputs=cloud_outputs)


def group(wanted: Pool) -> Mapping[str, Any]:
    return registered(wanted).of_type("aws:eks/nodeGroup:NodeGroup")[0].inputs


def launch_template(wanted: Pool) -> Mapping[str, Any]:
    return registered(wanted).one("aws:ec2/launchTemplate:LaunchTemplate").inputs


def nodeadm(options: NodeOptions) -> dict[str, Any]:
    document = base64.b64decode(user_data(options)).decode()
    return json.loads(document[document.index("{") : document.rindex("}") + 1])


def test_each_zone_has_a_node_group_of_its_own() -> None:
    found = registered(pool(zones=["us-east-1a", "us-east-1c"])).of_type("aws:eks/nodeGroup:NodeGroup")
    assert {r.name: r.inputs["subnetIds"] for r in found} == {"h100-a": ["subnet-a"], "h100-c": ["subnet-c"]}


@pytest.mark.parametrize(
    ("live", "sent", "ignored"),
    [
        (None, 2, ("scalingConfig.desiredSize",)),
        (LiveGroup(desired=5, min=2, max=8), 2, ("scalingConfig.desiredSize",)),
        (LiveGroup(desired=1, min=1, max=8), 2, ()),
        (LiveGroup(desired=5, min=1, max=8), 5, ()),
        (LiveGroup(desired=9, min=2, max=12), 8, ()),
    ],
    ids=["new", "bounds as they are", "minimum above it", "minimum below it", "maximum below it"],
)
def test_an_update_of_bounds_sends_the_nodes_that_there_are(live: LiveGroup | None, sent: int, ignored: tuple[str, ...]) -> None:
    found = registered(pool(size={"min": 2, "max": 8}), {"h100-c": live} if live else {}).one("aws:eks/nodeGroup:NodeGroup")
    assert found.inputs["scalingConfig"] == {"desiredSize": sent, "minSize": 2, "maxSize": 8}
    assert found.ignore_changes == ignored, "EKS would end nodes that serve, or refuse the minimum"


def test_a_changed_template_waits_for_the_next_image_release() -> None:
    def waits(live: LiveGroup | None) -> bool:
        found = registered(pool(), {"h100-c": live} if live else {}).one("aws:eks/nodeGroup:NodeGroup")
        return "launchTemplate.version" in found.ignore_changes

    assert waits(LiveGroup(desired=1, min=0, max=4, release="1.36.2-20260714")), "EKS would take the newest image, with another driver"
    assert not waits(LiveGroup(desired=1, min=0, max=4, release="1.36.1-20260601"))
    assert not waits(None)


@pytest.mark.parametrize(
    ("bought", "types", "anew"),
    [("ON_DEMAND", ("p5.48xlarge",), False), ("SPOT", ("p5.48xlarge",), True), ("ON_DEMAND", ("p4de.24xlarge",), True), ("", (), False)],
    ids=["as it is", "bought otherwise", "other types", "not said"],
)
def test_a_group_that_is_made_anew_gets_the_nodes_of_the_former_one(bought: str, types: tuple[str, ...], *, anew: bool) -> None:
    live = LiveGroup(desired=5, min=0, max=8, release="1.36.2-20260714", bought=bought, instance_types=types)
    found = registered(pool(size={"min": 0, "max": 8}), {"h100-c": live}).one("aws:eks/nodeGroup:NodeGroup")
    assert found.inputs["scalingConfig"]["desiredSize"] == (5 if anew else 0), "the former nodes go within five minutes"
    assert bool(found.ignore_changes) is not anew, "and what the former template bought"


def test_a_group_has_room_for_the_tags_that_describe_its_nodes() -> None:
    labels, taints = {f"acme.com/l{n}": "x" for n in range(MOST_LABELS)}, [{"key": f"acme.com/t{n}"} for n in range(10)]
    largest = pool(labels=labels, taints=taints, sharing={"mode": "mig", "layout": {"1g.10gb": 1, "2g.20gb": 1, "3g.40gb": 1}})
    eks = 5  # its cluster and group, twice what the autoscaler goes by, and the cluster's owner
    more_profiles = 3
    assert len(scale_from_zero(largest)) + eks + more_profiles <= 50, "AWS refuses the tag, after the group is made"
    with pytest.raises(ValidationError):
        pool(labels={**labels, "acme.com/more": "x"})


@pytest.mark.parametrize(("zones", "again"), [("c", False), ("bc", True), ("", False)], ids=["as they are", "others", "not said"])
def test_a_group_is_made_anew_in_other_zones_alone(zones: str, *, again: bool) -> None:
    live = LiveGroup(desired=5, min=0, max=8, zones=frozenset(f"us-east-1{letter}" for letter in zones))
    assert anew(live, "ON_DEMAND", ("p5.48xlarge",), ("us-east-1c",)) is again, "EKS changes no group's subnets"


def test_a_gpu_node_keeps_off_whatever_asks_for_no_gpu() -> None:
    assert group(pool())["taints"] == [{"key": "nvidia.com/gpu", "value": "true", "effect": "NO_SCHEDULE"}]


MIG: dict[str, Any] = {"sharing": {"mode": "mig", "layout": {"1g.10gb": 7}}}
UNCUT = "platform.io/mig-layout"


def test_a_node_that_mig_is_to_cut_keeps_models_off_until_then() -> None:
    assert [(taint["key"], taint["effect"]) for taint in group(pool(**MIG))["taints"]] == [
        ("nvidia.com/gpu", "NO_SCHEDULE"),
        (UNCUT, "NO_SCHEDULE"),
    ], "a server would take a GPU that then cannot be cut; what cuts it must not be driven out"
    assert not any("kubernetes.io" in taint["key"] for taint in group(pool(**MIG))["taints"]), "EKS keeps such names to itself"


def test_eks_takes_the_taint_of_a_node_that_is_to_be_cut() -> None:
    shapes = Loader().load_service_model("eks", "service-2")["shapes"]
    assert len(UNCUT_TAINT.key) <= shapes["taintKey"]["max"] and len(UNCUT_TAINT.value) <= shapes["taintValue"]["max"]


@pytest.mark.parametrize(
    "more",
    [{"labels": {f"team.example.com/{'k' * 48}": "blue"}}, {"labels": {"team": ""}}, {"taints": [{"key": f"team.example.com/{'k' * 48}"}]}],
    ids=["a label", "a label without a value", "a taint"],
)
def test_a_pool_takes_no_label_or_taint_that_eks_refuses(more: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        pool(**more)


def test_the_autoscaler_hears_nothing_of_a_taint_that_passes() -> None:
    assert not [key for key in scale_from_zero(pool(**MIG)) if UNCUT in key], "it would strip it, and no pod would be planned by it"


def test_a_pools_own_taints_come_on_top() -> None:
    found = group(pool(taints=[{"key": "team", "value": "blue", "effect": "NoExecute"}]))["taints"]
    assert [(taint["key"], taint["effect"]) for taint in found] == [("nvidia.com/gpu", "NO_SCHEDULE"), ("team", "NO_EXECUTE")]


def test_a_mig_layout_is_on_the_node_when_it_joins() -> None:
    found = labels(pool(sharing={"mode": "mig", "layout": {"1g.10gb": 7}}))
    assert found["nvidia.com/mig.config"] == "all-1g.10gb"


@pytest.mark.parametrize("sharing", [{"mode": "mig", "layout": {"1g.10gb": 7}}, {"mode": "mps", "replicas": 4}], ids=["mig", "mps"])
def test_the_autoscaler_is_promised_whole_gpus_of_whole_gpu_nodes_only(sharing: dict[str, Any]) -> None:
    assert labels(pool())["k8s.amazonaws.com/accelerator"] == "h100"
    assert "k8s.amazonaws.com/accelerator" not in labels(pool(sharing=sharing)), "it would call the node unready, and remove it"
    assert scale_from_zero(pool(sharing=sharing))[f"{HINT}resources/nvidia.com/gpu"] == "0", "it would plan with eight whole ones"


def test_a_pools_own_labels_never_replace_the_platforms() -> None:
    assert labels(pool(labels={"platform.io/pool": "forged", "team": "blue"}))["platform.io/pool"] == "h100"


@pytest.mark.parametrize(
    ("sharing", "resources"),
    [
        ({"mode": "whole"}, {"nvidia.com/gpu": "8"}),
        ({"mode": "mig", "layout": {"1g.10gb": 7}}, {"nvidia.com/mig-1g.10gb": "56"}),
        ({"mode": "mps", "replicas": 4}, {"nvidia.com/gpu.shared": "32"}),
    ],
    ids=["whole", "mig", "mps"],
)
def test_the_autoscaler_knows_what_a_node_will_offer(sharing: dict[str, Any], resources: dict[str, str]) -> None:
    hints = scale_from_zero(pool(sharing=sharing))
    offered = {key.removeprefix(f"{HINT}resources/"): value for key, value in hints.items() if key.startswith(f"{HINT}resources/")}
    assert {key: value for key, value in offered.items() if key.startswith("nvidia.com") and value != "0"} == resources


def test_the_autoscaler_knows_every_label_and_taint_of_a_node() -> None:
    wanted = pool(labels={"team": "blue"}, taints=[{"key": "team", "value": "blue"}])
    hints = scale_from_zero(wanted)
    assert {key.removeprefix(f"{HINT}label/"): value for key, value in hints.items() if f"{HINT}label/" in key} == labels(wanted)
    assert {key.removeprefix(f"{HINT}taint/"): value for key, value in hints.items() if f"{HINT}taint/" in key} == {
        taint.key: f"{taint.value}:{taint.effect}" for taint in taints(wanted)
    }


def test_every_hint_is_a_tag_of_the_groups_own_scaling_group() -> None:
    wanted = pool(zones=["us-east-1a", "us-east-1c"])
    tagged = registered(wanted).of_type("aws:autoscaling/tag:Tag")
    assert len(tagged) == 2 * len(scale_from_zero(wanted))
    assert {r.inputs["autoscalingGroupName"] for r in tagged} == {"eks-h100-a", "eks-h100-c"}
    assert {r.inputs["tag"]["key"]: r.inputs["tag"]["value"] for r in tagged} == scale_from_zero(wanted)


def test_the_disk_that_images_land_on_is_what_the_autoscaler_hears_of() -> None:
    storage = f"{HINT}resources/ephemeral-storage"
    assert scale_from_zero(pool(model_cache="disk", disk={"size": "300Gi"}))[storage] == "300Gi"
    assert int(scale_from_zero(pool())[storage].removesuffix("Gi")) > 10_000, "a p5 has 30 TB of NVMe"


def test_an_update_terminates_before_it_launches() -> None:
    assert group(pool())["updateConfig"] == {"maxUnavailable": 1, "updateStrategy": "MINIMAL"}, "a reservation has no room for one more"


def test_a_healthy_node_is_not_replaced_because_the_agent_cannot_see_its_gpu() -> None:
    overrides = group(pool())["nodeRepairConfig"]["nodeRepairConfigOverrides"]
    assert {
        "nodeMonitoringCondition": "AcceleratedHardwareReady",
        "nodeUnhealthyReason": "DCGMError",
        "minRepairWaitTimeMins": 60,
        "repairAction": "NoAction",
    } in overrides


@pytest.mark.parametrize(
    ("capacity", "type_"),
    [
        ({"kind": "on_demand"}, "ON_DEMAND"),
        ({"kind": "reservation", "id": "cr-0123456789abcdef0"}, "ON_DEMAND"),
        ({"kind": "block", "id": "cr-0123456789abcdef0", "ends": "2026-12-01T00:00:00Z"}, "CAPACITY_BLOCK"),
    ],
    ids=["on_demand", "reservation", "block"],
)
def test_a_group_says_how_its_instances_are_bought(capacity: dict[str, str], type_: str) -> None:
    wanted = pool(capacity=capacity)
    assert group(wanted)["capacityType"] == type_
    target = launch_template(wanted).get("capacityReservationSpecification", {}).get("capacityReservationTarget", {})
    assert target.get("capacityReservationId") == capacity.get("id")


@pytest.mark.parametrize("kind", [{"kind": "reservation"}, {"kind": "block", "ends": "2026-12-01T00:00:00Z"}], ids=["reservation", "block"])
def test_a_reservation_is_named_without_a_preference_beside_it(kind: dict[str, str]) -> None:
    found = launch_template(pool(capacity={**kind, "id": "cr-0123456789abcdef0"}))["capacityReservationSpecification"]
    assert set(found) == {"capacityReservationTarget"}, "EC2's own texts disagree on whether it takes both"


def test_a_capacity_block_names_its_type_in_the_template_only() -> None:
    wanted = pool(capacity={"kind": "block", "id": "cr-0123456789abcdef0", "ends": "2026-12-01T00:00:00Z"})
    assert launch_template(wanted)["instanceType"] == "p5.48xlarge"
    assert launch_template(wanted)["instanceMarketOptions"] == {"marketType": "capacity-block"}
    assert "instanceTypes" not in group(wanted)


def test_a_group_is_empty_an_hour_before_its_capacity_block_ends() -> None:
    wanted = pool(capacity={"kind": "block", "id": "cr-0123456789abcdef0", "ends": "2026-12-01T00:30:00Z"})
    end = registered(wanted).one("aws:autoscaling/schedule:Schedule").inputs
    assert end["startTime"] == "2026-11-30T23:30:00Z", "EC2 would terminate the nodes with their requests"
    assert (end["desiredCapacity"], end["minSize"], end["maxSize"]) == (0, 0, 0), "the autoscaler could fill it again"
    assert end["autoscalingGroupName"] == "eks-h100-c"
    assert not registered(pool()).of_type("aws:autoscaling/schedule:Schedule")


@pytest.mark.parametrize(("minutes", "there"), [(-1, 1), (0, 0), (120, 0)], ids=["just before", "then", "the block has ended"])
def test_a_time_that_has_come_is_not_asked_of_auto_scaling(minutes: int, there: int) -> None:
    wanted = pool(capacity={"kind": "block", "id": "cr-0123456789abcdef0", "ends": "2026-12-01T00:30:00Z"})
    now = datetime(2026, 11, 30, 23, 30, tzinfo=UTC) + timedelta(minutes=minutes)
    assert len(registered(wanted, now=now).of_type("aws:autoscaling/schedule:Schedule")) == there, "it is refused, and ends every update"


def test_one_zone_is_updated_after_another() -> None:
    found = registered(pool(zones=["us-east-1a", "us-east-1b", "us-east-1c"])).of_type("aws:eks/nodeGroup:NodeGroup")
    urns = {r.name: r.urn for r in found}
    waits = {r.name: sorted(name for name, urn in urns.items() if urn in r.depends_on) for r in found}
    assert waits == {"h100-a": [], "h100-b": ["h100-a"], "h100-c": ["h100-a", "h100-b"]}, (
        "a service could lose a replica in each zone at once"
    )


@pytest.mark.parametrize(
    ("most", "at_once", "within"),
    [(1, 1, "60m"), (12, 1, "360m"), (12, 3, "120m"), (13, 3, "150m")],
    ids=["one", "each", "threes", "a rest"],
)
def test_an_update_may_take_as_long_as_its_nodes_take_in_turn(most: int, at_once: int, within: str) -> None:
    found = registered(pool(size={"min": 0, "max": most}, update={"max_unavailable": at_once})).one("aws:eks/nodeGroup:NodeGroup")
    assert found.update_within == within, "after the provider's hour the update fails, EKS goes on, and the next update begins beside it"


def test_a_spot_pool_is_bought_as_spot() -> None:
    assert group(pool(capacity={"kind": "spot"}, workload_class="batch"))["capacityType"] == "SPOT"


def test_warm_nodes_wait_as_asked() -> None:
    # Without the bound as many as the group has room for; with one above the other as many as its nodes leave of it.
    assert group(pool(warm={"size": 2, "state": "running"}))["warmPoolConfig"] == {
        "maxGroupPreparedCapacity": 2,
        "minSize": 2,
        "poolState": "RUNNING",
        "reuseOnScaleIn": True,
    }
    assert "warmPoolConfig" not in group(pool())


def test_a_group_pins_its_image() -> None:
    found = group(pool())
    assert (found["amiType"], found["releaseVersion"], found["version"]) == ("AL2023_x86_64_NVIDIA", "1.36.2-20260714", "1.36")


def test_nvme_is_striped_for_images_where_there_is_some() -> None:
    assert nodeadm(NodeOptions(stripe_nvme=True, parallel_pull=True))["spec"]["instance"] == {"localStorage": {"strategy": "RAID0"}}
    assert "instance" not in nodeadm(NodeOptions(stripe_nvme=False, parallel_pull=True))["spec"]


def test_images_are_pulled_in_parallel_only_onto_disks_that_keep_up() -> None:
    def parallel(**changes: Any) -> bool:
        document = base64.b64decode(launch_template(pool(model_cache="disk", **changes))["userData"]).decode()
        return "FastImagePull" in document

    assert parallel(disk={"throughput": "600Mi/s"})
    assert not parallel(disk={"throughput": "599Mi/s"})


def test_user_data_is_one_nodeadm_part() -> None:
    document = base64.b64decode(user_data(NodeOptions(stripe_nvme=False, parallel_pull=False))).decode()
    assert document.startswith('MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="headway-nodeadm"\n')
    assert document.count("Content-Type: application/node.eks.aws") == 1
    assert document.endswith("--headway-nodeadm--\n")


@given(st.integers(min_value=50, max_value=16_384))
def test_a_volume_is_never_smaller_than_asked(gibibytes: int) -> None:
    assert root_volume(Disk(size=f"{gibibytes}Gi")).gibibytes == gibibytes  # pyright: ignore[reportArgumentType]


def test_the_device_plugin_knows_every_mode_that_a_pool_selects() -> None:
    pools = [
        pool(),
        pool(name="shared", sharing={"mode": "mps", "replicas": 4}),
        pool(name="turns", sharing={"mode": "slice", "replicas": 2}),
    ]
    found = {name: json.loads(text) for name, text in plugin_configs(pools).items()}
    assert set(found) == {"exclusive", "mps-4", "slice-2"}
    assert found["mps-4"]["sharing"]["mps"]["resources"] == [{"name": "nvidia.com/gpu", "replicas": 4}]
    assert found["slice-2"]["sharing"]["timeSlicing"]["failRequestsGreaterThanOne"] is True, "asking for two turns gives no more than one"
    assert {labels(p)["nvidia.com/device-plugin.config"] for p in pools} == set(found)


def test_every_mig_layout_that_a_pool_selects_is_defined() -> None:
    found = mig_configs([pool(sharing={"mode": "mig", "layout": {"3g.40gb": 1, "1g.10gb": 3}})])
    assert found["custom-3x1g.10gb-1x3g.40gb"] == [{"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb": 3, "3g.40gb": 1}}]
    assert found["all-disabled"] == [{"devices": "all", "mig-enabled": False}]
