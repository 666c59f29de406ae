"""Measures real traffic for docs/benchmarks.md: `python -m benchmarks.traffic [bed] [weights] [reach] [faults] [fairness]`; prints Markdown tables.

A bed of its own in a temporary folder, as tests/traffic lays it. Latencies are of this machine under whatever else it does; only ratios
and counts mean something elsewhere. Whole releases are measured by traffic_rollouts.py. Needs .venv-traffic.
"""

import argparse
import asyncio
import json
import os
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from sandbox.cluster import linux
from sandbox.cluster.control_plane import SandboxCluster
from sandbox.cluster.control_plane_programs import API_SERVER
from sandbox.progress import Silent
from sandbox.traffic import servers
from sandbox.traffic.load import LoadClient, LoadRequest, LoadResults, quantile, run
from sandbox.traffic.mesh import envoy
from sandbox.traffic.node.container_process import group
from tests.cluster.conftest import eventually
from tests.traffic.bed import running
from tests.traffic.replicas import MODEL, SERVER, full, kill, one_replica, only_serving, process, two_replicas
from tests.traffic.serving import CLASSIFIER, ENCODER, PATIENCE, RELEASE, Serving, is_ready, page
from tests.traffic.slow import idle_connections, slow_bodies, slow_heads


class AccessLog:
    """What Envoy has logged since this was made."""

    def __init__(self, serving: Serving) -> None:
        self._path = serving.bed.layout.logs / "envoy-access.log"
        self._begins = self._path.stat().st_size

    def lines(self) -> list[dict[str, Any]]:
        time.sleep(_FLUSHED_SECONDS)
        with self._path.open() as stream:
            stream.seek(self._begins)
            return [json.loads(line) for line in stream]

    def failures(self) -> str:
        """How often proxies saw which failure: at the caller (source) or the replica (destination), status, response flags."""
        failed = (line for line in self.lines() if line["code"] >= 500 or line["code"] == 0)
        seen = Counter(f"{line['at']} {line['code']} {line['flags']}" for line in failed)
        return ", ".join(f"{name}: {count}" for name, count in sorted(seen.items()))


_FLUSHED_SECONDS = 0.5
CHANGES = (10, 50, 25, 100, 0, 75, 5, 60, 30, 90, 1, 40, 99, 20, 80, 15, 45, 70, 35, 50)


def weights(serving: Serving) -> Iterator[str]:
    """Twenty weight changes under 80 requests a second: what was lost, and by which of Envoy's response flags."""
    stable, canary = serving.arms(CLASSIFIER, "identical", percent=0)
    eventually(lambda: serving.ready(CLASSIFIER, canary), within=PATIENCE)
    log = AccessLog(serving)

    def change() -> None:
        for percent in CHANGES:
            serving.weigh(CLASSIFIER, {stable: 100 - percent, canary: percent})
            time.sleep(5.5)

    results = serving.load(CLASSIFIER, 80, 130, change)
    why = f" ({log.failures()})" if results.failed else ""
    serving.retire(CLASSIFIER, canary)
    assert set(results.by(RELEASE)) >= {stable, canary}
    yield "| what | measured |"
    yield "|---|---|"
    yield f"| requests over {len(CHANGES)} weight changes, lost | {len(results.answers)}, {len(results.failed)}{why} |"


def reach(serving: Serving) -> Iterator[str]:
    """From the patched VirtualService to Envoy's routes, to the first answer that a client gets by them, and to the mesh's counters."""
    stable, canary = serving.arms(CLASSIFIER, "identical", percent=0)
    eventually(lambda: serving.ready(CLASSIFIER, canary), within=PATIENCE)
    admin = serving.bed.supervisor.port("envoy-admin")
    results, patched, routed, counted = LoadResults(), [], [], []

    def version() -> str:
        dump = json.loads(page(admin, "/config_dump?resource=dynamic_route_configs"))
        return next(each["version_info"] for each in dump["configs"] if each["route_config"]["name"] == "gateway-80")

    def total(arm: str) -> float:
        return serving.total("istio_requests_total", reporter="destination", destination_workload=f"classifier-{arm}")

    def change(client: LoadClient) -> None:
        for number in range(10):
            old, new = (stable, canary) if number % 2 == 0 else (canary, stable)
            before, seen = version(), total(new)
            began = client.now
            patched.append((began, new))
            serving.weigh(CLASSIFIER, {old: 0, new: 100})
            eventually(lambda before=before: version() != before)
            routed.append(client.now - began)
            eventually(lambda new=new, seen=seen: total(new) > seen)
            counted.append(client.now - began)
            time.sleep(3.0)

    async def both() -> None:
        client = LoadClient(serving.addresses.gateway)
        happening = asyncio.create_task(asyncio.to_thread(change, client))
        await run(client, [serving.request(CLASSIFIER, number) for number in range(8)], 80, 60, 1, results)
        await happening
        client.close()

    asyncio.run(both())
    serving.retire(CLASSIFIER, canary)
    answered = [(each.due + each.latency, each.headers.get(RELEASE)) for each in results.answers]
    felt = [min(moment for moment, by in answered if by == new and moment > began) - began for began, new in patched]
    yield "| from the patched VirtualService to | median | worst of 10 |"
    yield "|---|---|---|"
    for name, took in (("Envoy's route table", routed), ("the first answer by the new weights", felt), ("the mesh's counters", counted)):
        yield f"| {name} | {sorted(took)[5]:.2f} s | {max(took):.2f} s |"


def overhead(serving: Serving) -> tuple[float, float]:
    """p50 and p99 through gateway and sidecar, divided by those of Triton asked directly, alternating in one run."""
    pod = serving.pods(ENCODER)[0]
    address = pod["metadata"]["annotations"]["sandbox.platform.io/address"]
    through: list[float] = []
    direct: list[float] = []

    async def both() -> None:
        gateway, triton = LoadClient(serving.addresses.gateway), LoadClient(8000, address)
        for number in range(1500):
            asked = serving.request(ENCODER, number)
            plain = LoadRequest(path=asked.path, body=asked.body, headers={"host": address, "content-type": "application/json"})
            direct.append((await triton.send(plain, triton.now)).latency)
            through.append((await gateway.send(asked, gateway.now)).latency)
            await asyncio.sleep(0.03)  # below the tenant's rate

    asyncio.run(both())
    direct.sort()
    through.sort()
    half, tail = (through[int(share * len(through))] / direct[int(share * len(direct))] for share in (0.5, 0.99))
    return half, tail


def memory(serving: Serving) -> int:
    """Proportional share of resident memory of every process of the bed, in MiB."""
    kept = sum(each.memory_bytes for each in serving.bed.supervisor.list())
    records = (servers.folder(serving.bed.layout) / "node" / "records").glob("*.json")
    pods = sum(linux.memory_bytes(pid) for path in records for pid in group(json.loads(path.read_text())["pid"]))
    return round((kept + pods) / 2**20)


def bed(serving: Serving) -> Iterator[str]:
    """What the bed itself takes."""
    yield "| what | measured |"
    yield "|---|---|"
    yield f"| memory of the whole bed, two services | {memory(serving)} MiB |"
    half, tail = overhead(serving)
    yield f"| gateway and sidecar against direct Triton, one caller | p50 {half:.2f}x, p99 {tail:.2f}x |"


def fairness(serving: Serving) -> Iterator[str]:
    """One tenant at its own rate, alone and beside another that sends ten times what it may; the neighbour is a process of its own.

    The gateway's own clock runs from a request's arrival to its answer: what it shows less than the client waited is this machine's.
    """
    import multiprocessing

    def loaded() -> tuple[LoadResults, float]:
        log = AccessLog(serving)
        found = serving.load(CLASSIFIER, 20, 60)
        host = serving.request(CLASSIFIER).headers["host"]
        return found, quantile((line["duration"] for line in log.lines() if line["at"] == "source" and line["authority"] == host), 0.99)

    alone = loaded()
    noise = multiprocessing.get_context("fork").Process(target=_noise, args=(serving.addresses.gateway, _encoded(serving), 400.0, 66.0))
    noise.start()
    time.sleep(3.0)
    beside = loaded()
    noise.join()
    yield "| 20 requests a second of one tenant | requests | lost | p50 | p99 | p99 by the gateway's clock |"
    yield "|---|---|---|---|---|---|"
    for name, (found, gateway) in (("alone", alone), ("beside a tenant at ten times its rate (400 of 40 a second)", beside)):
        tail = f"{found.quantile(0.5) * 1000:.0f} ms | {found.quantile(0.99) * 1000:.0f} ms | {gateway:.0f} ms"
        yield f"| {name} | {len(found.answers)} | {len(found.failed)} | {tail} |"


def _encoded(serving: Serving) -> list[LoadRequest]:
    return [serving.request(ENCODER, number) for number in range(len(serving.bed.artifacts.golden("encoder")))]


def _noise(port: int, requests: list[LoadRequest], rate: float, seconds: float) -> None:
    asyncio.run(run(LoadClient(port), requests, rate, seconds, 7, LoadResults()))


def faults(serving: Serving, case: str = "") -> Iterator[str]:
    """What happens under a steady 30 requests a second: sent, lost, and seconds from the first lost to the last; of cases with `case` in their name."""
    bed = serving.bed

    def again() -> None:
        servers.start(bed.layout, Silent(), servers.TrafficOptions(first_backoff_seconds=0.5))

    def tritons(program: str, number: signal.Signals = signal.SIGKILL) -> None:
        os.kill(process(serving, serving.pods(CLASSIFIER)[0], program), number)

    def refused(**differs: str | None) -> None:
        for _ in range(200):
            serving.ask(serving.request(CLASSIFIER, **differs))  # pyright: ignore[reportArgumentType]  a token or none

    def oversized() -> None:
        asked = serving.request(CLASSIFIER)
        for _ in range(50):
            serving.ask(LoadRequest(path=asked.path, body=asked.body + b" " * (64 * 1024), headers=asked.headers))

    def large_heads() -> None:
        asked = serving.request(CLASSIFIER)
        for _ in range(50):
            serving.ask(LoadRequest(path=asked.path, body=asked.body, headers={**asked.headers, "x-large": "a" * (40 * 1024)}))

    def crowded() -> None:
        with full(serving, only_serving(serving)):
            time.sleep(1.0)

    cases: list[tuple[str, int, Callable[[], object]]] = [
        ("killed: Triton, one of two replicas", 2, lambda: tritons(SERVER)),
        ("killed: the model process of one of two replicas", 2, lambda: tritons(MODEL)),
        ("stopped, so that it hangs: the model process of one of two replicas", 2, lambda: tritons(MODEL, signal.SIGSTOP)),
        ("killed: Triton, the only replica", 1, lambda: tritons(SERVER)),
        ("killed: the model process of the only replica", 1, lambda: tritons(MODEL)),
        ("killed: Envoy, started again at once", 1, lambda: (kill(bed, envoy.NAME), again())),
        ("killed: the mesh's control plane", 1, lambda: (kill(bed, servers.MESH), again())),
        ("killed: the API server", 1, lambda: (kill(bed, API_SERVER), SandboxCluster(bed.layout).start(Silent()))),
        ("200 requests with an expired token", 1, lambda: refused(token=serving.token(CLASSIFIER, seconds=-600))),
        ("50 requests beyond the largest body", 1, oversized),
        ("50 requests with 40 KiB of headers", 1, large_heads),
        ("2,000 connections of one client that carry nothing", 1, lambda: idle_connections(serving, 2000, 15.0)),
        ("50 clients that send a byte of their body a second", 1, lambda: slow_bodies(serving, 50, 15.0)),
        ("50 clients that never end their headers", 1, lambda: slow_heads(serving, 50)),
        ("the only replica full for a second", 1, crowded),
    ]
    yield "| what happens | requests of others | lost | from the first lost to the last | as proxies saw it |"
    yield "|---|---|---|---|---|"
    for name, replicas, happens in cases:
        if case in name:
            yield _faulted(serving, name, replicas, happens)


def _faulted(serving: Serving, name: str, replicas: int, happens: Callable[[], object]) -> str:
    """One row: what was sent and lost while something happened."""
    if replicas == 2:
        two_replicas(serving)
    log = AccessLog(serving)
    results = serving.load(CLASSIFIER, 30, 40, happens)
    lost = [each.due for each in results.failed]
    between = f"{max(lost) - min(lost) if lost else 0.0:.1f} s"
    row = f"| {name} | {len(results.answers)} | {len(lost)} | {between} | {log.failures() if lost else ''} |"
    if replicas == 2:
        eventually(lambda: all(_ready(serving)), within=PATIENCE * 2)
        one_replica(serving)
    serving.await_answer(CLASSIFIER)
    return row


def _ready(serving: Serving) -> list[bool]:
    return [is_ready(each) for each in serving.pods(CLASSIFIER)] or [False]


MEASURES: Mapping[str, Callable[[Serving], Iterator[str]]] = {
    "bed": bed,
    "weights": weights,
    "reach": reach,
    "faults": faults,
    "fairness": fairness,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.traffic", description="Real traffic, measured.")
    parser.add_argument("measures", nargs="*", choices=[*MEASURES, []], help="what to measure; everything by default")
    parser.add_argument("--case", default="", help="of the faults only those with this in their name")
    given = parser.parse_args()
    chosen = given.measures or tuple(MEASURES)
    measures = {**MEASURES, "faults": partial(faults, case=given.case)}
    with tempfile.TemporaryDirectory(prefix="headway-traffic-") as folder:
        for laid in running(Path(folder), Silent()):
            serving = Serving.start(laid)
            for each in (CLASSIFIER, ENCODER):
                serving.await_answer(each)
            for name in chosen:
                print(f"\n{name}, at a load of {os.getloadavg()[0]:.1f}\n", flush=True)
                for line in measures[name](serving):
                    print(line, flush=True)


if __name__ == "__main__":
    main()
