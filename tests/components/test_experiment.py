"""What an A/B release adds to a service's objects: one rule of its route, one filter of the gateway, and nothing that a client could use."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from components.model_service.manifests import Service
from components.model_service.release import Release
from components.model_service.routing import EXPERIMENT_HEADER
from components.model_service.traffic import Arm, Live, Split, Traffic
from tests.components.contracts import DEFECTS, changed, service

OLD = Release(model=changed({**DEFECTS, "batch": None}))
NEW = Release(model=changed({**DEFECTS, "batch": None}, artifact__version="2026.12.0"))
ARMS = (Live(release=OLD.id), Live(release=NEW.id, arm=Arm.CANARY, weight=0, fixed_replicas=1))
SPLIT = Split(release=NEW.id, experiment="tone", percent=20, user_claim="sub")


def made(split: Split | None = SPLIT, **changes: Any) -> Service:
    traffic = Traffic(arms=ARMS, split=replace(split, **changes) if split else None)
    return replace(service("defects"), model=OLD.model, releases={OLD.id: OLD, NEW.id: NEW}, traffic=traffic)


def by_role(found: Service) -> dict[str, Mapping[str, Any]]:
    return {manifest.role: manifest.body for manifest in found.manifests()}


def filter_of(found: Service) -> str:
    (patch,) = by_role(found)["experiment"]["spec"]["configPatches"]
    assert patch["match"]["context"] == "GATEWAY"
    return patch["patch"]["value"]["typed_config"]["default_source_code"]["inline_string"]


def test_an_experiment_is_one_filter_more_and_two_rules_of_the_route() -> None:
    plain, found = by_role(made(None)), by_role(made())
    assert set(found) - set(plain) == {"experiment"}
    assert {role for role in plain if plain[role] != found[role]} == {"route"}
    before = [rule["name"] for rule in plain["route"]["spec"]["http"]]
    after = [rule["name"] for rule in found["route"]["spec"]["http"]]
    assert [name for name in after if name not in before] == ["split-grpc", "split"]


def test_the_experiments_users_are_led_before_weights_are_looked_at_and_after_overload() -> None:
    with_fallback = service("defects-slice")
    new = Release(model=changed(with_fallback.model.model_dump(mode="json", exclude_none=True), artifact__version="2026.12.0"))
    (stable,) = with_fallback.traffic.arms
    split = Traffic(arms=(stable, Live(release=new.id, arm=Arm.CANARY, weight=0)), split=replace(SPLIT, release=new.id))
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
    ("change", "text"),
    [
        ({"percent": 33}, "found < 3300"),
        ({"experiment": "other"}, 'bucket("other", user)'),
        ({"user_claim": "https://example.com/id"}, '["payload"]["https://example.com/id"]'),
    ],
)
def test_the_filter_is_of_this_experiment(change: dict[str, Any], text: str) -> None:
    assert text in filter_of(made(**change))
    assert text not in filter_of(made())


def test_the_filter_leaves_other_hosts_alone() -> None:
    assert 'local hosts = {["defects.vision.inference.example.com"] = true}' in filter_of(made())


def test_an_experiment_gives_the_program_no_further_right_in_the_gateway() -> None:
    body = by_role(made())["experiment"]
    assert (body["kind"], body["metadata"]["namespace"]) == ("EnvoyFilter", "istio-ingress")
    assert body["metadata"]["labels"]["platform.io/tenant"] == "vision"


@pytest.mark.parametrize(
    ("arms", "split", "said"),
    [
        (ARMS, replace(SPLIT, release=OLD.id), "no canary without a weight"),
        (ARMS, replace(SPLIT, release="r0000000000"), "no canary without a weight"),
        ((Live(release=OLD.id, weight=90), Live(release=NEW.id, arm=Arm.CANARY, weight=10)), SPLIT, "no canary without a weight"),
        (ARMS, replace(SPLIT, percent=0), "outside 1 to 99"),
        (ARMS, replace(SPLIT, percent=100), "outside 1 to 99"),
    ],
)
def test_a_split_that_no_mesh_could_carry_out_is_refused(arms: tuple[Live, ...], split: Split, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Traffic(arms=arms, split=split)
