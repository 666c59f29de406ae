"""What runs on the system pool beside charts: EKS add-ons and the platform's own objects, with what each requests.
Pure.

EKS installs its add-ons from charts of its own account, whose defaults are said here with their public source; what
a chart of ours requests, its values say (`components.addons.chart_pods`).
"""

from collections.abc import Iterable, Mapping, Sequence
from math import ceil
from typing import Any

from components.addons.placement import ON_SYSTEM_NODES
from components.manifests import Manifest
from components.platform.namespaces import NAMESPACES
from headway.contract.accelerators import INSTANCE_TYPES
from headway.contract.arithmetic.replica import PROXY_CPU, PROXY_MEMORY
from headway.contract.arithmetic.system_pool import Workload
from headway.contract.pool import Pool, SystemPool
from headway.contract.units import Bytes, MilliCpu

_MI = 2**20
COREDNS_LEAST, COREDNS_MOST = 2, 10
NODES_A_COREDNS, CORES_A_COREDNS = 16, 256
"""EKS user guide, "Scale CoreDNS Pods for high DNS traffic": the greater of nodes / 16 and cores / 256."""


def eks_addons(system: SystemPool, pools: Sequence[Pool]) -> tuple[Workload, ...]:
    """The add-ons of `components.cluster.addons`, at the defaults of their charts.

    Each was read at the tag and commit beside it, the newest that is public at or before the pinned version.
    """
    return (
        # v1.23.1 (b5218838): 25m for aws-node and, by default the same, for the policy agent.
        _on_every_node("aws-node", 50, 0, "aws/amazon-vpc-cni-k8s, charts/aws-vpc-cni"),
        # v1.64.0 (6689789f): 10m each for plugin, registrar and probe; 40Mi for the plugin, 32Mi for each other.
        _on_every_node("ebs-csi-node", 30, 104, "kubernetes-sigs/aws-ebs-csi-driver, charts/aws-ebs-csi-driver"),
        # v1.7.0 (c399089d); its DCGM requests nothing.
        _on_every_node("eks-node-monitoring-agent", 10, 30, "aws/eks-node-monitoring-agent, charts/eks-node-monitoring-agent"),
        # v0.1.37 (d4dc0f3f): `resources: {}`.
        _on_every_node("eks-pod-identity-agent", 0, 0, "aws/eks-pod-identity-agent, charts/eks-pod-identity-agent"),
        # EKS publishes no chart of it; every cluster's DaemonSet requests this.
        _on_every_node("kube-proxy", 100, 0, "EKS's own manifest"),
        # Kubernetes' own manifest of CoreDNS 1.14 (008b3652).
        _deployment("coredns", 100, 70, COREDNS_LEAST, _coredns_most(system, pools), "kubernetes/kubernetes, cluster/addons/dns/coredns"),
        # v1.64.0 (6689789f): 10m and 40Mi each for plugin, provisioner, attacher and resizer, 10m and 32Mi for the probe. Snapshots have
        # no definitions here.
        _deployment("ebs-csi-controller", 50, 192, 2, 2, "kubernetes-sigs/aws-ebs-csi-driver, charts/aws-ebs-csi-driver"),
        # v0.9.0 (2a7c4b2c).
        _deployment("metrics-server", 100, 200, 2, 2, "kubernetes-sigs/metrics-server, charts/metrics-server"),
    )


def _coredns_most(system: SystemPool, pools: Sequence[Pool]) -> int:
    nodes = [(system.size.max, INSTANCE_TYPES[system.instance_types[0]].vcpus)]
    nodes += [(pool.size.max * len(pool.zones), pool.instance_type.vcpus) for pool in pools]
    wanted = max(sum(n for n, _ in nodes) / NODES_A_COREDNS, sum(n * cores for n, cores in nodes) / CORES_A_COREDNS)
    return min(COREDNS_MOST, max(COREDNS_LEAST, ceil(wanted)))


def _on_every_node(name: str, cpu: int, mebibytes: int, source: str) -> Workload:
    return Workload(name=name, cpu=MilliCpu(cpu), memory=Bytes(mebibytes * _MI), least=0, most=0, every_node=True, source=source)


def _deployment(name: str, cpu: int, mebibytes: int, least: int, most: int, source: str) -> Workload:
    return Workload(name=name, cpu=MilliCpu(cpu), memory=Bytes(mebibytes * _MI), least=least, most=most, source=source)


def own_workloads(manifests: Iterable[Manifest]) -> tuple[Workload, ...]:
    """The Deployments among `manifests` that run on system nodes, with their proxies where the namespace has them."""
    meshed = {namespace.name for namespace in NAMESPACES if namespace.meshed}
    return tuple(
        _own(each.body, meshed)
        for each in manifests
        if each.kind == "Deployment" and each.body["spec"]["template"]["spec"].get("nodeSelector") == dict(ON_SYSTEM_NODES)
    )


def _own(body: Mapping[str, Any], meshed: set[str]) -> Workload:
    spec, proxied = body["spec"], body["metadata"]["namespace"] in meshed
    asked = [container["resources"]["requests"] for container in spec["template"]["spec"]["containers"]]
    strict = [
        each for each in spec["template"]["spec"].get("topologySpreadConstraints", ()) if each["whenUnsatisfiable"] == "DoNotSchedule"
    ]
    return Workload(
        name=body["metadata"]["name"],
        cpu=MilliCpu(sum(MilliCpu.parse(each["cpu"]) for each in asked) + (PROXY_CPU if proxied else 0)),
        memory=Bytes(sum(Bytes.parse(each["memory"]) for each in asked) + (PROXY_MEMORY if proxied else 0)),
        least=spec["replicas"],
        most=spec["replicas"],
        by_zone=any(each["topologyKey"] == "topology.kubernetes.io/zone" for each in strict),
        source="the platform layer",
    )
