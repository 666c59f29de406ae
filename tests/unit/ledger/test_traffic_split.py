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


BASELINE = TrafficArm(release="a", role=ArmRole.BASELINE, weight=Share.percent(10))
COMPARED = TrafficSplit(arms=(CANARY, BASELINE, TrafficArm(release="a", weight=Share.percent(80))))
EVEN = TrafficSplit(
    arms=(TrafficArm(release="b", role=ArmRole.CANARY, weight=Share.percent(50)), TrafficArm(release="a", weight=Share.percent(50)))
)
DARK = TrafficSplit(arms=(SILENT, WHOLE))
COPIED = TrafficSplit(arms=(WHOLE, SILENT), mirror=TrafficMirror(release="b", share=Share.percent(5)))
DIVIDED = TrafficSplit(arms=(WHOLE, SILENT), user_split=users(50))


def test_arms_stand_in_the_order_in_which_the_canarys_weight_only_adds_users() -> None:
    assert [arm.key for arm in COMPARED.ordered] == ["a", "a-baseline", "b"]
    assert COMPARED.percentages == {"b": 10, "a-baseline": 10, "a": 80}


@pytest.mark.parametrize(("split", "primary"), [(COMPARED, "a"), (EVEN, "a"), (DARK, "a"), (TrafficSplit.only("c"), "c")])
def test_who_bypasses_the_mesh_meets_the_arm_with_the_greatest_weight(split: TrafficSplit, primary: str) -> None:
    """And of two with the same weight the stable one."""
    assert split.primary.release == primary


@pytest.mark.parametrize(
    ("split", "exposes"),
    [(TrafficSplit.only("a"), False), (DARK, False), (COMPARED, True), (EVEN, True), (COPIED, True), (DIVIDED, True)],
)
def test_a_new_version_is_exposed_by_its_weight_by_copies_or_by_divided_users(split: TrafficSplit, exposes: bool) -> None:
    assert split.exposes is exposes


def test_users_are_led_to_the_canary_only_where_they_are_divided() -> None:
    assert DIVIDED.led == ("e", "b")
    assert [split.led for split in (DARK, COPIED, EVEN)] == [None, None, None]
    assert TrafficSplit.only("a").arm(ArmRole.CANARY) is None


ODD: list[tuple[tuple[str | int, ...], Any]] = [
    (("arms", 0, "replicas"), "3"),
    (("arms", 0, "at_least"), 1.5),
    (("arms", 0, "at_most"), "9"),
    (("arms", 0, "arm"), "leader"),
    (("arms", 0, "weight"), "all"),
    (("digests", "a"), 7),
    (("split", "experiment"), 7),
    (("split", "user_claim"), None),
    (("split", "hash"), ["murmur3"]),
    (("split", "share"), "half"),
    (("split", "colour"), "red"),
]


@pytest.mark.parametrize(("at", "value"), ODD, ids=[".".join(map(str, at)) for at, _ in ODD])
def test_a_split_with_an_odd_value_is_not_read(at: tuple[str | int, ...], value: Any) -> None:
    document: Any = TrafficSplit(arms=DIVIDED.arms, digests={"a": "1" * 64}, user_split=DIVIDED.user_split).document()
    assert TrafficSplit.read(document).document() == document
    part = document
    for step in at[:-1]:
        part = part[step]
    part[at[-1]] = value
    with pytest.raises((TypeError, ValueError)):
        TrafficSplit.read(document)
