"""What the API server itself refuses in tenants' namespaces: for objects that did not come through a preview with its
policy packs. Pure.

Each rule is one ValidatingAdmissionPolicy in CEL with one binding; none exempts anyone but istiod with what proxies
trust, and a rule that cannot be evaluated refuses. The trap: validation runs after injection, so the rules also see the mesh's own containers; those
alone may carry a tag, because the control plane writes them.
"""

import json
from collections.abc import Sequence
from dataclasses import replace

from components.manifests import Manifest
from components.mirror import mirrored
from components.nodes import gpu_node
from components.platform import boundaries
from components.platform.membership import OF_MESH, PROXY_IMAGE
from components.platform.rule import NAMESPACES, AdmissionRule, manifests_of
from headway.contract.pool import Pool
from headway.wire import ARM, MODEL, POOL, PREFIX, RELEASE, RUNTIME, TENANT, WORKLOAD_CLASS

_LEVEL = "pod-security.kubernetes.io/enforce"
_GPU_POD = (
    "variables.containers.exists(c, has(c.resources) && has(c.resources.requests) && "
    "c.resources.requests.exists(k, k.startsWith('nvidia.com/')))"
)
_OWN_DEVICE = "variables.containers.exists(c, has(c.resources) && has(c.resources.requests) && t.key in c.resources.requests)"
"""Whether the toleration `t` has the name of what the pod asks for, which the rule `resources-that-are-counted` bounds."""
_VOID = f"e.name == '{gpu_node.NO_DEVICES['name']}' && has(e.value) && e.value == '{gpu_node.NO_DEVICES['value']}'"
LONGEST_GRACE_SECONDS = 540
"""Node repair waits ten minutes; what takes longer is cut off by it."""
COUNTED = ("cpu", "ephemeral-storage", "memory")
"""What pods ask for beside GPUs."""
OF_TENANTS = (ARM, WORKLOAD_CLASS, MODEL, RELEASE, RUNTIME, TENANT, f"{PREFIX}/version")
"""Labels of the platform's that pods of tenants may have: those that `components/model_service` writes."""


RULES = (
    AdmissionRule(
        name="devices-by-the-plugin",
        # The device plugin's variable comes first, so a container's own would win; a claim is counted by no quota. A mount's path is
        # cleaned before it is compared (NVIDIA/nvidia-container-toolkit, internal/config/image/cuda_image.go), so it counts anywhere. The
        # GPU Operator has the toolkit read `nvidia.cdi.k8s.io/` too (controllers/object_controls.go).
        expression=(
            "(!has(object.spec.resourceClaims) || object.spec.resourceClaims.size() == 0) && "
            "(!has(object.metadata.annotations) || object.metadata.annotations.all(k, !k.contains('cdi.k8s.io/'))) && "
            "variables.containers.all(c, (!has(c.env) || c.env.all(e, !e.name.startsWith('NVIDIA_VISIBLE_DEVICES') || "
            f"({_VOID}))) && "
            "(!has(c.envFrom) || c.envFrom.size() == 0) && "
            "(!has(c.volumeMounts) || c.volumeMounts.all(m, !m.mountPath.contains('nvidia-container-devices'))) && "
            # Who asks for none gets nothing from the plugin, and all that its image names (NVIDIA/k8s-device-plugin#61). The API server
            # writes each quantity in its shortest form.
            "(!has(c.resources) || !has(c.resources.limits) || "
            "c.resources.limits.all(k, !k.startsWith('nvidia.com/') || c.resources.limits[k] != '0')))"
        ),
        message=(
            "The pod chooses devices past the device plugin, or takes variables that nobody can see here. It could use GPUs that others "
            "were given. Ask for GPUs in limits, one at least or not at all, and name each variable in env."
        ),
    ),
    AdmissionRule(
        name="devices-for-who-asks",
        expression=(
            f"!{_GPU_POD} || variables.containers.all(c, {OF_MESH} || "
            "(has(c.resources) && has(c.resources.limits) && c.resources.limits.exists(k, k.startsWith('nvidia.com/'))) || "
            f"(has(c.env) && c.env.exists(e, {_VOID})))"
        ),
        message=(
            "A container beside the one that asks for the GPU does not say that it wants none. Its image may name every GPU of the node, and "
            "would be given them. Give it the variable NVIDIA_VISIBLE_DEVICES with the value void."
        ),
    ),
    AdmissionRule(
        name="gpu-limits-equal-requests",
        expression=(
            "variables.containers.all(c, !has(c.resources) || !has(c.resources.requests) || "
            "c.resources.requests.all(k, !k.startsWith('nvidia.com/') || "
            "(has(c.resources.limits) && k in c.resources.limits && c.resources.limits[k] == c.resources.requests[k])))"
        ),
        message="A GPU cannot be overcommitted. The pod would be counted for less than it takes. Set limits equal to requests.",
    ),
    AdmissionRule(
        name="images-by-digest",
        expression=(
            "variables.containers.all(c, c.image.matches('@sha256:[0-9a-f]{64}$') || "
            f"{OF_MESH}) && "
            "(!has(object.spec.volumes) || object.spec.volumes.all(v, !has(v.image) || "
            "(has(v.image.reference) && v.image.reference.matches('@sha256:[0-9a-f]{64}$'))))"
        ),
        message="An image is named by tag. What runs could change without a release. Name it by its sha256 digest.",
    ),
    AdmissionRule(
        name="labels-of-the-platform",
        expression=f"variables.labels.all(k, !k.startsWith('{PREFIX}/') || k in {json.dumps(OF_TENANTS)})",
        message=(
            f"The pod has a label {PREFIX}/ that Headway gives no model's pod. The platform's loops would take it for one of their own. "
            f"Leave out all of them but {', '.join(key.removeprefix(f'{PREFIX}/') for key in OF_TENANTS)}."
        ),
    ),
    AdmissionRule(
        name="no-host-access",
        expression=(
            "!(has(object.spec.hostNetwork) && object.spec.hostNetwork) && !(has(object.spec.hostPID) && object.spec.hostPID) && "
            "!(has(object.spec.hostIPC) && object.spec.hostIPC) && "
            "(!has(object.spec.volumes) || object.spec.volumes.all(v, !has(v.hostPath))) && "
            "variables.containers.all(c, (!has(c.ports) || c.ports.all(p, !has(p.hostPort) || p.hostPort == 0)) && "
            "(!has(c.securityContext) || ((!has(c.securityContext.privileged) || !c.securityContext.privileged) && "
            "(!has(c.securityContext.procMount) || c.securityContext.procMount == 'Default'))))"
        ),
        message="The pod asks for access to its node. It could read other tenants' models. Remove host namespaces, paths and ports.",
    ),
    AdmissionRule(
        name="node-by-the-scheduler",
        expression="request.operation == 'UPDATE' || !has(object.spec.nodeName) || object.spec.nodeName == ''",
        message=(
            "The pod names its node, and no scheduler looks at taints, pools and room. It could run on a node in quarantine or on another "
            "tenant's. Leave out nodeName and select a pool."
        ),
    ),
    AdmissionRule(
        name="owner-labels",
        expression=(
            f"'{TENANT}' in variables.labels && '{TENANT}' in namespaceObject.metadata.labels && "
            f"variables.labels['{TENANT}'] == namespaceObject.metadata.labels['{TENANT}'] && "
            f"(!{_GPU_POD} || ('{MODEL}' in variables.labels && '{RELEASE}' in variables.labels))"
        ),
        message=(
            f"The pod does not say whose it is. Its cost and its failures would belong to no one. Label it {TENANT}, "
            f"and {MODEL} and {RELEASE} where it takes a GPU."
        ),
    ),
    AdmissionRule(
        name="pods-may-leave",
        # Finalizers of Jobs and of the garbage collector (batch/v1 and meta/v1 of the Kubernetes API).
        expression=(
            "(!has(object.metadata.finalizers) || "
            "object.metadata.finalizers.all(f, f in ['batch.kubernetes.io/job-tracking', 'foregroundDeletion', 'orphan'])) && "
            # The autoscaler knows this one value (`HasNotSafeToEvictAnnotation` in its utils/drain); a quota counts GPUs.
            "(!has(object.metadata.annotations) || "
            f"object.metadata.annotations.all(k, k != '{gpu_node.SAFE_TO_EVICT}' || object.metadata.annotations[k] != 'false') || {_GPU_POD})"
        ),
        message=(
            "The pod has a finalizer that no controller of the cluster takes off, or asks for no GPU and tells the autoscaler to leave its node. "
            "It would never be gone, or its node never be empty. Leave finalizers out of the template, and the annotation "
            f"{gpu_node.SAFE_TO_EVICT} to pods with a GPU."
        ),
    ),
    AdmissionRule(
        name="pods-leave-in-time",
        expression=(
            f"(!has(object.spec.terminationGracePeriodSeconds) || object.spec.terminationGracePeriodSeconds <= {LONGEST_GRACE_SECONDS}) && "
            "object.spec.containers.all(c, "
            + " && ".join(
                f"(!has(c.{probe}) || !has(c.{probe}.terminationGracePeriodSeconds) || "
                f"c.{probe}.terminationGracePeriodSeconds <= {LONGEST_GRACE_SECONDS})"
                for probe in ("livenessProbe", "startupProbe")
            )
            + ")"
        ),
        message=(
            "The pod may take its time when it is told to stop. Its node could not be emptied, repaired or upgraded until then. Say "
            f"terminationGracePeriodSeconds of at most {LONGEST_GRACE_SECONDS}."
        ),
    ),
    AdmissionRule(
        name="resources-that-are-counted",
        # A name below `deviceclass.resource.kubernetes.io/` is a claim of a device (KEP-5004); huge pages and network cards have no quota.
        expression=(
            "variables.containers.all(c, !has(c.resources) || !has(c.resources.limits) || c.resources.limits.all(k, "
            f"k in {json.dumps(COUNTED)} || k.startsWith('nvidia.com/'))) && (!has(object.spec.resources) || "
            f"!has(dyn(object.spec.resources).limits) || dyn(object.spec.resources).limits.all(k, k in {json.dumps(COUNTED)}))"
        ),
        message=(
            "The pod asks for a resource that no quota counts. It could take what the node has of it from all others. Ask for "
            f"{', '.join(COUNTED)} and GPUs."
        ),
    ),
    AdmissionRule(
        name="tenant-namespace-stays",
        resources=NAMESPACES,
        variables=(
            ("before", f"oldObject != null && has(oldObject.metadata.labels) && '{TENANT}' in oldObject.metadata.labels"),
            ("owner", f"'{TENANT}' in variables.labels ? variables.labels['{TENANT}'] : ''"),
            ("level", f"'{_LEVEL}' in variables.labels ? variables.labels['{_LEVEL}'] : ''"),
        ),
        expression=(
            f"(!variables.before && variables.owner == '') || ((!variables.before || oldObject.metadata.labels['{TENANT}'] == variables.owner)"
            " && variables.owner == object.metadata.name && variables.level == 'restricted')"
        ),
        message=(
            "A tenant's namespace would lose its owner or its Pod Security level. These rules and the node would be open to whatever runs in "
            f"it. Keep {TENANT} (the namespace's own name) and the enforced level restricted; to end a tenant, delete the namespace."
        ),
    ),
    AdmissionRule(
        name="tolerations-by-name",
        expression="!has(object.spec.tolerations) || object.spec.tolerations.all(t, has(t.key) && t.key != '')",
        message="The pod tolerates every taint. It could land on nodes kept for others. Name the taints of its own pool.",
    ),
)


OF_ANY_POD = ("node.kubernetes.io/memory-pressure", "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
"""Taints that the API server itself lets pods tolerate."""


def own_tolerations(pools: Sequence[Pool]) -> AdmissionRule:
    """Only the taints of the pool that a pod selects, and only if it asks for a GPU: a quarantine or another's pool
    tolerates nobody. A toleration without a key is the rule's `tolerations-by-name`. EKS gives each pod one by the name of
    each device that it asks for, a slice too (`ExtendedResourceToleration` of Kubernetes, plugin/pkg/admission).
    """
    taints = {pool.name: sorted({taint.key for taint in gpu_node.taints(pool)}) for pool in pools}
    known = json.dumps(taints, sort_keys=True)  # a literal of the Common Expression Language too
    selected = f"has(object.spec.nodeSelector) && '{POOL}' in object.spec.nodeSelector ? object.spec.nodeSelector['{POOL}'] : ''"
    always = json.dumps(OF_ANY_POD)
    return AdmissionRule(
        name="tolerations-of-own-pool",
        expression=(
            f"!has(object.spec.tolerations) || object.spec.tolerations.all(t, !has(t.key) || t.key == '' || t.key in {always} || {_OWN_DEVICE} || "
            "(variables.pool in variables.taints && t.key in variables.taints[variables.pool] && "
            f"{_GPU_POD}))"
        ),
        message=(
            "The pod tolerates a taint that is not of the GPU pool that it selects. It could land on another's nodes, or on one in "
            f"quarantine. Select a pool by {POOL}, ask for its GPU, and tolerate that pool's taints only."
        ),
        variables=(("pool", selected), ("taints", known)),
    )


def rules(pools: Sequence[Pool], hosts: Sequence[str], mirror: str | None = None) -> tuple[AdmissionRule, ...]:
    """Every rule of a cluster with `pools` and a gateway for `hosts`, by name. Proxies of the mesh come from `mirror`,
    if there is one.
    """
    every = sorted((*RULES, own_tolerations(pools), *boundaries.rules(hosts)), key=lambda rule: rule.name)
    return tuple(replace(rule, expression=rule.expression.replace(PROXY_IMAGE, mirrored(PROXY_IMAGE, mirror))) for rule in every)


def manifests(pools: Sequence[Pool], hosts: Sequence[str], mirror: str | None = None) -> tuple[Manifest, ...]:
    """A policy and its binding for each rule."""
    return tuple(manifest for rule in rules(pools, hosts, mirror) for manifest in manifests_of(rule))
