"""The few calls on the Kubernetes API that the agent and the mesh need: list and watch as plain JSON, patch, delete.

Answers stay JSON, because turning thousands of events into the official client's models costs more than everything else
done here. A watch ends whenever the server likes; `Watched` lists again and goes on, and tells the objects that have
gone meanwhile as deleted.
"""

import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from time import sleep
from typing import Any

from headway.environment.kubernetes import APPLY_PATCH, CONFLICT, JSON, MERGE_PATCH, NOT_FOUND, ApiClient, KubernetesApi
from headway.environment.port import OutOfReachError

_WATCH_SECONDS = 300
_RETRY_SECONDS = 0.5
_TIMEOUT_SECONDS = 10.0

CLIENT = ApiClient(
    name="headway-sandbox",
    if_refused="What is served does not follow the cluster.",
    remedy="Run `headway sandbox up` again.",
)
Object = dict[str, Any]
Told = Callable[[str, Object], None]
"""Hears `ADDED`, `MODIFIED` or `DELETED` and the object."""


class Gone(Exception):  # noqa: N818  (a state of the object, not a defect)
    """The object is not there, or not any more the one that was meant."""


class Kube:
    """One API server, as its kubeconfig says."""

    def __init__(self, kubeconfig: Path) -> None:
        self._api = KubernetesApi(str(kubeconfig), client=CLIENT)

    def _call(self, method: str, path: str, query: Mapping[str, str] | None = None, body: Any = None, content_type: str = JSON) -> Object:
        try:
            answer = self._api.answer(method, path, query, body, content_type, _TIMEOUT_SECONDS)
        except OutOfReachError as failure:
            raise ConnectionError(f"{method} {path}: {failure}") from None
        if answer.status in {NOT_FOUND, CONFLICT}:
            raise Gone(answer.message)
        if not answer.ok:
            raise ConnectionError(f"{method} {path}: {answer.status} {answer.message}"[:500])
        return answer.document

    def get(self, path: str) -> Object:
        """One object, or a list. Gone when it is not there; ConnectionError when the server does not answer well."""
        return self._call("GET", path)

    def create(self, path: str, body: Object) -> Object:
        """Create an object in the collection at `path`. Gone when there is one of that name."""
        return self._call("POST", path, body=body)

    def apply(self, path: str, body: Object, manager: str) -> Object:
        """Server-side apply at the object's own path."""
        return self._call("PATCH", path, {"fieldManager": manager, "force": "true"}, body, APPLY_PATCH)

    def merge(self, path: str, body: Object) -> Object:
        """JSON merge patch."""
        return self._call("PATCH", path, body=body, content_type=MERGE_PATCH)

    def delete(self, path: str, *, grace_seconds: int | None = None, uid: str | None = None) -> None:
        """Delete the object, or the one with this uid only. Gone when it is not there."""
        body: Object = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if grace_seconds is not None:
            body["gracePeriodSeconds"] = grace_seconds
        if uid is not None:
            body["preconditions"] = {"uid": uid}
        self._call("DELETE", path, body=body)

    def stream(self, path: str, version: str) -> Iterator[tuple[str, Object]]:
        """Events since `version`, until the server ends the watch."""
        return self._api.watch(path, version, _WATCH_SECONDS)


class Watched:
    """All objects at one path, kept up to date by a daemon thread, which tells every change in order."""

    def __init__(self, kube: Kube, path: str, told: Told) -> None:
        self._kube, self._path, self._told = kube, path, told
        self._known: dict[str, Object] = {}
        self.synced = threading.Event()
        """Set once everything there was has been told."""
        self.failure = ""
        """Why the server cannot be asked now; empty while it can."""

    @property
    def items(self) -> list[Object]:
        """All of them, as last seen."""
        return list(self._known.values())

    def start(self) -> "Watched":
        threading.Thread(target=self._run, name=f"watch {self._path}", daemon=True).start()
        return self

    def _run(self) -> None:
        while True:
            try:
                self._follow(self._relist())
                self.failure = ""
            except Exception as error:
                self.failure = f"{type(error).__name__}: {error}"
                sleep(_RETRY_SECONDS)

    def _relist(self) -> str:
        listed = self._kube.get(self._path)
        kind, version = str(listed["kind"]).removesuffix("List"), listed["apiVersion"]
        found: dict[str, Object] = {item["metadata"]["uid"]: {"apiVersion": version, "kind": kind, **item} for item in listed["items"]}
        for uid in [uid for uid in self._known if uid not in found]:
            self._told("DELETED", self._known.pop(uid))
        for uid, item in found.items():
            before = self._known.get(uid)
            self._known[uid] = item
            if before is None or before["metadata"]["resourceVersion"] != item["metadata"]["resourceVersion"]:
                self._told("MODIFIED" if before else "ADDED", item)
        self.synced.set()
        self.failure = ""
        return listed["metadata"]["resourceVersion"]

    def _follow(self, version: str) -> None:
        for kind, item in self._kube.stream(self._path, version):
            if kind == "BOOKMARK":
                continue
            uid = item["metadata"]["uid"]
            if kind == "DELETED":
                self._known.pop(uid, None)
            else:
                self._known[uid] = item
            self._told(kind, item)
