"""The bed that faults are put into: what of a running demonstration they touch, by its own programs."""

import contextlib
import json
import os
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from headway import wire
from headway.ledger.traffic_split import ArmRole
from headway.problem import UserError
from headway.service_status import pending
from sandbox.cluster import whole_file
from sandbox.cluster.processes import Supervisor
from sandbox.layout import Layout
from sandbox.progress import Silent
from sandbox.traffic import labelled_parts, load_process, release_trials, servers
from sandbox.traffic.kube import Gone, Kube, Object
from sandbox.traffic.node.container_process import group
from sandbox.traffic.node.gpu_counters import SCRIPT, GpuScript, checked

if TYPE_CHECKING:
    import subprocess

    from headway.release.driver.rollout_state import ServiceState

TENANT, MODEL, POOL = "quality", "classifier", "l4"
LESSER_TENANT, LESSER_MODEL = "search", "encoder"
"""Of lower priority, so that no replica of it takes the place of another model's."""
SERVER = "tritonserver"
GPU, LOAD_TEST, PLATFORM_PRIORITY = "nvidia.com/gpu", "load-test", "headway-platform"
_RELEASE_SECONDS = 300.0
Json = dict[str, Any]


class RehearsalBed:
    """A demonstration that runs."""

    def __init__(self, layout: Layout, kube: Kube | None = None) -> None:
        self.layout = layout
        self.kube = kube or Kube(layout.kubeconfig)

    # -- the version that serves

    def behaviours(self) -> list[Path]:
        """What the served pods of the model behave by, a file for each."""
        return sorted((servers.folder(self.layout) / "node" / "pods").glob(f"{TENANT}_{MODEL}-*/**/behaviour.json"))

    def confuse(self) -> None:
        """Have every replica that serves the model answer worse from its next batch on, in perfect health and time."""
        for path in self.behaviours():
            behaviour = {**json.loads(path.read_text()), "confused_below": labelled_parts.CONFUSED_BELOW}
            whole_file.replace(path, json.dumps(behaviour))

    def deployment(self, tenant: str = TENANT, model: str = MODEL) -> Object:
        """The Deployment that has replicas; its newest release where there are several."""
        found = self.kube.get(deployments(tenant))["items"]
        running = [each for each in found if each["metadata"]["name"].startswith(f"{model}-") and each["spec"].get("replicas")]
        return max(running, key=lambda each: each["metadata"]["creationTimestamp"])

    def scale(self, name: str, replicas: int, tenant: str = TENANT) -> None:
        with contextlib.suppress(Gone):  # a release that ended meanwhile took it away
            self.kube.merge(f"{deployments(tenant)}/{name}/scale", {"spec": {"replicas": replicas}})

    def template(self, name: str, containers: Json, replicas: int) -> None:
        """Write the containers of the pods to come and how many there should be, by hand. `containers`: lists by their
        field."""
        with contextlib.suppress(Gone):
            self.kube.merge(f"{deployments(TENANT)}/{name}", {"spec": {"replicas": replicas, "template": {"spec": containers}}})

    def await_template(self, name: str) -> None:
        """Until pods of an earlier template are gone, so that fewer replicas end none that serves."""

        def renewed() -> bool:
            try:
                found = self.kube.get(f"{deployments(TENANT)}/{name}")
            except Gone:
                return True
            status = found.get("status") or {}
            seen = status.get("observedGeneration") == found["metadata"].get("generation")
            return seen and status.get("replicas") == status.get("updatedReplicas")

        self._until(renewed, "Pods of the template before are still there")

    def kill_servers(self) -> None:
        """End Triton of every served pod of the model, by SIGKILL."""
        for record in sorted((servers.folder(self.layout) / "node" / "records").glob(f"{TENANT}_{MODEL}-*_server.json")):
            for pid in group(json.loads(record.read_text())["pid"]):
                if _program(pid) == SERVER:
                    os.kill(pid, signal.SIGKILL)

    # -- the cluster

    def quota(self) -> Object:
        """The tenant's quota of all its pods."""
        listed = self.kube.get(f"/api/v1/namespaces/{TENANT}/resourcequotas")["items"]
        return next(each for each in listed if "pods" in each["spec"]["hard"] and "scopeSelector" not in each["spec"])

    def limit_pods(self, quota: str, pods: str) -> None:
        self.kube.merge(f"/api/v1/namespaces/{TENANT}/resourcequotas/{quota}", {"spec": {"hard": {"pods": pods}}})

    def nodes(self) -> list[str]:
        """Of the model's pool."""
        listed = self.kube.get(f"/api/v1/nodes?{urlencode({'labelSelector': f'{wire.POOL}={POOL}'})}")["items"]
        return [each["metadata"]["name"] for each in listed if not each["spec"].get("unschedulable")]

    def node(self) -> str:
        """On which the model runs."""
        listed = self.kube.get(f"/api/v1/namespaces/{TENANT}/pods?{urlencode({'labelSelector': f'{wire.MODEL}={MODEL}'})}")["items"]
        return next(str(each["spec"]["nodeName"]) for each in listed if each["spec"].get("nodeName"))

    def cordon(self, node: str, *, wanted: bool) -> None:
        try:
            self.kube.merge(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": wanted or None}})
        except Gone:
            return

    def taint(self, node: str, key: str, *, wanted: bool) -> None:
        path = f"/api/v1/nodes/{node}"
        try:
            kept = [each for each in self.kube.get(path)["spec"].get("taints") or [] if each["key"] != key]
            self.kube.merge(path, {"spec": {"taints": [*kept, *([{"key": key, "effect": "NoSchedule"}] if wanted else [])]}})
        except Gone:
            return

    def condition(self, node: str, body: Mapping[str, Any]) -> None:
        """Write one condition of the node, as its monitoring agent does."""
        path = f"/api/v1/nodes/{node}"
        kept = [each for each in self.kube.get(path)["status"].get("conditions") or [] if each["type"] != body["type"]]
        self.kube.merge(f"{path}/status", {"status": {"conditions": [*kept, dict(body)]}})

    def release_node(self, node: str) -> None:
        """Let the node back into service at once, if it was set apart."""
        from headway.node_health.cluster import NodeCluster, NodeHealthSettings
        from headway.node_health.decision import released
        from headway.node_health.replacement import refused

        cluster = NodeCluster(str(self.layout.kubeconfig), refused)
        found = next((each for each in cluster.nodes() if each.name == node), None)
        action = released(found, time.time(), untested=True) if found else None
        if action is not None:
            cluster.perform([action], NodeHealthSettings(diagnostic_image="", expected=()))

    # -- GPUs

    def play(self, script: GpuScript) -> None:
        """Have GPUs show what the script says; calm again where it says nothing."""
        node_agent = servers.folder(self.layout) / "node"
        node_agent.mkdir(parents=True, exist_ok=True)
        whole_file.replace(node_agent / SCRIPT, json.dumps(checked(script)))

    def spare_gpus(self) -> int:
        """Of the model's pool: what nobody uses but pods that give way to everybody."""
        nodes = self.kube.get(f"/api/v1/nodes?{urlencode({'labelSelector': f'{wire.POOL}={POOL}'})}")["items"]
        names = {each["metadata"]["name"] for each in nodes}
        pods = [
            each
            for each in self.kube.get("/api/v1/pods")["items"]
            if each["spec"].get("nodeName") in names and each["spec"].get("priority", 0) >= 0
        ]
        there = sum(int((each["status"].get("allocatable") or {}).get(GPU, 0)) for each in nodes)
        return there - sum(pending.gpus(each).get(GPU, 0) for each in pods)

    def take_gpus(self, count: int) -> None:
        """Have pods of nobody's contract hold so many, above every model's priority; they have them once this is back."""
        image = self.deployment()["spec"]["template"]["spec"]["containers"][0]["image"]
        container = {"name": "server", "image": image, "resources": {"limits": {GPU: "1"}}}
        spec = {
            "containers": [container],
            "nodeSelector": {wire.POOL: POOL},
            "priorityClassName": PLATFORM_PRIORITY,
            "tolerations": [{"key": GPU, "operator": "Exists"}],
        }
        labels = {"app": LOAD_TEST}
        template = {"metadata": {"labels": labels}, "spec": spec}
        body: Object = {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": LOAD_TEST, "labels": labels},
            "spec": {"replicas": count, "selector": {"matchLabels": labels}, "template": template},
        }
        self.kube.create(deployments("default"), body)

        def taken() -> bool:
            return int((self.kube.get(f"{deployments('default')}/{LOAD_TEST}").get("status") or {}).get("readyReplicas", 0)) >= count

        self._until(taken, "Not every GPU is taken")

    def give_gpus_back(self) -> None:
        with contextlib.suppress(Gone):
            self.kube.delete(f"{deployments('default')}/{LOAD_TEST}")

    # -- releases

    @property
    def contract(self) -> Path:
        return self.layout.project / "tenants" / TENANT / f"{MODEL}.yaml"

    def releases(self) -> "ServiceState":
        return release_trials.service(self.layout)

    def release_to_users(self) -> None:
        """Start the release that the contract describes, and come back once users get it. Raises UserError where it is
        refused, or ends before."""
        child = self.headway("start", "--reason", "rehearsed", "--speed", "15")

        def reached() -> bool:
            if child.poll() is not None:
                raise self._failed("The release ended before users got it")
            rollout = self.releases().running
            return rollout is not None and rollout.split.weight(rollout.release, ArmRole.CANARY).whole_percent > 0

        try:
            self._until(reached, "Users get nothing of the release", _RELEASE_SECONDS)
        except BaseException:
            if self.releases().running is None and child.poll() is None:
                child.terminate()
                child.wait()
            raise

    def hold_release(self, reason: str) -> None:
        self.headway("freeze", "--reason", reason).wait()

    def end_release(self) -> None:
        """Take the release back that is under way, if one is."""
        if self.releases().running is not None:
            self.headway("rollback", "--reason", "the rehearsal is over").wait()

    def headway(self, verb: str, *options: str) -> "subprocess.Popen[bytes]":
        return release_trials.headway(self.layout, "release", verb, f"{TENANT}/{MODEL}", *options, log=self._log)

    @property
    def _log(self) -> Path:
        return self.layout.logs / "rehearsal.log"

    def _until(self, reached: Callable[[], bool], lacks: str, seconds: float = 60.0) -> None:
        """Raises UserError, which says what it `lacks`, where it does not come to it."""
        deadline = time.monotonic() + seconds
        while not reached():
            if time.monotonic() > deadline:
                raise self._failed(f"{lacks} after {seconds:.0f} s")
            time.sleep(1.0)

    def _failed(self, fact: str) -> UserError:
        remedy = f"Look at `headway status -e sandbox`; what a release said is in {self._log}."
        return UserError(f"{fact}.", "The rehearsal has failed.", remedy)

    # -- processes

    def kill(self, name: str) -> None:
        pid = next((each.pid for each in Supervisor(self.layout).list() if each.name == name and each.pid), None)
        if pid is not None:
            os.kill(pid, signal.SIGKILL)

    def load(self, **changes: Any) -> None:
        """Have users ask otherwise; without any changes, as ever."""
        load_process.start(self.layout, Silent(), changes)


def deployments(namespace: str) -> str:
    """Where the API server has them."""
    return f"/apis/apps/v1/namespaces/{namespace}/deployments"


def _program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/exe").readlink().name
    except OSError:
        return ""
