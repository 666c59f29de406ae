"""What events say of a release, by table."""

import tracemalloc
from dataclasses import replace
from typing import Any

import pytest

from headway.contract.rollout import Rollout
from headway.contract.units import Share
from headway.ledger.events import Event
from headway.ledger.traffic_split import ArmRole, TrafficArm, TrafficMirror, TrafficSplit, UserSplit
from headway.problem import UserError
from headway.release.driver.event_kinds import ReleaseOutcome
from headway.release.driver.rollout_state import RolloutFailure, RolloutState, ServiceState, fold, grows
from headway.release.plan import PoolCapacity, StepKind, plan

USERS = UserSplit(experiment="tone", share=Share.percent(20), user_claim="sub", hash="h")
POLICY = Rollout.model_validate(
    {"strategy": "ab", "split": {"share": "20%", "duration": "7d", "user_claim": "sub", "experiment": "tone"}, "bake": "2h"}
)
PLAN = plan(POLICY, PoolCapacity(replicas=4, free=8))
BEFORE = TrafficSplit.only("r1", "d1")


def divided(weight: int, *, replicas: int = 1, copies: int = 0, users: bool = False) -> TrafficSplit:
    arms = (
        TrafficArm(release="r1", weight=Share.percent(100 - weight)),
        TrafficArm(release="r2", role=ArmRole.CANARY, weight=Share.percent(weight), replicas=replicas),
    )
    mirror = TrafficMirror(release="r2", share=Share.percent(copies)) if copies else None
    return TrafficSplit(arms=arms, digests={"r1": "d1", "r2": "d2"}, mirror=mirror, user_split=USERS if users else None)


def moment(number: int) -> str:
    return f"2026-11-21T12:{number:02}:00+00:00"


def chain(*told: tuple[str, dict[str, Any]]) -> list[Event]:
    """A service with r1, a release of r2 that has begun, and what was told of it from event 3 on."""
    started = {"release": "r2", "digest": "d2", "stable": "r1", "stable_digest": "d1", "gate": "g1", "speed": 2, "split": USERS.document()}
    every = (("adopted", {"division": BEFORE.document()}), ("started", {**started, "plan": PLAN.document()}), *told)
    return [
        Event(number=number, previous="0" * 64, time=moment(number), actor="ann", kind=kind, body=body)
        for number, (kind, body) in enumerate(every, 1)
    ]


def after(*told: tuple[str, dict[str, Any]]) -> RolloutState:
    found = fold(chain(*told)).rollout
    assert found is not None
    return found


def intended(split: TrafficSplit) -> tuple[str, dict[str, Any]]:
    return ("intended", {"division": split.document()})


def observed(phase: str = "releasing", reason: str = "PASSED", **raw: Any) -> tuple[str, dict[str, Any]]:
    decision = {"phase": phase, "reason": reason, "sentence": "As the gate says it."}
    return ("observed", {"decision": decision, "window": {"end": 90.0}, "raw": raw})


def asked(wish: str) -> tuple[str, dict[str, Any]]:
    return ("asked", {"wish": wish, "reason": "because"})


APPLIED: tuple[str, dict[str, Any]] = ("applied", {})
SHIFTED: tuple[str, dict[str, Any]] = ("shifted", {})
STARTED = after()


def test_a_release_that_has_begun_is_what_its_event_says() -> None:
    started = after()
    assert replace(started, body={}) == RolloutState(
        number=2,
        time=moment(2),
        actor="ann",
        release="r2",
        digest="d2",
        stable="r1",
        stable_digest="d1",
        plan=PLAN,
        body={},
        gate="g1",
        before=BEFORE,
        split=BEFORE,
        split_number=2,
        last=moment(2),
        changed=moment(2),
    )
    assert (started.status, started.phase, started.user_split) == ("deploying", "preparing", USERS)
    assert fold(chain()).known == {"r1": "d1", "r2": "d2"}


@pytest.mark.parametrize(
    ("told", "changes"),
    [
        (("checked", {"sound": True}), {"checked": True}),
        (("learned", {"raw": {"edges": {"a": [1]}}}), {"learned": {"edges": {"a": [1]}}}),
        (intended(divided(0)), {"split": divided(0), "split_number": 3, "settled": False, "awaited": False}),
        (
            intended(divided(0, copies=50)),
            {
                "split": divided(0, copies=50),
                "split_number": 3,
                "settled": False,
                "awaited": False,
                "was_exposed": True,
                "grown": ((moment(3), 0),),
            },
        ),
        (intended(BEFORE), {"split_number": 3, "settled": False}),
        (APPLIED, {"was_deployed": True, "changed": moment(3)}),
        (("probed", {"step": "warm", "passed": True}), {"probed": frozenset({StepKind.WARM})}),
        (
            observed(answers={"compared": ["a", "b"]}),
            {
                "decision": {"phase": "releasing", "reason": "PASSED", "sentence": "As the gate says it."},
                "window_end": 90.0,
                "ticks": 1,
                "compared": frozenset({"a", "b"}),
            },
        ),
        (("due", {}), {"due": True}),
        (("regated", {"gate": "g2"}), {"gate": "g2"}),
        (("drifted", {}), {"settled": False, "drifts": 1}),
        (asked("freeze"), {"frozen": "because"}),
        (SHIFTED, {"shifted": True}),
        (("drained", {}), {"drained": True}),
        (("ended", {"outcome": "refused"}), {"outcome": ReleaseOutcome.REFUSED, "ended": {"outcome": "refused"}}),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_an_event_changes_what_it_tells_and_nothing_else(told: tuple[str, dict[str, Any]], changes: dict[str, Any]) -> None:
    assert after(told) == replace(STARTED, last=moment(3), **changes)


@pytest.mark.parametrize(
    ("told", "kind", "reason"),
    [
        (("checked", {"sound": False, "findings": ["no counters", "no clock"]}), "evidence", "no counters; no clock"),
        (("refused", {"reason": "a policy"}), "refused", "a policy"),
        (("failed", {"reason": "an API"}), "failed", "an API"),
        (("late", {"reason": "no node"}), "late", "no node"),
        (("probed", {"step": "golden", "passed": False, "reason": "wrong"}), "golden", "wrong"),
        (observed("rolled back", "SLOWER"), "gate", "As the gate says it."),
        (observed("rolled back", "OUT_OF_TIME"), "time", "As the gate says it."),
        (asked("rollback"), "asked", "because"),
    ],
    ids=["evidence", "refused", "failed", "late", "probe", "gate", "time", "person"],
)
def test_traffic_goes_back_for_what_is_told_first(told: tuple[str, dict[str, Any]], kind: str, reason: str) -> None:
    failed = after(intended(divided(10)), told)
    assert failed.failing == RolloutFailure(number=4, time=moment(4), kind=kind, reason=reason)
    assert failed.status == "draining" and not failed.unproven
    assert after(intended(divided(10)), told, ("late", {"reason": "later"}), observed("rolled back")).failing == failed.failing


def test_each_time_that_the_new_version_is_to_get_more_is_kept() -> None:
    steps = (divided(0), divided(0, copies=50), divided(10), divided(10, replicas=2), divided(50), divided(0))
    assert after(*map(intended, steps)).grown == ((moment(4), 0), (moment(5), 10), (moment(7), 50))


def test_what_is_told_of_a_step_settles_it() -> None:
    begun = (intended(divided(10)), ("drifted", {}))
    assert [after(*begun, (kind, {"reason": "x"})).settled for kind in ("refused", "failed", "applied", "shifted", "late")] == [
        True,
        True,
        True,
        True,
        False,
    ]
    assert [after(*begun, (kind, {"reason": "x"})).awaited for kind in ("refused", "ready", "late")] == [False, True, True]


def test_a_stack_that_fails_while_traffic_goes_back_is_left_unreconciled() -> None:
    failing = (intended(divided(10)), ("late", {"reason": "no node"}))
    for kind in ("refused", "failed"):
        found = after(*failing, intended(BEFORE), (kind, {"reason": "an API"}))
        assert (found.unreconciled, found.settled, found.failing) == (True, True, after(*failing).failing)
    replaced = after(intended(TrafficSplit.only("r2", "d2")), ("failed", {"reason": "an API"}))
    assert (replaced.unreconciled, replaced.replaced, replaced.failing) == (True, True, None)


def test_what_was_applied_only_to_go_back_was_never_deployed() -> None:
    back = (intended(divided(10)), ("late", {"reason": "no node"}), intended(BEFORE), APPLIED)
    assert not after(*back).was_deployed and after(*back).was_exposed
    assert after(intended(divided(0)), APPLIED, *back).was_deployed


def test_ticks_drifts_probes_and_compared_requests_add_up() -> None:
    found = after(
        ("probed", {"step": "warm", "passed": None}),
        ("probed", {"step": "synthetic", "passed": True}),
        observed(answers={"compared": ["a"]}),
        observed(),
        observed(answers={"compared": ["b"]}),
        ("drifted", {}),
        ("drifted", {}),
    )
    assert (found.ticks, found.drifts, found.compared) == (3, 2, {"a", "b"})
    assert found.probed == {StepKind.WARM, StepKind.SYNTHETIC} and found.failing is None


def test_users_are_divided_from_the_first_route_that_does_it_to_the_last() -> None:
    begun = (intended(divided(0, users=True)), APPLIED)
    now = after(*begun)
    assert (now.users_since, now.users_until, now.divided, now.held) == (moment(4), None, True, True)
    assert now.users_end is not None and now.users_end.isoformat() == "2026-11-25T00:04:00+00:00", "7 d at twice the speed"
    again = after(*begun, intended(divided(100)), SHIFTED, ("drifted", {}), APPLIED)
    assert (again.users_since, again.users_until, again.divided) == (moment(4), moment(6), False)
    resumed = after(*begun, intended(divided(100)), APPLIED, intended(divided(0, users=True)), APPLIED)
    assert (resumed.users_since, resumed.users_until) == (moment(4), None)
    assert after(intended(divided(10)), APPLIED).users_until is None and STARTED.users_end is None


@pytest.mark.parametrize(
    ("phase", "promoted"), [("releasing", "baking"), ("baking", "done"), ("done", "done"), ("rolled back", "rolled back")]
)
def test_a_person_who_promotes_ends_the_phase(phase: str, promoted: str) -> None:
    found = after(observed(phase, "SLOWER"), asked("promote"))
    assert found.phase == promoted
    assert found.promote == (None if phase == "rolled back" else "because")


def test_a_person_who_promotes_changes_nothing_before_there_is_a_decision() -> None:
    assert after(asked("promote")) == replace(STARTED, last=moment(3))


def test_a_person_takes_back_no_version_that_is_the_only_one() -> None:
    assert after(intended(TrafficSplit.only("r2", "d2")), asked("rollback")).failing is None


def test_a_person_holds_the_weight_until_it_is_resumed() -> None:
    assert (after(asked("freeze")).held, after(asked("freeze")).status) == (True, "held")
    assert not after(asked("freeze"), asked("resume")).held


def test_users_depend_on_an_unproven_version_until_its_last_step() -> None:
    at = (intended(divided(10)), APPLIED)
    assert after(*at).unproven and after(*at, observed()).unproven
    assert not after(*at, observed("baking")).unproven and not after(intended(divided(0))).unproven
    assert (after(*at).status, after(intended(divided(0)), APPLIED).status) == ("active", "deploying")


def test_what_is_told_after_the_end_is_about_no_release() -> None:
    ended = chain(("ended", {"outcome": "promoted"}), ("drifted", {}))
    service = fold(ended)
    assert service.running is None and service.rollout is not None and service.rollout.drifts == 0
    assert service.past == service.all == (service.rollout,)
    assert (service.count, service.begun_with(2), service.begun_with(3)) == (4, service.rollout, None)
    again = fold([replace(chain()[1], number=5)], service)
    assert [each.number for each in again.all] == [2, 5] and again.running is not None


def test_a_lease_is_the_services_and_no_releases() -> None:
    taken = fold([*chain(), replace(chain()[0], number=3, kind="lease", body={"holder": "me"})])
    assert taken.lease == {"holder": "me"} and taken.rollout == STARTED
    released = fold([replace(chain()[0], number=4, kind="lease-released", body={})], taken)
    assert (released.lease, released.count) == (None, 4)


def test_a_service_that_nobody_adopted_has_no_release() -> None:
    adopted, started = chain()
    assert fold([started]) == ServiceState(count=2)
    assert fold([adopted]).stable == "r1" and fold([]).stable is None


@pytest.mark.parametrize("length", [1e308, "1" * 20, [0]])
def test_a_step_that_lasts_what_no_time_is_is_refused(length: Any) -> None:
    """A text of a ledger would be repeated a million times, in the memory of whoever reads every service's."""
    plan = PLAN.document()
    plan["steps"][0]["at_most"] = length
    adopted, started = chain()
    tracemalloc.start()
    try:
        with pytest.raises(UserError, match=r"Event 2 .* says something that this Headway does not know"):
            fold([adopted, replace(started, body={**started.body, "plan": plan})])
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("odd", [("intended", {}), ("guessed", {}), ("ended", {"outcome": "maybe"}), ("learned", {})])
def test_an_event_that_means_nothing_here_is_refused(odd: tuple[str, dict[str, Any]]) -> None:
    with pytest.raises(UserError, match=r"Event 3 .* says something that this Headway does not know"):
        fold(chain(odd))


@pytest.mark.parametrize(
    ("now", "wanted", "more"),
    [
        (BEFORE, divided(0), True),
        (divided(0), BEFORE, False),
        (divided(0, replicas=2), divided(0, replicas=3), True),
        (divided(0, replicas=2), divided(50, replicas=2), False),
        (divided(0, replicas=3), divided(0, replicas=2), False),
        (BEFORE, TrafficSplit(arms=(TrafficArm(release="r1", at_least=1),)), True),
    ],
    ids=["an arm", "an arm less", "a replica", "weight alone", "a replica less", "a least of replicas"],
)
def test_replicas_are_awaited_where_an_arm_gets_more_of_them(now: TrafficSplit, wanted: TrafficSplit, more: bool) -> None:
    assert grows(now, wanted) is more
