"""Tenancy: quotas hold at maximum replicas, workloads carry their tenant, and no pod takes a place that is not its own."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from headway.contract.gpu_resources import WHOLE_GPU, is_gpu
from headway.wire import MODEL, POOL, RELEASE, TENANT, WORKLOAD_CLASS
from policies.guardrails import workloads as w
from policies.guardrails.rule import Breaches, Domain, PolicyRule, PolicySeverity, breach
from policies.guardrails.view import UNKNOWN, InputNode, ResourceView

_SCALERS = {w.SCALED_OBJECT: "maxReplicaCount", w.HORIZONTAL_POD_AUTOSCALER: "maxReplicas"}
"""Kinds that raise the number of another object's replicas, and the field that says how far."""


def _quota_at_maximum(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    """Adds up as the plan goes by: quotas, workloads and scalers arrive in any order, and each is weighed when it comes."""
    namespace = w.namespace(r)
    place = r.state.setdefault(namespace, {"hard": {}, "use": {}, "maximum": {}, "told": set()})
    if r.type == w.RESOURCE_QUOTA:
        for name, amount in r.at("spec", "hard").entries():
            resource = name.removeprefix("requests.").removeprefix("limits.")
            if is_gpu(resource) and not r.at("spec", "scopeSelector").present:
                limit = w.quantity(amount.value)
                place["hard"][resource] = min(limit, place["hard"].get(resource, limit))
    elif r.type in _SCALERS:
        target, most = r.at("spec", "scaleTargetRef"), r.at("spec", _SCALERS[r.type])
        place["maximum"][target["kind"].value or "Deployment", target["name"].value] = int(most.value or w.KEDAS_MAXIMUM)
    else:
        demand = w.gpu_demand(r)
        if demand:
            place["use"][r.kind, r.at("metadata", "name").value or r.name] = (demand, w.pods(r))
    yield from _over(place, namespace, r)


def _over(place: dict[str, Any], namespace: str, r: ResourceView) -> Breaches:
    for resource, limit in sorted(place["hard"].items()):
        parts: list[str] = []
        total = 0.0
        for workload, (demand, replicas) in sorted(place["use"].items(), key=lambda each: each[0][::-1]):
            count = max(place["maximum"].get(workload, replicas), replicas)
            if resource in demand:
                total += demand[resource] * count
                parts.append(f"{workload[1]} {count} x {demand[resource]:g}")
        if total > limit and (resource, total) not in place["told"]:
            place["told"].add((resource, total))
            path = f"spec.{_SCALERS[r.type]}" if r.type in _SCALERS else "spec"
            yield breach(
                path,
                f"at maximum replicas namespace {namespace} would use {total:g} {resource} ({', '.join(parts)}); its quota is {limit:g}",
            )


def _tenant_labels(r: ResourceView, c: Mapping[str, Any]) -> Breaches:
    holder = w.template(r)
    if w.namespace(r) in c["placeholderNamespaces"]:
        return
    if not w.asks_for_gpu(r):
        return
    labels = holder.at("metadata", "labels")
    for key in c["labels"]:
        if not labels[key].filled:
            yield breach(f"{labels.path}.{key}", "the pod uses a GPU and does not say whose it is")
        elif key == TENANT and labels[key].value != w.namespace(r):
            yield breach(labels[key], f"the pod says that it is {labels[key].value}'s and stands in namespace {w.namespace(r)}")


def _tenant_namespace(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    if w.namespace(r) in ("default", "kube-system", "kube-public", "kube-node-lease") and w.asks_for_gpu(r):
        yield breach("metadata.namespace", f"the GPU workload is in namespace {w.namespace(r)}")


def _toleration(r: ResourceView, c: Mapping[str, Any]) -> Breaches:
    if r.type == w.DAEMON_SET:
        return
    spec = w.pod(r)
    asks = w.asks_for_gpu(r)
    for toleration in spec["tolerations"].each():
        key = toleration["key"]
        if toleration["operator"].value == "Exists" and not key.filled:
            yield breach(toleration, "tolerates every taint")
        elif key.value == c["taint"] and not asks:
            yield breach(toleration, "tolerates the GPU taint and asks for no GPU")


def _node_selector(r: ResourceView, c: Mapping[str, Any]) -> Breaches:
    spec = w.pod(r)
    if r.type == w.DAEMON_SET or not w.asks_for_gpu(r):
        return
    if spec["nodeName"].filled:
        yield breach(spec["nodeName"], "a GPU pod that is put on a node past the scheduler, taints and priorities")
    terms = list(spec.at("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms").each())
    # Terms are alternatives: each of them has to name the pool.
    required = bool(terms) and all(
        any(each["key"].value == c["label"] and each["operator"].value == "In" for each in term["matchExpressions"].each())
        for term in terms
    )
    if not spec["nodeSelector"][c["label"]].filled and not required:
        yield breach(f"{spec.path}.nodeSelector", "the GPU pod could run in any pool")


def _priority(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    name = w.pod(r)["priorityClassName"]
    if not w.asks_for_gpu(r):
        return
    if not name.filled:
        yield breach(name.path, "the GPU pod has no priority class")
    elif str(name.value).startswith("system-"):
        yield breach(name, f"a GPU pod under {name.value}, before which every other pod has to yield")


def _batch_yields(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    spec = w.pod(r)
    name = spec["priorityClassName"]
    if w.label(w.template(r), WORKLOAD_CLASS).value == "batch" and w.asks_for_gpu(r) and "batch" not in str(name.value or "").split("-"):
        yield breach(f"{spec.path}.priorityClassName", f"the batch work has the priority class {name.value or '(none)'}")


def _whole(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    if r.kind.endswith("Patch"):
        yield breach("", f"a {r.kind} changes a part of an object")
    elif r.kind.endswith("List") and r["items"].present:
        yield breach("items", f"a {r.kind} holds objects that no rule sees one by one")


def _pod_security(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    labels = r.at("metadata", "labels")
    if labels[TENANT].present and labels["pod-security.kubernetes.io/enforce"].value not in ("restricted", "baseline"):
        yield breach(f"{labels.path}.pod-security.kubernetes.io/enforce", "the tenant's namespace enforces no pod security level")


_HOST = ("hostNetwork", "hostPID", "hostIPC")
_OFF = (None, False)


def _host(r: ResourceView, c: Mapping[str, Any]) -> Breaches:
    if w.namespace(r) in c["platformNamespaces"]:
        return
    if r.type == w.PERSISTENT_VOLUME:
        for kind in ("hostPath", "local"):
            if r.at("spec", kind).present:
                yield breach(r.at("spec", kind), "the volume is a path of a node")
        return
    spec = w.pod(r)
    for key in _HOST:
        if spec[key].value not in _OFF:
            yield breach(spec[key], f"{key} is on")
    for container in w.containers(r):
        for port in container["ports"].each():
            if port["hostPort"].value:
                yield breach(port["hostPort"], f"the container listens on port {port['hostPort'].value} of its node")
    for volume in spec["volumes"].each():
        if volume["hostPath"].present:
            yield breach(volume["hostPath"], f"volume {volume['name'].value} is a path of the node")


def _context(container: InputNode, spec: InputNode, key: str) -> InputNode:
    own = container["securityContext"][key]
    return own if own.present or own.raw is UNKNOWN else spec["securityContext"][key]


_HARMLESS = "NET_BIND_SERVICE"
"""The one capability that the restricted Pod Security level lets a container add."""


def _unprivileged(r: ResourceView, c: Mapping[str, Any]) -> Breaches:
    if w.namespace(r) in c["platformNamespaces"]:
        return
    spec = w.pod(r)
    for container in w.containers(r):
        at = container["securityContext"]
        if at["privileged"].value not in _OFF:
            yield breach(at["privileged"], "the container is privileged")
        for added in at["capabilities"]["add"].each():
            if added.value != _HARMLESS:
                yield breach(added, f"the container has capability {added.value}")
        if at["procMount"].value not in (None, "Default"):
            yield breach(at["procMount"], "the container sees and writes all of /proc")
        profile = _context(container, spec, "seccompProfile")["type"]
        if profile.value == "Unconfined":
            yield breach(profile, "the container may make any system call")
        user = _context(container, spec, "runAsUser")
        if user.present and int(user.value) == 0:
            yield breach(user, "the container runs as root")
        if at["allowPrivilegeEscalation"].value is not False:
            yield breach(f"{at.path}.allowPrivilegeEscalation", "the container may gain privileges")
        if _context(container, spec, "runAsNonRoot").value is not True:
            yield breach(f"{at.path}.runAsNonRoot", "the container may run as root")


_PLATFORM = {"platformNamespaces": {"type": "array", "items": {"type": "string"}, "default": []}}
_GPU_WORKLOADS = w.WORKLOADS


_rule = partial(PolicyRule, domain=Domain.TENANCY)

RULES = (
    _rule(
        id="tenant-quota-not-exceeded",
        title="All workloads of a tenant fit into its GPU quota at maximum replicas.",
        rationale="The API server would refuse new replicas during a load peak, long after the rollout was declared a success.",
        remedy="Lower scaling.max_replicas or the envelope's GPUs in tenants/<tenant>/<model>.yaml, or have the tenant's quota raised.",
        applies=(w.RESOURCE_QUOTA, *_SCALERS, *w.WORKLOADS),
        check=_quota_at_maximum,
        severity=PolicySeverity.CRITICAL,
    ),
    _rule(
        id="gpu-workload-is-labelled",
        title="A GPU workload says which tenant, model and release it serves.",
        rationale="Use without labels cannot be charged, judged by the release gate or rolled back. This also holds for manifests outside the contract.",
        remedy=f"Label the pod template with {TENANT}, {MODEL} and {RELEASE}.",
        applies=_GPU_WORKLOADS,
        check=_tenant_labels,
        settings={"labels": {"type": "array", "items": {"type": "string"}, "default": [TENANT, MODEL, RELEASE]}, **w.PLACEHOLDERS},
    ),
    _rule(
        id="gpu-workload-in-tenant-namespace",
        title="GPU workloads run in a namespace of their tenant.",
        rationale="The default and system namespaces have no quota, no isolation and no owner.",
        remedy="Set metadata.namespace to the tenant's namespace.",
        applies=_GPU_WORKLOADS,
        check=_tenant_namespace,
    ),
    _rule(
        id="gpu-taint-tolerated-by-gpu-pods-only",
        title="Only pods that ask for a GPU tolerate the GPU taint.",
        rationale="Other pods would fill the CPU and memory of GPU nodes, and their GPUs would stay idle.",
        remedy="Remove the toleration, or ask for the GPU that the pod uses.",
        applies=_GPU_WORKLOADS,
        check=_toleration,
        settings={"taint": {"type": "string", "default": WHOLE_GPU}},
    ),
    _rule(
        id="gpu-pod-names-its-pool",
        title="A GPU pod names the pool it belongs to.",
        rationale="A small model could occupy the most expensive node, and a large model would wait for it.",
        remedy=f"Select {POOL} in nodeSelector, and name no node; in a contract, placement.pool.",
        applies=_GPU_WORKLOADS,
        check=_node_selector,
        settings={"label": {"type": "string", "default": POOL}},
    ),
    _rule(
        id="gpu-pod-has-priority",
        title="A GPU pod has a priority class of the platform.",
        rationale="Without one, batch work and online services are equal when GPUs run out; with a system class, the pod could evict everything else.",
        remedy="Set priorityClassName to one of the platform's classes.",
        applies=_GPU_WORKLOADS,
        check=_priority,
        severity=PolicySeverity.MEDIUM,
    ),
    _rule(
        id="batch-yields-to-online",
        title="Batch work on GPUs has a priority class for batch work.",
        rationale="With the priority of an online service it would hold, or even take, the GPUs that people wait for.",
        remedy="Set priorityClassName to headway-<tenant>-batch-<accelerator>; in a contract, use the batch section.",
        applies=_GPU_WORKLOADS,
        check=_batch_yields,
    ),
    _rule(
        id="objects-are-single-and-whole",
        title="Kubernetes objects are registered one by one and whole.",
        rationale="A patch or a list could bring in what the other rules refuse, because they judge whole objects by their kind.",
        remedy="Register each object as a resource of its own kind; change it where it is registered.",
        applies=("kubernetes:",),
        check=_whole,
    ),
    _rule(
        id="tenant-namespace-enforces-pod-security",
        title="A tenant's namespace enforces a pod security level.",
        rationale="Pods that these policies never see could run with the rights of the node.",
        remedy="Label the namespace pod-security.kubernetes.io/enforce: restricted.",
        applies=(w.NAMESPACE,),
        check=_pod_security,
    ),
    _rule(
        id="no-host-access",
        title="A pod has no access to its node.",
        rationale="Host namespaces and host paths break the isolation between tenants on one GPU node.",
        remedy="Remove the host setting; node-local caches are volumes of the platform. Platform add-ons are listed in platformNamespaces.",
        applies=(w.PERSISTENT_VOLUME, *w.WORKLOADS),
        check=_host,
        severity=PolicySeverity.CRITICAL,
        settings=_PLATFORM,
    ),
    _rule(
        id="containers-unprivileged",
        title="Containers run unprivileged and not as root.",
        rationale="An attacker who takes over a model server would control its node.",
        remedy="Set securityContext: {runAsNonRoot: true, allowPrivilegeEscalation: false}, and none of privileged, capabilities.add or user 0.",
        applies=w.WORKLOADS,
        check=_unprivileged,
        settings=_PLATFORM,
    ),
)
