"""The servers of a soak: a control plane of the sandbox with the platform's own objects, the object store of the ledger
and the loop of node health, as the processes that the sandbox keeps.

Times of these processes are their own: nothing of them is compressed.
"""

import os
import signal
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from benchmarks.soak.stack import Objects
from components.nodes import gpu_node
from components.platform import admission, namespaces, node_health
from components.tenant.manifests import TenantPlan
from headway.contract.accelerators import INSTANCE_TYPES
from headway.contract.crosscheck import TenantContracts
from headway.contract.model import Model
from headway.environment.kubernetes import KubernetesApi
from headway.environment.port import OutOfReachError
from headway.ledger.s3_store import S3Store, client
from headway.wire import NODE_HEALTH_NAMESPACE
from pulumi_embedded.providers.kubernetes import crds
from sandbox.cloud import objectstore
from sandbox.cluster import linux
from sandbox.cluster.api import LoopbackEndpoint
from sandbox.cluster.control_plane import SandboxCluster
from sandbox.cluster.nodes import node_manifest
from sandbox.cluster.processes import Process, Supervisor
from sandbox.cluster.toolchain import ensure_toolchain
from sandbox.layout import Layout
from sandbox.progress import Silent
from tests.components.contracts import DEFECTS, MODELS, POOLS, SURROUNDINGS, changed, document, pool_of

TENANT_NAME = "vision"
RELEASED, BESIDE = "defects", "defects-dense"
BUCKET, PREFIX, REGION = "headway-releases", "audit/", "us-west-2"
LOOP = "node-health-loop"
NODES = 4
POOL = pool_of(MODELS[RELEASED])
_ADD_ONS = ("istio-ingress", "istio-system", "monitoring")
_POLICY = {"strategy": "canary", "weights": ["50%"], "step_at_least": "1m", "bake": "5m", "unwatched_at_most": "5m"}


def version(number: int, least: int = 1, most: int = 3) -> Model:
    """A version of the contract that is released; `number` decides what runs, the bounds of scaling do not."""
    return changed(
        DEFECTS,
        batch=None,
        artifact__version=f"2027.{number}.0",
        rollout=_POLICY,
        scaling__min_replicas=least,
        scaling__max_replicas=most,
        scaling__headroom=None,
        scaling__warm_replicas=None,
    )


def contracts(model: Model) -> TenantContracts:
    """The tenant with a quota that holds two versions of its services at once."""
    found = document(TENANT_NAME, "tenant")
    found["quota"] |= {"gpus": {"l4": 14}, "cpu": 400, "memory": "1Ti"}
    from headway.contract.tenant import Tenant

    other = changed(MODELS[BESIDE].model_dump(mode="json"), scaling__min_replicas=1)
    return TenantContracts(Tenant.model_validate(found), (model, other))


def node(number: int) -> dict[str, Any]:
    kind = INSTANCE_TYPES[POOL.instance_types[0]]
    devices = {name: str(count) for name, count in POOL.resources_per_node.items()}
    capacity = {"cpu": str(kind.vcpus), "memory": kind.memory.kubernetes, "pods": "110", "ephemeral-storage": "4Ti", **devices}
    taints = [{"key": t.key, "value": t.value, "effect": t.effect} for t in gpu_node.taints(POOL)]
    labels = {**gpu_node.labels(POOL), "nvidia.com/cuda.driver-version.full": POOL.ami.driver}
    name = f"{POOL.name}-{number}"
    return node_manifest(name, labels=labels, taints=taints, capacity=capacity, provider_id=f"aws:///us-west-2a/i-{name}")


@dataclass
class Bed:
    """Everything that runs beside the soak itself."""

    layout: Layout
    supervisor: Supervisor = field(init=False)
    cluster: SandboxCluster = field(init=False)
    api: KubernetesApi = field(init=False)
    objects: Objects = field(init=False)
    down: set[str] = field(default_factory=set[str])
    """Processes that were killed and not started again, or hang."""
    healthy_since: float = field(default_factory=time.monotonic)
    """Since when all of them run, in real time."""

    def __post_init__(self) -> None:
        self.supervisor = Supervisor(self.layout)
        self.cluster = SandboxCluster(self.layout, supervisor=self.supervisor)

    @cached_property
    def store(self) -> S3Store:
        """The ledger's, as the administrator's client reaches it."""
        given = objectstore.environment(self.layout)
        os.environ.update({name: given[name] for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")})
        return S3Store(client(endpoint=objectstore.endpoint(self.layout, self.supervisor), region=REGION), BUCKET, PREFIX)

    @cached_property
    def administrators_store(self) -> Any:
        """Of the bucket, with every right."""
        return objectstore.client("s3", REGION, objectstore.endpoint(self.layout, self.supervisor))

    @property
    def witness(self) -> Path:
        return self.layout.state / "witness"

    def start(self, model: Model) -> None:
        """Bring all of it up, for a state folder that is empty. Raises UserError."""
        toolchain = ensure_toolchain(self.layout, Silent())
        objectstore.ensure_running(self.layout, Silent())
        place = {"LocationConstraint": REGION}
        self.administrators_store.create_bucket(Bucket=BUCKET, CreateBucketConfiguration=place, ObjectLockEnabledForBucket=True)
        self.cluster.start(Silent())
        self.reconnect()
        for body in crds.read(path for name in ("istio", "keda", "prometheus-operator") for path in toolchain.crds(name)):
            self.objects.apply({key: value for key, value in body.items() if key != "status"})
        self._until(lambda: all(_established(crd) for crd in self.api.items("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")))
        self.objects.forget_kinds()
        for manifest in admission.manifests(POOLS, SURROUNDINGS.hosts):
            self.objects.apply(manifest.body)
        for name in _ADD_ONS:
            self.objects.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        for manifest in namespaces.manifests([]):
            if manifest.name == NODE_HEALTH_NAMESPACE and manifest.kind == "Namespace":
                self.objects.apply(manifest.body)
        for manifest in node_health.manifests([POOL]):
            self.objects.apply(manifest.body)
        for number in range(NODES):
            self.objects.apply(node(number))
        found = contracts(model)
        for manifest in TenantPlan(tenant=found.tenant, models=found.models, pools=POOLS, surroundings=SURROUNDINGS).manifests():
            self.objects.apply(manifest.body)
        quota = f"/api/v1/namespaces/{TENANT_NAME}/resourcequotas/tenant"
        self._until(lambda: bool(((self.api.get(quota) or {}).get("status") or {}).get("hard")))
        self.start_loop(fresh=True)

    def reconnect(self) -> None:
        """By the kubeconfig as it is now."""
        self.api = KubernetesApi(str(self.layout.kubeconfig))
        self.objects = Objects(self.api)

    def stop(self) -> None:
        self.supervisor.stop_all(Silent())

    def _until(self, look: Any, seconds: float = 120.0) -> None:
        deadline = time.monotonic() + seconds
        while True:
            try:
                if look():
                    return
            except OutOfReachError:
                pass
            if time.monotonic() > deadline:
                raise TimeoutError("the platform's objects are not there in time")
            time.sleep(0.1)

    # -- the loop of node health ---------------------------------------------------------------------------------------------

    def start_loop(self, *, fresh: bool) -> None:
        """Have the loop run with its own identity; `fresh`: with a new token. A changed token restarts it."""
        own = self.layout.kubeconfig.with_name("node-health.kubeconfig")
        if fresh:
            asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 86400}}
            path = f"/api/v1/namespaces/{NODE_HEALTH_NAMESPACE}/serviceaccounts/node-health/token"
            answer = self.api.request("POST", path, None, asked)
            config = yaml.safe_load(self.layout.kubeconfig.read_text(encoding="utf-8"))
            config["users"][0]["user"] = {"token": (answer or {})["status"]["token"]}
            own.write_text(yaml.safe_dump(config), encoding="utf-8")
        port = self.supervisor.port(LOOP)
        words = ("nodes", "watch", "--interval", "1", "--serve", f"127.0.0.1:{port}", "--kubeconfig", str(own))
        process = Process(
            name=LOOP,
            argv=(sys.executable, "-m", "headway.cli.main", *words),
            environment={"PYTHONPATH": str(self.layout.project)},
            ports=(port,),
            inputs=(own,),
            ready=lambda: LoopbackEndpoint(port=port).unready("/healthz"),
        )
        self.supervisor.ensure(process, Silent())

    # -- faults --------------------------------------------------------------------------------------------------------------

    def pid(self, part: str) -> int | None:
        return next((each.pid for each in self.supervisor.list() if each.name == part and each.running), None)

    def kill(self, part: str) -> None:
        found = self.pid(part)
        if found is not None:
            self.down.add(part)
            os.kill(found, signal.SIGKILL)
            while linux.stat(found) is not None:
                time.sleep(0.02)

    def hang(self, part: str, seconds: float) -> None:
        """Stop it for so many real seconds."""
        found = self.pid(part)
        if found is not None:
            self.down.add(part)
            os.kill(found, signal.SIGSTOP)
            threading.Timer(seconds, lambda: self._goes_on(part, found)).start()

    def _goes_on(self, part: str, pid: int) -> None:
        os.kill(pid, signal.SIGCONT)
        self.down.discard(part)
        self.healthy_since = time.monotonic()

    def repair(self) -> None:
        """What `sandbox up` does after an accident, as far as it is about processes."""
        objectstore.ensure_running(self.layout, Silent())
        self.cluster.start(Silent())
        self.start_loop(fresh=False)
        self.down.clear()
        self.healthy_since = time.monotonic()

    # -- what they take ------------------------------------------------------------------------------------------------------

    def memory(self) -> Mapping[str, int]:
        """Of each process, and of the soak itself."""
        found = {each.name: each.memory_bytes for each in self.supervisor.list() if each.running}
        return {**found, "soak": linux.memory_bytes(os.getpid())}

    def disk(self) -> int:
        total = 0
        for folder, _, names in os.walk(self.layout.state):
            for name in names:
                try:
                    total += (Path(folder) / name).lstat().st_blocks * 512
                except OSError:
                    continue
        return total


def _established(crd: Mapping[str, Any]) -> bool:
    return any(c["type"] == "Established" and c["status"] == "True" for c in (crd.get("status") or {}).get("conditions") or ())
