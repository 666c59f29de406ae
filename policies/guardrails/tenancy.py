"""Tenancy: quotas hold at maximum replicas, workloads carry their tenant, and no pod takes a place that is not its own."""

from collections.abc import Iterator, Mapping
from typing import Any

from headway.contract.gpu_resources import WHOLE_GPU, is_gpu
from headway.contract.labels import MODEL, RELEASE, TENANT, WORKLOAD_CLASS
from policies.guardrails import workloads as w
from policies.guardrails.rule import Breach, Domain, Rule, Severity
from policies.guardrails.view import UNKNOWN, Node, View

Findings = Iterator[Breach]


def _quota_at_maximum(r: View, _: Mapping[str, Any]) -> Findings:
    """Adds up as the plan goes by: quotas, workloads and scalers arrive in any order, and each is weighed when it comes."""
    namespace = w.namespace(r)
    place = r.state.setdefault(namespace, {"hard": {}, "use": {}, "maximum": {}, "told": set()})
    if r.type == w.RESOURCE_QUOTA:
        for name, amount in r.at("spec", "hard").entries():
            resource = name.removeprefix("requests.").removeprefix("limits.")
            if is_gpu(resource) and not r.at("spec", "scopeSelector").present:
                limit = w.quantity(amount.value)
                place["hard"][resource] = min(limit, place["hard"].get(resource, limit))
    elif r.type == w.SCALED_OBJECT:
        target = r.at("spec", "scaleTargetRef", "name").value
        place["maximum"][target] = int(r.at("spec", "maxReplicaCount").value or 100)
    else:
        demand = w.gpu_demand(r)
        if demand:
            name = r.at("metadata", "name").value or r.name
            place["use"][name] = (demand, w.pods(r))
    yield from _over(place, namespace, r)


def _over(place: dict[str, Any], namespace: str, r: View) -> Findings:
    for resource, limit in sorted(place["hard"].items()):
        parts: list[str] = []
        total = 0.0
        for name, (demand, replicas) in sorted(place["use"].items()):
            count = max(place["maximum"].get(name, replicas), replicas)
            if resource in demand:
                total += demand[resource] * count
                parts.append(f"{name} {count} x {demand[resource]:g}")
        if total > limit and (resource, total) not in place["told"]:
            place["told"].add((resource, total))
            path = "spec.maxReplicaCount" if r.type == w.SCALED_OBJECT else "spec"
            yield Breach(
                path,
                f"at maximum replicas namespace {namespace} would use {total:g} {resource} ({', '.join(parts)}); its quota is {limit:g}",
            )


def _tenant_labels(r: View, c: Mapping[str, Any]) -> Findings:
    holder = w.template(r)
    if w.namespace(r) in c["placeholderNamespaces"]:
        return
    if not w.asks_for_gpu(r):
        return
    labels = holder.at("metadata", "labels")
    for key in c["labels"]:
        if not labels[key].present:
            yield Breach(f"{labels.path}.{key}", "the pod uses a GPU and does not say whose it is")


def _tenant_namespace(r: View, _: Mapping[str, Any]) -> Findings:
    if w.namespace(r) in ("default", "kube-system", "kube-public", "kube-node-lease") and w.asks_for_gpu(r):
        yield Breach("metadata.namespace", f"a GPU workload in namespace {w.namespace(r)}")


def _toleration(r: View, c: Mapping[str, Any]) -> Findings:
    if r.type == w.DAEMON_SET:
        return
    spec = w.pod(r)
    asks = w.asks_for_gpu(r)
    for toleration in spec["tolerations"].each():
        key = toleration["key"]
        if toleration["operator"].value == "Exists" and not key.present:
            yield Breach.at(toleration, "tolerates every taint")
        elif key.value == c["taint"] and not asks:
            yield Breach.at(toleration, "tolerates the GPU taint and asks for no GPU")


def _node_selector(r: View, _: Mapping[str, Any]) -> Findings:
    if r.type == w.DAEMON_SET:
        return
    spec = w.pod(r)
    asks = w.asks_for_gpu(r)
    required = spec.at("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    if asks and not spec["nodeSelector"].present and not required.present:
        yield Breach(f"{spec.path}.nodeSelector", "a GPU pod that any pool may get")


def _priority(r: View, _: Mapping[str, Any]) -> Findings:
    spec = w.pod(r)
    if w.asks_for_gpu(r) and not spec["priorityClassName"].present:
        yield Breach(f"{spec.path}.priorityClassName", "a GPU pod without a priority class")


def _batch_yields(r: View, _: Mapping[str, Any]) -> Findings:
    spec = w.pod(r)
    name = spec["priorityClassName"]
    if w.label(w.template(r), WORKLOAD_CLASS).value == "batch" and w.asks_for_gpu(r) and "batch" not in str(name.value or "").split("-"):
        yield Breach(f"{spec.path}.priorityClassName", f"batch work under the priority class {name.value or '(none)'}")


def _whole(r: View, _: Mapping[str, Any]) -> Findings:
    if r.kind.endswith("Patch"):
        yield Breach("", f"a {r.kind} changes a part of an object")
    elif r.kind.endswith("List") and r["items"].present:
        yield Breach("items", f"a {r.kind} holds objects that no rule sees one by one")


def _pod_security(r: View, _: Mapping[str, Any]) -> Findings:
    labels = r.at("metadata", "labels")
    if labels[TENANT].present and labels["pod-security.kubernetes.io/enforce"].value not in ("restricted", "baseline"):
        yield Breach(f"{labels.path}.pod-security.kubernetes.io/enforce", "a tenant's namespace without an enforced pod security level")


_HOST = ("hostNetwork", "hostPID", "hostIPC")


def _host(r: View, c: Mapping[str, Any]) -> Findings:
    if w.namespace(r) in c["platformNamespaces"]:
        return
    spec = w.pod(r)
    for key in _HOST:
        if spec[key].value is True:
            yield Breach.at(spec[key], f"{key} is on")
    for volume in spec["volumes"].each():
        if volume["hostPath"].present:
            yield Breach.at(volume["hostPath"], f"volume {volume['name'].value} is a path of the node")


def _context(container: Node, spec: Node, key: str) -> Node:
    own = container["securityContext"][key]
    return own if own.present or own.raw is UNKNOWN else spec["securityContext"][key]


def _unprivileged(r: View, c: Mapping[str, Any]) -> Findings:
    if w.namespace(r) in c["platformNamespaces"]:
        return
    spec = w.pod(r)
    for container in w.containers(r):
        at = container["securityContext"]
        if at["privileged"].value is True:
            yield Breach.at(at["privileged"], "the container is privileged")
        if at["allowPrivilegeEscalation"].value is not False:
            yield Breach(f"{at.path}.allowPrivilegeEscalation", "the container may gain privileges")
        if _context(container, spec, "runAsNonRoot").value is not True:
            yield Breach(f"{at.path}.runAsNonRoot", "the container may run as root")


_PLATFORM = {"platformNamespaces": {"type": "array", "items": {"type": "string"}, "default": []}}
_GPU_WORKLOADS = w.WORKLOADS

RULES = (
    Rule(
        id="tenant-quota-not-exceeded",
        domain=Domain.TENANCY,
        title="All workloads of a tenant fit its GPU quota at maximum replicas.",
        rationale="Scaling up would be refused in the hour of need, after the rollout was declared a success.",
        remedy="lower scaling.max_replicas or the envelope's GPUs in tenants/<tenant>/<model>.yaml, or have the tenant's quota raised.",
        applies=(w.RESOURCE_QUOTA, w.SCALED_OBJECT, *w.WORKLOADS),
        check=_quota_at_maximum,
        severity=Severity.CRITICAL,
        requirements=("A4.1", "D2", "C23"),
    ),
    Rule(
        id="gpu-workload-is-labelled",
        domain=Domain.TENANCY,
        title="A GPU workload says which tenant, model and release it serves.",
        rationale="Unlabelled use cannot be charged, gated or rolled back; raw manifests are bound like everything else (D25).",
        remedy=f"label the pod template with {TENANT}, {MODEL} and {RELEASE}.",
        applies=_GPU_WORKLOADS,
        check=_tenant_labels,
        settings={"labels": {"type": "array", "items": {"type": "string"}, "default": [TENANT, MODEL, RELEASE]}, **w.PLACEHOLDERS},
        requirements=("A5.1", "D25"),
    ),
    Rule(
        id="gpu-workload-in-tenant-namespace",
        domain=Domain.TENANCY,
        title="GPU workloads live in a namespace of their tenant.",
        rationale="The default and system namespaces have no quota, no isolation and no owner.",
        remedy="set metadata.namespace to the tenant's namespace.",
        applies=_GPU_WORKLOADS,
        check=_tenant_namespace,
        requirements=("A4.4",),
    ),
    Rule(
        id="gpu-taint-tolerated-by-gpu-pods-only",
        domain=Domain.TENANCY,
        title="Only pods that ask for a GPU tolerate the GPU taint.",
        rationale="Other pods would fill GPU nodes and leave GPUs that nothing can use (A4.4).",
        remedy="remove the toleration, or ask for the GPU that the pod uses.",
        applies=_GPU_WORKLOADS,
        check=_toleration,
        settings={"taint": {"type": "string", "default": WHOLE_GPU}},
        requirements=("A4.4",),
    ),
    Rule(
        id="gpu-pod-names-its-pool",
        domain=Domain.TENANCY,
        title="A GPU pod names the pool it belongs to.",
        rationale="A small model would take a place on the most expensive node, and a large one would wait behind it.",
        remedy="select the pool's label in nodeSelector; in a contract, placement.pool.",
        applies=_GPU_WORKLOADS,
        check=_node_selector,
        requirements=("A3.7", "A6.5"),
    ),
    Rule(
        id="gpu-pod-has-priority",
        domain=Domain.TENANCY,
        title="A GPU pod has a priority class.",
        rationale="Without one, batch work and online serving are equals when GPUs run out.",
        remedy="set priorityClassName to one of the platform's classes.",
        applies=_GPU_WORKLOADS,
        check=_priority,
        severity=Severity.MEDIUM,
        requirements=("A4.1", "T1"),
    ),
    Rule(
        id="batch-yields-to-online",
        domain=Domain.TENANCY,
        title="Batch work on GPUs has a priority class of batch.",
        rationale="With an online class it would hold, or even take, the GPUs that people wait for (T1).",
        remedy="set priorityClassName to headway-<tenant>-batch-<accelerator>; in a contract, use the batch section.",
        applies=_GPU_WORKLOADS,
        check=_batch_yields,
        requirements=("A3.10", "T1"),
    ),
    Rule(
        id="objects-are-single-and-whole",
        domain=Domain.TENANCY,
        title="Kubernetes objects are registered one by one and whole.",
        rationale="A patch or a list could bring in whatever the other rules refuse, for they judge whole objects by their kind (D25).",
        remedy="register each object as a resource of its own kind; change it where it is registered.",
        applies=("kubernetes:",),
        check=_whole,
        requirements=("D25",),
    ),
    Rule(
        id="tenant-namespace-enforces-pod-security",
        domain=Domain.TENANCY,
        title="A tenant's namespace enforces a pod security level.",
        rationale="Anything the packs never see could run with the node's rights.",
        remedy="label the namespace pod-security.kubernetes.io/enforce: restricted.",
        applies=(w.NAMESPACE,),
        check=_pod_security,
        requirements=("A4.4",),
    ),
    Rule(
        id="no-host-access",
        domain=Domain.TENANCY,
        title="A pod has no access to its node.",
        rationale="Host namespaces and paths end the isolation between tenants on one GPU node.",
        remedy="remove the host setting; node-local caches are volumes of the platform. Platform add-ons are listed in platformNamespaces.",
        applies=w.WORKLOADS,
        check=_host,
        severity=Severity.CRITICAL,
        settings=_PLATFORM,
        requirements=("A4.4",),
    ),
    Rule(
        id="containers-unprivileged",
        domain=Domain.TENANCY,
        title="Containers run unprivileged and not as root.",
        rationale="A broken model server would own its node.",
        remedy="set securityContext: {runAsNonRoot: true, allowPrivilegeEscalation: false} and no privileged.",
        applies=w.WORKLOADS,
        check=_unprivileged,
        settings=_PLATFORM,
        requirements=("A4.4",),
    ),
)
