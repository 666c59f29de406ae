"""Services and routes of the arms of a model. Expected values are written by hand."""

import json
from typing import Any

import pytest

from components.addons import istio, otel, prometheus
from components.model_service.manifests import ServicePlan
from components.model_service.release import Release
from headway.contract.units import Share
from headway.ledger.traffic_split import ArmRole, TrafficArm, TrafficMirror, TrafficSplit
from tests.components.contracts import DEFECTS, MODELS, SURROUNDINGS, bodies, changed, pool_of, service


def two_arms(weight: int = 10, **more: Any) -> ServicePlan:
    """The defects service with a canary beside its stable release."""
    old = Release(model=MODELS["defects"])
    new = Release(model=changed({**DEFECTS, "batch": None}, artifact__version="2026.12.0"))
    arms = (
        TrafficArm(release=new.id, role=ArmRole.CANARY, weight=Share.percent(weight)),
        TrafficArm(release=old.id, weight=Share.percent(100 - weight)),
        *more.pop("arms", ()),
    )
    return ServicePlan(
        tenant="vision",
        model=old.model,
        releases={old.id: old, new.id: new},
        traffic=TrafficSplit(arms=arms, **more),
        pool=pool_of(old.model),
        surroundings=SURROUNDINGS,
    )


def test_weights_name_whole_services_with_the_canary_last() -> None:
    found = two_arms(10)
    (route,) = bodies(found, "VirtualService")
    weights = route["spec"]["http"][-1]["route"]
    old, new = (live.release for live in found.traffic.ordered)
    assert [(d["destination"]["host"], d["weight"]) for d in weights] == [
        (f"defects-{old}.vision.svc.cluster.local", 90),
        (f"defects-{new}.vision.svc.cluster.local", 10),
    ]
    assert "subset" not in json.dumps(route)


def test_a_destination_of_two_ports_names_the_port_of_its_protocol() -> None:
    (route,) = bodies(two_arms(10), "VirtualService")
    grpc, plain = route["spec"]["http"][-2:]
    assert grpc["match"] == [{"headers": {"content-type": {"prefix": "application/grpc"}}}]
    assert [{d["destination"]["port"]["number"] for d in rule["route"]} for rule in (grpc, plain)] == [{8001}, {8000}]
    assert [d["weight"] for d in grpc["route"]] == [d["weight"] for d in plain["route"]]


def test_a_release_keeps_its_objects_when_its_part_changes() -> None:
    canary, release = two_arms(10), Release(model=changed({**DEFECTS, "batch": None}, artifact__version="2026.12.0"))
    alone = ServicePlan.of("vision", release.model, pool_of(release.model), SURROUNDINGS)
    kept = {m.role: m.body for m in canary.manifests() if m.role.startswith(release.id)}
    # Only who waits for its replicas is another: a candidate's driver, or the update.
    assert kept[f"{release.id}-server"]["metadata"]["annotations"].pop("pulumi.com/skipAwait") == "true"
    whole = {m.role: m.body for m in alone.manifests() if m.role.startswith(release.id)}
    whole[f"{release.id}-server"]["metadata"]["annotations"].pop("pulumi.com/timeoutSeconds")
    assert kept == whole


def test_a_dark_release_is_reached_by_name_from_inside_the_mesh_only() -> None:
    (route,) = bodies(two_arms(0), "VirtualService")
    named = [r for r in route["spec"]["http"] if r["name"].startswith("by-release")]
    assert len(named) == 4, "two arms, by HTTP and by gRPC"
    assert all(match["gateways"] == ["mesh"] for r in named for match in r["match"])


def test_who_bypasses_the_mesh_never_reaches_a_dark_release() -> None:
    found = two_arms(0)
    stable = next(b for b in bodies(found, "Service") if b["metadata"]["name"] == "defects")
    assert stable["spec"]["selector"]["platform.io/release"] == found.traffic.ordered[0].release


def test_the_baseline_is_the_stable_release_again_with_pods_of_its_own() -> None:
    old = Release(model=MODELS["defects"])
    found = two_arms(10, arms=(TrafficArm(release=old.id, role=ArmRole.BASELINE, weight=Share.percent(0), replicas=1),))
    servers = {b["metadata"]["name"]: b["spec"]["selector"]["matchLabels"] for b in bodies(found, "Deployment")}
    assert len(servers) == 3
    assert servers[f"defects-{old.id}"] != servers[f"defects-{old.id}-baseline"]
    scaler = next(b for b in bodies(found, "ScaledObject") if b["metadata"]["name"].endswith("-baseline"))
    assert (scaler["spec"]["minReplicaCount"], scaler["spec"]["maxReplicaCount"]) == (1, 1)


def test_a_version_scales_within_its_users_share_of_the_contracts_maximum() -> None:
    old = Release(model=MODELS["defects"])
    assert (MODELS["defects"].scaling.min_replicas, MODELS["defects"].scaling.max_replicas) == (2, 6)
    found = two_arms(0, arms=(TrafficArm(release=old.id, role=ArmRole.BASELINE, weight=Share.percent(0), at_least=1, at_most=3),))
    scaler = next(b["spec"] for b in bodies(found, "ScaledObject") if b["metadata"]["name"].endswith("-baseline"))
    assert (scaler["minReplicaCount"], scaler["maxReplicaCount"], scaler["fallback"]["replicas"]) == (1, 3, 1)


def test_a_mirror_adds_no_object_and_no_weight() -> None:
    plain, found = two_arms(0), two_arms(0)
    mirrored = two_arms(0, mirror=TrafficMirror(release=found.traffic.ordered[-1].release, share=Share.percent(25)))
    assert [m.role for m in mirrored.manifests()] == [m.role for m in plain.manifests()]
    (route,) = bodies(mirrored, "VirtualService")
    assert route["spec"]["http"][-1]["mirrorPercentage"] == {"value": 25.0}


@pytest.mark.parametrize(
    ("arms", "mirror", "said"),
    [
        ((TrafficArm(release="a", weight=Share.percent(90)),), None, "add up to 90"),
        ((TrafficArm(release="a"), TrafficArm(release="b", weight=Share.percent(0))), None, "2 arms are stable"),
        (
            (TrafficArm(release="a", weight=Share.percent(50)), TrafficArm(release="a", role=ArmRole.CANARY, weight=Share.percent(50))),
            None,
            "not all different",
        ),
        (
            (TrafficArm(release="a", weight=Share.percent(110)), TrafficArm(release="b", role=ArmRole.CANARY, weight=Share.percent(0))),
            None,
            "outside 0 to 100",
        ),
        ((TrafficArm(release="a"),), TrafficMirror(release="b", share=Share.percent(10)), "not live"),
        ((TrafficArm(release="a"),), TrafficMirror(release="a", share=Share.percent(0)), "outside 1 to 100"),
    ],
)
def test_a_division_that_no_mesh_could_carry_out_is_refused(arms: tuple[TrafficArm, ...], mirror: TrafficMirror | None, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        TrafficSplit(arms=arms, mirror=mirror)


def test_a_full_replica_tells_low_priority_to_come_back_later() -> None:
    (guard,) = bodies(service("defects"), "EnvoyFilter")
    last, others, _unreached = guard["spec"]["configPatches"][-1]["patch"]["value"]["typed_config"]["local_reply_config"]["mappers"]
    assert last["status_code"] == 429
    assert "status_code" not in others, "a priority that is kept gets the proxy's own 503"
    assert last["headers_to_add"] == others["headers_to_add"] == [{"header": {"key": "retry-after", "value": "2"}}]
    (limit,) = bodies(service("defects"), "Sidecar")
    assert limit["spec"]["inboundConnectionPool"]["http"]["http2MaxRequests"] == 48


def test_a_replicas_proxy_knows_every_service_that_it_is_told_to_report_to() -> None:
    told = {
        provider["service"]
        for each in istio.control_plane_values(otel.HOST, otel.PORT)["meshConfig"]["extensionProviders"]
        for provider in each.values()
        if isinstance(provider, dict)
    }
    assert told
    for name in ("chat", "defects", "embeddings"):
        (limit,) = bodies(service(name), "Sidecar")
        (imported,) = limit["spec"]["egress"]
        assert {f"{prometheus.NAMESPACE}/{host}" for host in told} <= set(imported["hosts"])


def test_overload_sends_the_priorities_of_the_contract_to_the_fallback() -> None:
    (route,) = bodies(service("defects-slice"), "VirtualService")
    degraded = next(r for r in route["spec"]["http"] if r["name"] == "degraded")
    assert degraded["match"] == [{"headers": {"x-degrade": {"exact": "defects-slice"}, "x-request-priority": {"exact": "normal"}}}]
    assert degraded["route"][0]["destination"] == {"host": "defects.vision.svc.cluster.local", "port": {"number": 8000}}
