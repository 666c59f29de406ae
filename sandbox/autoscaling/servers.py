"""Starts KEDA's operator, metrics adapter and admission webhooks, each as its chart's service account; hands the adapter to
the API server as external metrics, and has it ask the webhooks about what is written.

Needs the control plane, KEDA's definitions in it, and Prometheus. ScaledObjects name Prometheus by its address in the
cluster, which nothing resolves here; KEDA sends plain HTTP through the proxy of its environment, so Prometheus itself
is named as that proxy and gets every query, whatever host it was meant for. Queues are those of the sandbox's object
store.
"""

import base64
import http.client
import json
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from sandbox.cluster import api, certificates, control_plane_programs, manifests
from sandbox.cluster.api import LoopbackEndpoint
from sandbox.cluster.certificates import Subject
from sandbox.cluster.processes import Process, Supervisor
from sandbox.cluster.toolchain import Toolchain, ensure_toolchain
from sandbox.layout import Layout
from sandbox.monitoring import configuration
from sandbox.monitoring.servers import PROMETHEUS, folder_of, write
from sandbox.progress import Progress

TOOL_SETS = ("keda",)
OPERATOR, ADAPTER, WEBHOOKS = NAMES = ("keda-operator", "keda-adapter", "keda-webhooks")
NAMESPACE = "keda"
ACCOUNTS = {OPERATOR: "keda-operator", ADAPTER: "keda-metrics-server", WEBHOOKS: "keda-webhook"}
"""As which of its chart's service accounts each runs."""
GROUP, VERSION = "external.metrics.k8s.io", "v1beta1"
_GROUPS = ("system:serviceaccounts", f"system:serviceaccounts:{NAMESPACE}")
_SERVICE = "keda-metrics-apiserver"
_MANAGER = "headway-sandbox"
_EXTRA_PORTS = (
    "keda-metrics",
    "keda-health",
    "keda-metrics-service",
    "keda-adapter-metrics",
    "keda-webhooks-health",
    "keda-webhooks-metrics",
)
_REFUSED = {
    "apiVersion": "keda.sh/v1alpha1",
    "kind": "ScaledObject",
    "metadata": {"name": "refused" * 10, "namespace": NAMESPACE},
    "spec": {"scaleTargetRef": {"name": "nothing"}, "triggers": [{"type": "cron", "metadata": {}}]},
}
"""Its definition lets it pass, KEDA's admission does not: the name fits in no label (`verifyName` of scaledobject_webhook.go)."""


def start(
    layout: Layout, progress: Progress, *, queues: Mapping[str, str] | None = None, supervisor: Supervisor | None = None
) -> tuple[str, ...]:
    """Have all run, the external metrics API answer and the API server ask the webhooks; the names of those that had to
    be started. UserError when they cannot be.

    `queues` is the environment by which an AWS SDK finds the queues.
    """
    keeper = supervisor or Supervisor(layout)
    toolchain = ensure_toolchain(layout, progress, TOOL_SETS)
    who = control_plane_programs.identities(layout.cluster / "pki")
    admin = LoopbackEndpoint(port=keeper.port(control_plane_programs.API_SERVER), authority=who.cluster.certificate, client=who.admin)
    ports = {name: keeper.port(name) for name in (*NAMES, *_EXTRA_PORTS, PROMETHEUS, control_plane_programs.API_SERVER)}
    authority = who.cluster.certificate
    asked = _asking(manifests.read(toolchain.files("keda", "webhooks")), authority, ports[WEBHOOKS])
    for manifest in (*manifests.read((Path(__file__).with_name("keda.yaml"),)), *_registration(authority, ports[ADAPTER]), *asked):
        api.apply(admin, manifest, _MANAGER)
    folder = _files(layout.cluster, who, ports[control_plane_programs.API_SERVER])
    environment = {
        "HTTP_PROXY": f"http://127.0.0.1:{ports[PROMETHEUS]}",
        "KEDA_CLUSTER_OBJECT_NAMESPACE": NAMESPACE,
        "KEDA_RESTRICT_SECRET_ACCESS": "true",
        "POD_NAMESPACE": NAMESPACE,
        "WATCH_NAMESPACE": "",
    }
    metrics = configuration.target_file([f"127.0.0.1:{ports['keda-metrics']}"], {"job": "keda-operator", "namespace": NAMESPACE})
    write(folder_of(layout) / "targets" / "keda.json", json.dumps(metrics, indent=2) + "\n")
    operator = _operator(toolchain, folder, ports, {**environment, **(queues or {}), "NO_PROXY": "127.0.0.1,localhost"})
    adapter = _adapter(toolchain, folder, ports, environment, who.front_proxy.certificate, admin)
    webhooks = _webhooks(toolchain, folder, ports, environment, admin)
    return keeper.ensure_all((operator,), progress) + keeper.ensure_all((adapter, webhooks), progress)


def stop(layout: Layout, progress: Progress, *, supervisor: Supervisor | None = None) -> tuple[str, ...]:
    """End all. Replicas stay as they are. The names of those that ran."""
    keeper = supervisor or Supervisor(layout)
    return tuple(name for name in reversed(NAMES) if keeper.stop(name, progress))


def _registration(authority: Path, port: int) -> tuple[dict[str, Any], ...]:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": _SERVICE, "namespace": NAMESPACE},
        "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"name": "https", "port": port}]},
    }
    registered = {
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {"name": f"{VERSION}.{GROUP}"},
        "spec": {
            "caBundle": base64.b64encode(authority.read_bytes()).decode(),
            "group": GROUP,
            "groupPriorityMinimum": 100,
            "service": {"name": _SERVICE, "namespace": NAMESPACE, "port": port},
            "version": VERSION,
            "versionPriority": 100,
        },
    }
    return service, registered


def _asking(configurations: Iterable[Mapping[str, Any]], authority: Path, port: int) -> Iterator[dict[str, Any]]:
    """KEDA's own registration of its webhooks, at their address here. As its chart has it, what they do not answer is let pass."""
    bundle = base64.b64encode(authority.read_bytes()).decode()
    for found in configurations:
        hooks = [
            {**each, "clientConfig": {"url": f"https://127.0.0.1:{port}{each['clientConfig']['service']['path']}", "caBundle": bundle}}
            for each in found["webhooks"]
        ]
        yield {**found, "webhooks": hooks}


def _files(cluster: Path, who: control_plane_programs.Identities, api_port: int) -> Path:
    """A kubeconfig each, and certificates under the names by which KEDA looks for them."""
    folder = cluster / "keda"
    hosts = ("localhost", "127.0.0.1", f"{_SERVICE}.{NAMESPACE}.svc")
    served = certificates.issue(cluster / "pki", "keda-server", Subject(common_name=_SERVICE, hosts=hosts), who.cluster)
    folder.mkdir(mode=0o700, exist_ok=True)
    for process, account in ACCOUNTS.items():
        named = Subject(common_name=f"system:serviceaccount:{NAMESPACE}:{account}", organizations=_GROUPS)
        user = certificates.issue(cluster / "pki", process, named, who.cluster)
        text = control_plane_programs.kubeconfig(f"https://127.0.0.1:{api_port}", who.cluster, user, account).encode()
        file = _kubeconfig(folder, process)
        if not file.exists() or file.read_bytes() != text:
            certificates.write_private(file, text)
    for source, name in ((who.cluster.certificate, "ca.crt"), (served.certificate, "tls.crt"), (served.key, "tls.key")):
        shutil.copy2(source, folder / name)
    return folder


def _kubeconfig(folder: Path, process: str) -> Path:
    return folder / f"{process}.kubeconfig"


def _operator(toolchain: Toolchain, folder: Path, ports: Mapping[str, int], environment: Mapping[str, str]) -> Process:
    health = ports["keda-health"]
    flags = {
        "cert-dir": folder,
        "enable-apiservice-patching": "false",
        "enable-webhook-patching": "false",
        "health-probe-bind-address": f"127.0.0.1:{health}",
        "kubeconfig": _kubeconfig(folder, OPERATOR),
        "leader-elect": "false",
        "metrics-bind-address": f"127.0.0.1:{ports['keda-metrics']}",
        "metrics-service-bind-address": f"127.0.0.1:{ports['keda-metrics-service']}",
        "zap-encoder": "json",
        "zap-log-level": "info",
    }
    return Process(
        name=OPERATOR,
        argv=_argv(toolchain, OPERATOR, flags),
        environment=environment,
        ports=(health, ports["keda-metrics"], ports["keda-metrics-service"]),
        inputs=(_kubeconfig(folder, OPERATOR),),
        ready=lambda: LoopbackEndpoint(port=health).unready("/readyz"),
    )


def _adapter(
    toolchain: Toolchain, folder: Path, ports: Mapping[str, int], environment: Mapping[str, str], front_proxy: Path, admin: LoopbackEndpoint
) -> Process:
    kubeconfig = _kubeconfig(folder, ADAPTER)
    flags = {
        "authentication-kubeconfig": kubeconfig,
        "authorization-kubeconfig": kubeconfig,
        "bind-address": "127.0.0.1",
        "cert-dir": folder,
        "client-ca-file": folder / "ca.crt",
        "kubeconfig": kubeconfig,
        "lister-kubeconfig": kubeconfig,
        "metrics-service-address": f"localhost:{ports['keda-metrics-service']}",
        "port": ports["keda-adapter-metrics"],
        "requestheader-allowed-names": "front-proxy-client",
        "requestheader-client-ca-file": front_proxy,
        "secure-port": ports[ADAPTER],
        "tls-cert-file": folder / "tls.crt",
        "tls-private-key-file": folder / "tls.key",
        "zap-log-level": "info",
    }
    return Process(
        name=ADAPTER,
        argv=_argv(toolchain, ADAPTER, flags),
        environment=environment,
        ports=(ports[ADAPTER], ports["keda-adapter-metrics"]),
        inputs=(kubeconfig,),
        # Not that it listens, but that the API server passes on what it answers.
        ready=lambda: admin.unready(f"/apis/{GROUP}/{VERSION}"),
    )


def _webhooks(
    toolchain: Toolchain, folder: Path, ports: Mapping[str, int], environment: Mapping[str, str], admin: LoopbackEndpoint
) -> Process:
    flags = {
        "cert-dir": folder,
        "health-probe-bind-address": f"127.0.0.1:{ports['keda-webhooks-health']}",
        "kubeconfig": _kubeconfig(folder, WEBHOOKS),
        "metrics-bind-address": f"127.0.0.1:{ports['keda-webhooks-metrics']}",
        "port": ports[WEBHOOKS],
        "zap-encoder": "json",
        "zap-log-level": "info",
    }
    return Process(
        name=WEBHOOKS,
        argv=_argv(toolchain, WEBHOOKS, flags),
        environment=environment,
        ports=(ports[WEBHOOKS], ports["keda-webhooks-health"], ports["keda-webhooks-metrics"]),
        inputs=(_kubeconfig(folder, WEBHOOKS),),
        ready=lambda: _asks(admin),
    )


def _asks(admin: LoopbackEndpoint) -> str | None:
    """None once the API server refuses what the webhooks refuse, be it in their words or the platform's; else what is missing."""
    path = f"/apis/{_REFUSED['apiVersion']}/namespaces/{NAMESPACE}/scaledobjects?dryRun=All"
    try:
        answer = admin.call("POST", path, json.dumps(_REFUSED), {"Content-Type": "application/json"})
    except (OSError, http.client.HTTPException):
        return "waiting for the API server"
    return None if answer.status == 403 else "waiting for the API server to ask it"


def _argv(toolchain: Toolchain, name: str, flags: Mapping[str, object]) -> tuple[str, ...]:
    return (str(toolchain.binary(name)), *(f"--{flag}={value}" for flag, value in sorted(flags.items())))
