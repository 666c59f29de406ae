"""What an A/B release adds to a service's objects: one rule of its route, a word to the gateway's filter, and
nothing that a client could use.
"""

import copy
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from components.model_service.manifests import ServicePlan
from components.model_service.release import Release
from components.model_service.routing import EXPERIMENT_HEADER
from components.platform import gateway_filters
from headway.contract.assignment import HASH
from headway.contract.units import Share
from headway.environment.port import OutOfReachError
from headway.ledger.traffic_split import ArmRole, TrafficArm, TrafficSplit, UserSplit
from headway.release.driver.live_service import applied, route_of
from headway.release.guard import overdue, safe
from headway.wire import SAFE_RELEASE, WATCHED_UNTIL
from tests.components.contracts import DEFECTS, changed, service

OLD = Release(model=changed({**DEFECTS, "batch": None}))
NEW = Release(model=changed({**DEFECTS, "batch": None}, artifact__version="2026.12.0"))
ARMS = (TrafficArm(release=OLD.id), TrafficArm(release=NEW.id, role=ArmRole.CANARY, weight=Share.percent(0), replicas=1))
SPLIT = UserSplit(experiment="tone", share=Share.percent(20), user_claim="sub", hash=HASH)


def made(split: UserSplit | None = SPLIT, **changes: Any) -> ServicePlan:
    traffic = TrafficSplit(arms=ARMS, user_split=replace(split, **changes) if split else None)
    return replace(service("defects"), model=OLD.model, releases={OLD.id: OLD, NEW.id: NEW}, traffic=traffic)


def by_role(found: ServicePlan) -> dict[str, Mapping[str, Any]]:
    return {manifest.role: manifest.body for manifest in found.manifests()}


def told(found: ServicePlan) -> Mapping[str, Any]:
    """What the gateway's filter of experiments knows of the model's only host."""
    (patch,) = by_role(found)["experiment"]["spec"]["configPatches"]
    assert patch["match"] == {"context": "GATEWAY", "routeConfiguration": {"vhost": {"domainName": "defects.vision.inference.example.com"}}}
    return patch["patch"]["value"]["typed_per_filter_config"][gateway_filters.EXPERIMENT]["filter_context"]


def test_an_experiment_is_one_object_more_and_two_rules_of_the_route() -> None:
    plain, found = by_role(made(None)), by_role(made())
    assert set(found) - set(plain) == {"experiment"}
    assert {role for role in plain if plain[role] != found[role]} == {"route"}
    before = [rule["name"] for rule in plain["route"]["spec"]["http"]]
    after = [rule["name"] for rule in found["route"]["spec"]["http"]]
    assert [name for name in after if name not in before] == ["split-grpc", "split"]


def test_an_experiments_rule_stands_after_overload_and_before_weights() -> None:
    with_fallback = service("defects-slice")
    new = Release(model=changed(with_fallback.model.model_dump(mode="json", exclude_none=True), artifact__version="2026.12.0"))
    (stable,) = with_fallback.traffic.arms
    split = TrafficSplit(arms=(stable, TrafficArm(release=new.id, role=ArmRole.CANARY, weight=Share.percent(0))), user_split=SPLIT)
    found = replace(with_fallback, releases={**with_fallback.releases, new.id: new}, traffic=split)
    names = [rule["name"] for rule in by_role(found)["route"]["spec"]["http"] if not rule["name"].endswith("-grpc")]
    assert names[-3:] == ["degraded", "split", "weights"]


def test_the_new_version_has_no_weight_beside_the_split() -> None:
    weights = by_role(made())["route"]["spec"]["http"][-1]
    assert [led["weight"] for led in weights["route"]] == [100, 0]


def test_only_the_gateway_leads_an_experiments_users_and_the_model_is_not_told() -> None:
    rule = next(rule for rule in by_role(made())["route"]["spec"]["http"] if rule["name"] == "split")
    (match,), (led,) = rule["match"], rule["route"]
    assert match == {"gateways": ["istio-ingress/headway"], "headers": {EXPERIMENT_HEADER: {"exact": "tone"}}}
    assert led["headers"]["request"] == {"remove": [EXPERIMENT_HEADER]}
    assert led["headers"]["response"] == {"set": {"x-model-release": NEW.id}}


@pytest.mark.parametrize(
    ("change", "known"),
    [
        ({"share": Share.percent(33)}, {"below": 3300}),
        ({"experiment": "other"}, {"experiment": "other"}),
        ({"user_claim": "https://example.com/id"}, {"claim": "https://example.com/id"}),
    ],
)
def test_the_gateway_knows_of_this_experiment(change: dict[str, Any], known: Mapping[str, Any]) -> None:
    assert told(made(**change)) == {"experiment": "tone", "claim": "sub", "below": 2000, **known}


def test_an_experiment_gives_the_program_no_further_right_in_the_gateway() -> None:
    body = by_role(made())["experiment"]
    assert (body["kind"], body["metadata"]["namespace"]) == ("EnvoyFilter", "istio-ingress")
    assert body["metadata"]["labels"]["platform.io/tenant"] == "vision"


@pytest.mark.parametrize(
    ("arms", "split", "said"),
    [
        ((ARMS[0], replace(ARMS[1], role=ArmRole.BASELINE)), SPLIT, "no canary without a weight"),
        ((ARMS[0],), SPLIT, "no canary without a weight"),
        (
            (
                TrafficArm(release=OLD.id, weight=Share.percent(90)),
                TrafficArm(release=NEW.id, role=ArmRole.CANARY, weight=Share.percent(10)),
            ),
            SPLIT,
            "no canary without a weight",
        ),
        (ARMS, replace(SPLIT, share=Share.percent(0)), "outside 1 to 99"),
        (ARMS, replace(SPLIT, share=Share.percent(100)), "outside 1 to 99"),
    ],
)
def test_a_split_that_no_mesh_could_carry_out_is_refused(arms: tuple[TrafficArm, ...], split: UserSplit, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        TrafficSplit(arms=arms, user_split=split)


# what the driver and the dead man's switch make of it ------------------------------------------------------------------------------------

AS_DIVIDED = TrafficSplit(
    arms=(TrafficArm(release=OLD.id), TrafficArm(release=NEW.id, role=ArmRole.CANARY, weight=Share.percent(0))),
    digests={OLD.id: "1", NEW.id: "2"},
    user_split=SPLIT,
)
NOON = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


def live(split: UserSplit | None = SPLIT, annotations: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The route as an API server would answer it."""
    body = copy.deepcopy(dict(by_role(made(split))["route"]))
    body["metadata"] = {**body["metadata"], "annotations": {**body["metadata"].get("annotations", {}), **(annotations or {})}}
    return body


def test_the_driver_reads_from_the_route_who_is_led_where() -> None:
    assert route_of(live()).led == ("tone", NEW.id)
    assert route_of(live()).carries(AS_DIVIDED)
    assert route_of(live(None)).led is None


@pytest.mark.parametrize(
    ("split", "asked"),
    [
        (None, AS_DIVIDED),
        (SPLIT, replace(AS_DIVIDED, user_split=None)),
        (replace(SPLIT, experiment="other"), AS_DIVIDED),
    ],
)
def test_a_route_that_leads_other_users_than_asked_is_not_carried(split: UserSplit | None, asked: TrafficSplit) -> None:
    assert not route_of(live(split)).carries(asked)


def test_a_rollback_removes_only_the_experiments_rules_of_both_protocols() -> None:
    back = applied(live(), replace(AS_DIVIDED, user_split=None))
    assert back["spec"]["http"] == by_role(made(None))["route"]["spec"]["http"]


def test_a_patch_that_keeps_the_division_keeps_the_rules() -> None:
    assert applied(live(), AS_DIVIDED)["spec"] == live()["spec"]


def test_users_cannot_be_led_by_a_patch_where_the_gateway_divides_nobody() -> None:
    with pytest.raises(OutOfReachError, match="leads no users of experiment tone"):
        applied(live(None), AS_DIVIDED)


def watched_until(time: datetime) -> dict[str, Any]:
    return live(annotations={WATCHED_UNTIL: time.isoformat(), SAFE_RELEASE: OLD.id})


def test_the_guard_returns_an_experiments_users_once_nobody_watches() -> None:
    assert not overdue(watched_until(NOON), NOON - timedelta(seconds=1))
    unwatched = watched_until(NOON)
    assert overdue(unwatched, NOON)
    taken = applied(unwatched, safe(unwatched))
    assert route_of(taken).led is None
    assert route_of(taken).weights == {OLD.id: Share.percent(100), NEW.id: Share.percent(0)}
    assert not overdue({**taken, "metadata": unwatched["metadata"]}, NOON), "and does so once"
