"""Replicas that serve, as tests and measurements find, kill, double and fill them."""

import asyncio
import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sandbox.traffic import servers
from sandbox.traffic.kube import Object
from sandbox.traffic.load import LoadClient, LoadRequest
from sandbox.traffic.node.container_process import group
from tests.cluster.conftest import eventually
from tests.traffic.bed import Bed
from tests.traffic.serving import CLASSIFIER, PATIENCE, Serving, is_ready, page

SERVER, MODEL = "tritonserver", "triton_python_backend_stub"
ADMITTED = 64
"""The contract's `overload_at`."""


def records(serving: Serving, pod: Object) -> list[int]:
    """Leaders of the process groups that the agent has recorded for a pod."""
    folder = servers.folder(serving.bed.layout) / "node" / "records"
    found = folder.glob(f"{pod['metadata']['namespace']}_{pod['metadata']['name']}_*.json")
    return [json.loads(path.read_text())["pid"] for path in found]


def process(serving: Serving, pod: Object, program: str) -> int:
    """The pod's process of this program."""
    for leader in records(serving, pod):
        for pid in group(leader):
            if Path(f"/proc/{pid}/exe").readlink().name == program:
                return pid
    raise AssertionError(f"{pod['metadata']['name']} has no {program}")


def only_pod(serving: Serving) -> Object:
    def found() -> Object | None:
        pods = [each for each in serving.pods(CLASSIFIER) if is_ready(each) and not each["metadata"].get("deletionTimestamp")]
        return pods[0] if len(pods) == 1 and len(serving.pods(CLASSIFIER)) == 1 else None

    return eventually(found, within=PATIENCE)


def only_serving(serving: Serving) -> Object:
    """The replica of the stable release."""
    stable = next(iter(serving.bed.service(CLASSIFIER).releases))
    (pod,) = serving.pods(CLASSIFIER, stable)
    return pod


def kill(bed: Bed, name: str) -> None:
    """SIGKILL to a kept process of the sandbox, by its record."""
    found = next(each for each in bed.supervisor.list() if each.name == name)
    assert found.pid is not None
    os.kill(found.pid, signal.SIGKILL)


def two_replicas(serving: Serving) -> None:
    """Have two ready replicas of the classifier's stable release."""
    place = f"/apis/apps/v1/namespaces/{CLASSIFIER.tenant}/deployments"
    (deployment,) = serving.bed.kube.get(place)["items"]
    serving.bed.kube.merge(f"{place}/{deployment['metadata']['name']}/scale", {"spec": {"replicas": 2}})
    eventually(lambda: sum(map(is_ready, serving.pods(CLASSIFIER))) == 2, within=PATIENCE)
    admin = serving.bed.supervisor.port("envoy-admin")

    def behind() -> bool:
        lines = page(admin, "/clusters").splitlines()
        return sum(f"outbound|8000||{deployment['metadata']['name']}" in each and "health_flags::healthy" in each for each in lines) == 2

    eventually(behind, within=PATIENCE)


def one_replica(serving: Serving) -> None:
    place = f"/apis/apps/v1/namespaces/{CLASSIFIER.tenant}/deployments"
    (deployment,) = serving.bed.kube.get(place)["items"]
    serving.bed.kube.merge(f"{place}/{deployment['metadata']['name']}/scale", {"spec": {"replicas": 1}})
    eventually(lambda: len(serving.pods(CLASSIFIER)) == 1, within=PATIENCE)


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
