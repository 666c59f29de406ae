"""A sandbox with one service and requests, on which whole releases are tried while somebody watches the live objects."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from headway.contract.reading.loader import load_tenant
from headway.contract.released import release_id
from headway.environment.kubernetes import KubernetesApi
from headway.ledger import lease
from headway.ledger.chain import Ledger
from headway.ledger.s3_store import S3Store, client
from headway.release.driver.live_service import ROUTES, LiveService, route_of
from headway.release.driver.service_under_release import LiveRoute
from headway.wire import WATCHED_UNTIL
from sandbox.cloud import objectstore
from tests.cluster.command import Sandbox
from tests.cluster.conftest import eventually
from tests.cluster.release.release_service import Traffic
from tests.cluster.release.wire import Wire

PROJECT = Path(__file__).parents[3]
SERVICE = "vision/defects"
BUCKET, PREFIX = "headway-releases", "audit/"
SPEED = "20"
"""A tick lasts three seconds, in which Prometheus scrapes three times."""
ROLLOUT = {
    "strategy": "canary",
    "mirror": {"share": "100%", "timeout": "45m"},
    "weights": ["25%"],
    "bake": "5m",
    "step_at_least": "3m",
    "baseline_arm": False,
    "classes": [{"name": "small", "body_up_to": "1Mi"}, {"name": "large"}],
}
EXPERIMENT = {
    **{name: ROLLOUT[name] for name in ("bake", "step_at_least", "classes")},
    "strategy": "ab",
    "split": {"share": "20%", "duration": "1h", "user_claim": "sub", "experiment": "tone"},
}
FILTER = "/apis/networking.istio.io/v1alpha3/namespaces/istio-ingress/envoyfilters/experiment.vision.defects"


@dataclass(frozen=True)
class Look:
    """The live route at a moment, and until when somebody said that he watches it."""

    time: datetime
    route: LiveRoute
    watched_until: datetime | None


class Onlooker(LiveService):
    """The cluster of the callers' proxies, which writes down every look at the route."""

    looks: list[Look]

    def __init__(self, api: KubernetesApi, tenant: str, model: str) -> None:
        super().__init__(api, tenant, model)
        self.looks = []

    def route(self) -> LiveRoute:
        live, now = self._api.get(self._route_path()), datetime.now(UTC)
        if live is None:
            return LiveRoute(weights={})
        until = (live["metadata"].get("annotations") or {}).get(WATCHED_UNTIL)
        self.looks.append(Look(now, route_of(live), datetime.fromisoformat(until) if until else None))
        return self.looks[-1].route


@dataclass
class Bed:
    """A sandbox with requests, and the wires to its servers."""

    sandbox: Sandbox
    api: KubernetesApi
    traffic: Traffic
    looks: list[Look]
    store: Wire
    prometheus: Wire
    api_server: Wire
    address: str
    """Of the object store itself."""
    bad: set[str] = field(default_factory=set)

    @property
    def ledger(self) -> Ledger:
        store = S3Store(client(endpoint=self.address, region="us-west-2"), BUCKET, PREFIX)
        return Ledger(store, SERVICE, "sandbox", "test", lambda: datetime.now(UTC))

    def next_tick(self) -> dict[str, Any]:
        """What the next tick to be written down counted."""
        ledger = self.ledger
        seen = len(ledger.read())
        eventually(lambda: any(event.kind == "observed" for event in ledger.read()[seen:]), within=180.0)
        return next(dict(event.body["raw"]) for event in ledger.events[seen:] if event.kind == "observed")

    @contextmanager
    def through_the_wire(self) -> Iterator[None]:
        """Whoever reads the kubeconfig meanwhile reaches its API server by the wire, with the rights of a release runner and no others."""
        file = self.sandbox.layout.kubeconfig
        administrators = file.read_text(encoding="utf-8")
        self.write_runners_kubeconfig()
        try:
            yield
        finally:
            file.write_text(administrators, encoding="utf-8")

    def write_runners_kubeconfig(self) -> None:
        file = self.sandbox.layout.kubeconfig
        config = yaml.safe_load(file.read_text(encoding="utf-8"))
        config["clusters"][0]["cluster"]["server"] = self.api_server.url.replace("http:", "https:")
        config["users"][0]["user"] = {"token": self.runners_token()}
        file.write_text(yaml.safe_dump(config), encoding="utf-8")

    def runners_token(self) -> str:
        """Of an identity that has the tenant's role for release runners, and what its group may read elsewhere."""
        inside, rbac = "/api/v1/namespaces/vision/serviceaccounts", "/apis/rbac.authorization.k8s.io/v1"
        account = {"kind": "ServiceAccount", "name": "ci", "namespace": "vision"}
        by = {"fieldManager": "test"}
        accounts = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "ci", "namespace": "vision"}}
        self.api.request("PATCH", f"{inside}/ci", by, accounts, "application/apply-patch+yaml")
        for path, kind, role in (
            (f"{rbac}/namespaces/vision/rolebindings", "Role", "runner"),
            (f"{rbac}/namespaces/monitoring/rolebindings", "Role", "headway-release-vision"),
            (f"{rbac}/clusterrolebindings", "ClusterRole", "headway-release-vision"),
        ):
            binding = {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": f"{kind}Binding",
                "metadata": {"name": "ci"},
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
                "subjects": [account],
            }
            self.api.request("PATCH", f"{path}/ci", by, binding, "application/apply-patch+yaml")
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 7200}}
        answer = self.api.request("POST", f"{inside}/ci/token", None, asked)
        assert answer is not None
        return str(answer["status"]["token"])

    def runners_api(self) -> KubernetesApi:
        """The API server, for a release runner."""
        config = yaml.safe_load(self.sandbox.layout.kubeconfig.read_text(encoding="utf-8"))
        config["users"][0]["user"] = {"token": self.runners_token()}
        return KubernetesApi(config)

    def may(self, verb: str, resource: str, namespace: str = "vision", group: str = "", subresource: str = "") -> bool:
        """Whether a release runner may."""
        attributes = {"namespace": namespace, "verb": verb, "group": group, "resource": resource, "subresource": subresource}
        review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {"resourceAttributes": attributes}}
        answer = self.runners_api().request("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", None, review)
        assert answer is not None
        return bool(answer["status"]["allowed"])

    def delete_the_lease(self) -> None:
        made = objectstore.client("s3", "us-west-2", self.address)
        made.delete_object(Bucket=BUCKET, Key=PREFIX + lease.key(SERVICE))

    def kinds(self) -> list[str]:
        return [event.kind for event in self.ledger.read() if not event.kind.startswith("lease")]

    def write(self, version: str, rollout: Mapping[str, Any] | None = None) -> str:
        """A new version of the contract in the checkout; answers its release."""
        file = self.sandbox.project / "tenants" / "vision" / "defects.yaml"
        content: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
        content["artifact"]["version"] = version
        content["rollout"] = dict(rollout or ROLLOUT)
        file.write_text(yaml.safe_dump(content), encoding="utf-8")
        found = load_tenant(file.parent).tenant("vision")
        assert found is not None
        return release_id(next(model for model in found.models if model.name == "defects"))

    def route(self) -> dict[str, int]:
        live = self.api.get(f"{ROUTES.format('vision')}/defects")
        assert live is not None
        return {key: weight.whole_percent for key, weight in route_of(live).weights.items() if weight}
