"""Starts and stops what serves real traffic: the node agent, Envoy and the mesh that configures it. The shell around
the rest.

Everything lies in `<state>/traffic/`. Pods that were simulated before their service was marked stay simulated; `start`
deletes them, and their Deployments make new ones that are processes.
"""

import json
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from headway.problem import UserError
from headway.signals.definition import GATEWAY_JOB
from headway.wire import MODEL, TENANT
from sandbox.cloud import objectstore
from sandbox.cluster.api import LoopbackEndpoint
from sandbox.cluster.processes import Process, Supervisor
from sandbox.layout import Layout
from sandbox.progress import Progress, Silent
from sandbox.traffic import activator, admission, endpoint_picker, limiter, profile
from sandbox.traffic.kube import Gone, Kube
from sandbox.traffic.mesh import envoy
from sandbox.traffic.mesh.listeners import MESH_PORTS
from sandbox.traffic.profile import LANGUAGE, ModelArtifacts, ServedModel
from sandbox.traffic.programs import Programs, programs

NODE_AGENT, MESH = "node-agent", "mesh"
GATEWAY_PORT = 80
"""Of the platform's Gateway object: plain HTTP, for the sandbox's stack has no certificate."""
GPU_EXPORTER = {"namespace": "gpu-operator", "pod": "dcgm-exporter-sandbox"}
"""Whose page the GPUs are on: as in production, labels of the pods that use them are then called `exported_...`."""
KUBELET_PATH = "/metrics/cadvisor"
_MANAGER = "headway-sandbox-traffic"
_MARKING_SECONDS = 60.0


@dataclass(frozen=True, kw_only=True)
class TrafficOptions:
    """What tests choose otherwise."""

    served: tuple[ServedModel, ...] | None = None
    """None for what the checkout's tenants have of the profile."""
    first_backoff_seconds: float = 10.0


@dataclass(frozen=True, kw_only=True)
class TrafficAddresses:
    """Ports on 127.0.0.1."""

    gateway: int
    """Applications call here, with `Host: <model>.<tenant>.<host of the gateway>` and a token."""
    mesh: Mapping[int, int]
    """Callers inside the mesh, by the Service's port, with `Host: <service>.<tenant>.svc.cluster.local`."""
    mesh_metrics: int
    """`/metrics` in Istio's names, `/refusals`."""
    activator: int
    """`/metrics` of what holds requests to services without a replica."""
    node_metrics: int
    """`/gpu-metrics` of DCGM's kind, `/metrics/cadvisor` of a kubelet's."""


def addresses(supervisor: Supervisor) -> TrafficAddresses:
    """Where everything is; chosen at the first call, the same ever after."""
    return TrafficAddresses(
        gateway=supervisor.port("gateway"),
        mesh={port: supervisor.port(f"mesh-{port}") for port in MESH_PORTS},
        activator=supervisor.port(activator.SHOWN),
        mesh_metrics=supervisor.port(MESH),
        node_metrics=supervisor.port(NODE_AGENT),
    )


def start(layout: Layout, progress: Progress, options: TrafficOptions | None = None) -> TrafficAddresses:
    """Have everything run in a cluster that runs: pods of the served services become processes, and the mesh leads to
    them.

    UserError where the checkout has none of these services, or the traffic environment is not complete.
    """
    chosen, supervisor = options or TrafficOptions(), Supervisor(layout)
    served = chosen.served or profile.served_in(layout.project)
    start_node_agent(layout, progress, chosen, supervisor)
    mark(layout, served, progress)
    if LANGUAGE in served:
        limiter.start(layout, progress, supervisor, programs(layout.project), folder(layout) / "limiter")
        endpoint_picker.start(layout, progress, supervisor)
    activator.start(layout, progress, supervisor)
    start_mesh(layout, progress, supervisor)
    return addresses(supervisor)


def folder(layout: Layout) -> Path:
    return layout.state / "traffic"


def artifacts(
    layout: Layout, found: Programs | None = None, progress: Progress | None = None, served: tuple[ServedModel, ...] | None = None
) -> ModelArtifacts:
    """The models of the profile, written or trained if need be. UserError without the environment that does it."""
    there = found or programs(layout.project)
    if LANGUAGE in (served or profile.served_in(layout.project)):
        return profile.train(there, layout.project, layout.cache, progress or Silent())
    return profile.build(there, folder(layout) / "artifacts")


def scrape(layout: Layout, found: TrafficAddresses) -> None:
    """Have the sandbox's Prometheus read what the mesh and the node show; pods' own pages are found by their
    PodMonitors."""
    from sandbox.monitoring import configuration
    from sandbox.monitoring import servers as monitoring

    targets: Mapping[str, tuple[int, Mapping[str, str]]] = {
        "traffic-activator": (found.activator, {"job": activator.NAME}),
        "traffic-mesh": (found.mesh_metrics, {"job": GATEWAY_JOB}),
        "traffic-kubelet": (found.node_metrics, {"job": "kubelet", "__metrics_path__": KUBELET_PATH, "metrics_path": KUBELET_PATH}),
        "traffic-gpu": (found.node_metrics, {"job": "dcgm-exporter", **GPU_EXPORTER, "__metrics_path__": "/gpu-metrics"}),
    }
    for name, (port, labels) in targets.items():
        text = json.dumps(configuration.target_file([f"127.0.0.1:{port}"], labels), indent=2) + "\n"
        monitoring.write(monitoring.folder_of(layout) / "targets" / f"{name}.json", text)


def start_node_agent(layout: Layout, progress: Progress, options: TrafficOptions, supervisor: Supervisor) -> int:
    """Have the node agent run and follow the cluster; the port of its metrics."""
    found = programs(layout.project)
    objectstore.ensure_running(layout, progress)
    endpoint = objectstore.endpoint(layout, supervisor)
    profile.upload(artifacts(layout, found, progress, options.served), objectstore.client("s3", "us-east-1", endpoint))
    port = supervisor.port(NODE_AGENT)
    supervisor.ensure(
        python_process(
            layout,
            NODE_AGENT,
            "sandbox.traffic.node",
            {
                "environment": dict(objectstore.environment(layout)),
                "first_backoff_seconds": options.first_backoff_seconds,
                "kubeconfig": str(layout.kubeconfig),
                "logs": str(layout.logs / "pods"),
                "port": port,
                "project": str(layout.project),
                "state": str(folder(layout) / "node"),
            },
            port,
        ),
        progress,
    )
    return port


def start_mesh(layout: Layout, progress: Progress, supervisor: Supervisor) -> None:
    """Have Envoy run, configured by what the cluster says."""
    found, place = programs(layout.project), folder(layout) / "mesh"
    ports = addresses(supervisor)
    admin = supervisor.port("envoy-admin")
    log = layout.logs / "envoy-access.log"
    samples = layout.logs / "samples"
    samples.mkdir(parents=True, exist_ok=True)
    envoy.EnvoyFiles(place).begin(admin)
    settings = {
        "admin_port": admin,
        "folder": str(place),
        "gateway": {str(GATEWAY_PORT): ports.gateway},
        "issuers": str(folder(layout) / "issuers"),
        "kubeconfig": str(layout.kubeconfig),
        "activator": activator.port(supervisor),
        "limiter": limiter.port(supervisor),
        "picker": endpoint_picker.port(supervisor),
        "log": str(log),
        "samples": str(samples),
        "mesh": {str(port): own for port, own in ports.mesh.items()},
        "port": ports.mesh_metrics,
    }
    supervisor.ensure(python_process(layout, MESH, "sandbox.traffic.mesh", settings, ports.mesh_metrics), progress)
    supervisor.ensure(envoy.process(found, place, admin, (ports.gateway, *ports.mesh.values())), progress)


def mark(layout: Layout, served: Iterable[ServedModel], progress: Progress) -> None:
    """Have the services' pods run by the agent, and replace those that are simulated."""
    kube, chosen = Kube(layout.kubeconfig), tuple(served)
    for body in admission.policy(chosen):
        kube.apply(f"{admission.API}/{_plural(body['kind'])}/{admission.NAME}", body, _MANAGER)
    _await_marking(kube, chosen)
    for each in chosen:
        for pod in _pods(kube, each):
            if not _marked(pod):
                progress.step(NODE_AGENT, f"replacing the simulated pod {pod['metadata']['name']}")
                _delete(kube, pod)


def _await_marking(kube: Kube, served: tuple[ServedModel, ...]) -> None:
    """Wait until the API server acts by the policy: it hears of it as any client does, and a pod made before would stay
    simulated."""
    deadline = monotonic() + _MARKING_SECONDS
    for each in served:
        while not _marked(kube.create("/api/v1/namespaces/default/pods?dryRun=All", admission.specimen(each))):
            if monotonic() > deadline:
                raise UserError(
                    f"The API server still does not mark the pods of {each.tenant}/{each.model} after {_MARKING_SECONDS:.0f} s.",
                    "They would be simulated instead of served.",
                    "Run the command again; `headway sandbox reset` starts from nothing.",
                )
            sleep(0.1)


def unmark(layout: Layout) -> None:
    """Have new pods simulated again, and replace those that are processes."""
    kube = Kube(layout.kubeconfig)
    for kind in ("mutatingadmissionpolicybindings", "mutatingadmissionpolicies"):
        try:
            kube.delete(f"{admission.API}/{kind}/{admission.NAME}")
        except Gone:
            continue
    for pod in kube.get("/api/v1/pods")["items"]:
        if _marked(pod):
            _delete(kube, pod)


def stop(layout: Layout, progress: Progress) -> None:
    """End the processes; pods that were served are simulated from now on."""
    supervisor = Supervisor(layout)
    for name in (envoy.NAME, MESH, NODE_AGENT):
        supervisor.stop(name, progress)
    limiter.stop(supervisor, progress)
    endpoint_picker.stop(supervisor, progress)
    activator.stop(supervisor, progress)
    unmark(layout)
    shutil.rmtree(folder(layout) / "node", ignore_errors=True)


def _pods(kube: Kube, served: ServedModel) -> list[dict[str, Any]]:
    return list(
        kube.get(f"/api/v1/namespaces/{served.tenant}/pods?labelSelector={TENANT}%3D{served.tenant},{MODEL}%3D{served.model}")["items"]
    )


def _marked(pod: Mapping[str, Any]) -> bool:
    found = pod["metadata"].get("annotations") or {}
    return all(found.get(key) == value for key, value in admission.MARKS.items())


def _delete(kube: Kube, pod: Mapping[str, Any]) -> None:
    metadata = pod["metadata"]
    try:
        kube.delete(f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}", grace_seconds=0, uid=metadata["uid"])
    except Gone:
        return


def _plural(kind: str) -> str:
    return f"{kind.lower().removesuffix('y')}ies" if kind.endswith("y") else f"{kind.lower()}s"


def python_process(layout: Layout, name: str, module: str, settings: Mapping[str, Any], port: int) -> Process:
    """A module of ours as a kept process that answers `/ready` on its port; its settings are a file that only this user
    may read."""
    place = folder(layout) / f"{name}.json"
    place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    place.touch(mode=0o600)
    place.write_text(json.dumps(settings, indent=1, sort_keys=True) + "\n")
    python = layout.project / ".venv" / "bin" / "python"
    return Process(
        name=name,
        argv=(str(python), "-m", module, str(place)),
        ready=lambda: LoopbackEndpoint(port=port).unready("/ready"),
        ports=(port,),
        inputs=(place, *sorted(Path(__file__).parent.rglob("*.py"))),
        stop_seconds=20.0,
    )
