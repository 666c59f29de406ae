"""What a loop may do in the cluster is what it asks there: no call lacks its right, and no right its call.

Each loop's own code runs here against an API server that takes everything and writes down what it was asked; a call and a right are compared as
the API server does (Kubernetes, "Authorization Overview", "Determine the request verb", and "Using RBAC Authorization").
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any, get_args
from urllib.parse import parse_qs, urlsplit

import pytest

from components.manifests import Manifest
from components.platform import activator, artifact_cache, diagnosis, endpoint_picker, evaluation, node_health, release_guard
from components.tenant import evaluating
from headway.activator import waiting
from headway.artifact_cache.cluster import ArtifactCluster
from headway.cli.drift import _of_users  # pyright: ignore[reportPrivateUsage]
from headway.cli.release_guard import look
from headway.contract.model import Model
from headway.diagnosis import gathering
from headway.endpoint_picker.cluster import PickerCluster
from headway.environment.api_answer import ApiAnswer
from headway.environment.in_cluster import InCluster
from headway.environment.kubernetes import APPLY_PATCH, JSON, KubernetesApi
from headway.ledger.store import UnreachableError
from headway.node_health.cluster import NodeCluster
from headway.node_health.decision import Action, Admit, Clear, Diagnose, Evict, Isolate, NodeHealthPolicy, Notice, Readmit, Replace, Tell
from headway.node_health.facts import GpuNode, NodePod, Quarantine, QuarantineState
from headway.node_health.leader_election import LeaderRecord
from headway.node_health.watch import once
from headway.release.evaluation.holdout import labelled_requests
from headway.release.evaluator.in_cluster import ServiceInside
from headway.release.service_place import ServicePlace
from headway.wire import (
    EVALUATION_NAMESPACE,
    MODEL,
    NODE_HEALTH_IMAGE_KEY,
    NODE_HEALTH_POOLS_KEY,
    RELEASE,
    RELEASE_HEADER,
    SAFE_RELEASE,
    WATCHED_UNTIL,
    WEIGHTS_ROUTE,
)
from tests.components.contracts import MODELS
from tests.evaluation_world import evaluation as asked_of
from tests.evaluation_world import lines

TENANT, NODE, IMAGE = "vision", "gpu-a", f"registry.test/headway@sha256:{'a' * 64}"
RELEASE_ID = "r0123456789"
_PATH = re.compile(
    r"/(?:api/v1|apis/(?P<group>[^/]+)/[^/]+)(?:/namespaces/(?P<namespace>[^/]+)(?=/.))?/(?P<resource>[^/]+)(?:/(?P<name>[^/]+))?(?:/(?P<below>[^/]+))?"
)


@dataclass(frozen=True, kw_only=True)
class Call:
    """As an authoriser sees it; no namespace for what is asked of all or belongs to none."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""


def calls_of(method: str, path: str, query: Mapping[str, str], content_type: str) -> Iterator[Call]:
    """None for a path of no object, which everybody may ask (ClusterRole system:public-info-viewer)."""
    split = urlsplit(path)
    if not (found := _PATH.fullmatch(split.path)):
        return
    query = {**{key: values[0] for key, values in parse_qs(split.query).items()}, **query}
    name = found["name"] or ""
    verbs = {
        "GET": ["watch" if query.get("watch") == "true" else "get" if name else "list"],
        "POST": ["create"],
        "PUT": ["update"],
        # What is applied and is not there is made, for which the API server asks once more (apiserver, endpoints/handlers/patch.go).
        "PATCH": ["patch", *(["create"] if content_type == APPLY_PATCH and found["resource"] not in HERE else [])],
        "DELETE": ["delete"],
    }[method]
    resource = "/".join(filter(None, (found["resource"], found["below"])))
    for verb in verbs:
        named = "" if verb in ("create", "list") else name
        yield Call(verb=verb, group=found["group"] or "", resource=resource, namespace=found["namespace"] or "", name=named)


ROUTE = {
    "apiVersion": "networking.istio.io/v1",
    "kind": "VirtualService",
    "metadata": {
        "name": "defects",
        "namespace": TENANT,
        "annotations": {WATCHED_UNTIL: "2026-01-01T00:00:00Z", SAFE_RELEASE: RELEASE_ID},
        "managedFields": [{"manager": "pulumi", "operation": "Apply", "fieldsV1": {"f:spec": {}}}],
    },
    "spec": {
        "http": [
            {
                "name": WEIGHTS_ROUTE,
                "route": [
                    {"destination": {"host": f"defects-{key}"}, "weight": weight, "headers": {"response": {"set": {RELEASE_HEADER: key}}}}
                    for key, weight in ((RELEASE_ID, 75), ("r9876543210", 25))
                ],
            }
        ]
    },
}
POD = {
    "metadata": {"name": "defects-1", "namespace": TENANT, "labels": {MODEL: "defects", RELEASE: RELEASE_ID}},
    "spec": {"containers": []},
    "status": {"conditions": [{"type": "Ready", "status": "True"}]},
}
HERE: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "configmaps": [{"metadata": {"name": "c", "namespace": TENANT}}],
    "namespaces": [{"metadata": {"name": TENANT}}],
    "pods": [POD, {**POD, "metadata": {"name": "diagnostic", "namespace": "node-health", "labels": {}}, "spec": {"nodeName": NODE}}],
    "virtualservices": [ROUTE],
}
"""What the server has, by resource. A pod without a node has a diagnosis ask for all pods."""
ANY = {
    "metadata": {"resourceVersion": "1"},
    "spec": {},
    "data": {NODE_HEALTH_IMAGE_KEY: IMAGE, NODE_HEALTH_POOLS_KEY: "{}"},
    "status": {"authenticated": True, "audiences": ["none"]},
}


@dataclass
class Server:
    """Takes everything, and writes down what it was asked."""

    asked: set[Call] = field(default_factory=set[Call])

    def answer(
        self,
        api: object,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = JSON,
        *_: Any,
        **__: Any,
    ) -> ApiAnswer:
        found = [*calls_of(method, path, query or {}, content_type)]
        self.asked |= set(found)
        one = (
            next(iter(HERE.get(found[0].resource, ())), ANY) if found and found[0].name and found[0].resource == "virtualservices" else ANY
        )
        content = {**one, "items": HERE.get(found[0].resource, ())} if found and found[0].verb == "list" else one
        return ApiAnswer(status=200, content=json.dumps(content).encode(), date="Sun, 29 Nov 2026 09:00:00 GMT")

    def watch(self, api: object, path: str, version: str, seconds: int, query: Mapping[str, str]) -> Iterator[tuple[str, Any]]:
        self.asked |= set(calls_of("GET", path, {**query, "watch": "true"}, JSON))
        return iter(())

    def execute(self, api: object, namespace: str, pod: str, *_: Any) -> str:
        """A stream by WebSocket is a GET, for which the right to create is needed too (Kubernetes 1.35, `AuthorizePodWebsocketUpgradeCreatePermission`)."""
        self.asked |= {Call(verb=verb, group="", resource="pods/exec", namespace=namespace, name=pod) for verb in ("create", "get")}
        return ""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    found = Server()
    monkeypatch.setattr(KubernetesApi, "answer", lambda *given, **more: found.answer(*given, **more))
    monkeypatch.setattr(KubernetesApi, "watch", lambda *given, **more: found.watch(*given, **more))
    monkeypatch.setattr(KubernetesApi, "execute", lambda *given, **more: found.execute(*given, **more))
    monkeypatch.setattr(KubernetesApi, "connect", lambda self: None)

    def away(here: ServicePlace) -> None:
        raise UnreachableError("no ledger here")

    monkeypatch.setattr(ServicePlace, "ledger", away)
    return found


def place() -> ServiceInside:
    return ServiceInside(project=Path(), environment="prod", tenant=TENANT, model="defects", inside=InCluster("prod", "us-east-1", {}))


def node_health_acts() -> None:
    cluster = NodeCluster(None, lambda node: None)
    node = GpuNode(name=NODE, pool="l4", offered={}, installed={}, version="1")
    apart = Quarantine(state=QuarantineState.DRAINING, reason="x", by="loop", since=0.0, changed=0.0)
    acts: list[Action] = [
        Isolate(node=node, quarantine=apart),
        Evict(node=node, pod=NodePod(namespace=TENANT, name="defects-1")),
        Diagnose(node=node, trial="1-1"),
        Clear(node=node),
        Admit(node=node),
        Readmit(node=node),
        Replace(node=node),
        Tell(node=node, topic="t", text="x"),
        Notice(node=node, text="x"),
    ]
    assert {type(each) for each in acts} == set(get_args(Action))
    assert once(cluster, NodeHealthPolicy(), 0.0) == ()
    assert [done.refused for done in cluster.perform(acts, cluster.settings())] == [""] * len(acts)
    cluster.read()
    cluster.write("me", None)
    cluster.write("me", LeaderRecord(holder="", version="1"))


def guard_acts() -> None:
    said: list[str] = []
    assert look(KubernetesApi(None), None, said.append)
    assert said, "a release that nobody watches is taken back"


def diagnosis_acts() -> None:
    gathering.suspects([place()], at=1000.0, since=600.0)
    seen = gathering.gather(place(), at=1000.0, since=600.0)
    assert {each.what for each in seen.blind} == {gathering.METRICS, "releases", "commits"}


def evaluation_acts() -> None:
    here, holdout = place(), labelled_requests("\n".join(map(json.dumps, lines(60))).encode(), asked_of())
    assert here.ask_labelled(RELEASE_ID, asked_of(), holdout, [0], Random(1)).silent == 1
    _of_users(here, lambda start, end: [], lambda: None)(RELEASE_ID, 0.0, 1.0)


def artifact_cache_acts() -> None:
    cluster = ArtifactCluster(None)
    cluster.follow("l4", lambda known: None)
    cluster.user_of("token")


def both() -> list[Model]:
    """A model that is asked, and one that is watched."""
    watched = next(each for each in MODELS.values() if each.drift)
    return [next(each for each in MODELS.values() if each.evaluation), watched.model_copy(update={"name": "defects"})]


LOOPS: Mapping[str, tuple[Callable[[], Iterable[Mapping[str, Any]]], str, str, Callable[[], object]]] = {
    "activator": (
        lambda: bodies(activator.manifests(IMAGE)),
        activator.NAME,
        activator.NAME,
        lambda: waiting.serves(KubernetesApi(None))(waiting.Service(TENANT, "defects")),
    ),
    "artifact cache": (
        lambda: bodies(artifact_cache.manifests(IMAGE, "us-east-1", ())),
        artifact_cache.NAME,
        artifact_cache.NAME,
        artifact_cache_acts,
    ),
    "diagnosis": (lambda: bodies(diagnosis.manifests(IMAGE, "us-east-1", "{}")), diagnosis.NAME, diagnosis.NAME, diagnosis_acts),
    "endpoint picker": (
        lambda: bodies(endpoint_picker.manifests(IMAGE)),
        endpoint_picker.NAME,
        endpoint_picker.NAME,
        lambda: PickerCluster(None).engines(),
    ),
    "evaluation": (
        lambda: [body for _, body in evaluating.rights(TENANT, both())],
        evaluation.NAME,
        EVALUATION_NAMESPACE,
        evaluation_acts,
    ),
    "node health": (lambda: bodies(node_health.manifests(())), node_health.SERVICE_ACCOUNT, node_health.SERVICE_ACCOUNT, node_health_acts),
    "release guard": (lambda: bodies(release_guard.manifests(IMAGE)), release_guard.NAME, release_guard.NAME, guard_acts),
}
"""The objects with its rights, its account and namespace, and all that it does in the cluster."""


def bodies(manifests: Sequence[Manifest]) -> list[Mapping[str, Any]]:
    return [each.body for each in manifests]


@dataclass(frozen=True, kw_only=True)
class Granted:
    """One verb on one resource; everywhere without a namespace, on every object without names."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    names: tuple[str, ...] = ()

    def allows(self, call: Call) -> bool:
        same = (self.verb, self.group, self.resource) == (call.verb, call.group, call.resource)
        return same and self.namespace in ("", call.namespace) and (not self.names or call.name in self.names)


def granted(objects: Iterable[Mapping[str, Any]], account: str, namespace: str) -> set[Granted]:
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    known = [*objects]
    roles = {(each["kind"], each["metadata"].get("namespace", ""), each["metadata"]["name"]): each for each in known}
    found = set[Granted]()
    for binding in known:
        if binding["kind"].endswith("Binding") and subject in binding.get("subjects", ()):
            where = binding["metadata"].get("namespace", "")
            for rule in roles[(binding["roleRef"]["kind"], where, binding["roleRef"]["name"])]["rules"]:
                names = tuple(rule.get("resourceNames", ()))
                found |= {
                    Granted(verb=verb, group=group, resource=resource, namespace=where, names=names)
                    for group in rule["apiGroups"]
                    for resource in rule["resources"]
                    for verb in rule["verbs"]
                }
    return found


@pytest.mark.parametrize("loop", sorted(LOOPS))
def test_no_call_of_a_loop_lacks_its_right(loop: str, server: Server) -> None:
    objects, account, namespace, acts = LOOPS[loop]
    acts()
    assert server.asked, "it asked nothing"
    rights = granted(objects(), account, namespace)
    assert [call for call in server.asked if not any(each.allows(call) for each in rights)] == []


@pytest.mark.parametrize("loop", sorted(LOOPS))
def test_no_loop_has_a_right_that_it_does_not_use(loop: str, server: Server) -> None:
    objects, account, namespace, acts = LOOPS[loop]
    acts()
    unused = {each for each in granted(objects(), account, namespace) if not any(each.allows(call) for call in server.asked)}
    assert unused == set()


@pytest.mark.parametrize("loop", sorted(LOOPS))
def test_what_a_loop_asks_in_one_place_it_may_not_everywhere(loop: str, server: Server) -> None:
    """A tenant's namespace stands for those of all."""
    objects, account, namespace, acts = LOOPS[loop]
    acts()
    everywhere = [each for each in granted(objects(), account, namespace) if not each.namespace]
    places = {each: {call.namespace for call in server.asked if each.allows(call)} for each in everywhere}
    assert {each: found for each, found in places.items() if found and not found & {"", TENANT}} == {}


def test_every_loop_that_the_platform_runs_is_here() -> None:
    folder = Path(node_health.__file__).parent
    runs = {file.stem for file in folder.glob("*.py") if re.search(r"loops\.(deployment|identity)\(", file.read_text())}
    assert runs == {name.replace(" ", "_") for name in LOOPS}
