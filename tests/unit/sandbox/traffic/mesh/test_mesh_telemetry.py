"""Envoy's access log as Istio's metrics, and the tokens of the sandbox's issuers."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from components.addons.istio import BUCKETS_ANNOTATION
from components.platform.replica_measures import annotations
from sandbox.traffic.mesh.telemetry import Telemetry
from sandbox.traffic.mesh.tokens import TokenIssuers


def line(**changes: Any) -> dict[str, Any]:
    return {
        "at": "destination",
        "authority": "defects.vision.inference.example.com",
        "class": None,
        "cluster": "inbound|8000|vision/p",
        "code": 200,
        "duration": 7,
        "flags": "-",
        "grpc": None,
        "type": "application/json",
        "namespace": "vision",
        "pod": "p",
        "workload": "defects-r1",
        **changes,
    }


def told(*lines: dict[str, Any]) -> str:
    telemetry = Telemetry()
    for each in lines:
        telemetry.take(each)
    return "".join(telemetry.exposition())


def test_a_copy_is_told_from_a_users_request_by_its_host() -> None:
    text = told(
        line(), line(authority="defects.vision.inference.example.com-shadow"), line(authority="a.vision.svc.cluster.local-shadow:8000")
    )
    requests = [each for each in text.splitlines() if each.startswith("istio_requests_total{")]
    assert sorted(each.split('mirrored="')[1].split('"')[0] for each in requests) == ["false", "true"]
    assert sorted(each.rsplit(" ", 1)[1] for each in requests) == ["1", "2"]


def test_a_request_that_no_replica_answered_is_counted_at_its_caller() -> None:
    text = told(line(at="source", cluster="outbound|8000||defects-r1.vision.svc.cluster.local", code=503, flags="UH"))
    (found,) = [each for each in text.splitlines() if each.startswith("istio_requests_total{")]
    for label in ('reporter="source"', 'destination_service_name="defects-r1"', 'response_code="503"', 'response_flags="UH"'):
        assert label in found
    assert found.endswith(" 1")


def bucketed(said: Mapping[str, str], *milliseconds: int) -> dict[str, int]:
    """The cumulative buckets of a replica whose pod has these annotations."""
    telemetry = Telemetry()
    telemetry.introduce("vision", "defects-r1", "p", said)
    for each in milliseconds:
        telemetry.take(line(duration=each))
    lines = [each for each in "".join(telemetry.exposition()).splitlines() if "_bucket{" in each and 'response_code="200"' in each]
    return {each.split('le="')[1].split('"')[0]: int(each.rsplit(" ", 1)[1]) for each in lines if 'request_class=""' in each}


def test_buckets_are_cumulative_and_hold_their_upper_edge() -> None:
    buckets = bucketed(annotations(), 5, 6, 10**7)
    assert (buckets["5"], buckets["6"], buckets["120000"], buckets["+Inf"]) == (1, 2, 2, 3)


@pytest.mark.parametrize("said", [{}, {BUCKETS_ANNOTATION: "not JSON"}, {BUCKETS_ANNOTATION: "[1]"}, {BUCKETS_ANNOTATION: '{"istio":[7]}'}])
def test_a_replica_whose_pod_tells_no_edges_counts_by_envoys_own(said: dict[str, str]) -> None:
    buckets = bucketed(said, 70)
    assert (len(buckets), buckets["0.5"], buckets["50"], buckets["100"], buckets["3600000"]) == (20, 0, 0, 1, 1)


def test_a_replicas_series_begin_at_zero_and_end_with_it() -> None:
    telemetry = Telemetry()
    telemetry.introduce("vision", "defects-r1", "p", annotations())
    assert 'pod="p"' in "".join(telemetry.exposition())
    telemetry.forget(set())
    assert "".join(telemetry.exposition()).count("\n") == 2


def test_a_token_is_signed_by_its_issuers_own_key(tmp_path: Any) -> None:
    issuers = TokenIssuers(tmp_path)
    one, other = issuers.keys("https://one"), issuers.keys("https://other")
    assert one == TokenIssuers(tmp_path).keys("https://one")
    assert one != other
    token = issuers.token("https://one", ["a"], "me", now=1000.0, seconds=60, claims={"priority": "high"})
    head, body, signature = token.split(".")
    assert json.loads(_decoded(body)) == {"priority": "high", "iss": "https://one", "aud": ["a"], "sub": "me", "iat": 1000, "exp": 1060}
    assert json.loads(_decoded(head))["kid"] == json.loads(one)["keys"][0]["kid"]
    assert len(_decoded(signature)) == 64


def _decoded(part: str) -> bytes:
    import base64

    return base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
