"""Watches the pods that are bound and marked to be run by this agent, runs each, and keeps its status, as a kubelet
does.

One asyncio loop on the main thread owns every process; a daemon thread watches the API server. When the server is away,
what runs goes on running and status is written once it is back. A pod's status is also changed by others (the node
controller marks pods of a lost node unready), so it is compared with every event and written again where it differs.
"""

import asyncio
import contextlib
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sandbox.cluster.nodes import RUN_BY_AGENT
from sandbox.traffic.kube import Gone, Kube, Object, Watched
from sandbox.traffic.node.container_process import sweep
from sandbox.traffic.node.cpu import NotServedError
from sandbox.traffic.node.pod import NodeSettings, ServedPod
from sandbox.traffic.node.spec import read
from sandbox.traffic.node.status import timestamp
from sandbox.traffic.pod_addresses import ADDRESS

PODS, NODES = "/api/v1/pods", "/api/v1/nodes"
_RETRY_SECONDS = 0.5


@dataclass
class _Served:
    """One pod in hand: the object as last seen, what runs it, and what is still to be written."""

    object: Object
    pod: ServedPod | None
    """None for one that this node refuses."""
    refusal: str = ""
    tasks: list["asyncio.Task[None]"] = field(default_factory=list["asyncio.Task[None]"])
    dirty: asyncio.Event = field(default_factory=asyncio.Event)
    ending: bool = False


def _path(item: Mapping[str, Any], below: str = "") -> str:
    return f"/api/v1/namespaces/{item['metadata']['namespace']}/pods/{item['metadata']['name']}{below}"


class NodeAgent:
    """All pods of this machine."""

    def __init__(self, kube: Kube, node: Callable[[Callable[..., Any]], NodeSettings]) -> None:
        self._kube = kube
        self._node = node(self._config_map)
        self._served: dict[str, _Served] = {}
        self._watches: dict[str, Watched] = {}
        """By path."""

    async def run(self) -> None:
        """Until SIGTERM or SIGINT; then everything is ended."""
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, stop.set)
        for name in sweep(self._node.records):
            _log(f"ended what a former agent had left: {name}")
        self._watches = {PODS: Watched(self._kube, PODS, lambda kind, item: _tell(loop, self._heard, kind, item)).start()}
        self._watches[NODES] = Watched(self._kube, NODES, lambda _kind, _item: None).start()
        await stop.wait()
        await self._leave()

    @property
    def ready(self) -> str | None:
        """None while it follows the cluster, else what is missing."""
        watched = self._watches.get(PODS)
        if watched is None or not watched.synced.is_set():
            return "reading the pods"
        return watched.failure or None

    @property
    def pods(self) -> list[tuple[Object, ServedPod]]:
        """What runs here now, by namespace and name."""
        found = [(each.object, each.pod) for each in self._served.values() if each.pod is not None]
        return sorted(found, key=lambda each: (each[0]["metadata"]["namespace"], each[0]["metadata"]["name"]))

    @property
    def state(self) -> Path:
        """Where it keeps what it runs."""
        return self._node.pods.parent

    @property
    def nodes(self) -> list[Object]:
        return self._watches[NODES].items if NODES in self._watches else []

    # -- the cluster's wishes

    def _heard(self, kind: str, item: Object) -> None:
        metadata = item["metadata"]
        marked = all((metadata.get("annotations") or {}).get(key) == value for key, value in RUN_BY_AGENT.items())
        if not marked or not item["spec"].get("nodeName"):
            return
        served = self._served.get(metadata["uid"])
        if kind == "DELETED":
            if served is not None and not served.ending:
                served.ending = True
                served.tasks.append(asyncio.create_task(self._end(served, 0.0)))
        elif served is None:
            self._begin(item)
        else:
            served.object = item
            served.dirty.set()
        served = self._served.get(metadata["uid"])
        if served is not None and kind != "DELETED" and metadata.get("deletionTimestamp") and not served.ending:
            served.ending = True
            served.tasks.append(asyncio.create_task(self._end(served, float(metadata.get("deletionGracePeriodSeconds") or 0))))

    def _begin(self, item: Object) -> None:
        served = _Served(object=item, pod=None)

        def said(kind: str, reason: str, message: str) -> None:
            self._say(served, kind, reason, message)

        try:
            served.pod = ServedPod(read(item), self._node, served.dirty.set, said)
            served.tasks.append(asyncio.create_task(self._run(served, served.pod)))
        except NotServedError as error:
            served.refusal = str(error)
        self._served[item["metadata"]["uid"]] = served
        served.dirty.set()
        served.tasks.append(asyncio.create_task(self._report(served)))

    async def _run(self, served: _Served, pod: ServedPod) -> None:
        while True:
            try:
                await pod.run()
            except NotServedError as error:
                served.refusal, served.pod = str(error), None
                served.dirty.set()
            except (OSError, Gone) as error:  # the API server is away, a config map is not there yet, the disk is full
                self._say(served, "Warning", "FailedMount", str(error))
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            return

    async def _config_map(self, namespace: str, name: str) -> Mapping[str, str]:
        found = await asyncio.to_thread(self._kube.get, f"/api/v1/namespaces/{namespace}/configmaps/{name}")
        return found.get("data") or {}

    async def _end(self, served: _Served, grace_seconds: float) -> None:
        if served.pod is not None:
            await served.pod.end(grace_seconds)
        item = served.object
        while True:
            try:
                await asyncio.to_thread(self._kube.delete, _path(item), grace_seconds=0, uid=item["metadata"]["uid"])
            except Gone:
                pass
            except ConnectionError as error:
                _log(f"{_path(item)}: {error}")
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            break
        self._served.pop(item["metadata"]["uid"], None)
        for task in served.tasks:
            if task is not asyncio.current_task():
                task.cancel()

    async def _leave(self) -> None:
        """End every process at once: the machine is going, and nobody is told, as with a node that loses power."""
        for served in self._served.values():
            if served.pod is not None:
                served.pod.kill()
            for task in served.tasks:
                task.cancel()
        await asyncio.sleep(0)
        sweep(self._node.records)

    # -- status

    async def _report(self, served: _Served) -> None:
        """Write the status whenever it is not what the API server has, and once where the processes listen."""
        address = {"metadata": {"annotations": {ADDRESS: served.pod.address}}} if served.pod else {}
        while True:
            await served.dirty.wait()
            served.dirty.clear()
            status = self._status(served)
            if not _differs(status, served.object.get("status") or {}):
                continue
            try:
                if address:
                    await asyncio.to_thread(self._kube.merge, _path(served.object), address)
                    address = {}
                served.object = await asyncio.to_thread(self._kube.merge, _path(served.object, "/status"), {"status": status})
            except Gone:
                return
            except Exception as error:
                _log(f"{_path(served.object)}: {error}")
                await asyncio.sleep(_RETRY_SECONDS)
                served.dirty.set()

    def _status(self, served: _Served) -> Object:
        before = (served.object.get("status") or {}).get("conditions") or []
        if served.pod is None:
            return {"phase": "Failed", "reason": "NotServed", "message": served.refusal, "conditions": before}
        return served.pod.view(before)

    def _say(self, served: _Served, kind: str, reason: str, message: str) -> None:
        """An event of the pod; lost without harm when the API server is away."""
        metadata, now = served.object["metadata"], timestamp(datetime.now(UTC))
        _log(f"{metadata['namespace']}/{metadata['name']}: {reason}: {message}")
        event = {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"generateName": f"{metadata['name'][:200]}.", "namespace": metadata["namespace"]},
            "involvedObject": {"apiVersion": "v1", "kind": "Pod", **{key: metadata[key] for key in ("name", "namespace", "uid")}},
            "type": kind,
            "reason": reason,
            "message": message[:1000],
            "source": {"component": "node-agent", "host": served.object["spec"]["nodeName"]},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        place = f"/api/v1/namespaces/{metadata['namespace']}/events"

        def write() -> None:
            with contextlib.suppress(Exception):
                self._kube.create(place, event)

        asyncio.get_running_loop().run_in_executor(None, write)


def _differs(wanted: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
    """Whether writing `wanted` would change anything; order of conditions and absent empties do not count."""

    def plain(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {key: plain(item) for key, item in value.items() if plain(item) not in ({}, [], "", None)}
        if isinstance(value, list):
            items = [plain(item) for item in value]
            return sorted(items, key=lambda item: str(item.get("type", ""))) if items and isinstance(items[0], dict) else items
        return value

    return any(plain(value) != plain(found.get(key)) for key, value in wanted.items())


def _tell(loop: asyncio.AbstractEventLoop, heard: Callable[[str, Object], None], kind: str, item: Object) -> None:
    with contextlib.suppress(RuntimeError):  # the loop has ended, and so has the agent
        loop.call_soon_threadsafe(heard, kind, item)


def _log(text: str) -> None:
    sys.stdout.write(f"{timestamp(datetime.now(UTC))} {text}\n")
    sys.stdout.flush()
