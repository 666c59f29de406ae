"""A bed of real traffic for tests: a control plane, nodes with GPUs, the profile's tenants, and what the traffic servers need.

Objects are rendered by the program's own pure builders and applied straight to the API server: no engine, no add-ons, a few seconds.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from components.model_service.manifests import ServicePlan
from components.model_service.release import Release
from components.nodes import gpu_node
from components.platform.mesh import manifests as mesh_manifests
from components.tenant.manifests import TenantPlan
from components.tenant.surroundings import Surroundings
from headway.contract.accelerators import INSTANCE_TYPES
from headway.contract.model import Model
from headway.contract.pool import Pool
from headway.contract.tenant import Tenant
from headway.ledger.traffic_split import TrafficSplit
from pulumi_embedded.providers.kubernetes import crds
from sandbox.cluster.control_plane import SandboxCluster
from sandbox.cluster.nodes import node_manifest
from sandbox.cluster.processes import Supervisor
from sandbox.cluster.toolchain import ensure_toolchain
from sandbox.layout import Layout
from sandbox.progress import Progress
from sandbox.traffic import profile, servers
from sandbox.traffic.kube import Gone, Kube, Object
from sandbox.traffic.profile import ModelArtifacts, ServedModel

PROJECT = Path(__file__).parents[2]
HOST = "models.sandbox.test"
SURROUNDINGS = Surroundings(environment="sandbox", region="us-east-1", account_id="000000000000", hosts=(HOST,), gateway_replicas=1)
POOL = Pool.model_validate(
    {
        "name": "l4",
        "instance_types": ["g6.12xlarge"],
        "zones": ["us-east-1a"],
        "size": {"max": 2},
        "ami": {"release": "1.36.2-20260714", "driver": "580.159.03"},
        "workload_class": "latency",
    }
)
_NEEDED = {
    "AuthorizationPolicy",
    "ConfigMap",
    "Deployment",
    "DestinationRule",
    "EnvoyFilter",
    "Gateway",
    "Namespace",
    "PeerAuthentication",
    "PriorityClass",
    "RequestAuthentication",
    "Service",
    "ServiceAccount",
    "Sidecar",
    "Telemetry",
    "VirtualService",
}
_MANAGER = "bed"


@dataclass
class Bed:
    """One bed; `layout.state` is its own folder."""

    layout: Layout
    artifacts: ModelArtifacts
    progress: Progress

    @property
    def kube(self) -> Kube:
        return Kube(self.layout.kubeconfig)

    @property
    def supervisor(self) -> Supervisor:
        return Supervisor(self.layout)

    def model(self, served: ServedModel, release: str = profile.STABLE) -> Model:
        return Model.model_validate(profile.contract(served, self.artifacts, release))

    def service(self, served: ServedModel, releases: Mapping[str, Model] | None = None, traffic: TrafficSplit | None = None) -> ServicePlan:
        """The service with these releases by address, or with its stable one alone."""
        model = self.model(served)
        if traffic is None or releases is None:
            return ServicePlan.of(served.tenant, model, POOL, SURROUNDINGS)
        made = {address: Release(model=each) for address, each in releases.items()}
        return ServicePlan(tenant=served.tenant, model=model, releases=made, traffic=traffic, pool=POOL, surroundings=SURROUNDINGS)

    def apply(self, bodies: Iterable[Mapping[str, Any]]) -> None:
        """Server-side apply of those objects that traffic depends on."""
        for body in bodies:
            if body["kind"] in _NEEDED:
                self.kube.apply(path_of(body), dict(body), _MANAGER)

    def deploy(self, service: ServicePlan) -> None:
        self.apply(each.body for each in service.manifests())

    def pods(self, namespace: str) -> list[Object]:
        return list(self.kube.get(f"/api/v1/namespaces/{namespace}/pods")["items"])


def path_of(body: Mapping[str, Any]) -> str:
    """Where the API server keeps this object."""
    version, kind, metadata = body["apiVersion"], body["kind"].lower(), body["metadata"]
    plural = f"{kind[:-1]}ies" if kind.endswith("y") and not kind.endswith("way") else f"{kind}es" if kind.endswith("ss") else f"{kind}s"
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    place = f"/namespaces/{metadata['namespace']}" if metadata.get("namespace") else ""
    return f"{root}{place}/{plural}/{metadata['name']}"


def node(number: int) -> Object:
    """A simulated node of the pool, with its GPUs."""
    kind = INSTANCE_TYPES[POOL.instance_types[0]]
    devices = {name: str(count) for name, count in POOL.resources_per_node.items()}
    capacity = {"cpu": str(kind.vcpus), "memory": kind.memory.kubernetes, "pods": "110", "ephemeral-storage": "4Ti", **devices}
    taints = [{"key": t.key, "value": t.value, "effect": t.effect} for t in gpu_node.taints(POOL)]
    return node_manifest(f"{POOL.name}-{number}", labels=gpu_node.labels(POOL), taints=taints, capacity=capacity)


def tenant(name: str) -> Tenant:
    return Tenant.model_validate(yaml.safe_load((profile.CONTRACTS / name / "tenant.yaml").read_text()))


def lay(state: Path, progress: Progress, served: tuple[ServedModel, ...] = profile.SERVED) -> Bed:
    """Start the control plane with nodes, CRDs, namespaces and the tenants of `served`; nothing serves yet."""
    layout = Layout(project=PROJECT, state=state, cache=Layout.of(PROJECT).cache)
    toolchain = ensure_toolchain(layout, progress)
    SandboxCluster(layout).start(progress)
    bed = Bed(layout=layout, artifacts=servers.artifacts(layout, served=served), progress=progress)
    kube = bed.kube
    for body in crds.read(toolchain.crds("istio")):
        kube.apply(
            f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{body['metadata']['name']}",
            {key: value for key, value in body.items() if key != "status"},
            _MANAGER,
        )
    for number in range(2):
        try:
            kube.create("/api/v1/nodes", node(number))
        except Gone:
            continue
    _served(kube, ("networking.istio.io/v1", "networking.istio.io/v1alpha3", "security.istio.io/v1"))
    for name in ("istio-ingress", "istio-system", "monitoring"):
        bed.apply([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}])
    bed.apply(each.body for each in mesh_manifests(hosts=(HOST,), certificate=None, region=SURROUNDINGS.region))
    for name in sorted({each.tenant for each in served}):
        models = tuple(bed.model(each) for each in served if each.tenant == name)
        plan = TenantPlan(tenant=tenant(name), models=models, pools=(POOL,), surroundings=SURROUNDINGS)
        bed.apply(each.body for each in plan.manifests())
    return bed


def _served(kube: Kube, versions: Iterable[str]) -> None:
    """Wait until the API server serves these groups."""
    from tests.cluster.conftest import eventually

    for version in versions:

        def there(version: str = version) -> bool:
            try:
                return bool(kube.get(f"/apis/{version}")["resources"])
            except (Gone, ConnectionError):
                return False

        eventually(there, within=60)


def running(state: Path, progress: Progress, served: tuple[ServedModel, ...] = profile.SERVED) -> Iterator[Bed]:
    """A bed, and everything stopped afterwards."""
    bed = None
    try:
        bed = lay(state, progress, served)
        yield bed
    finally:
        if bed is not None:
            bed.supervisor.stop_all(progress)
