"""Reliability, cost and observability of what serves: probes that prove an answer, replicas that survive a node, owners of replicas."""

import re
from collections.abc import Mapping
from typing import Any

from headway.contract.accelerators import INSTANCE_TYPES
from headway.contract.arithmetic.node import allocatable_cpu, allocatable_memory
from headway.contract.gpu_resources import WHOLE_GPU
from headway.wire import MODEL, SYSTEM_NODES, WORKLOAD_CLASS
from policies.guardrails import workloads as w
from policies.guardrails.rule import Breaches, Domain, PolicyRule, PolicySeverity, breach
from policies.guardrails.view import ResourceView

_SERVERS = (w.DEPLOYMENT, w.STATEFUL_SET)


def _serves(r: ResourceView) -> bool:
    """Whether the workload is a model server: labelled with a model and asking for a GPU."""
    return w.label(w.template(r), MODEL).present and w.asks_for_gpu(r)


def _probes(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    if not _serves(r):
        return
    for c in w.containers(r, init=False):
        if not any(True for _ in w.gpus(c)):
            continue
        for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
            if not c[probe].present:
                yield breach(f"{c.path}.{probe}", f"model server {c['name'].value} has no {probe}")
            elif c[probe]["tcpSocket"].present:
                yield breach(f"{c.path}.{probe}.tcpSocket", "the probe takes an open port for an answer")


def _grace(r: ResourceView, c: Mapping[str, Any]) -> Breaches:
    if not _serves(r):
        return
    spec = w.pod(r)
    seconds = spec["terminationGracePeriodSeconds"].value
    if seconds is None or seconds < c["minimumSeconds"]:
        yield breach(f"{spec.path}.terminationGracePeriodSeconds", f"{seconds or 30} s to finish the requests in flight")
    elif seconds > 540:
        yield breach(f"{spec.path}.terminationGracePeriodSeconds", f"{seconds} s is longer than node repair waits (10 minutes)")


def _replicas_owned(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    if r.type == w.DEPLOYMENT and _serves(r) and r.at("spec", "replicas").present:
        yield breach("spec.replicas", f"the program sets {r.at('spec', 'replicas').value} replicas of a scaled model server")


def _zero(r: ResourceView, c: Mapping[str, Any]) -> Breaches:
    minimum = r.at("spec", "minReplicaCount").value
    waited_for = w.label(r.properties, WORKLOAD_CLASS).value not in ("batch", "development", "throughput")
    if c["scaleToZero"] or not waited_for:
        return
    if minimum is None or minimum < 1:
        yield breach("spec.minReplicaCount", f"the minimum is {minimum or 0}")
    if r.at("spec", "idleReplicaCount").present:
        yield breach("spec.idleReplicaCount", f"{r.at('spec', 'idleReplicaCount').value} replicas while idle, whatever the minimum says")


def _order(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    low, high = r.at("spec", "minReplicaCount").value or 0, r.at("spec", "maxReplicaCount").value
    if high is None:
        yield breach("spec.maxReplicaCount", "there is no maximum, and KEDA then assumes 100")
    elif high < low:
        yield breach("spec.maxReplicaCount", f"the maximum {high} is below the minimum {low}")


def _fallback(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    fallback, low = r.at("spec", "fallback"), r.at("spec", "minReplicaCount").value or 0
    if not fallback.present:
        yield breach("spec.fallback", "no fallback is stated for a missing metric")
    elif (fallback["replicas"].value or 0) < low:
        yield breach("spec.fallback.replicas", f"falls back to {fallback['replicas'].value}, below the minimum {low}")


def _null(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    for trigger in r.at("spec", "triggers").each():
        if trigger["type"].value == "prometheus" and str(trigger.at("metadata", "ignoreNullValues").value).lower() != "false":
            yield breach(f"{trigger.path}.metadata.ignoreNullValues", "an empty result of the query counts as zero load")


def _pdb(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    spec = r["spec"]
    if re.fullmatch(r"0+%?", str(spec["maxUnavailable"].value)):
        yield breach("spec.maxUnavailable", "no pod may ever be moved")
    if re.fullmatch(r"0*100%", str(spec["minAvailable"].value)):
        yield breach("spec.minAvailable", "no pod may ever be moved")


def _online_spot(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    labels = r["labels"]
    if r["capacityType"].value == "SPOT" and labels[WORKLOAD_CLASS].value not in ("batch",):
        yield breach("capacityType", f"the node group uses spot capacity for the class {labels[WORKLOAD_CLASS].value or 'online'}")


def _size(r: ResourceView, c: Mapping[str, Any]) -> Breaches:
    size = r.at("scalingConfig", "maxSize").value
    if size is not None and size > c["maxNodes"]:
        yield breach("scalingConfig.maxSize", f"the group may grow to {size} nodes; the ceiling is {c['maxNodes']}")


def _system_nodes(r: ResourceView, c: Mapping[str, Any]) -> Breaches:
    label, value = SYSTEM_NODES
    if r["labels"][label].value != value:
        return
    types = [INSTANCE_TYPES[name] for name in r["instanceTypes"].value or () if name in INSTANCE_TYPES]
    if not types:
        yield breach("instanceTypes", "no instance type of the catalogue is named")
        return
    cpu = min(allocatable_cpu(each) for each in types) - c["nodeMillicores"]
    memory = min(allocatable_memory(each) for each in types) // 2**20 - c["nodeMebibytes"]
    for bound, word, least in (("minSize", "fewest", c["nodes"]), ("maxSize", "most", c["nodes"] + 1)):
        nodes = r.at("scalingConfig", bound).value or 0
        # At most, one node may be lost.
        left = nodes if bound == "minSize" else nodes - 1
        if nodes < least:
            yield breach(f"scalingConfig.{bound}", f"{nodes} nodes at {word}; pods that share no node need {least}")
        elif left * cpu < c[f"{word}Millicores"] or left * memory < c[f"{word}Mebibytes"]:
            needed = f"{c[f'{word}Millicores']}m of CPU and {c[f'{word}Mebibytes']}Mi of RAM are needed"
            yield breach(f"scalingConfig.{bound}", f"{left} nodes hold {left * cpu}m and {left * memory}Mi; at the {word} {needed}")


def _batch_on_demand(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    if r["labels"][WORKLOAD_CLASS].value == "batch" and r["capacityType"].value in (None, "ON_DEMAND"):
        yield breach("capacityType", "the node group uses on-demand capacity for batch work")


def _slicing(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    labels = r["labels"]
    if (
        str(labels["nvidia.com/device-plugin.config"].value or "").startswith(("slice-", "ts-"))
        and labels[WORKLOAD_CLASS].value == "latency"
    ):
        yield breach("labels.nvidia.com/device-plugin.config", "a latency pool is time-sliced")


def _repair(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    gpu = any(t["key"].value == WHOLE_GPU for t in r["taints"].each())
    if gpu and r.at("nodeRepairConfig", "enabled").value is not True:
        yield breach("nodeRepairConfig.enabled", "a GPU node with a fatal fault stays in service")


def _runbook(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    for group in r.at("spec", "groups").each():
        for rule in group["rules"].each():
            if rule["alert"].present and not rule["annotations"]["runbook_url"].present:
                yield breach(f"{rule.path}.annotations.runbook_url", f"alert {rule['alert'].value} has no runbook")


RULES = (
    PolicyRule(
        id="probes-prove-an-answer",
        domain=Domain.RELIABILITY,
        title="A model server has startup, readiness and liveness probes that ask for an answer.",
        rationale="Traffic would reach a server that has loaded and listens, but answers nothing.",
        remedy="Declare health in the contract; the platform renders probes that run the golden request.",
        applies=_SERVERS,
        check=_probes,
    ),
    PolicyRule(
        id="grace-period-bounded",
        domain=Domain.RELIABILITY,
        title="A model server has enough time to drain, but no more than node repair waits for.",
        rationale="Too little time cuts off requests in flight; too much lets node repair take the node during the drain.",
        remedy="Set terminationGracePeriodSeconds between the rule's minimum and 540.",
        applies=_SERVERS,
        check=_grace,
        severity=PolicySeverity.MEDIUM,
        settings={"minimumSeconds": {"type": "integer", "minimum": 1, "default": 30}},
    ),
    PolicyRule(
        id="replicas-owned-by-autoscaler",
        domain=Domain.RELIABILITY,
        title="The program never sets the replicas of a scaled model server.",
        rationale="Every `pulumi up` would undo the autoscaler's work while the service is under load.",
        remedy="Leave spec.replicas out; set scaling.min_replicas and max_replicas in the contract.",
        applies=(w.DEPLOYMENT,),
        check=_replicas_owned,
    ),
    PolicyRule(
        id="latency-never-at-zero",
        domain=Domain.RELIABILITY,
        title="A service of class latency keeps at least one replica.",
        rationale="The first request would have to wait for a node, an image and a model.",
        remedy="Set scaling.min_replicas to 1 or more; scaling to zero is for class throughput, and for development.",
        applies=(w.SCALED_OBJECT,),
        check=_zero,
        settings={"scaleToZero": {"type": "boolean", "default": False}},
    ),
    PolicyRule(
        id="replica-bounds-ordered",
        domain=Domain.RELIABILITY,
        title="The minimum and maximum of replicas are stated, and in order.",
        rationale="Without a maximum one service may take every GPU.",
        remedy="Set scaling.max_replicas, at least scaling.min_replicas.",
        applies=(w.SCALED_OBJECT,),
        check=_order,
    ),
    PolicyRule(
        id="autoscaler-has-fallback",
        domain=Domain.RELIABILITY,
        title="An autoscaler says what happens while its metric is missing.",
        rationale="A lost scraper would freeze or shrink the service under load.",
        remedy="Set spec.fallback with replicas at or above the minimum.",
        applies=(w.SCALED_OBJECT,),
        check=_fallback,
    ),
    PolicyRule(
        id="missing-metric-is-no-zero",
        domain=Domain.RELIABILITY,
        title="An empty metric is an error, not zero load.",
        rationale="KEDA would remove replicas because Prometheus had lost the series.",
        remedy='set the trigger\'s metadata.ignoreNullValues: "false".',
        applies=(w.SCALED_OBJECT,),
        check=_null,
    ),
    PolicyRule(
        id="disruption-budget-allows-one",
        domain=Domain.RELIABILITY,
        title="A disruption budget lets at least one pod move.",
        rationale="Node repair would wait for nothing and then replace the node with all its pods.",
        remedy="Set maxUnavailable: 1.",
        applies=("kubernetes:policy/v1:PodDisruptionBudget",),
        check=_pdb,
        severity=PolicySeverity.MEDIUM,
    ),
    PolicyRule(
        id="gpu-nodes-are-repaired",
        domain=Domain.RELIABILITY,
        title="GPU node groups repair their nodes.",
        rationale="A GPU with a fatal Xid keeps failing requests until somebody notices.",
        remedy="Set nodeRepairConfig.enabled: true with the overrides of the pool.",
        applies=("aws:eks/nodeGroup:NodeGroup",),
        check=_repair,
    ),
    PolicyRule(
        id="latency-never-time-sliced",
        domain=Domain.RELIABILITY,
        title="Latency pools are not time-sliced.",
        rationale="Time-slicing isolates neither memory nor time, so a neighbour's burst becomes this model's tail latency.",
        remedy="Use whole GPUs, MIG slices or MPS for the latency class.",
        applies=("aws:eks/nodeGroup:NodeGroup",),
        check=_slicing,
    ),
    PolicyRule(
        id="spot-for-batch-only",
        domain=Domain.COST,
        title="Spot capacity serves batch work only.",
        rationale="Online requests would be lost whenever AWS reclaims the spot instance.",
        remedy="Use on-demand or reserved capacity for online classes.",
        applies=("aws:eks/nodeGroup:NodeGroup",),
        check=_online_spot,
    ),
    PolicyRule(
        id="batch-on-spare-capacity",
        domain=Domain.COST,
        title="Batch pools use spot or reserved capacity.",
        rationale="Work that can wait would be paid for at the price of work that cannot.",
        remedy="Set capacity: {kind: spot}, or a reservation, for the pool.",
        applies=("aws:eks/nodeGroup:NodeGroup",),
        check=_batch_on_demand,
        severity=PolicySeverity.MEDIUM,
    ),
    PolicyRule(
        id="node-group-bounded",
        domain=Domain.COST,
        title="A node group has a ceiling that somebody chose.",
        rationale="A faulty autoscaler would buy GPUs up to the account's limit.",
        remedy="Lower maxSize, of a pool size.max in its cluster's stack file, or raise maxNodes in policies/config/<environment>.json.",
        applies=("aws:eks/nodeGroup:NodeGroup",),
        check=_size,
        settings={"maxNodes": {"type": "integer", "minimum": 1, "default": 32}},
    ),
    PolicyRule(
        id="system-nodes-hold-the-platform",
        domain=Domain.RELIABILITY,
        title="The system nodes have room for the platform, at their fewest and, with one lost, at their most.",
        rationale="Pods of the platform would find no place, and the first apply would wait for them until it fails.",
        remedy="Use larger or more nodes; `headway check --environment NAME --explain` shows the sums and says which suffice.",
        applies=("aws:eks/nodeGroup:NodeGroup",),
        check=_system_nodes,
        settings={
            name: {"type": "integer", "minimum": 0, "default": default}
            for name, default in {
                "fewestMebibytes": 18_400,
                "fewestMillicores": 7_400,
                "mostMebibytes": 24_700,
                "mostMillicores": 9_300,
                "nodeMebibytes": 510,
                "nodeMillicores": 400,
                "nodes": 3,
            }.items()
        },
    ),
    PolicyRule(
        id="alert-has-runbook",
        domain=Domain.OBSERVABILITY,
        title="Every alert links a runbook.",
        rationale="Whoever is on call would have to find out alone, and at night, what to do.",
        remedy="Set annotations.runbook_url to a page of docs/runbooks/.",
        applies=("kubernetes:monitoring.coreos.com/v1:PrometheusRule",),
        check=_runbook,
        severity=PolicySeverity.MEDIUM,
    ),
)
