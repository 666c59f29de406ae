"""Events that an earlier Headway wrote: a canary with a mirror, a rolling update and an A/B release are read, and
written again as they were."""

import json
from pathlib import Path

import pytest

from headway.ledger.events import Event, canonical, parse
from headway.ledger.traffic_split import TrafficSplit, UserSplit
from headway.release.plan import RolloutPlan

STORED = [parse(line) for line in (Path(__file__).parent / "stored_events.jsonl").read_bytes().splitlines()]
DIVIDED = [event for event in STORED if "division" in event.body]
STARTED = [event for event in STORED if event.kind == "started"]


def named(event: Event) -> str:
    return f"{event.kind}-{event.number}"


@pytest.mark.parametrize("event", DIVIDED, ids=named)
def test_a_stored_traffic_split_is_written_again_byte_for_byte(event: Event) -> None:
    assert canonical(TrafficSplit.read(event.body["division"]).document()) == canonical(event.body["division"])


@pytest.mark.parametrize("event", STARTED, ids=named)
def test_a_stored_plan_is_written_again_byte_for_byte(event: Event) -> None:
    assert canonical(RolloutPlan.read(event.body["plan"]).document()) == canonical(event.body["plan"])


def test_a_stored_division_of_users_is_written_again_byte_for_byte() -> None:
    (split,) = [event.body["split"] for event in STARTED if "split" in event.body]
    assert canonical(UserSplit.read(split).document()) == canonical(split)


def test_the_stored_events_hold_every_part_of_a_traffic_split() -> None:
    splits = [TrafficSplit.read(event.body["division"]) for event in DIVIDED]
    assert any(split.mirror for split in splits) and any(split.user_split for split in splits)
    roles = {arm.role for split in splits for arm in split.arms}
    assert roles == {"stable", "baseline", "canary"}
    assert any(arm.at_most for split in splits for arm in split.arms)


def test_a_split_or_a_step_of_a_newer_headway_is_not_half_read() -> None:
    division = json.loads(json.dumps(DIVIDED[-1].body["division"]))
    division["arms"][0]["colour"] = "blue"
    with pytest.raises(TypeError):
        TrafficSplit.read(division)
    plan = json.loads(json.dumps(STARTED[0].body["plan"]))
    plan["steps"][0]["colour"] = "blue"
    with pytest.raises(TypeError):
        RolloutPlan.read(plan)
