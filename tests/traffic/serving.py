"""The services of the bed as an application, a release driver and an operator see them."""

import asyncio
import json
import re
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from components.model_service.release import Release
from headway.contract.model import Model
from headway.contract.units import Share
from headway.ledger.traffic_split import TrafficArm, TrafficMirror, TrafficSplit
from sandbox.traffic import profile, servers
from sandbox.traffic.kube import Object
from sandbox.traffic.load import LoadAnswer, LoadClient, LoadRequest, LoadResults, run
from sandbox.traffic.mesh.tokens import TokenIssuers
from sandbox.traffic.profile import ServedModel
from sandbox.traffic.servers import TrafficAddresses
from tests.cluster.conftest import eventually
from tests.traffic.bed import HOST, Bed, tenant

CLASSIFIER, ENCODER = profile.SERVED
PATIENCE = 90.0
RELEASE = "x-model-release"
LATE = 504


@dataclass
class Serving:
    """The bed while it serves."""

    bed: Bed
    addresses: TrafficAddresses

    @classmethod
    def start(cls, bed: Bed) -> "Serving":
        for each in profile.SERVED:
            bed.deploy(bed.service(each))
        return cls(bed, servers.start(bed.layout, bed.progress, servers.TrafficOptions(first_backoff_seconds=0.5)))

    # -- as an application

    def token(self, served: ServedModel, *, seconds: float = 3600.0, audience: str | None = None, **claims: Any) -> str:
        issuer = tenant(served.tenant).issuers[0]
        issuers = TokenIssuers(servers.folder(self.bed.layout) / "issuers")
        audiences = [audience] if audience else list(issuer.audiences)
        return issuers.token(issuer.issuer, audiences, "tester", now=time.time(), seconds=seconds, claims=claims)

    def request(self, served: ServedModel, number: int = 0, *, token: str | None = "own", **headers: str) -> LoadRequest:
        """A golden request through the gateway; `token` None sends none."""
        golden = self.bed.artifacts.golden(served.model)
        body = json.dumps(golden[number % len(golden)]["request"]).encode()
        found = {"host": f"{served.model}.{served.tenant}.{HOST}", "content-type": "application/json", **headers}
        if token is not None:
            found["authorization"] = f"Bearer {self.token(served) if token == 'own' else token}"
        return LoadRequest(path=f"/v2/models/{served.model}/versions/1/infer", body=body, headers=found)

    def ask(self, request: LoadRequest, port: int | None = None) -> LoadAnswer:
        async def once() -> LoadAnswer:
            client = LoadClient(port or self.addresses.gateway)
            try:
                return await client.send(request, client.now)
            finally:
                client.close()

        return asyncio.run(once())

    def await_answer(self, served: ServedModel) -> None:
        eventually(lambda: self.ask(self.request(served)).status == 200, within=PATIENCE)

    def load(self, served: ServedModel, rate: float, seconds: float, meanwhile: Callable[[], object] = lambda: None) -> LoadResults:
        """Send golden requests at `rate` for `seconds` while something happens in another thread."""
        requests = [self.request(served, number) for number in range(len(self.bed.artifacts.golden(served.model)))]
        results = LoadResults()

        async def both() -> None:
            client = LoadClient(self.addresses.gateway)
            happening = asyncio.create_task(asyncio.to_thread(meanwhile))
            await run(client, requests, rate, seconds, 1, results)
            await happening
            client.close()

        asyncio.run(both())
        return results

    # -- as a release driver

    def arms(self, served: ServedModel, release: str, percent: int, copies: int = 0) -> tuple[str, str]:
        """Deploy `release` beside the stable one and divide the traffic; the addresses (stable, canary)."""
        models = {profile.STABLE: self.bed.model(served), release: self.bed.model(served, release)}
        stable, canary = (Release(model=models[name]).id for name in (profile.STABLE, release))
        self.bed.deploy(self._divided(served, stable, canary, models[profile.STABLE], models[release], percent, copies))
        return stable, canary

    def _divided(self, served: ServedModel, stable: str, canary: str, old: Model, new: Model, percent: int, copies: int) -> Any:
        from headway.ledger.traffic_split import ArmRole

        arms = (
            TrafficArm(release=stable, weight=Share.percent(100 - percent)),
            TrafficArm(release=canary, role=ArmRole.CANARY, weight=Share.percent(percent)),
        )
        mirror = TrafficMirror(release=canary, share=Share.percent(copies)) if copies else None
        return self.bed.service(served, {stable: old, canary: new}, TrafficSplit(arms=arms, mirror=mirror))

    def route(self, served: ServedModel) -> Object:
        return self.bed.kube.get(f"/apis/networking.istio.io/v1/namespaces/{served.tenant}/virtualservices/{served.model}")

    def weigh(self, served: ServedModel, weights: Mapping[str, int]) -> None:
        """Give the live route other weights, by release, as the driver does in an emergency."""
        rules = self.route(served)["spec"]["http"]
        for rule in rules:
            if rule["name"].startswith("weights"):
                for each in rule["route"]:
                    each["weight"] = weights[each["headers"]["response"]["set"][RELEASE]]
        path = f"/apis/networking.istio.io/v1/namespaces/{served.tenant}/virtualservices/{served.model}"
        self.bed.kube.merge(path, {"spec": {"http": rules}})

    def retire(self, served: ServedModel, canary: str) -> None:
        """Only the stable release from now on."""
        self.bed.deploy(self.bed.service(served))
        name = f"{served.model}-{canary}"
        self.bed.kube.delete(f"/apis/apps/v1/namespaces/{served.tenant}/deployments/{name}")
        self.bed.kube.delete(f"/api/v1/namespaces/{served.tenant}/services/{name}")
        for pod in self.pods(served, canary):
            self.bed.kube.delete(f"/api/v1/namespaces/{served.tenant}/pods/{pod['metadata']['name']}", grace_seconds=1)
        eventually(lambda: not self.pods(served, canary), within=PATIENCE)

    # -- as an operator

    def pods(self, served: ServedModel, release: str | None = None) -> list[Object]:
        labels = {"platform.io/model": served.model, **({"platform.io/release": release} if release else {})}
        return [each for each in self.bed.pods(served.tenant) if labels.items() <= each["metadata"]["labels"].items()]

    def ready(self, served: ServedModel, release: str) -> bool:
        found = self.pods(served, release)
        return bool(found) and all(is_ready(each) for each in found)

    def metrics(self, port: int | None = None, path: str = "/metrics") -> str:
        return page(port or self.addresses.mesh_metrics, path)

    def total(self, name: str, **labels: str) -> float:
        """Sum of a metric's samples on the mesh's page whose labels are these."""
        return total(self.metrics(), name, labels)


def is_ready(pod: Object) -> bool:
    return any(each["type"] == "Ready" and each["status"] == "True" for each in pod["status"].get("conditions") or ())


def page(port: int, path: str = "/metrics") -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10) as answer:
        return answer.read().decode()


def total(text: str, name: str, labels: Mapping[str, str]) -> float:
    found = 0.0
    for line in text.splitlines():
        metric, _, rest = line.partition("{")
        if metric == name:
            held = dict(re.findall(r'(\w+)="([^"]*)"', rest))
            if labels.items() <= held.items():
                found += float(line.rsplit(" ", 1)[1])
    return found


def lost(results: LoadResults) -> list[str]:
    """What went wrong with requests that were lost. Late ones are left out: on a starved machine any may take longer than the contract's 2 s."""
    return [f"{each.status} {each.why}" for each in results.failed if each.status != LATE]


def container(pod: Object, name: str = "server") -> Mapping[str, Any]:
    statuses: Sequence[Mapping[str, Any]] = [
        *(pod["status"].get("initContainerStatuses") or ()),
        *(pod["status"].get("containerStatuses") or ()),
    ]
    return next(each for each in statuses if each["name"] == name)
