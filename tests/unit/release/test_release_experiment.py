"""A/B releases on a world in memory: users are divided for as long as was said, the gate may end it, and only people promote."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from headway.cli import release, release_view
from headway.contract.assignment import HASH, bucket, buckets_of
from headway.contract.model import Model
from headway.contract.reading.loader import load_tenant
from headway.contract.rollout import Rollout as Policy
from headway.contract.rollout import Split
from headway.contract.units import Share
from headway.ledger.events import Event, parse
from headway.ledger.reading import verify
from headway.ledger.serving import latest
from headway.ledger.traffic_split import TrafficSplit, UserSplit
from headway.problem import UserError
from headway.release import messages, service_place
from headway.release.driver import start as starting
from headway.release.driver import targets
from headway.release.driver.event_kinds import EventKind, OperatorRequest, ReleaseOutcome
from headway.release.driver.requests import ask
from headway.release.driver.rollout_state import RolloutState, ServiceState
from headway.release.driver.start import tick_of_an_experiment
from headway.release.driver.verify import recomputed
from headway.release.experiment import assigned
from headway.release.plan import PoolCapacity, plan
from headway.release.report import page
from tests.unit.release_kill import KilledError, Shelf, killed_at, walk
from tests.unit.release_world import BAD, CHAIN, Reading, Scene

TENANTS = Path(__file__).parents[3] / "tenants"
SPLIT = {"share": "20%", "duration": "1h", "user_claim": "sub", "experiment": "tone"}


@pytest.fixture(scope="module")
def contract() -> Model:
    (found,) = load_tenant(TENANTS / "vision").contracts
    return next(model for model in found.models if model.name == "defects")


def experiment(contract: Model, **rollout: Any) -> Scene:
    return Scene.of(Shelf(), contract, strategy="ab", **{"split": SPLIT, "mirror": None, **rollout})


@pytest.fixture
def scene(contract: Model) -> Scene:
    return experiment(contract)


@pytest.fixture
def longer_ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour's experiment in a dozen ticks."""
    monkeypatch.setattr(starting, "TICK_SECONDS", 300.0)


def deciding(scene: Scene, request: OperatorRequest, on: EventKind = EventKind.DUE) -> Callable[[Event, ServiceState], None]:
    """Somebody who decides as soon as something happened."""

    def told(event: Event, service: ServiceState) -> None:
        if event.kind == on and service.running:
            ask(scene.ledger("person"), request, "conversion rose by two points")

    return told


def when_divided(scene: Scene, act: Callable[[], object], ticks: int = 1) -> Callable[[Event, ServiceState], None]:
    """Something that happens once, after so many ticks, when users are divided; without more to happen a person ends it at its time."""
    done: list[object] = []

    def told(event: Event, service: ServiceState) -> None:
        rollout = service.running
        if event.kind == EventKind.OBSERVED and rollout and rollout.divided and rollout.ticks >= ticks and not done:
            done.append(act())

    return told


@pytest.fixture(scope="module")
def told_of(contract: Model) -> tuple[Scene, RolloutState, list[str]]:
    """A whole experiment that a person promotes at its end, and how `status` told of it at each tick."""
    scene, said = experiment(contract), list[str]()

    def told(event: Event, service: ServiceState) -> None:
        if event.kind == EventKind.OBSERVED and service.running:
            said.append(messages.why(service.running))
        deciding(scene, OperatorRequest.PROMOTE)(event, service)

    return scene, scene.run(told=told), said


def test_users_are_divided_for_the_time_that_was_said_and_a_person_promotes(told_of: tuple[Scene, RolloutState, list[str]]) -> None:
    scene, ended, _ = told_of
    assert ended.outcome is ReleaseOutcome.PROMOTED
    ups = [line for line in scene.world.done if line.startswith("up")]
    assert ups[:2] == ["up stable=100 canary=0", "up stable=100 canary=0 users=20"]
    assert ups[-3:] == ["up stable=5 canary=95", "up stable=0 canary=100", "up stable=100"]
    assert (scene.world.routed, scene.world.led) == ({scene.release: 100}, None)
    due = next(event for event in scene.ledger().read() if event.kind == EventKind.DUE)
    assert ended.users_since is not None and ended.users_end is not None
    assert ended.users_end - _time(ended.users_since) == timedelta(hours=1)
    assert _time(due.time) >= ended.users_end


def test_every_decision_of_an_experiment_is_made_again_from_its_ledger(told_of: tuple[Scene, RolloutState, list[str]]) -> None:
    scene = told_of[0]
    found = recomputed(scene.ledger().read(), Reading())
    assert (verify(scene.store, CHAIN, "sandbox"), found.flaws, found.foreign) == ((), (), ())
    assert found.decided == scene.kinds().count(EventKind.OBSERVED) > 60


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def test_the_old_release_keeps_its_users_until_the_new_one_has_replicas_for_all(told_of: tuple[Scene, RolloutState, list[str]]) -> None:
    done = told_of[0].world.done
    assert done[done.index("up stable=5 canary=95") - 1] == "up stable=100 canary=0 users=20", "more replicas, and users where they were"


def test_copies_come_before_users_where_the_contract_asks(contract: Model) -> None:
    scene = experiment(contract, mirror={"share": "100%"})
    scene.run(told=when_divided(scene, lambda: ask(scene.ledger("person"), OperatorRequest.ROLLBACK, "enough")))
    ups = [line for line in scene.world.done if line.startswith("up")]
    assert ups.index("up stable=100 canary=0 copies=100") < ups.index("up stable=100 canary=0 users=20")


def test_a_version_that_is_too_slow_for_its_users_goes_back_without_anyone(scene: Scene) -> None:
    scene.world.shares = BAD
    ended = scene.run()
    assert (ended.outcome, ended.failing and ended.failing.kind) == (ReleaseOutcome.ROLLED_BACK, "gate")
    assert (scene.world.routed, scene.world.led) == ({scene.stable: 100}, None)
    assert "up stable=100 canary=0 users=20" in scene.world.done
    assert ended.users_until is not None


def test_users_are_taken_back_on_the_route_before_the_stack_is_touched(scene: Scene) -> None:
    scene.world.errors = 0.6
    scene.run()
    assert scene.world.done[-2:] == ["patch", "up stable=100"]


def test_when_its_time_is_over_users_stay_divided_until_a_person_says_so(scene: Scene, longer_ticks: None) -> None:
    after: list[int] = []

    def told(event: Event, service: ServiceState) -> None:
        rollout = service.running
        if event.kind == EventKind.OBSERVED and rollout and rollout.due:
            assert scene.world.led == ("tone", scene.release)
            after.append(event.number)
            if len(after) == 10:
                ask(scene.ledger("person"), OperatorRequest.ROLLBACK, "no effect")

    ended = scene.run(told=told)
    assert ended.outcome is ReleaseOutcome.ROLLED_BACK
    assert scene.kinds().count(EventKind.DUE) == 1
    assert len(after) >= 10


def test_a_version_that_breaks_after_its_time_still_goes_back(scene: Scene, longer_ticks: None) -> None:
    def told(event: Event, _: ServiceState) -> None:
        if event.kind == EventKind.DUE:
            scene.world.errors = 0.6

    ended = scene.run(told=told)
    assert (ended.outcome, ended.failing and ended.failing.kind) == (ReleaseOutcome.ROLLED_BACK, "gate")


def test_what_anyone_needs_to_recompute_assignments_is_recorded_at_the_start(scene: Scene) -> None:
    scene.begin()
    started = scene.ledger().read()[-1]
    assert started.body["split"] == {"experiment": "tone", "share": 20, "user_claim": "sub", "hash": HASH}


def test_an_assignment_is_recomputed_from_the_ledger_during_and_after(scene: Scene) -> None:
    seen: list[bool] = []

    def look() -> None:
        rollout = scene.service().running
        assert rollout is not None
        seen.append(assigned(rollout, "alice").divided)
        ask(scene.ledger("person"), OperatorRequest.ROLLBACK, "enough")

    ended = scene.run(told=when_divided(scene, look))
    assert seen == [True]
    for user in ("alice", "bob", "carol"):
        found = assigned(ended, user)
        inside = bucket("tone", user) < buckets_of(20)
        assert (found.bucket, found.arm) == (bucket("tone", user), "canary" if inside else "stable")
        assert found.release == (scene.release if inside else scene.stable)
        assert (found.divided, found.since, found.until) == (False, ended.users_since, ended.users_until)


@pytest.mark.parametrize(
    ("user", "change", "refusal"),
    [
        ("alice", {"split": None}, "was no experiment"),
        ("alice", {"split": {"experiment": "t", "share": 20, "user_claim": "sub", "hash": "sha-1"}}, "divided users by sha-1"),
        ("", {}, "is no user"),
    ],
)
def test_what_cannot_be_recomputed_is_refused_by_name(scene: Scene, user: str, change: dict[str, Any], refusal: str) -> None:
    scene.begin()
    rollout = scene.service().rollout
    assert rollout is not None
    with pytest.raises(UserError, match=refusal):
        assigned(replace(rollout, body={**rollout.body, **change}), user)


def test_a_plan_in_the_middle_renders_the_division_of_users(scene: Scene) -> None:
    def look() -> None:
        found = latest(scene.store, CHAIN, "sandbox")
        assert found is not None
        assert found.user_split == UserSplit(experiment="tone", share=Share.percent(20), user_claim="sub", hash=HASH)
        assert found.led == ("tone", scene.release)
        assert TrafficSplit.read(found.document()) == found
        ask(scene.ledger("person"), OperatorRequest.ROLLBACK, "enough")

    assert scene.run(told=when_divided(scene, look)).outcome is ReleaseOutcome.ROLLED_BACK


def test_a_rule_that_somebody_took_off_the_route_is_put_back(scene: Scene) -> None:
    removed = when_divided(scene, lambda: setattr(scene.world, "led", None), ticks=3)

    def told(event: Event, service: ServiceState) -> None:
        removed(event, service)
        if event.kind == EventKind.DRIFTED:
            said = messages.said(event) or ""
            assert said.endswith(f", and its users of experiment tone are not led to {scene.release}; it will be set back.")
        if event.kind == EventKind.OBSERVED and service.running and service.running.drifts:
            assert scene.world.led == ("tone", scene.release)
            ask(scene.ledger("person"), OperatorRequest.ROLLBACK, "enough")

    assert scene.run(told=told).drifts == 1


def test_without_data_users_leave_the_new_version_until_data_is_back(scene: Scene) -> None:
    scene.world.answered = True
    blinded = when_divided(scene, lambda: setattr(scene.world, "answered", False), ticks=3)

    def told(event: Event, service: ServiceState) -> None:
        blinded(event, service)
        if not scene.world.answered and event.kind == EventKind.APPLIED and scene.world.led is None:
            scene.world.answered = True
        elif event.kind == EventKind.APPLIED and scene.world.done.count("up stable=100 canary=0 users=20") == 2:
            ask(scene.ledger("person"), OperatorRequest.ROLLBACK, "enough")

    ended = scene.run(told=told)
    assert scene.world.done[:4] == [
        "up stable=100 canary=0",
        "up stable=100 canary=0 users=20",
        "up stable=100 canary=0",
        "up stable=100 canary=0 users=20",
    ]
    assert ended.failing is not None and ended.failing.kind == "asked"


def test_an_experiment_that_nobody_watched_for_too_long_goes_back(scene: Scene) -> None:
    def told(event: Event, service: ServiceState) -> None:
        if event.kind == EventKind.OBSERVED and service.running and service.running.ticks == 6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        scene.run(told=told)
    assert scene.world.vouched is not None and scene.world.vouched > scene.world.clock, "the dead man's switch knows when to act"
    scene.world.clock += timedelta(minutes=11)
    ended = scene.driver("two").run()
    assert ended.outcome is ReleaseOutcome.ROLLED_BACK
    assert scene.world.led is None


def test_a_rollback_by_a_person_does_not_wait_for_the_gateway_or_the_stack(scene: Scene) -> None:
    ended = scene.run(told=deciding(scene, OperatorRequest.ROLLBACK, on=EventKind.LEARNED))
    assert ended.outcome in (ReleaseOutcome.ROLLED_BACK, ReleaseOutcome.REFUSED)
    assert not any("users" in line for line in scene.world.done)


# killed at every boundary ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def quick(contract: Model) -> Callable[[], Scene]:
    """An experiment that its version's errors end after a few ticks."""

    def made() -> Scene:
        scene = experiment(contract)
        scene.world.errors = 0.6
        return scene

    return made


@pytest.mark.parametrize("start", [1, 2, 3, 4, 5])
def test_a_killed_runner_of_an_experiment_is_taken_over_with_the_same_end(quick: Callable[[], Scene], start: int) -> None:
    for at, undisturbed, killed in walk(quick, every=5, start=start):
        assert killed == undisturbed, f"killed at boundary {at}"


def test_the_walk_meets_the_division_of_users(quick: Callable[[], Scene]) -> None:
    ending, boundaries = killed_at(quick(), None)
    assert boundaries > 50
    assert "up stable=100 canary=0 users=20" in ending.done


@pytest.mark.parametrize("written", [False, True], ids=["before", "after"])
def test_a_runner_killed_as_the_time_is_over_leaves_one_that_says_so_once(
    contract: Model, written: bool, monkeypatch: pytest.MonkeyPatch, longer_ticks: None
) -> None:
    scene, create = experiment(contract), Shelf.create

    def killed(store: Shelf, key: str, body: bytes) -> None:
        due = parse(body).kind == EventKind.DUE if "/events/" in key else False
        if written or not due:
            create(store, key, body)
        if due:
            monkeypatch.setattr(Shelf, "create", create)
            raise KilledError

    monkeypatch.setattr(Shelf, "create", killed)
    with pytest.raises(KilledError):
        scene.run()
    assert (scene.kinds().count(EventKind.DUE), scene.world.led) == (int(written), ("tone", scene.release))
    ask(scene.ledger("person"), OperatorRequest.PROMOTE, "it is better")
    ended = scene.driver("two", gone=lambda _: True).run()
    assert (ended.outcome, scene.kinds().count(EventKind.DUE)) == (ReleaseOutcome.PROMOTED, int(written))


# words ----------------------------------------------------------------------------------------------------------------------------------


def test_status_says_who_has_it_and_until_when(told_of: tuple[Scene, RolloutState, list[str]]) -> None:
    assert any(
        line.startswith("20 % of users have the new version in experiment tone, until 2026-11-21 13:") and "then a person decides" in line
        for line in told_of[2]
    )
    assert any("Both versions are as good for their users as the contract asks" in line for line in told_of[2])
    assert not any("a person holds the weight" in line for line in told_of[2])


def test_the_story_names_the_experiment_its_users_and_its_end(told_of: tuple[Scene, RolloutState, list[str]]) -> None:
    scene, _, _ = told_of
    lines = [text for event in scene.ledger().read() if (text := messages.said(event))]
    assert "The next traffic split is 20 % of users." in lines
    assert any("Experiment tone divides users by their sub." in line for line in lines)
    assert "The experiment's time is over. Users stay divided until somebody promotes or rolls back." in lines
    assert not any("a person holds the weight" in line for line in lines)


def test_the_report_says_that_users_were_divided_and_who_ended_it(told_of: tuple[Scene, RolloutState, list[str]]) -> None:
    scene, rollout, _ = told_of
    html = page.html(CHAIN, "sandbox", rollout, scene.ledger().read())
    assert "A lasting difference in latency or errors may come from the 20 % of users" in html
    assert "A person ended the experiment and promoted it: conversion rose by two points." in html
    assert f"tone: 20 % of users by their sub, by {HASH}" in html


def test_the_machine_readable_summary_tells_of_the_experiment(told_of: tuple[Scene, RolloutState, list[str]]) -> None:
    found = release_view.summary(told_of[1])["experiment"]
    assert {key: found[key] for key in ("experiment", "share", "user_claim", "hash", "running", "due")} == {
        "experiment": "tone",
        "share": 20,
        "user_claim": "sub",
        "hash": HASH,
        "running": False,
        "due": True,
    }
    assert found["since"] < found["ends"]


@pytest.fixture
def command(told_of: tuple[Scene, RolloutState, list[str]], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """`headway release assign` on that service's ledger."""
    here = SimpleNamespace(chain=CHAIN, ledger=told_of[0].ledger)
    monkeypatch.setattr(service_place, "place", lambda *_: here)
    return lambda *words, **more: CliRunner().invoke(release.app, ["assign", CHAIN, *words], **more)


def test_the_command_names_a_users_bucket_arm_and_release(
    command: Callable[..., Result], told_of: tuple[Scene, RolloutState, list[str]]
) -> None:
    scene, rollout, _ = told_of
    said = command("carol").stdout
    assert said == f"carol: bucket 880 of experiment tone, arm canary, release {scene.release} (until {rollout.users_until})\n"


def test_the_command_reads_many_users_and_answers_an_object_each(command: Callable[..., Result]) -> None:
    lines = [json.loads(line) for line in command("-", "--output", "json", input="alice\ncarol\n").stdout.splitlines()]
    assert [(line["user"], line["bucket"], line["arm"]) for line in lines] == [("alice", 3649, "stable"), ("carol", 880, "canary")]


@pytest.mark.parametrize(("words", "refusal"), [(("alice", "--number", "9"), "has no release 9; there are 1"), (("",), "is no user")])
def test_the_command_refuses_by_name(command: Callable[..., Result], words: tuple[str, ...], refusal: str) -> None:
    found = command(*words)
    assert isinstance(found.exception, UserError)
    assert refusal in str(found.exception)


# arithmetic -----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("duration", "seconds"), [("1h", 60), ("2d", 60), ("49h", 120), ("7d", 240), ("14d", 300), ("90d", 300)])
def test_a_long_experiment_is_judged_less_often_but_every_five_minutes(duration: str, seconds: float) -> None:
    assert tick_of_an_experiment(Split.model_validate({**SPLIT, "duration": duration})) == seconds


def bounds(found: TrafficSplit) -> list[tuple[str, int, int | None, int | None, int | None]]:
    return [(p.role, p.weight.whole_percent, p.replicas, p.at_least, p.at_most) for p in found.arms]


def test_while_users_are_divided_both_versions_share_the_services_maximum(scene: Scene) -> None:
    """Six at most, two run; the new version's fifth of six is two, and one of them was there from the start."""
    scene.begin()
    service = scene.service()
    assert service.rollout is not None and scene.new.scaling.max_replicas == 6
    first = service.rollout.body["first"]
    assert bounds(targets.judged(service.rollout, first)) == [("stable", 100, None, 2, 5), ("canary", 0, None, 1, 2)]
    blind = targets.judged(service.rollout, {**first, "weight": 0.0})
    assert bounds(blind) == [("stable", 100, None, 2, None), ("canary", 0, 1, None, None)], "the old version serves everyone again"


def test_neither_is_held_smaller_than_it_is_before_its_users_move(scene: Scene) -> None:
    scene.begin()
    service = scene.service()
    assert service.rollout is not None
    divided = targets.judged(service.rollout, service.rollout.body["first"])
    baking = targets.judged(service.rollout, {"phase": "baking"})
    assert bounds(baking) == [("stable", 5, 2, None, None), ("canary", 95, None, 2, None)]
    assert bounds(targets.capacity_first(divided, baking)) == [("stable", 100, None, 2, 5), ("canary", 0, None, 2, 2)]


@given(most=st.integers(1, 200), running=st.integers(1, 200), share=st.integers(1, 99))
def test_each_version_may_grow_to_its_users_share_and_both_fit_the_quota(most: int, running: int, share: int) -> None:
    running = min(running, most)
    user_split = {**SPLIT, "share": f"{share}%"}
    made = plan(Policy.model_validate({"strategy": "ab", "split": user_split}), PoolCapacity(replicas=running, free=1000), most)
    step = next(step for step in made.steps if step.kind == "split")
    assert step.scales_to is not None
    assert step.scales_to.canary * 100 >= most * share
    assert step.scales_to.stable * 100 >= most * (100 - share)
    assert sum(step.scales_to) == most + step.fleet.canary, "what a new version that keeps its replicas would take beside the old one"
    assert all(to >= now for to, now in zip(step.scales_to, step.fleet, strict=True))


def test_without_room_to_grow_neither_scales(contract: Model) -> None:
    policy = Policy.model_validate({"strategy": "ab", "split": SPLIT})
    made = plan(policy, PoolCapacity(replicas=4, free=0), 12)
    user_split = next(step for step in made.steps if step.kind == "split")
    assert (user_split.fleet.stable, user_split.fleet.canary, user_split.scales_to) == (3, 1, None)
    assert any("has to start it again" in note for note in made.notes)
