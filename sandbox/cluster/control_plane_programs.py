"""The five programs of the control plane: their files and their command lines. Pure but for writing those files.

Everything listens on 127.0.0.1 only, speaks TLS with certificates of the sandbox's own authorities, and proves itself
by a client certificate. Keys are named by path, so no secret stands in an argument.
"""

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sandbox.cluster import manifests, stages
from sandbox.cluster.api import LoopbackEndpoint, release_nodes
from sandbox.cluster.certificates import Pair, Subject, authority, issue, signing_key, write_private
from sandbox.cluster.nodes import MANAGED
from sandbox.cluster.processes import Process
from sandbox.cluster.toolchain import Toolchain

ETCD, API_SERVER, CONTROLLER_MANAGER, SCHEDULER, KWOK = NAMES = (
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kwok",
)
ETCD_PEER = "etcd-peer"

KWOK_USER = "headway:sandbox:kwok"

SERVICE_RANGE, POD_RANGE = "10.96.0.0/16", "10.244.0.0/16"

AUTOSCALER_PERIOD_SECONDS = 5
"""Kubernetes' default is 15; a demonstration should not spend its time waiting."""

NODE_LEASE_SECONDS = 40
"""As kubelets do; renewed every quarter of it, and the controller manager gives a node up after 50 s."""

# As the EKS design sets it on the managed scheduler: GPUs are packed, because what is left over must hold the next large model.
PACKED = {"nvidia.com/gpu": 10, "cpu": 1, "memory": 1}
_MIG_PROFILES = (
    *("1g.5gb", "2g.10gb", "3g.20gb", "4g.20gb", "7g.40gb"),  # A100 40 GB
    *("1g.10gb", "1g.20gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb"),  # A100 80 GB, H100
    *("1g.18gb", "1g.35gb", "2g.35gb", "3g.71gb", "4g.71gb", "7g.141gb"),  # H200
)


@dataclass(frozen=True, kw_only=True)
class ControlPlaneSite:
    """Where one control plane lives: its folder, ports by name, and programs."""

    folder: Path
    ports: Mapping[str, int]
    toolchain: Toolchain

    @property
    def server(self) -> str:
        return f"https://127.0.0.1:{self.ports[API_SERVER]}"


@dataclass(frozen=True, kw_only=True)
class Identities:
    """Who is who, as certificates."""

    cluster: Pair
    etcd_authority: Pair
    front_proxy: Pair
    service_accounts: Pair
    etcd: Pair
    etcd_client: Pair
    aggregator: Pair
    server: Pair
    """Shown by the API server, controller manager and scheduler."""
    admin: Pair
    users: Mapping[str, Pair]
    """Client certificates of the controller manager, the scheduler and kwok."""


def identities(folder: Path) -> Identities:
    """The certificates of the control plane in `folder`, made where missing."""
    cluster, etcd, front_proxy = (authority(folder, name) for name in ("cluster", "etcd", "front-proxy"))
    own = ("127.0.0.1", "localhost")
    service = ("kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local", "10.96.0.1")
    users = {CONTROLLER_MANAGER: "system:kube-controller-manager", SCHEDULER: "system:kube-scheduler", KWOK: KWOK_USER}
    return Identities(
        cluster=cluster,
        etcd_authority=etcd,
        front_proxy=front_proxy,
        service_accounts=signing_key(folder, "service-accounts"),
        etcd=issue(folder, "etcd-server", Subject(common_name="etcd", hosts=own), etcd),
        etcd_client=issue(folder, "etcd-client", Subject(common_name=API_SERVER), etcd),
        aggregator=issue(folder, "front-proxy-client", Subject(common_name="front-proxy-client"), front_proxy),
        server=issue(folder, "server", Subject(common_name=API_SERVER, hosts=own + service), cluster),
        admin=issue(folder, "admin", Subject(common_name="headway:sandbox:admin", organizations=("system:masters",)), cluster),
        users={name: issue(folder, name, Subject(common_name=user), cluster) for name, user in users.items()},
    )


def write_files(site: ControlPlaneSite, who: Identities, kubeconfig_path: Path) -> None:
    """Write what the programs read, and the administrator's kubeconfig; a file that is already right is not touched."""
    kwoks = manifests.read(site.toolchain.files("control-plane", "stages"))
    files = {
        kubeconfig_path: kubeconfig(site.server, who.cluster, who.admin, "headway-sandbox"),
        _scheduler_config(site): manifests.dump(scheduler_configuration(_kubeconfig(site, SCHEDULER))),
        _stages(site): manifests.dump(*stages.compose(kwoks, manifests.read(sorted(stages.OURS.glob("*.yaml"))))),
        **{_kubeconfig(site, name): kubeconfig(site.server, who.cluster, pair, name) for name, pair in who.users.items()},
    }
    for path, text in files.items():
        if not path.exists() or path.read_text() != text:
            write_private(path, text.encode())


def kubeconfig(server: str, cluster: Pair, user: Pair, name: str) -> str:
    """A kubeconfig that stands alone: authority, certificate and key are in it, so it is a secret."""

    def data(path: Path) -> str:
        return base64.b64encode(path.read_bytes()).decode()

    return manifests.dump(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": name, "cluster": {"server": server, "certificate-authority-data": data(cluster.certificate)}}],
            "users": [
                {"name": name, "user": {"client-certificate-data": data(user.certificate), "client-key-data": data(user.key)}},
            ],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "current-context": name,
        }
    )


def scheduler_configuration(kubeconfig: Path) -> dict[str, Any]:
    """Pack what is scarce. A MIG slice counts like a GPU; a resource that a pod does not ask for has no say in its
    placement."""
    weights = {**PACKED, **{f"nvidia.com/mig-{profile}": PACKED["nvidia.com/gpu"] for profile in _MIG_PROFILES}}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 200, "burst": 400},
        "leaderElection": {"leaderElect": False},
        "profiles": [
            {
                "schedulerName": "default-scheduler",
                "pluginConfig": [
                    {
                        "name": "NodeResourcesFit",
                        "args": {
                            "scoringStrategy": {
                                "type": "MostAllocated",
                                "resources": [{"name": name, "weight": weight} for name, weight in sorted(weights.items())],
                            }
                        },
                    }
                ],
            }
        ],
    }


def etcd(site: ControlPlaneSite, who: Identities) -> Process:
    """The datastore. It does not wait for the disk: a killed process loses nothing, a power cut may, which a sandbox
    can afford."""
    port, peer = site.ports[ETCD], site.ports[ETCD_PEER]
    client_url, peer_url = f"https://127.0.0.1:{port}", f"https://127.0.0.1:{peer}"
    endpoint = LoopbackEndpoint(port=port, authority=who.etcd_authority.certificate, client=who.etcd_client)
    return Process(
        name=ETCD,
        argv=_argv(
            site,
            ETCD,
            {
                "advertise-client-urls": client_url,
                "cert-file": who.etcd.certificate,
                "client-cert-auth": "true",
                "data-dir": site.folder / "etcd",
                "initial-advertise-peer-urls": peer_url,
                "initial-cluster": f"sandbox={peer_url}",
                "key-file": who.etcd.key,
                "listen-client-urls": client_url,
                "listen-peer-urls": peer_url,
                "log-level": "warn",
                "name": "sandbox",
                "peer-cert-file": who.etcd.certificate,
                "peer-client-cert-auth": "true",
                "peer-key-file": who.etcd.key,
                "peer-trusted-ca-file": who.etcd_authority.certificate,
                "trusted-ca-file": who.etcd_authority.certificate,
                "unsafe-no-fsync": "true",
            },
        ),
        ports=(port, peer),
        ready=lambda: endpoint.unready("/health"),
    )


def api_server(site: ControlPlaneSite, who: Identities) -> Process:
    """Feature gates are the defaults, and so are admission plugins but for one that EKS has and Kubernetes by default has not (EKS user
    guide, "Kubernetes version platform versions"): it lets a pod tolerate taints named as the devices that it asks for. Aggregation is on,
    for extension API servers such as KEDA's metrics."""
    port = site.ports[API_SERVER]
    endpoint = admin(site, who)
    return Process(
        name=API_SERVER,
        argv=_argv(
            site,
            API_SERVER,
            {
                "advertise-address": "127.0.0.1",
                "allow-privileged": "true",
                "anonymous-auth": "false",
                "authorization-mode": "RBAC",
                "bind-address": "127.0.0.1",
                "client-ca-file": who.cluster.certificate,
                "enable-admission-plugins": "ExtendedResourceToleration",
                "endpoint-reconciler-type": "none",  # it would publish a loopback address, which validation refuses
                "etcd-cafile": who.etcd_authority.certificate,
                "etcd-certfile": who.etcd_client.certificate,
                "etcd-keyfile": who.etcd_client.key,
                "etcd-servers": f"https://127.0.0.1:{site.ports[ETCD]}",
                "profiling": "false",
                "proxy-client-cert-file": who.aggregator.certificate,
                "proxy-client-key-file": who.aggregator.key,
                "requestheader-allowed-names": "front-proxy-client",
                "requestheader-client-ca-file": who.front_proxy.certificate,
                "requestheader-extra-headers-prefix": "X-Remote-Extra-",
                "requestheader-group-headers": "X-Remote-Group",
                "requestheader-username-headers": "X-Remote-User",
                "secure-port": port,
                "service-account-issuer": "https://kubernetes.default.svc",
                "service-account-key-file": who.service_accounts.certificate,
                "service-account-signing-key-file": who.service_accounts.key,
                "service-cluster-ip-range": SERVICE_RANGE,
                "tls-cert-file": who.server.certificate,
                "tls-private-key-file": who.server.key,
            },
        ),
        ports=(port,),
        ready=lambda: endpoint.unready("/readyz?verbose"),
    )


def controller_manager(site: ControlPlaneSite, who: Identities) -> Process:
    """All default controllers, each with its own service account, so that RBAC holds for them too."""
    return _kubernetes_client(
        site,
        who,
        CONTROLLER_MANAGER,
        {
            "cluster-name": "headway-sandbox",
            "cluster-signing-cert-file": who.cluster.certificate,
            "cluster-signing-key-file": who.cluster.key,
            "horizontal-pod-autoscaler-sync-period": f"{AUTOSCALER_PERIOD_SECONDS}s",
            "kube-api-burst": 400,
            "kube-api-qps": 200,
            "kubeconfig": _kubeconfig(site, CONTROLLER_MANAGER),
            "leader-elect": "false",
            "profiling": "false",
            "root-ca-file": who.cluster.certificate,
            "service-account-private-key-file": who.service_accounts.key,
            "use-service-account-credentials": "true",
        },
        (),
    )


def scheduler(site: ControlPlaneSite, who: Identities) -> Process:
    config = _scheduler_config(site)
    return _kubernetes_client(site, who, SCHEDULER, {"config": config}, (config,))


def kwok(site: ControlPlaneSite, who: Identities) -> Process:
    """Plays the kubelets of annotated nodes, and what a cloud's controllers would do to Services, Ingresses and
    volumes.

    It leases each node under a name that is new with every start, and until the lease of its predecessor has run out it
    would play none of them: so the leases are released before it starts. Without leases (its own default) every node is
    lost after 50 s.
    """
    port = site.ports[KWOK]
    (annotation,) = MANAGED.items()
    return Process(
        name=KWOK,
        argv=_argv(
            site,
            KWOK,
            {
                "cidr": POD_RANGE,
                "config": _stages(site),
                "kubeconfig": _kubeconfig(site, KWOK),
                "manage-all-nodes": "false",
                "manage-nodes-with-annotation-selector": "=".join(annotation),
                "node-ip": "127.0.0.1",
                "node-lease-duration-seconds": NODE_LEASE_SECONDS,
                "node-port": port,
                "server-address": f"127.0.0.1:{port}",
            },
        ),
        ports=(port,),
        inputs=(_stages(site), _kubeconfig(site, KWOK)),
        prepare=lambda: release_nodes(admin(site, who)),
        ready=lambda: LoopbackEndpoint(port=port).unready("/readyz"),
    )


def admin(site: ControlPlaneSite, who: Identities) -> LoopbackEndpoint:
    """The API server, as its administrator."""
    return LoopbackEndpoint(port=site.ports[API_SERVER], authority=who.cluster.certificate, client=who.admin)


def _kubernetes_client(
    site: ControlPlaneSite, who: Identities, name: str, flags: Mapping[str, object], inputs: tuple[Path, ...]
) -> Process:
    port = site.ports[name]
    own = {
        "authentication-kubeconfig": _kubeconfig(site, name),
        "authorization-kubeconfig": _kubeconfig(site, name),
        "bind-address": "127.0.0.1",
        "secure-port": port,
        "tls-cert-file": who.server.certificate,
        "tls-private-key-file": who.server.key,
    }
    endpoint = LoopbackEndpoint(port=port, authority=who.cluster.certificate)
    return Process(
        name=name,
        argv=_argv(site, name, {**own, **flags}),
        ports=(port,),
        inputs=(_kubeconfig(site, name), *inputs),
        ready=lambda: endpoint.unready("/healthz"),
    )


def _argv(site: ControlPlaneSite, name: str, flags: Mapping[str, object]) -> tuple[str, ...]:
    return (str(site.toolchain.binary(name)), *(f"--{flag}={value}" for flag, value in sorted(flags.items())))


def _kubeconfig(site: ControlPlaneSite, name: str) -> Path:
    return site.folder / "config" / f"{name}.kubeconfig"


def _scheduler_config(site: ControlPlaneSite) -> Path:
    return site.folder / "config" / "scheduler.yaml"


def _stages(site: ControlPlaneSite) -> Path:
    return site.folder / "config" / "stages.yaml"
