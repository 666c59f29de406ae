"""Saturation: a full replica refuses by priority and says when to come back; with a fallback, the priorities that may move are answered by it.

The replica is filled by stopping its model process for a moment (SIGSTOP): requests stay where they are, and what comes beyond the
contract's limit overflows.
"""

import dataclasses
from collections.abc import Iterator

import pytest

from headway.contract.degradation import Fallback
from sandbox.traffic.load import LoadAnswer, LoadRequest
from tests.cluster.conftest import eventually
from tests.traffic.bed import path_of
from tests.traffic.replicas import full, only_pod, only_serving
from tests.traffic.serving import CLASSIFIER, PATIENCE, RELEASE, Serving

pytestmark = pytest.mark.slow

FALLBACK = "triage"


def refusal(serving: Serving, priority: str) -> tuple[int, str | None]:
    """How a caller of this priority is refused; one that is let in by chance asks again."""

    def refused() -> LoadAnswer | None:
        found = serving.ask(asked_by(serving, priority))
        return found if found.status in (429, 503) else None

    found = eventually(refused)
    return found.status, found.headers.get("retry-after")


def asked_by(serving: Serving, priority: str) -> LoadRequest:
    return serving.request(CLASSIFIER, token=serving.token(CLASSIFIER, priority=priority))


def test_a_full_replica_refuses_by_priority_and_says_when_to_come_back(serving: Serving) -> None:
    with full(serving, only_pod(serving)):
        assert refusal(serving, "low") == (429, "2")
        assert refusal(serving, "high") == (503, "2")
    serving.await_answer(CLASSIFIER)


@pytest.fixture
def laddered(serving: Serving) -> Iterator[Serving]:
    """The classifier with a fallback for callers of normal priority: a Service that leads to another release's replica."""
    _, other = serving.arms(CLASSIFIER, "identical", percent=0)
    eventually(lambda: serving.ready(CLASSIFIER, other), within=PATIENCE)
    (own,) = [
        each
        for each in serving.bed.kube.get(f"/api/v1/namespaces/{CLASSIFIER.tenant}/services")["items"]
        if each["metadata"]["name"] == f"{CLASSIFIER.model}-{other}"
    ]
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": FALLBACK, "namespace": CLASSIFIER.tenant, "labels": {}},
        "spec": {"selector": own["spec"]["selector"], "ports": [{"name": p["name"], "port": p["port"]} for p in own["spec"]["ports"]]},
    }
    stable = serving.bed.service(CLASSIFIER)
    ladder = stable.model.degradation.model_copy(
        update={"fallback": Fallback.model_validate({"model": FALLBACK, "priorities": ["normal"]})}
    )
    laddered = dataclasses.replace(stable, model=stable.model.model_copy(update={"degradation": ladder}), fallback=FALLBACK)
    serving.bed.apply([service, *(each.body for each in laddered.manifests() if each.body["kind"] in ("EnvoyFilter", "VirtualService"))])
    yield serving
    gone = {path_of(each.body) for each in laddered.manifests()} - {path_of(each.body) for each in stable.manifests()}
    serving.retire(CLASSIFIER, other)
    for path in (path_of(service), *sorted(gone)):
        serving.bed.kube.delete(path)


def test_at_saturation_each_priority_takes_its_own_rung_of_the_ladder(laddered: Serving) -> None:
    serving = laddered
    stable = only_serving(serving)
    with full(serving, stable):

        def normal() -> LoadAnswer | None:
            found = serving.ask(asked_by(serving, "normal"))
            return found if found.status == 200 else None

        assert eventually(normal).headers.get("x-degraded") == CLASSIFIER.model
        assert refusal(serving, "low") == (429, "2")
        assert refusal(serving, "high") == (503, "2")

    def back() -> bool:
        found = serving.ask(asked_by(serving, "normal"))
        return found.status == 200 and found.headers.get(RELEASE) == stable["metadata"]["labels"]["platform.io/release"]

    eventually(back, within=PATIENCE)
