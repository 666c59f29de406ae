"""The plan of a release: steps, replicas and where their GPUs come from."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.contract.rollout import Rollout, Surge
from headway.contract.units import Share
from headway.problem import Exit, UserError
from headway.release.plan import Fleet, PoolCapacity, RolloutPlan, StepKind, plan, together

AMPLE = PoolCapacity(replicas=4, free=20)
SPLIT = {"share": "20%", "duration": "7d", "user_claim": "sub", "experiment": "tone"}


def policy(strategy: str = "canary", **fields: Any) -> Rollout:
    return Rollout.model_validate({"strategy": strategy, **fields})


def kinds(made: RolloutPlan) -> list[StepKind]:
    return list(dict.fromkeys(step.kind for step in made.steps))


BEFORE = [StepKind.DARK, StepKind.WARM, StepKind.SYNTHETIC, StepKind.GOLDEN]


@pytest.mark.parametrize(
    ("rollout", "expected"),
    [
        (policy(), [*BEFORE, StepKind.WEIGHT, StepKind.BAKE, StepKind.RETIRE]),
        (policy(mirror={"share": "100%"}), [*BEFORE, StepKind.MIRROR, StepKind.WEIGHT, StepKind.BAKE, StepKind.RETIRE]),
        (policy("blue_green", mirror={"share": "50%"}), [*BEFORE, StepKind.MIRROR, StepKind.BAKE, StepKind.RETIRE]),
        (policy("rolling"), [*BEFORE, StepKind.REPLACE, StepKind.BAKE, StepKind.RETIRE]),
        (policy("ab", split=SPLIT), [*BEFORE, StepKind.SPLIT, StepKind.BAKE, StepKind.RETIRE]),
        (policy("ab", split=SPLIT, mirror={"share": "100%"}), [*BEFORE, StepKind.MIRROR, StepKind.SPLIT, StepKind.BAKE, StepKind.RETIRE]),
    ],
    ids=["canary", "mirrored", "blue-green", "rolling", "ab", "mirrored ab"],
)
def test_each_strategy_is_the_same_plan_with_other_steps(rollout, expected):
    assert kinds(plan(rollout, AMPLE)) == expected


def test_a_canary_has_its_share_of_the_fleet_and_a_twin_of_the_stable_version():
    steps = [step for step in plan(policy(weights=["5%", "50%"]), AMPLE).steps if step.kind is StepKind.WEIGHT]
    assert [(str(s.weight), s.fleet.stable, s.fleet.baseline, s.fleet.canary) for s in steps] == [("5%", 4, 1, 1), ("50%", 4, 2, 2)]


def test_copies_go_to_as_many_replicas_as_their_share_needs():
    mirror = next(s for s in plan(policy(mirror={"share": "60%"}), AMPLE).steps if s.kind is StepKind.MIRROR)
    assert (mirror.fleet.stable, mirror.fleet.baseline, mirror.fleet.canary, mirror.weight) == (4, 0, 3, Share(0))


def test_with_room_the_old_version_stays_warm_while_the_new_one_bakes():
    bake = next(s for s in plan(policy(), AMPLE).steps if s.kind is StepKind.BAKE)
    assert (bake.fleet.stable, bake.fleet.canary, str(bake.weight)) == (4, 4, "95%")


@pytest.mark.parametrize(("held_back", "share", "weight"), [("0%", "0%", "100%"), ("2.4%", "2%", "98%"), ("0.1%", "1%", "99%")])
def test_what_is_held_back_in_the_bake_is_a_whole_percentage_of_the_contracts(held_back, share, weight):
    made = plan(policy(held_back=held_back), AMPLE)
    assert (str(made.held_back), str(made.one(StepKind.BAKE).weight)) == (share, weight)


@pytest.mark.parametrize("asked", [{"strategy": "rolling"}, {"surge": "no_surge"}])
def test_nobody_is_held_back_where_no_old_replicas_are_left(asked):
    made = plan(policy(**asked), AMPLE)
    assert str(made.held_back) == "0%"
    assert made.notes[-1].startswith("No old replicas are left while the new version bakes, so nobody is held back")


def test_a_plan_of_before_holds_nobody_back():
    old = plan(policy(held_back="0%"), AMPLE).document()
    assert RolloutPlan.read(old).held_back == 0


def test_a_rolling_update_replaces_one_replica_after_another():
    steps = [step for step in plan(policy("rolling"), AMPLE).steps if step.kind is StepKind.REPLACE]
    assert [(s.fleet.stable, s.fleet.canary, str(s.weight)) for s in steps] == [(3, 1, "25%"), (2, 2, "50%"), (1, 3, "75%")]


@pytest.mark.parametrize(
    ("room", "surge"),
    [
        (PoolCapacity(replicas=4, free=4), Surge.SURGE),
        (PoolCapacity(replicas=4, free=3, warm=1), Surge.BORROW),
        (PoolCapacity(replicas=4, free=3), Surge.NO_SURGE),
    ],
)
def test_gpus_come_from_the_first_source_that_suffices(room, surge):
    made = plan(policy(weights=["25%", "50%"]), room)
    assert made.surge is surge
    assert max(sum(step.fleet) for step in made.steps) <= room.replicas + room.free + room.warm


def test_a_baseline_arm_without_room_is_left_out_and_said():
    rollout = policy(weights=["90%"])
    made = plan(rollout, PoolCapacity(replicas=4, free=4))
    assert not made.baseline_arm
    assert made.notes[0].startswith("There is no room for a baseline arm.")
    assert plan(rollout, PoolCapacity(replicas=4, free=8)).baseline_arm


def test_without_surge_the_fleet_never_grows():
    made = plan(policy(weights=["25%", "50%"], surge="no_surge"), PoolCapacity(replicas=4, free=0))
    assert max(sum(step.fleet) for step in made.steps) == 4
    assert any("has to start it again" in note for note in made.notes)


def test_a_single_replica_without_room_is_refused():
    with pytest.raises(
        UserError, match=r"No plan of strategy canary fits with rollout\.surge auto: surge needs room for 2 .*no_surge"
    ) as refused:
        plan(policy(), PoolCapacity(replicas=1, free=0))
    assert refused.value.exit is Exit.REFUSED


def test_a_surge_that_was_asked_for_is_not_replaced_by_another():
    with pytest.raises(UserError, match="surge needs room for 8 replicas at once and has it for 4"):
        plan(policy(surge="surge"), PoolCapacity(replicas=4, free=0))


def test_times_are_those_of_the_contract():
    rollout = policy(mirror={"share": "100%", "timeout": "20m"}, step_at_least="7m", step_at_most="21m", bake="2h")
    times = {step.kind: (str(step.at_least), str(step.at_most)) for step in plan(rollout, AMPLE).steps}
    assert times[StepKind.MIRROR] == ("0s", "20m")
    assert times[StepKind.WEIGHT] == ("7m", "21m")
    assert times[StepKind.BAKE] == ("2h", "2h")


def told(made: RolloutPlan) -> list[tuple[str, str, str, tuple[int, int, int], str, str, bool]]:
    return [
        (
            s.kind.value,
            str(s.weight),
            str(s.mirror),
            (s.fleet.stable, s.fleet.baseline, s.fleet.canary),
            str(s.at_least),
            str(s.at_most),
            s.gated,
        )
        for s in made.steps
    ]


def test_a_plan_says_of_each_step_how_much_how_long_and_who_passes_it():
    rollout = policy(mirror={"share": "60%", "timeout": "20m"}, weights=["50%"], step_at_least="7m", step_at_most="21m", bake="2h")
    assert told(plan(rollout, AMPLE)) == [
        ("dark", "0%", "0%", (4, 0, 1), "0s", "30m", False),
        ("warm", "0%", "0%", (4, 0, 1), "0s", "15m", False),
        ("synthetic", "0%", "0%", (4, 0, 1), "0s", "15m", True),
        ("golden", "0%", "0%", (4, 0, 1), "0s", "15m", True),
        ("mirror", "0%", "60%", (4, 0, 3), "0s", "20m", True),
        ("weight", "50%", "0%", (4, 2, 2), "7m", "21m", True),
        ("bake", "95%", "0%", (4, 0, 4), "2h", "2h", True),
        ("retire", "100%", "0%", (0, 0, 4), "0s", "30m", False),
    ]


def test_without_room_the_old_version_gives_its_replicas_to_the_new_one():
    made = plan(policy(weights=["25%", "50%"], surge="no_surge", baseline_arm=False, bake="2h"), PoolCapacity(replicas=4, free=0))
    assert [(kind, weight, fleet) for kind, weight, _, fleet, *_ in told(made)][4:] == [
        ("weight", "25%", (3, 0, 1)),
        ("weight", "50%", (2, 0, 2)),
        ("bake", "100%", (0, 0, 4)),
        ("retire", "100%", (0, 0, 4)),
    ]


def test_a_rolling_update_bakes_without_an_old_version_whatever_room_there_is():
    assert [(kind, weight, fleet) for kind, weight, _, fleet, *_ in told(plan(policy("rolling"), AMPLE))][-2:] == [
        ("bake", "100%", (0, 0, 4)),
        ("retire", "100%", (0, 0, 4)),
    ]


def test_two_versions_that_divide_users_grow_to_shares_of_the_most_replicas():
    rollout = policy("ab", split=SPLIT)
    (split,) = [s for s in plan(rollout, AMPLE, most=10).steps if s.kind is StepKind.SPLIT]
    assert (str(split.weight), str(split.at_least), str(split.at_most), split.fleet) == ("20%", "7d", "7d", (4, 0, 1))
    assert split.gated is True
    assert split.scales_to == (9, 0, 2), "two of ten, and the old one what a new one that does not scale would leave"
    assert together(Fleet(4, 0, 1), Share.percent(20), most=4) == (4, 0, 1)
    assert all(s.scales_to is None for s in plan(rollout, AMPLE).steps)
    alone = plan(policy("ab", split=SPLIT, surge="no_surge"), PoolCapacity(replicas=4, free=0), most=10)
    assert all(s.scales_to is None for s in alone.steps)


@pytest.mark.parametrize(
    ("rollout", "room", "most"),
    [
        (policy(mirror={"share": "60%"}), AMPLE, None),
        (policy("ab", split=SPLIT), AMPLE, 10),
        (policy("rolling"), PoolCapacity(replicas=4, free=0), None),
    ],
    ids=["canary", "ab", "rolling"],
)
def test_a_plan_is_read_from_the_ledger_as_it_was_written(rollout, room, most):
    made = plan(rollout, room, most)
    assert RolloutPlan.read(json.loads(json.dumps(made.document()))) == made


def test_what_the_policy_cannot_have_is_noted():
    short = plan(policy(weights=["90%"]), PoolCapacity(replicas=4, free=2, warm=2))
    assert short.notes == (
        "There is no room for a baseline arm. The new version is compared with the whole stable version, which is of another size and age.",
        "Warm capacity is borrowed. A burst meanwhile waits for nodes.",
    )
    assert plan(policy(weights=["25%"]), AMPLE).notes == ()
    assert plan(policy("blue_green", held_back="0%", surge="no_surge"), PoolCapacity(replicas=4, free=0)).notes == (
        "There is no room for both versions. The old one shrinks as the new one grows; while baking, a rollback has to start it again.",
    )
    assert plan(policy("rolling", held_back="0%"), AMPLE).notes == ()


def test_an_arm_for_which_no_object_may_be_made_is_left_out_or_refused():
    assert plan(policy(), replace(AMPLE, arms=2)).baseline_arm and not plan(policy(), replace(AMPLE, arms=1)).baseline_arm
    with pytest.raises(UserError) as refused:
        plan(policy(), replace(AMPLE, arms=0, limits=("quota of vision", "two nodes")))
    assert "; no object of a further version may be made (quota of vision; two nodes)." in str(refused.value)


def test_room_is_recorded_in_numbers_and_words():
    assert PoolCapacity(replicas=4, free=2, warm=1, limits=("two nodes",)).document() == {
        "replicas": 4,
        "free": 2,
        "warm": 1,
        "arms": 2,
        "limits": ["two nodes"],
    }


@given(
    strategy=st.sampled_from(["canary", "blue_green", "rolling", "ab"]),
    replicas=st.integers(1, 12),
    free=st.integers(0, 30),
    warm=st.integers(0, 10),
)
def test_a_plan_fits_its_room_and_always_leaves_someone_to_answer(strategy, replicas, free, warm):
    rollout = policy(strategy, **({"split": SPLIT} if strategy == "ab" else {}))
    try:
        made = plan(rollout, PoolCapacity(replicas=replicas, free=free, warm=warm))
    except UserError:
        assert free + warm < 2 * replicas, "with room for both versions and a baseline there is always a plan"
        return
    weights = [int(step.weight) for step in made.steps]
    assert weights == sorted(weights), "traffic only grows"
    for step in made.steps:
        assert sum(step.fleet) <= replicas + free + warm
        assert step.fleet.canary >= 1
        assert step.fleet.stable >= 1 or int(step.weight) == Share.WHOLE
