"""A language model that is slow on purpose, with what watches and scales it: real Prometheus with the contract's own rules, Alertmanager, KEDA.

One engine at a time is what a small machine has room for. The replica that serves the other tests goes before this one comes, and nodes take
no second one: what KEDA asks for stays to be seen, and waits.
"""

import hashlib
import json
import random
import shutil
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

from components.manifests import Manifest
from components.model_service.manifests import ServicePlan
from components.model_service.vllm import PORT
from components.observability.manifests import platform_manifests
from components.tenant.manifests import TenantPlan
from headway.contract.model import Model
from sandbox.autoscaling import servers as autoscaling
from sandbox.cloud import objectstore
from sandbox.cluster.control_plane import SandboxCluster
from sandbox.monitoring import exporters, follower
from sandbox.monitoring import servers as monitoring
from sandbox.monitoring.servers import Monitoring
from sandbox.progress import Silent
from sandbox.traffic import profile, servers
from sandbox.traffic.kube import Gone
from sandbox.traffic.profile import LANGUAGE, ModelArtifacts
from sandbox.traffic.servers import TrafficOptions
from tests.cluster.conftest import ControlPlane, eventually
from tests.cluster.definitions import define
from tests.language.sorter import COMPLETIONS, Sorter, question
from tests.traffic.bed import POOL, SURROUNDINGS, Bed, path_of, tenant

SLOW = "slow"
BEHAVIOUR = {"dead_after_requests": 0, "decode_ms": 115.0, "leak_bytes": 0, "prefill_ms": 150.0, "prefill_ms_per_token": 0.0}
"""The longest answer is 512 tokens, and so takes a minute."""
LONGEST = 512
AT_ONCE = 60
"""Prompts whose attention no cache of the contract's GPU memory holds together."""
WORDS = ("anvil", "bolt", "cam", "gear", "hose", "nut", "pin", "pump", "tap", "wheel")
STARTING_SECONDS = 1500.0
WITHIN = 240.0
_MANAGER = "bed"
_WATCHED = {"AlertmanagerConfig", "PodMonitor", "PrometheusRule"}


def contract(artifacts: ModelArtifacts) -> Model:
    """The sorter's, as a team would have it whose model answers this slowly and whose alerts should come soon."""
    found = profile.contract(LANGUAGE, artifacts, SLOW)
    found["batching"]["max_sequences"] = 48
    found["envelope"]["gpu"]["memory"] = "1552Mi"
    found["envelope"]["largest_request"] |= {"timeout": "150s", "output_tokens": LONGEST}
    found["health"] |= {"drain": "150s", "warmup": {"requests": 1, "p99": "10m"}}
    found["health"]["liveness"] = {"interval": "2m", "timeout": "2m", "failures": 3, "no_progress": "5m"}
    slow = {"quantile": "95%", "threshold": "100ms", "minimum_requests": 5}
    found["slo"] = [
        {"signal": "availability", "objective": "99.9%", "minimum_requests": 5},
        {"signal": "ttft", **slow},
        {"signal": "inter_token", **slow},
    ]
    found["scaling"] |= {"polling": "5s", "scale_down_after": "1m"}
    return Model.model_validate(found)


def _slowed(artifacts: ModelArtifacts, folder: Path) -> ModelArtifacts:
    """The artifacts with a release more, whose weights are the stable one's."""
    place = folder / LANGUAGE.model / SLOW
    shutil.copytree(artifacts.folder / LANGUAGE.model / profile.STABLE, place)
    (place / "behaviour.json").write_text(json.dumps(BEHAVIOUR))
    files = [(path.name, path.read_bytes()) for path in sorted(place.iterdir())]
    made = {"files": [{"path": name, "sha256": hashlib.sha256(data).hexdigest(), "size": len(data)} for name, data in files], "right": None}
    of_model = artifacts.manifest[LANGUAGE.model]
    return ModelArtifacts(folder=folder, manifest={LANGUAGE.model: {**of_model, "releases": {SLOW: made}}})


@dataclass
class Stream:
    """A long answer that somebody reads while other things happen."""

    pieces: list[tuple[float, str]] = field(default_factory=list[tuple[float, str]])
    """Each event with the seconds since it was asked for."""
    broken: str = ""

    @property
    def seconds(self) -> float:
        return self.pieces[-1][0]

    @property
    def ended(self) -> bool:
        return bool(self.pieces) and self.pieces[-1][1] == "[DONE]"

    @property
    def tokens(self) -> int:
        return json.loads(self.pieces[-2][1])["usage"]["completion_tokens"]


@dataclass
class Strained:
    """The slow sorter, its rules and its autoscaler."""

    sorter: Sorter
    model: Model
    prometheus: Monitoring

    @classmethod
    def start(cls, bed: Bed, folder: Path) -> "Strained":
        slowed = _slowed(bed.artifacts, folder)
        mine = Bed(layout=bed.layout, artifacts=slowed, progress=bed.progress)
        model = contract(slowed)
        plan = ServicePlan.of(LANGUAGE.tenant, model, POOL, SURROUNDINGS)
        _leave(bed)
        addresses = servers.start(bed.layout, bed.progress, TrafficOptions(served=(LANGUAGE,), first_backoff_seconds=0.5))
        store = objectstore.client("s3", "us-east-1", objectstore.endpoint(bed.layout, bed.supervisor))
        profile.upload(slowed, store)
        mine.deploy(plan)
        exporters.start(bed.layout, Silent())
        watching = monitoring.start(bed.layout, Silent(), exporters.settings(bed.layout, bed.supervisor))
        found = cls(Sorter(mine, addresses), model, watching)
        found._watch(plan)
        found.sorter.await_ready(STARTING_SECONDS)
        found.nodes_take_more(False)
        return found

    def _watch(self, plan: ServicePlan) -> None:
        """Have the contract's monitors, rules, routes and autoscaler in force. Alerts do not wait, for a test cannot."""
        layout = self.sorter.bed.layout
        plane = ControlPlane(layout, SandboxCluster(layout))
        for each in ("prometheus-operator", "keda"):
            define(plane, each)
        tenants = TenantPlan(tenant=tenant(LANGUAGE.tenant), models=(self.model,), pools=(POOL,), surroundings=SURROUNDINGS)
        for each in (
            *plan.manifests(),
            *tenants.manifests(),
            *platform_manifests(SURROUNDINGS.runbooks, environment=SURROUNDINGS.environment),
        ):
            if each.body["kind"] in _WATCHED:
                self._apply(_at_once(each))
        follower.start(layout, Silent())
        servers.scrape(layout, self.sorter.addresses)
        autoscaling.start(layout, Silent())
        for each in plan.manifests():
            if each.body["kind"] == "ScaledObject":
                self._apply(each.body)

    def _apply(self, body: Mapping[str, Any]) -> None:
        self.sorter.bed.kube.apply(path_of(body), dict(body), _MANAGER)

    # -- as an operator

    @property
    def deployment(self) -> str:
        (found,) = self.sorter.bed.kube.get(f"/apis/apps/v1/namespaces/{LANGUAGE.tenant}/deployments")["items"]
        return found["metadata"]["name"]

    @property
    def replicas(self) -> int:
        """That the autoscaler, or whoever came after it, asks for."""
        return self.sorter.bed.kube.get(f"/apis/apps/v1/namespaces/{LANGUAGE.tenant}/deployments/{self.deployment}")["spec"]["replicas"]

    def settle(self) -> None:
        """Wait until load has gone, and with it the replica that waited for a node."""
        eventually(lambda: self.replicas == 1 and len(self.sorter.pods) == 1, 2 * WITHIN)

    def scale(self, replicas: int) -> None:
        """By the call that an autoscaler makes, which is gone before."""
        kube = self.sorter.bed.kube
        for each in kube.get(f"/apis/keda.sh/v1alpha1/namespaces/{LANGUAGE.tenant}/scaledobjects")["items"]:
            kube.delete(f"/apis/keda.sh/v1alpha1/namespaces/{LANGUAGE.tenant}/scaledobjects/{each['metadata']['name']}")
        scalers = f"/apis/autoscaling/v2/namespaces/{LANGUAGE.tenant}/horizontalpodautoscalers"
        eventually(lambda: not kube.get(scalers)["items"], WITHIN)
        path = f"/apis/apps/v1/namespaces/{LANGUAGE.tenant}/deployments/{self.deployment}/scale"
        kube.merge(path, {"spec": {"replicas": replicas}})

    def nodes_take_more(self, more: bool) -> None:
        kube = self.sorter.bed.kube
        for each in kube.get("/api/v1/nodes")["items"]:
            kube.merge(f"/api/v1/nodes/{each['metadata']['name']}", {"spec": {"unschedulable": not more}})

    def value(self, expression: str) -> float | None:
        found = self.prometheus.query(expression)
        return float(found[0]["value"][1]) if found else None

    def fires(self, alert: str, **labels: str) -> bool:
        picks = ",".join(f'{name}="{value}"' for name, value in {"alertname": alert, "alertstate": "firing", **labels}.items())
        return bool(self.prometheus.query(f"ALERTS{{{picks}}}"))

    def told(self, alert: str) -> bool:
        """Whether people were."""
        inbox = monitoring.folder_of(self.sorter.bed.layout) / follower.NOTIFICATIONS
        lines = inbox.read_text().splitlines() if inbox.exists() else []
        return any(each["labels"]["alertname"] == alert for line in lines for each in json.loads(line)["alerts"])

    # -- as applications

    @contextmanager
    def crowd(self, at_once: int = AT_ONCE, tokens: int = 150, words: int = 850) -> Iterator[None]:
        """So many callers inside the mesh, each with long prompts of its own, one after the other."""
        over, address = threading.Event(), self.sorter.address

        def ask(number: int) -> None:
            chosen = random.Random(number)
            while not over.is_set():
                body = {"model": LANGUAGE.model, "temperature": 0, "ignore_eos": True, "max_tokens": tokens}
                body["prompt"] = question(" ".join(chosen.choices(WORDS, k=words)))
                try:
                    with closing(HTTPConnection(address, PORT, timeout=300)) as connection:
                        connection.request("POST", COMPLETIONS, json.dumps(body), {"content-type": "application/json"})
                        connection.getresponse().read()
                except (OSError, HTTPException):
                    over.wait(1.0)

        callers = [threading.Thread(target=ask, args=(number,), daemon=True) for number in range(at_once)]
        for each in callers:
            each.start()
        try:
            yield
        finally:
            over.set()
            for each in callers:
                each.join(300)

    @contextmanager
    def reading(self, tokens: int = LONGEST) -> Iterator[Stream]:
        """A stream through the gateway, of which the first token has come; read to its end before this goes on."""
        found = Stream()

        def read() -> None:
            began = time.monotonic()
            try:
                with self.sorter.asking(
                    COMPLETIONS, stream=True, prompt=question("nut bolt"), max_tokens=tokens, ignore_eos=True
                ) as answer:
                    for line in answer:
                        said = line.decode().strip()
                        if said.startswith("data: "):
                            found.pieces.append((time.monotonic() - began, said.removeprefix("data: ")))
            except (OSError, HTTPException) as error:
                found.broken = f"{type(error).__name__}: {error}"

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        eventually(lambda: found.pieces, WITHIN)
        yield found
        reader.join(WITHIN)


def _at_once(manifest: Manifest) -> dict[str, Any]:
    body = deepcopy(dict(manifest.body))
    if body["kind"] == "PrometheusRule":
        for rule in (each for group in body["spec"]["groups"] for each in group["rules"] if "alert" in each):
            rule["for"] = "0s"
    return body


def _leave(bed: Bed) -> None:
    """End what serves, and wait until it is gone."""
    kube, place = bed.kube, f"/apis/apps/v1/namespaces/{LANGUAGE.tenant}/deployments"
    for each in kube.get(place)["items"]:
        kube.delete(f"{place}/{each['metadata']['name']}")
    for pod in bed.pods(LANGUAGE.tenant):
        try:
            kube.delete(f"/api/v1/namespaces/{LANGUAGE.tenant}/pods/{pod['metadata']['name']}", grace_seconds=1)
        except Gone:
            continue
    eventually(lambda: not bed.pods(LANGUAGE.tenant), WITHIN)
