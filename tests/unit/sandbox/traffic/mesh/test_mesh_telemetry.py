"""Envoy's access log as Istio's metrics, and the tokens of the sandbox's issuers."""

import json
from typing import Any

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


def test_buckets_are_cumulative_and_hold_their_upper_edge() -> None:
    text = told(line(duration=5), line(duration=6), line(duration=10**7))
    buckets = {each.split('le="')[1].split('"')[0]: int(each.rsplit(" ", 1)[1]) for each in text.splitlines() if "_bucket{" in each}
    assert (buckets["5"], buckets["6"], buckets["120000"], buckets["+Inf"]) == (1, 2, 2, 3)


def test_a_replicas_series_begin_at_zero_and_end_with_it() -> None:
    telemetry = Telemetry()
    telemetry.introduce("vision", "defects-r1", "p")
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
