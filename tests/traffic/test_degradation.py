"""Saturation: a full replica refuses by priority and says when to come back; with a fallback, the priorities that may move are answered by it.

The replica is filled by stopping its model process for a moment (SIGSTOP): requests stay where they are, and what comes beyond the
contract's limit overflows.
"""

import asyncio
import dataclasses
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from headway.contract.degradation import Fallback
from sandbox.traffic.kube import Object
from sandbox.traffic.load import LoadAnswer, LoadClient, LoadRequest
from tests.cluster.conftest import eventually
from tests.traffic.bed import path_of
from tests.traffic.serving import CLASSIFIER, PATIENCE, RELEASE, Serving, page
from tests.traffic.test_node_agent import MODEL, only_pod, process

ADMITTED = 64
"""The contract's `overload_at`."""
FALLBACK = "triage"


def in_flight(serving: Serving, release: str) -> int:
    """Requests that the sidecar of the release's pod has let through and that are not answered."""
    lines = page(serving.bed.supervisor.port("envoy-admin"), "/clusters").splitlines()
    return sum(
        int(line.rsplit("::", 1)[1]) for line in lines if f"inbound|8000|quality/classifier-{release}" in line and "::rq_active::" in line
    )


class Callers(threading.Thread):
    """More callers than the replica lets through, each asking again as soon as it is answered, or a moment after it is refused."""

    def __init__(self, serving: Serving) -> None:
        super().__init__(daemon=True)
        self._serving, self._stopped = serving, threading.Event()

    def run(self) -> None:
        asyncio.run(self._all())

    def stop(self) -> None:
        self._stopped.set()
        self.join()

    async def _all(self) -> None:
        client, request = LoadClient(self._serving.addresses.gateway), self._serving.request(CLASSIFIER)
        await asyncio.gather(*(self._one(client, request) for _ in range(ADMITTED + 16)))
        client.close()

    async def _one(self, client: LoadClient, request: LoadRequest) -> None:
        while not self._stopped.is_set():
            answer = await client.send(request, client.now)
            if answer.status in (429, 503):
                await asyncio.sleep(0.25)


@contextmanager
def full(serving: Serving, pod: Object) -> Iterator[None]:
    """The pod's server holds as many requests as the contract lets through, until the end of this block."""
    model, release = process(serving, pod, MODEL), pod["metadata"]["labels"]["platform.io/release"]
    callers = Callers(serving)
    os.kill(model, signal.SIGSTOP)
    try:
        callers.start()
        eventually(lambda: in_flight(serving, release) >= ADMITTED)
        yield
    finally:
        os.kill(model, signal.SIGCONT)
        callers.stop()


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


def only_serving(serving: Serving) -> Object:
    """The replica of the stable release."""
    stable = next(iter(serving.bed.service(CLASSIFIER).releases))
    (pod,) = serving.pods(CLASSIFIER, stable)
    return pod
