"""What the driver reads from a cluster's objects and how it patches the route: the pure part."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headway.contract.rollout import LONGEST_UNWATCHED
from headway.contract.units import Share
from headway.environment.port import OutOfReachError
from headway.ledger.traffic_split import ArmRole, TrafficArm, TrafficMirror, TrafficSplit
from headway.release.driver.live_service import applied, owner, route_of
from headway.release.guard import overdue, safe
from headway.wire import SAFE_RELEASE, WATCHED_UNTIL

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def destination(release: str, weight: int) -> dict[str, Any]:
    host = f"defects-{release}.vision.svc.cluster.local"
    return {"destination": {"host": host}, "headers": {"response": {"set": {"x-model-release": release}}}, "weight": weight}


def live(*weights: tuple[str, int], mirror: str | None = None, notes: dict[str, str] | None = None) -> dict[str, Any]:
    entry: dict[str, Any] = {"name": "weights", "route": [destination(r, w) for r, w in weights], "timeout": "2000ms"}
    if mirror:
        entry |= {"mirror": {"host": f"defects-{mirror}.vision.svc.cluster.local"}, "mirrorPercentage": {"value": 100.0}}
    by_release = {"name": "by-release-r2", "match": [{}], "route": [{"destination": {"host": "x"}}]}
    return {
        "apiVersion": "networking.istio.io/v1",
        "kind": "VirtualService",
        "metadata": {
            "name": "defects",
            "namespace": "vision",
            "uid": "1",
            "resourceVersion": "7",
            "labels": {"platform.io/model": "defects"},
            "annotations": {"owner": "vision", **(notes or {})},
            "managedFields": [
                {"manager": "headway-release", "operation": "Update", "fieldsV1": {"f:metadata": {}}},
                {"manager": "pulumi-kubernetes-1", "operation": "Apply", "fieldsV1": {"f:metadata": {}, "f:spec": {}}},
            ],
        },
        "spec": {"hosts": ["defects"], "gateways": ["mesh"], "http": [by_release, entry]},
    }


def split(stable: int, canary: int, copies: int = 0) -> TrafficSplit:
    return TrafficSplit(
        arms=(
            TrafficArm(release="r1", role=ArmRole.STABLE, weight=Share.percent(stable)),
            TrafficArm(release="r2", role=ArmRole.CANARY, weight=Share.percent(canary)),
        ),
        digests={"r1": "a", "r2": "b"},
        mirror=TrafficMirror(release="r2", share=Share.percent(copies)) if copies else None,
    )


def test_a_route_is_read_by_the_header_that_names_the_release_that_answered() -> None:
    route = route_of(live(("r1", 90), ("r2", 10), mirror="r2"))
    assert route.weights == {"r1": Share.percent(90), "r2": Share.percent(10)}
    assert route.hosts == {"r1": "defects-r1", "r2": "defects-r2"}
    assert (route.mirrored, route.copies) == ("defects-r2", Share.percent(100))


@pytest.mark.parametrize(
    ("asked", "carried"),
    [(split(90, 10, 100), True), (split(90, 10), False), (split(95, 5, 100), False), (split(90, 10, 50), False)],
)
def test_a_route_carries_a_division_when_weights_and_copies_are_those(asked: TrafficSplit, carried: bool) -> None:
    assert route_of(live(("r1", 90), ("r2", 10), mirror="r2")).carries(asked) is carried


def test_a_patch_changes_weights_and_copies_and_says_everything_else_as_it_was() -> None:
    before = live(("r1", 90), ("r2", 10), mirror="r2", notes={WATCHED_UNTIL: "x", SAFE_RELEASE: "r1"})
    body = applied(before, split(100, 0))
    assert route_of(body).weights == {"r1": Share.percent(100), "r2": Share.percent(0)}
    assert route_of(body).mirrored is None
    assert body["spec"]["http"][0] == before["spec"]["http"][0]
    assert body["spec"]["http"][1]["timeout"] == "2000ms"
    assert body["metadata"] == {
        "name": "defects",
        "namespace": "vision",
        "resourceVersion": "7",
        "labels": {"platform.io/model": "defects"},
        "annotations": {"owner": "vision"},
    }, "neither the server's fields nor those of another owner, and refused where somebody changed it meanwhile"


def test_a_patch_gives_every_protocol_the_same_weights_and_leaves_each_its_port() -> None:
    before = live(("r1", 90), ("r2", 10))
    plain = before["spec"]["http"][-1]
    grpc = {**plain, "name": "weights-grpc", "match": [{"headers": {"content-type": {"prefix": "application/grpc"}}}]}
    grpc["route"] = [{**d, "destination": {**d["destination"], "port": {"number": 8001}}} for d in plain["route"]]
    before["spec"]["http"].insert(1, grpc)
    _, after_grpc, after = applied(before, split(50, 50, 100))["spec"]["http"]
    assert [d["weight"] for d in after_grpc["route"]] == [d["weight"] for d in after["route"]] == [50, 50]
    assert after_grpc["mirror"] == {"host": "defects-r2.vision.svc.cluster.local", "port": {"number": 8001}}
    assert after["mirror"] == {"host": "defects-r2.vision.svc.cluster.local"}


def test_a_patch_is_made_in_the_name_of_who_applies_the_spec() -> None:
    assert owner(live(("r1", 100))) == "pulumi-kubernetes-1"
    assert owner({"metadata": {}}) == "headway-release"
    created = {"manager": "pulumi-kubernetes", "operation": "Update", "fieldsV1": {"f:metadata": {}, "f:spec": {}}}
    assert owner({"metadata": {"managedFields": [created]}}) == "pulumi-kubernetes"


def test_a_route_that_lacks_an_arm_is_not_patched_into_losing_requests() -> None:
    with pytest.raises(OutOfReachError, match="does not name every arm"):
        applied(live(("r2", 100)), split(100, 0))


@pytest.mark.parametrize(
    ("weights", "until", "due"),
    [
        ((("r1", 90), ("r2", 10)), timedelta(seconds=-1), True),
        ((("r1", 90), ("r2", 10)), timedelta(seconds=1), False),
        ((("r1", 100), ("r2", 0)), timedelta(seconds=-1), False),
        ((("r2", 100),), timedelta(seconds=-1), False),
    ],
    ids=["overdue", "watched", "nothing to take back", "nothing to go back to"],
)
def test_the_guard_takes_back_what_nobody_watches_any_more(weights: tuple[tuple[str, int], ...], until: timedelta, due: bool) -> None:
    notes = {WATCHED_UNTIL: (NOW + until).isoformat(), SAFE_RELEASE: "r1"}
    assert overdue(live(*weights, notes=notes), NOW) is due


@pytest.mark.parametrize("until", ["soon", "", "2027-01-01T00:00:00", "9999-12-31T23:59:59+00:00", (NOW + timedelta(hours=3)).isoformat()])
def test_a_promise_that_no_driver_of_ours_writes_is_none(until: str) -> None:
    assert overdue(live(("r1", 90), ("r2", 10), notes={WATCHED_UNTIL: until, SAFE_RELEASE: "r1"}), NOW)


def test_a_promise_as_long_as_a_contract_may_ask_is_kept() -> None:
    notes = {WATCHED_UNTIL: (NOW + LONGEST_UNWATCHED).isoformat(), SAFE_RELEASE: "r1"}
    assert not overdue(live(("r1", 90), ("r2", 10), notes=notes), NOW)


def test_the_guard_ends_copies_too() -> None:
    notes = {WATCHED_UNTIL: (NOW - timedelta(seconds=1)).isoformat(), SAFE_RELEASE: "r1"}
    found = live(("r1", 100), ("r2", 0), mirror="r2", notes=notes)
    assert overdue(found, NOW)
    assert route_of(applied(found, safe(found))).mirrored is None


def test_the_guard_leaves_alone_what_no_runner_ever_promised_to_watch() -> None:
    assert not overdue(live(("r1", 90), ("r2", 10)), NOW)
