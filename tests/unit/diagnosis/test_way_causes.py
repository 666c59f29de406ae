"""What the way from callers to replicas may do: the gateway and its limiter, the route against the ledger, certificates."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pytest

from headway.contract.units import Share
from headway.diagnosis import triage, way_states
from headway.diagnosis.cause_alert import place_of
from headway.diagnosis.facts import ChangeKind, State, StateKind
from headway.diagnosis.hypotheses.gateway import SHARED
from headway.diagnosis.observed import Observed
from headway.diagnosis.reasoning import diagnoses
from headway.ledger.traffic_split import ArmRole, TrafficArm, TrafficSplit
from headway.release.driver.rollout_state import ServiceState
from headway.wire import RELEASE_HEADER, WEIGHTS_ROUTE
from tests.unit.diagnosis.played import ONSET, hand, played, release, says

OLD, NEW = "r9876543210", "r0123456789"
AT = 1_800_000_000.0


def limited_before(since: float) -> Observed:
    """A third of the requests was refused until the limiter went away."""
    whole = played({"limiter_ready": 0.0, "queue": 0.050})
    line = tuple((moment, 0.3 if moment <= ONSET else since) for moment, _ in whole.series["limited"][""])
    return Observed(**{**whole.__dict__, "series": {**whole.series, "limited": {"": line}}})


FULL = {"gateway_closed": 5.0}
CASES: Mapping[str, Observed] = {
    "pool-full": played({"errors": 0.1, "pool_overflow": 0.1}),
    "limiter-slow": played({"limiter": 0.050, "latency": 0.080}),
    "limiter-away": limited_before(0.0),
    "gateway-throttled": played({"gateway_throttled": 0.5, "latency": 0.080}),
    "gateway-full": played(FULL),
    "noisy-neighbour": played({"gateway_throttled": 0.5, "latency": 0.080, "neighbours": 900.0}),
    "mesh-authority-over": played({"errors": 0.9, "unreached": 0.9, "mesh_authority_left": -60.0}),
    "certificate-invalid": played(states=(says(StateKind.CERTIFICATE_INVALID, subject="gateway"),)),
    "route-astray": played(states=(says(StateKind.ROUTE_ASTRAY, subject="defects"),)),
    "route-written-by-hand": played(
        states=(says(StateKind.ROUTE_ASTRAY, subject="defects"),), changes=(hand(ChangeKind.ROUTE, 0.0), hand(ChangeKind.QUOTA, 20.0))
    ),
}


def causes(observed: Observed) -> list[str]:
    return [each.cause for each in diagnoses(observed)]


@pytest.mark.parametrize("cause", CASES)
def test_what_the_way_did_is_the_one_cause(cause: str) -> None:
    assert causes(CASES[cause]) == [cause]


@pytest.mark.parametrize("cause", [each for each in CASES if each != "route-written-by-hand"])
def test_a_release_at_the_same_time_is_not_blamed_for_the_way(cause: str) -> None:
    assert causes(Observed(**{**CASES[cause].__dict__, "changes": (release(30.0),)})) == [cause]


@pytest.mark.parametrize("cause", sorted(SHARED))
def test_what_all_services_share_is_told_as_one_broken_thing(cause: str) -> None:
    (here,) = diagnoses(CASES[cause])
    (there,) = diagnoses(Observed(**{**CASES[cause].__dict__, "tenant": "assist", "model": "chat"}))
    assert place_of(here) == place_of(there) != place_of(diagnoses(CASES["pool-full"])[0])


def test_neighbours_who_ask_more_of_a_gateway_that_has_room_are_innocent() -> None:
    assert causes(played({"latency": 0.080, "neighbours": 900.0})) == ["way-longer"]


def test_neighbours_are_not_blamed_where_ones_own_callers_added_more() -> None:
    assert causes(played({"gateway_throttled": 0.5, "latency": 0.080, "neighbours": 300.0, "requests": 900.0})) == ["more-requests"]


def test_a_limiter_that_is_away_and_had_refused_nothing_is_no_cause() -> None:
    assert causes(played({"limiter_ready": 0.0, "compute": 0.060})) == ["model-slower"]


def test_what_is_not_asked_again_without_a_connection_is_no_full_pool() -> None:
    """Envoy calls both an overflow."""
    found = diagnoses(played({"errors": 0.3, "pool_overflow": 0.2, "refused_there": 0.3, "unreached": 0.1}))
    assert "pool-full" not in [each.cause for each in found]
    assert "pool-full" in {each.name for each in found[0].ruled_out}


def test_a_replicas_own_limit_is_told_from_the_gateways_pool() -> None:
    assert causes(played({"errors": 0.2, "overflow": 0.2})) == ["replicas-full"]


def test_a_gateway_that_is_full_makes_every_service_worth_a_look() -> None:
    asked = [each for each in triage.questions("1m", "1h") if "connection_limit" in each and "overload_actions" in each]
    assert len(asked) == 1 and "destination_service_namespace" in asked[0]


def split(**percent: int) -> TrafficSplit:
    roles = {OLD: ArmRole.STABLE, NEW: ArmRole.CANARY}
    return TrafficSplit(arms=tuple(TrafficArm(release=key, role=roles[key], weight=Share.percent(of)) for key, of in percent.items()))


def route(**percent: int) -> dict[str, Any]:
    led = [
        {
            "destination": {"host": f"defects-{key}.vision.svc.cluster.local"},
            "weight": of,
            "headers": {"response": {"set": {RELEASE_HEADER: key}}},
        }
        for key, of in percent.items()
    ]
    written = {"manager": "kubectl-edit", "time": "2026-11-29T00:50:00Z", "fieldsV1": {"f:spec": {}}}
    return {"metadata": {"name": "defects", "managedFields": [written]}, "spec": {"http": [{"name": WEIGHTS_ROUTE, "route": led}]}}


ARMS = [{"metadata": {"name": f"defects-{each}"}} for each in (OLD, NEW)]


def astray(routes: Sequence[dict[str, Any]], service: ServiceState, deployments: Sequence[Mapping[str, Any]] = ARMS) -> list[State]:
    return list(way_states.astray(routes, deployments, service, "defects"))


def test_a_route_with_the_ledgers_weights_is_not_astray() -> None:
    assert not astray([route(**{OLD: 90, NEW: 10})], ServiceState(split=split(**{OLD: 90, NEW: 10})))


def test_other_weights_than_the_ledgers_are_told_with_both_and_when() -> None:
    (found,) = astray([route(**{OLD: 0, NEW: 100})], ServiceState(split=split(**{OLD: 90, NEW: 10})))
    assert found.words == f"users go to {NEW} 100 %; the ledger says {NEW} 10 %, {OLD} 90 %"
    assert found.since is not None


def test_a_route_to_what_nobody_deployed_is_astray() -> None:
    (found,) = astray([route(**{OLD: 100})], ServiceState(split=split(**{OLD: 100})), [ARMS[1]])
    assert f"defects-{OLD}" in found.words


def test_a_service_without_a_route_sends_users_nowhere() -> None:
    (found,) = astray([], ServiceState(split=split(**{OLD: 100})))
    assert "no VirtualService" in found.words


def test_a_route_like_none_of_the_platforms_ends_no_diagnosis() -> None:
    (found,) = astray([{"metadata": {"name": "defects"}, "spec": {"http": "none"}}], ServiceState(split=split(**{OLD: 100})))
    assert "like none" in found.words


def test_of_a_service_that_no_ledger_knows_no_route_is_astray() -> None:
    assert not astray([route(**{OLD: 100})], ServiceState())


def certificate(until: str | None = "2027-01-15T08:00:00Z", ready: str = "True", ordered: str = "2026-10-17T08:00:00Z") -> dict[str, Any]:
    status = {"conditions": [{"type": "Ready", "status": ready, "message": "the order failed"}], **({"notAfter": until} if until else {})}
    return {"metadata": {"name": "gateway-tls", "creationTimestamp": ordered}, "spec": {"secretName": "tls"}, "status": status}


def invalid(found: dict[str, Any], secrets: Collection[str] = ("tls",)) -> list[State]:
    return list(way_states.invalid([found], secrets, at=AT))


def listener(secret: str, *hosts: str) -> dict[str, Any]:
    return {"spec": {"servers": [{"hosts": list(hosts), "tls": {"credentialName": secret}}, {"hosts": list(hosts)}]}}


@pytest.mark.parametrize(
    ("hosts", "counts"),
    [
        (("*.models.test", "models.test"), True),
        (("vision/*",), True),
        (("defects.vision.models.test",), True),
        (("*.other.test",), False),
        (("*.defects.vision.models.test",), False),
        (("models.test",), False),
    ],
)
def test_a_certificate_counts_where_a_listener_of_the_services_hosts_names_it(hosts: tuple[str, ...], counts: bool) -> None:
    routes = [{"spec": {"hosts": ["defects.vision.svc.cluster.local", "defects.vision.models.test"]}}]
    secrets = way_states.secrets([listener("tls", *hosts), listener("else", "*.elsewhere.test")], routes)
    assert secrets == ({"tls"} if counts else set())


def test_a_certificate_beside_the_gateway_that_no_listener_names_harms_nobody() -> None:
    over = certificate("2027-01-15T07:00:00Z", "False")
    assert invalid(over, ("tls",)) and not invalid(over, ("another",))


def test_a_certificate_that_ended_says_since_when_and_what_cert_manager_says() -> None:
    (found,) = invalid(certificate("2027-01-15T07:00:00Z", "False"))
    assert (found.kind, found.since) == (StateKind.CERTIFICATE_INVALID, AT - 3600)
    assert "the order failed" in found.words


def test_a_certificate_that_is_renewed_late_is_still_valid() -> None:
    assert not invalid(certificate("2027-01-16T08:00:00Z", "False"))


def test_a_certificate_that_has_just_been_ordered_is_on_its_way() -> None:
    assert not invalid(certificate(None, "False", "2027-01-15T07:55:00Z"))
    assert invalid(certificate(None, "False"))
