"""The bed that faults are put into: what of a running demonstration they touch, by its own programs."""

import json
import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from headway import wire
from sandbox.cluster.processes import Supervisor
from sandbox.layout import Layout
from sandbox.progress import Silent
from sandbox.traffic import load_process, servers
from sandbox.traffic.kube import Gone, Kube, Object
from sandbox.traffic.node.container_process import group

TENANT, MODEL, POOL = "quality", "classifier", "l4"
SERVER = "tritonserver"
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

    def deployment(self) -> Object:
        """The Deployment that has replicas; its newest release where there are several."""
        found = self.kube.get(f"/apis/apps/v1/namespaces/{TENANT}/deployments")["items"]
        running = [each for each in found if each["metadata"]["name"].startswith(f"{MODEL}-") and each["spec"].get("replicas")]
        return max(running, key=lambda each: each["metadata"]["creationTimestamp"])

    def scale(self, name: str, replicas: int) -> None:
        self.kube.merge(f"/apis/apps/v1/namespaces/{TENANT}/deployments/{name}/scale", {"spec": {"replicas": replicas}})

    def kill_servers(self) -> None:
        """End Triton of every served pod of the model, by SIGKILL."""
        for record in sorted((servers.folder(self.layout) / "node" / "records").glob(f"{TENANT}_{MODEL}-*_server.json")):
            for pid in group(json.loads(record.read_text())["pid"]):
                if _program(pid) == SERVER:
                    os.kill(pid, signal.SIGKILL)

    # -- the cluster

    def quota(self) -> Object:
        (found,) = [
            each for each in self.kube.get(f"/api/v1/namespaces/{TENANT}/resourcequotas")["items"] if "pods" in each["spec"]["hard"]
        ]
        return found

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

    # -- processes

    def kill(self, name: str) -> None:
        pid = next((each.pid for each in Supervisor(self.layout).list() if each.name == name and each.pid), None)
        if pid is not None:
            os.kill(pid, signal.SIGKILL)

    def load(self, **changes: Any) -> None:
        """Have users ask otherwise; without any changes, as ever."""
        load_process.start(self.layout, Silent(), changes)


def _program(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/exe").readlink().name
    except OSError:
        return ""
