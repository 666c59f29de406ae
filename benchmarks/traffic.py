"""Measures real traffic for docs/benchmarks.md: `python -m benchmarks.traffic [--faults]`; prints a Markdown table. Needs .venv-traffic.

A bed of its own in a temporary folder, as tests/traffic lays it. Latencies are of this machine under whatever else it does; only ratios
and counts mean something elsewhere.
"""

import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from sandbox.cluster import linux
from sandbox.progress import Silent
from sandbox.traffic import servers
from sandbox.traffic.load import Request
from sandbox.traffic.node.process import group
from tests.cluster.conftest import eventually
from tests.traffic.bed import running
from tests.traffic.serving import CLASSIFIER, ENCODER, PATIENCE, RELEASE, Serving

CHANGES = (10, 50, 25, 100, 0, 75, 5, 60, 30, 90, 1, 40, 99, 20, 80, 15, 45, 70, 35, 50)


def weight_changes(serving: Serving) -> tuple[int, int, list[float]]:
    """Requests, failures over twenty weight changes, and the seconds from each patch to Envoy's route table."""
    import json

    from tests.traffic.serving import page

    stable, canary = serving.arms(CLASSIFIER, "identical", percent=0)
    eventually(lambda: serving.ready(CLASSIFIER, canary), within=PATIENCE)
    admin = serving.bed.supervisor.port("envoy-admin")
    took: list[float] = []

    def version() -> str:
        dump = json.loads(page(admin, "/config_dump?resource=dynamic_route_configs"))
        return next(each["version_info"] for each in dump["configs"] if each["route_config"]["name"] == "gateway-80")

    def change() -> None:
        for percent in CHANGES:
            before = version()
            serving.weigh(CLASSIFIER, {stable: 100 - percent, canary: percent})
            began = time.monotonic()
            eventually(lambda before=before: version() != before)
            took.append(time.monotonic() - began)
            time.sleep(5.0)

    results = serving.load(CLASSIFIER, 80, 130, change)
    serving.retire(CLASSIFIER, canary)
    assert set(results.by(RELEASE)) >= {stable, canary}
    return len(results.answers), len(results.failed), took


def overhead(serving: Serving) -> tuple[float, float]:
    """p50 and p99 through gateway and sidecar, divided by those of Triton asked directly, alternating in one run."""
    pod = serving.pods(ENCODER)[0]
    address = pod["metadata"]["annotations"]["sandbox.platform.io/address"]
    through, direct = [], []
    import asyncio

    from sandbox.traffic.load import Client

    async def both() -> None:
        gateway, triton = Client(serving.addresses.gateway), Client(8000, address)
        for number in range(1500):
            asked = serving.request(ENCODER, number) if number % 500 == 0 else asked  # noqa: F821  a token is made now and then
            plain = Request(path=asked.path, body=asked.body, headers={"host": address, "content-type": "application/json"})
            direct.append((await triton.send(plain, triton.now)).latency)
            through.append((await gateway.send(asked, gateway.now)).latency)
            await asyncio.sleep(0.03)  # below the tenant's rate

    asyncio.run(both())
    direct.sort(), through.sort()
    return tuple(through[int(share * len(through))] / direct[int(share * len(direct))] for share in (0.5, 0.99))  # type: ignore[return-value]


def memory(serving: Serving) -> int:
    """Proportional share of resident memory of every process of the bed, in MiB."""
    kept = sum(each.memory_bytes for each in serving.bed.supervisor.list())
    records = (servers.folder(serving.bed.layout) / "node" / "records").glob("*.json")
    import json

    pods = sum(linux.memory_bytes(pid) for path in records for pid in group(json.loads(path.read_text())["pid"]))
    return round((kept + pods) / 2**20)


def faults(serving: Serving) -> Iterator[tuple[str, int, int, float]]:
    """What is killed under a steady 30 requests a second: requests sent, lost, and seconds from the first lost to the last."""
    from sandbox.cluster.components import API_SERVER
    from sandbox.cluster.control_plane import Cluster
    from sandbox.traffic.mesh import envoy
    from tests.traffic.test_chaos import kill, one_replica, two_replicas
    from tests.traffic.test_node_agent import MODEL, SERVER, process

    bed = serving.bed

    def again() -> None:
        servers.start(bed.layout, Silent(), servers.Options(first_backoff_seconds=0.5))

    def tritons(program: str) -> None:
        os.kill(process(serving, serving.pods(CLASSIFIER)[0], program), signal.SIGKILL)

    cases: list[tuple[str, int, Callable[[], object]]] = [
        ("Triton, one of two replicas", 2, lambda: tritons(SERVER)),
        ("model process of one of two replicas", 2, lambda: tritons(MODEL)),
        ("Triton, the only replica", 1, lambda: tritons(SERVER)),
        ("Envoy, started again at once", 1, lambda: (kill(bed, envoy.NAME), again())),
        ("the mesh's control plane", 1, lambda: (kill(bed, servers.MESH), again())),
        ("the API server", 1, lambda: (kill(bed, API_SERVER), Cluster(bed.layout).start(Silent()))),
    ]
    for name, replicas, happens in cases:
        if replicas == 2:
            two_replicas(serving)
        results = serving.load(CLASSIFIER, 30, 40, happens)
        lost = [each.due for each in results.failed]
        yield name, len(results.answers), len(lost), max(lost) - min(lost) if lost else 0.0
        if replicas == 2:
            eventually(lambda: all(serving_ready(serving)), within=PATIENCE * 2)
            one_replica(serving)
        serving.await_answer(CLASSIFIER)


def serving_ready(serving: Serving) -> list[bool]:
    from tests.traffic.serving import is_ready

    return [is_ready(each) for each in serving.pods(CLASSIFIER)] or [False]


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="headway-traffic-") as folder:
        for bed in running(Path(folder), Silent()):
            serving = Serving.start(bed)
            for each in (CLASSIFIER, ENCODER):
                serving.await_answer(each)
            print(f"Load before: {os.getloadavg()[0]:.1f}.\n", flush=True)
            if "--faults" in sys.argv:
                print("| killed | requests | lost | seconds from first to last lost |\n|---|---|---|---|", flush=True)
                for name, sent, lost, span in faults(serving):
                    print(f"| {name} | {sent} | {lost} | {span:.1f} |", flush=True)
                continue
            print("| what | measured |\n|---|---|", flush=True)
            print(f"| memory of the whole bed, two services | {memory(serving)} MiB |", flush=True)
            half, tail = overhead(serving)
            print(f"| gateway and sidecar against direct Triton, one caller | p50 {half:.2f}x, p99 {tail:.2f}x |", flush=True)
            count, failed, took = weight_changes(serving)
            print(f"| requests over {len(CHANGES)} weight changes, failed | {count}, {failed} |", flush=True)
            took.sort()
            print(f"| from the patched VirtualService to Envoy's routes | median {took[len(took) // 2]:.3f} s, worst {took[-1]:.3f} s |")


if __name__ == "__main__":
    main()
