"""What an API server passes on: objects of tenants, events of a watch, tokens; and the kubeconfig that names it."""

import base64
import io
import json
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

import urllib3
from kubernetes import config

from headway.artifact_cache.callers import BusyError, Callers
from headway.artifact_cache.cluster import ArtifactCluster
from headway.artifact_cache.wanted import ordered
from headway.environment import kubernetes
from headway.environment.api_answer import ApiAnswer
from headway.environment.kubernetes import KubernetesApi
from headway.environment.port import OutOfReachError
from headway.ledger.traffic_split import TrafficSplit
from headway.node_health import facts
from headway.node_health.cluster import NodeCluster
from headway.problem import UserError
from headway.release import guard
from headway.release.driver.live_service import LiveService
from headway.verify import identity
from headway.verify.outcome import Sighting
from headway.wire import (
    ARTIFACT_CACHE_AUDIENCE,
    EXPERIMENT_HEADER,
    FETCH_SETTINGS,
    NODE_HEALTH_IMAGE_KEY,
    NODE_HEALTH_POOLS_KEY,
    POOL,
    QUARANTINE,
    SAFE_RELEASE,
    WATCHED_UNTIL,
)
from tests.fuzz.of_answers import checked
from tests.fuzz.parser import FuzzedParser, document, file_of, texts

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


class _Ends(io.BytesIO):
    """Closes itself at its end, as http.client's answers do."""

    def read(self, size: int | None = -1) -> bytes:
        found = super().read(size)
        if not found:
            self.close()
        return found


class _Server(KubernetesApi):
    """An API server that answers everything with one body."""

    def __init__(self, content: bytes) -> None:
        super().__init__({})
        self._content = content

    def _sent(self, *_: Any, **__: Any) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        return urllib3.HTTPResponse(_Ends(self._content), status=200, preload_content=False)


class _Object(KubernetesApi):
    """An API server that has one object, whoever asks."""

    def __init__(self, found: Mapping[str, Any]) -> None:
        super().__init__({})
        self._found = dict(found)

    def each(self, path: str, **_: Any) -> Iterator[dict[str, Any]]:
        yield self._found

    def request(self, *_: Any, **__: Any) -> dict[str, Any]:
        return self._found

    def answer(self, *_: Any, **__: Any) -> ApiAnswer:
        return ApiAnswer(status=200, content=json.dumps(self._found).encode())


def _answered(data: bytes) -> None:
    assert isinstance(ApiAnswer(status=500, content=data).message, str)
    for each in _Server(data).each("/api/v1/pods", until=float("inf")):
        assert isinstance(each, dict)
        break


def _watched(data: bytes) -> None:
    for kind, found in _Server(data).watch("/api/v1/configmaps", "1", 5):
        assert isinstance(kind, str) and isinstance(found, dict)


def _kubeconfig(data: bytes) -> None:
    kubernetes.settings(str(file_of(data, "kubeconfig")))


def _named(data: bytes) -> dict[str, Any] | None:
    """An object with what the API server demands of all: a name, a namespace, and texts as labels and annotations."""
    found = document(data)
    if found is None:
        return None
    head = found.get("metadata")
    said: dict[str, Any] = head if isinstance(head, dict) else {}
    for name in ("labels", "annotations"):
        notes = said.get(name)
        said[name] = {key: value for key, value in notes.items() if isinstance(value, str)} if isinstance(notes, dict) else {}
    return {**found, "metadata": {**said, "name": "defects", "namespace": "vision"}}


def _guarded(data: bytes) -> None:
    if found := _named(data):
        seen = guard.ReleaseGuard(_Object(found), "vision", "me", lambda: NOW, lambda: 0.0).look()
        assert len(seen.taken) + len(seen.missed) <= 1


def _routed(data: bytes) -> None:
    if found := _named(data):
        service = LiveService(_Object(found), "vision", "defects")
        service.route()
        service.patch(TrafficSplit.only("r1"))


def _guards(data: bytes) -> None:
    found = _named(data)
    if found and isinstance(found.get("spec"), dict):  # a Lease has one, or the API server takes none
        guard.guarded(_Object(found), "vision", NOW)


def _node(data: bytes) -> None:
    if found := _named(data):
        (seen,) = facts.nodes(
            [{**found, "metadata": {**found["metadata"], "labels": {**found["metadata"]["labels"], POOL: "l4"}}}], []
        ) or (None,)
        assert seen is None or seen.pool == "l4"


def _pools(data: bytes) -> None:
    made = NodeCluster.__new__(NodeCluster)
    made._api = _Object({"data": {NODE_HEALTH_POOLS_KEY: data.decode(errors="replace"), NODE_HEALTH_IMAGE_KEY: "x"}})  # pyright: ignore[reportPrivateUsage]
    made.settings()


def _wanted(data: bytes) -> None:
    text = data.decode(errors="replace")
    ordered([{"metadata": {"namespace": "vision", "name": "defects-r1"}, "data": {FETCH_SETTINGS: text}}] * 2)


def _followed(data: bytes) -> None:
    made = ArtifactCluster.__new__(ArtifactCluster)
    made._api = _Server(data)  # pyright: ignore[reportPrivateUsage]
    made.follow("l4", lambda known: [].extend(ordered(known.values())))


def _reviewed(data: bytes) -> None:
    made = ArtifactCluster.__new__(ArtifactCluster)
    made._api = _Server(data)  # pyright: ignore[reportPrivateUsage]
    made.user_of("token")


def _token(data: bytes) -> None:
    Callers(lambda _: "system:serviceaccount:vision:x", lambda: 0.0).namespace(data.decode("latin-1"))


def _artifact(data: bytes) -> None:
    body = {"metadata": {"name": "defects-r1"}, "data": {FETCH_SETTINGS: data.decode(errors="replace")}}
    checked(lambda _: identity.artifact("vision", [body]) and Sighting())


def _claims(**said: Any) -> bytes:
    return b"e30." + base64.urlsafe_b64encode(json.dumps(said).encode()).rstrip(b"=") + b".x"


_ARMS = [
    {"destination": {"host": f"d-{r}.vision"}, "headers": {"response": {"set": {"x-model-release": r}}}, "weight": w}
    for r, w in (("r1", 90), ("r2", 10))
]
_WEIGHTS = {"name": "weights", "route": _ARMS, "mirror": {"host": "d-r2.vision"}, "mirrorPercentage": {"value": 100.0}}
_SPLIT = {"name": "split", "match": [{"headers": {EXPERIMENT_HEADER: {"exact": "e"}}}], "route": _ARMS[1:]}
_FIELDS = [{"manager": "pulumi", "operation": "Apply", "fieldsV1": {"f:spec": {}}}]
_ROUTE = {
    "apiVersion": "networking.istio.io/v1",
    "kind": "VirtualService",
    "metadata": {"annotations": {WATCHED_UNTIL: "2026-11-21T11:00:00Z", SAFE_RELEASE: "r1"}, "managedFields": _FIELDS},
    "spec": {"hosts": ["defects"], "http": [_WEIGHTS, _SPLIT]},
}
_KEPT = {"state": "draining", "reason": "x", "by": "y", "since": 1.5, "changed": 2, "attempts": 1, "held": False}
_NODE = {
    "metadata": {
        "annotations": {QUARANTINE: json.dumps(_KEPT)},
        "labels": {"nvidia.com/gpu.present": "true"},
        "creationTimestamp": "2026-11-21T11:00:00Z",
    },
    "spec": {"taints": [{"key": QUARANTINE, "effect": "NoSchedule"}], "providerID": "aws:///us-west-2a/i-1"},
    "status": {
        "capacity": {"nvidia.com/gpu": "4"},
        "allocatable": {"nvidia.com/gpu": "4", "nvidia.com/mig-1g.10gb": "²"},
        "conditions": [{"type": "Ready", "status": "True", "reason": "x", "lastTransitionTime": "2026-11-21T11:00:00Z"}],
    },
}
_FETCHED = {"uri": "s3://models/vision/defects/", "region": "us-west-2", "files": [{"path": "a/b", "sha256": "a" * 64, "size": 5}]}
_MAP = {"metadata": {"namespace": "vision", "name": "x", "creationTimestamp": "1"}, "data": {FETCH_SETTINGS: json.dumps(_FETCHED)}}
_LIST = {"metadata": {"resourceVersion": "1"}, "items": [_MAP]}
_ADDED = {"type": "ADDED", "object": _MAP}
_GONE = {"type": "ERROR", "object": {"code": 500, "message": "x"}}
_CONTEXT = {
    "current-context": "a",
    "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    "clusters": [{"name": "a", "cluster": {"server": "https://a", "certificate-authority-data": "eA=="}}],
    "users": [{"name": "a", "user": {"token": "t", "client-certificate-data": "eA==", "client-key-data": "eA=="}}],
}
_REVIEW = {"status": {"authenticated": True, "audiences": [ARTIFACT_CACHE_AUDIENCE], "user": {"username": "system:serviceaccount:a:b"}}}
_KUBERNETES = ("headway/environment/kubernetes.py", "headway/environment/api_answer.py")

PARSERS = (
    FuzzedParser(
        name="api-answer",
        rooms=_KUBERNETES,
        read=_answered,
        refuses=(OutOfReachError,),
        seeds=texts({"items": [{}], "metadata": {"continue": ""}, "message": "x"}),
    ),
    FuzzedParser(
        name="api-watch", rooms=_KUBERNETES, read=_watched, refuses=(OutOfReachError,), seeds=(b"\n".join((*texts(_ADDED, _GONE), b"")),)
    ),
    FuzzedParser(
        name="kubeconfig",
        rooms=_KUBERNETES,
        read=_kubeconfig,
        refuses=(config.ConfigException, OSError),
        seeds=texts(_CONTEXT, "a: &b [*b]"),
    ),
    FuzzedParser(name="route-for-the-guard", rooms=("headway/release/guard.py",), read=_guarded, seeds=texts(_ROUTE)),
    FuzzedParser(
        name="route-for-the-driver",
        rooms=("headway/release/driver/live_service.py",),
        read=_routed,
        refuses=(OutOfReachError,),
        seeds=texts(_ROUTE),
    ),
    FuzzedParser(
        name="lease-of-the-guard",
        rooms=("headway/release/guard.py",),
        read=_guards,
        seeds=texts({"spec": {"renewTime": "2026-11-21T12:00:00Z", "holderIdentity": "a"}}),
    ),
    FuzzedParser(name="node", rooms=("headway/node_health/facts.py",), read=_node, seeds=texts(_NODE)),
    FuzzedParser(
        name="pools-of-node-health",
        rooms=("headway/node_health/cluster.py",),
        read=_pools,
        refuses=(UserError,),
        seeds=texts({"l4": {"resources": {"nvidia.com/gpu": 4}, "driver": "580", "nodesAtLeast": 1}}),
    ),
    FuzzedParser(name="files-of-a-release", rooms=("headway/artifact_cache/wanted.py",), read=_wanted, seeds=texts(_FETCHED)),
    FuzzedParser(
        name="releases-on-a-pool",
        rooms=("headway/artifact_cache/cluster.py",),
        read=_followed,
        refuses=(OSError,),
        seeds=texts(_LIST),
    ),
    FuzzedParser(
        name="token-review", rooms=("headway/artifact_cache/cluster.py",), read=_reviewed, refuses=(OSError,), seeds=texts(_REVIEW)
    ),
    FuzzedParser(
        name="token-of-a-caller",
        rooms=("headway/artifact_cache/callers.py",),
        read=_token,
        refuses=(BusyError,),
        seeds=(_claims(aud=[ARTIFACT_CACHE_AUDIENCE]), _claims(aud=ARTIFACT_CACHE_AUDIENCE), b"a.W10.c"),
    ),
    FuzzedParser(name="artifact-to-verify", rooms=("headway/verify/identity.py",), read=_artifact, seeds=texts(_FETCHED)),
)
