"""What an application meets at the gateway: its own tenant's tokens, limits and releases, real answers, and no lost request."""

import gzip
import json
from random import Random
from typing import Any

import pytest

from sandbox.traffic.load import LoadRequest
from tests.cluster.conftest import eventually
from tests.traffic.serving import CLASSIFIER, ENCODER, PATIENCE, RELEASE, Serving, lost, page


def test_every_golden_request_is_answered_rightly_through_the_gateway(serving: Serving) -> None:
    goldens = serving.bed.artifacts.golden("classifier")
    answers = [serving.ask(serving.request(CLASSIFIER, number)) for number in range(len(goldens))]
    scores = [json.loads(answer.body)["outputs"][0]["data"] for answer in answers]
    assert [each.index(max(each)) for each in scores] == [golden["expect"]["index"] for golden in goldens]


@pytest.mark.parametrize(
    ("case", "status"),
    [("own", 200), ("none", 403), ("another tenant's", 403), ("another audience", 403), ("expired", 401), ("forged", 401)],
)
def test_only_a_valid_token_of_the_tenants_own_issuer_opens_its_hosts(serving: Serving, case: str, status: int) -> None:
    token = {
        "own": "own",
        "none": None,
        "another tenant's": serving.token(ENCODER),
        "another audience": serving.token(CLASSIFIER, audience="somebody-else"),
        "expired": serving.token(CLASSIFIER, seconds=-600),
        "forged": serving.token(CLASSIFIER)[:-8] + "AAAAAAAA",
    }[case]
    assert serving.ask(serving.request(CLASSIFIER, token=token)).status == status


@pytest.mark.parametrize("packed", [False, True])
def test_a_body_beyond_the_contracts_largest_is_refused_before_the_model(serving: Serving, packed: bool) -> None:
    asked = serving.request(CLASSIFIER)
    before = serving.total("istio_requests_total", reporter="destination", response_code="413")
    # As white space goes, hard to compress: what unpacks to more than a hundred times its size a proxy cuts off.
    body = asked.body + bytes(Random(7).choices(b" \n\r\t", k=64 * 1024))
    sent, said = (gzip.compress(body), {"content-encoding": "gzip"}) if packed else (body, {})
    large = LoadRequest(path=asked.path, body=sent, headers={**asked.headers, **said})
    assert serving.ask(large).status == 413
    eventually(lambda: serving.total("istio_requests_total", reporter="destination", response_code="413") > before)


def test_a_tenant_beyond_its_rate_is_told_when_to_come_back(serving: Serving) -> None:
    results = serving.load(ENCODER, rate=160, seconds=4)
    refused = [each for each in results.answers if each.status == 429]
    assert len(refused) > len(results.answers) / 4, results.statuses
    assert {each.headers["retry-after"] for each in refused} == {"1"}
    served = len(results.answers) - len(refused)
    assert served <= 40 * (4 + 2) + 40, "no more than the rate, two saved seconds and one refill"


def test_administration_of_the_server_is_closed_to_applications(serving: Serving) -> None:
    asked = serving.request(CLASSIFIER)
    for path in ("/v2/repository/index", "/v2/models/classifier/trace/setting", "/v2/systemsharedmemory/status"):
        assert serving.ask(LoadRequest(path=path, body=b"{}", headers=asked.headers)).status == 403, path


def test_a_dark_release_answers_by_name_in_the_mesh_and_never_at_the_gateway(serving: Serving) -> None:
    stable, canary = serving.arms(CLASSIFIER, "identical", percent=0)
    try:
        eventually(lambda: serving.ready(CLASSIFIER, canary), within=PATIENCE)
        inside = {"host": f"classifier.{CLASSIFIER.tenant}.svc.cluster.local", RELEASE: canary}
        asked = serving.request(CLASSIFIER)
        dark = LoadRequest(path=asked.path, body=asked.body, headers={**asked.headers, **inside})
        eventually(lambda: serving.ask(dark, serving.addresses.mesh[8000]).headers.get(RELEASE) == canary)
        named: dict[str, Any] = {RELEASE: canary}
        found = [serving.ask(serving.request(CLASSIFIER, **named)).headers[RELEASE] for _ in range(20)]
        assert set(found) == {stable}
    finally:
        serving.retire(CLASSIFIER, canary)


def test_weights_are_kept_and_no_request_is_lost_when_they_change(serving: Serving) -> None:
    stable, canary = serving.arms(CLASSIFIER, "identical", percent=0)
    try:
        eventually(lambda: serving.ready(CLASSIFIER, canary), within=PATIENCE)

        def change() -> None:
            for percent in (10, 50, 25, 100, 0, 50):
                serving.weigh(CLASSIFIER, {stable: 100 - percent, canary: percent})
                eventually(lambda percent=percent: percent in _routed(serving, canary))

        results = serving.load(CLASSIFIER, rate=25, seconds=12, meanwhile=change)
        assert not lost(results)
        assert set(results.by(RELEASE)) == {stable, canary}
        last = [each.headers[RELEASE] for each in results.answers if each.due > results.answers[-1].due - 3]
        assert 0.2 < last.count(canary) / len(last) < 0.8, "the last weights are half and half, and those before none"
    finally:
        serving.retire(CLASSIFIER, canary)


def _routed(serving: Serving, canary: str) -> set[int]:
    """Weights of the canary in the route tables that Envoy has taken."""
    dump = json.loads(page(serving.bed.supervisor.port("envoy-admin"), "/config_dump?resource=dynamic_route_configs"))
    clusters = [
        each
        for table in dump["configs"]
        if table["route_config"]["name"] == "gateway-80"
        for host in table["route_config"]["virtual_hosts"]
        for route in host["routes"]
        for each in route.get("route", {}).get("weighted_clusters", {}).get("clusters", ())
    ]
    return {int(each["weight"]) if "weight" in each else 0 for each in clusters if canary in each["name"]}


def test_copies_reach_the_canary_are_told_apart_and_their_errors_reach_nobody(serving: Serving) -> None:
    stable, canary = serving.arms(CLASSIFIER, "dead", percent=0, copies=100)
    try:
        eventually(lambda: serving.ready(CLASSIFIER, canary), within=PATIENCE)
        # Slow enough for the stable replica on a starved machine, long enough for the canary to hang.
        results = serving.load(CLASSIFIER, rate=25, seconds=19)
        assert not lost(results)
        assert canary not in results.by(RELEASE)
        copies = {"destination_workload": f"classifier-{canary}", "mirrored": "true", "reporter": "destination"}
        eventually(lambda: serving.total("istio_requests_total", **copies) > 100)
        # Given up by the gateway after the contract's two seconds, or never let through.
        eventually(lambda: sum(serving.total("istio_requests_total", response_code=code, **copies) for code in ("0", "503")) > 10)
        assert serving.total("istio_requests_total", destination_workload=f"classifier-{stable}", mirrored="true") == 0
    finally:
        serving.retire(CLASSIFIER, canary)
