"""The plan of a release: steps, replicas and where their GPUs come from."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.contract.rollout import Rollout, Surge
from headway.contract.units import Share
from headway.problem import Exit, UserError
from headway.release.plan import PoolCapacity, RolloutPlan, StepKind, plan

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
