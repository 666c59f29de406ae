"""A split of traffic that no mesh could carry out is never made, so no event and no route can hold one."""

from typing import Any

import pytest

from headway.contract.units import Share
from headway.ledger.traffic_split import ArmRole, TrafficArm, TrafficMirror, TrafficSplit, UserSplit

STABLE = TrafficArm(release="a", weight=Share.percent(90))
CANARY = TrafficArm(release="b", role=ArmRole.CANARY, weight=Share.percent(10))
SILENT = TrafficArm(release="b", role=ArmRole.CANARY, weight=Share.percent(0))
WHOLE = TrafficArm(release="a")


def users(percent: int) -> UserSplit:
    return UserSplit(experiment="e", share=Share.percent(percent), user_claim="sub", hash="murmur3")


@pytest.mark.parametrize(
    ("split", "says"),
    [
        ({"arms": (STABLE, TrafficArm(release="a", role=ArmRole.CANARY, weight=Share.percent(10)))}, "not all different"),
        ({"arms": (TrafficArm(release="a", role=ArmRole.CANARY),)}, "0 arms are stable"),
        ({"arms": (STABLE, TrafficArm(release="b", weight=Share.percent(10)))}, "2 arms are stable"),
        ({"arms": (STABLE,)}, "add up to 90%"),
        ({"arms": (WHOLE, CANARY)}, "add up to 110%"),
        ({"arms": (WHOLE,), "mirror": TrafficMirror(release="b", share=Share.percent(5))}, "not live"),
        ({"arms": (WHOLE, SILENT), "mirror": TrafficMirror(release="b", share=Share.percent(0))}, "a mirror of 0%"),
        ({"arms": (STABLE, CANARY), "user_split": users(50)}, "no canary without a weight"),
        ({"arms": (WHOLE, SILENT), "user_split": users(0)}, "a division of 0%"),
        ({"arms": (WHOLE, SILENT), "user_split": users(100)}, "a division of 100%"),
    ],
)
def test_a_split_that_no_mesh_could_carry_out_is_refused(split: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        TrafficSplit(**split)


@pytest.mark.parametrize(
    "split",
    [
        {"arms": (STABLE, CANARY)},
        {"arms": (WHOLE, SILENT), "mirror": TrafficMirror(release="b", share=Share.percent(100))},
        {"arms": (WHOLE, SILENT), "user_split": users(1)},
        {"arms": (WHOLE, SILENT), "user_split": users(99)},
    ],
)
def test_a_split_that_adds_up_is_taken(split: dict[str, Any]) -> None:
    assert TrafficSplit(**split).arm(ArmRole.STABLE) is not None


@pytest.mark.parametrize("name", ["", "r1\x1b[2J", "<script>", "-r1", "R1", "a" * 64, 7, None])
def test_what_names_no_release_is_not_read(name: Any) -> None:
    document = TrafficSplit.only("r1").document()
    document["arms"][0]["release"] = name
    with pytest.raises(ValueError, match="names no release"):
        TrafficSplit.read(document)


def test_who_has_no_arm_has_no_weight() -> None:
    split = TrafficSplit(arms=(STABLE, CANARY))
    assert [split.weight(release, role) for release, role in (("b", ArmRole.CANARY), ("b", ArmRole.STABLE), ("c", ArmRole.CANARY))] == [
        Share.percent(10),
        Share.percent(0),
        Share.percent(0),
    ]
