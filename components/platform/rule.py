"""One admission rule, and the policy and binding that it becomes. Pure.

What a namespace is bound by is decided by its new labels, so a rule about namespaces themselves is bound to all of
them; and nodes are in none.
"""

from dataclasses import dataclass

from components.labels import labels
from components.manifests import Manifest, object_
from headway.wire import TENANT

PODS = ("pods", "pods/ephemeralcontainers", "pods/resize", "pods/status")
"""Every way to write the containers, labels and annotations of a pod. A kubelet is not silenced: it writes none of
them, and updates of what no rule reads pass.
"""
NAMESPACES = ("namespaces", "namespaces/finalize", "namespaces/status")
"""Every way to write the labels of a namespace."""
NODES = ("nodes",)

_CONTAINERS = (
    "dyn(object.spec.containers)"
    " + (has(object.spec.initContainers) ? dyn(object.spec.initContainers) : dyn([]))"
    # As `kubectl debug` adds them; dyn, because their type is another.
    " + (has(object.spec.ephemeralContainers) ? dyn(object.spec.ephemeralContainers) : dyn([]))"
)
_LABELS = "has(object.metadata.labels) ? object.metadata.labels : {}"
_READ = ("?metadata.?labels", "?spec", "?data", "?binaryData")
"""What rules read of an object."""


@dataclass(frozen=True, kw_only=True)
class AdmissionRule:
    """One rule: CEL that must hold for every pod of a tenant, or for other `resources`, and what is said when it
    does not.
    """

    name: str
    expression: str
    message: str
    variables: tuple[tuple[str, str], ...] = ()
    """Its own, beside an object's `labels` and a pod's `containers`: name and expression."""
    resources: tuple[str, ...] = PODS
    group: str = ""
    user: str = ""
    """Whose requests it is about; everybody's where nobody is named."""
    operations: tuple[str, ...] = ("CREATE", "UPDATE")
    also_reads: str = ""
    """A field that it reads beside those that rules read."""
    reason: str = "Invalid"
    """What the API server calls a refusal. `Forbidden` where an update changes first what the rule goes by: Pulumi plans by a dry run that
    does not know it yet, and passes over that refusal alone (`Create` in provider/pkg/provider/provider.go of pulumi-kubernetes).
    """


def _changes(resources: tuple[str, ...], also_reads: str) -> dict[str, str]:
    """Spares updates of what no rule reads: controllers take a finalizer off what is older than a rule. Being deleted
    is no reason: who holds an object by a finalizer would write it as he likes, and the mesh and KEDA still obey it.
    """
    if resources == NAMESPACES:
        read: tuple[str, ...] = _READ[:1]  # its spec is its finalizers
    else:
        read = (*_READ, "?metadata.?annotations") if resources == PODS else _READ
    read = (*read, also_reads) if also_reads else read
    differs = " || ".join(f"object.{field} != oldObject.{field}" for field in read)
    return {"name": "changes-what-is-read", "expression": f"oldObject == null || {differs}"}


def manifests_of(rule: AdmissionRule) -> tuple[Manifest, Manifest]:
    """The policy, and what binds it: to tenants' namespaces, or to all where the rule is about namespaces."""
    name = f"headway-{rule.name}"
    kind = "admissionregistration.k8s.io/v1"
    matched = {
        "apiGroups": [rule.group],
        # A kind of another group may be written in any version that its definition serves.
        "apiVersions": ["*" if rule.group else "v1"],
        "operations": list(rule.operations),
        "resources": list(rule.resources),
    }
    policy = {
        "failurePolicy": "Fail",
        "matchConstraints": {"resourceRules": [matched]},
        # What one identity writes is judged whatever it changes.
        "matchConditions": [_by(rule.user) if rule.user else _changes(rule.resources, rule.also_reads)],
        "variables": [
            *([{"name": "containers", "expression": _CONTAINERS}] if rule.resources == PODS else []),
            {"name": "labels", "expression": _LABELS},
            *({"name": variable, "expression": expression} for variable, expression in rule.variables),
        ],
        "validations": [{"expression": rule.expression, "message": rule.message, "reason": rule.reason}],
    }
    tenants = {"matchResources": {"namespaceSelector": {"matchExpressions": [{"key": TENANT, "operator": "Exists"}]}}}
    everywhere = rule.resources in (NAMESPACES, NODES)
    binding = {"policyName": name, "validationActions": ["Deny"], **({} if everywhere else tenants)}
    found = labels("admission")
    return (
        Manifest(role=rule.name, body=object_(kind, "ValidatingAdmissionPolicy", name, labels=found, spec=policy)),
        Manifest(
            role=f"{rule.name}-binding",
            after=(rule.name,),
            body=object_(kind, "ValidatingAdmissionPolicyBinding", name, labels=found, spec=binding),
        ),
    )


def _by(user: str) -> dict[str, str]:
    return {"name": "is-by-its-user", "expression": f"request.userInfo.username == '{user}'"}
