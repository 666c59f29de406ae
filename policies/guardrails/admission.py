"""What judges objects in the API server: it refuses instead of warning, fails closed, and sees no more than it must.

Source: Kubernetes documentation, "Dynamic Admission Control" and "Validating Admission Policy".
"""

from collections.abc import Mapping
from typing import Any

from policies.guardrails.rule import Breaches, Domain, PolicyRule, PolicySeverity, breach
from policies.guardrails.view import ResourceView

_GROUP = "kubernetes:admissionregistration.k8s.io/v1:"
_WEBHOOKS = (f"{_GROUP}MutatingWebhookConfiguration", f"{_GROUP}ValidatingWebhookConfiguration")
_POLICIES = (f"{_GROUP}MutatingAdmissionPolicy", f"{_GROUP}ValidatingAdmissionPolicy")
_VALIDATING_BINDING, _MUTATING_BINDING = f"{_GROUP}ValidatingAdmissionPolicyBinding", f"{_GROUP}MutatingAdmissionPolicyBinding"


def _denies(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    actions = r.at("spec", "validationActions")
    if not any(each.value == "Deny" for each in actions.each()):
        said = ", ".join(str(each.value) for each in actions.each()) or "nothing"
        yield breach(actions.path, f"what breaks the policy is admitted (it answers with {said})")


def _closed(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    if r.type in _POLICIES:
        policy = r.at("spec", "failurePolicy")
        if policy.value not in (None, "Fail"):
            yield breach(policy, "an object that the policy cannot judge is admitted")
    for hook in r["webhooks"].each():
        # v1beta1 took Ignore for the value that is not there.
        if hook["failurePolicy"].value != "Fail":
            yield breach(hook["failurePolicy"].path, f"{hook['name'].value} is passed by while it does not answer")


def _all_judged(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    matching = (r.at("spec", "matchConstraints"), r.at("spec", "matchResources"), *r["webhooks"].each())
    for match in matching:
        if match["objectSelector"].filled:
            yield breach(match["objectSelector"], "whoever writes an object chooses by its labels whether it is judged")
        if match["excludeResourceRules"].filled:
            yield breach(match["excludeResourceRules"], "objects are left out that the rest would judge")
        if match["matchPolicy"].value == "Exact":
            yield breach(match["matchPolicy"], "an object in another version of its kind is not judged")


def _bounded(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    if r.type == _MUTATING_BINDING and not r.at("spec", "matchResources", "namespaceSelector").filled:
        yield breach("spec.matchResources.namespaceSelector", "objects of every namespace are changed, the platform's own among them")
    for hook in r["webhooks"].each():
        if hook["clientConfig"]["url"].present:
            yield breach(hook["clientConfig"]["url"], f"{hook['name'].value} sends objects to an address, which may be outside the cluster")
        if not hook["namespaceSelector"].filled:
            yield breach(hook["namespaceSelector"].path, f"{hook['name'].value} is asked about every namespace, its own among them")
        for rule in hook["rules"].each():
            for key in ("apiGroups", "resources"):
                if any("*" in str(each.value) for each in rule[key].each()):
                    yield breach(f"{rule.path}.{key}", f"{hook['name'].value} sees every kind of object")
            if any(each.value == "secrets" for each in rule["resources"].each()):
                yield breach(f"{rule.path}.resources", f"{hook['name'].value} sees every secret")


RULES = (
    PolicyRule(
        id="admission-denies",
        domain=Domain.TENANCY,
        title="A ValidatingAdmissionPolicy is bound to refuse.",
        rationale="Bound to Warn or Audit only, it lets pass what it is there to stop.",
        remedy="Set spec.validationActions: [Deny].",
        applies=(_VALIDATING_BINDING,),
        check=_denies,
        severity=PolicySeverity.CRITICAL,
    ),
    PolicyRule(
        id="admission-fails-closed",
        domain=Domain.TENANCY,
        title="What cannot be judged is refused.",
        rationale="Whoever makes a webhook slow, or an expression fail, is past every rule that it holds.",
        remedy="Set failurePolicy: Fail, and run a webhook in two replicas.",
        applies=(*_POLICIES, *_WEBHOOKS),
        check=_closed,
        severity=PolicySeverity.CRITICAL,
    ),
    PolicyRule(
        id="admission-leaves-nothing-out",
        domain=Domain.TENANCY,
        title="Objects cannot opt out of being judged.",
        rationale="A label on the object, or another version of its kind, would be the way past the rule.",
        remedy="Choose by kinds and by labels of namespaces: no objectSelector, no excludeResourceRules, no matchPolicy: Exact.",
        applies=(_VALIDATING_BINDING, _MUTATING_BINDING, *_POLICIES, f"{_GROUP}ValidatingWebhookConfiguration"),
        check=_all_judged,
    ),
    PolicyRule(
        id="webhook-bounded",
        domain=Domain.TENANCY,
        title="A webhook, or a policy that changes objects, names its kinds and namespaces and stays in the cluster.",
        rationale="It reads what it is asked about, may change it before it is stored, and stops it while it is down.",
        remedy="Name groups and resources, without secrets; give a namespaceSelector, and clientConfig.service instead of url.",
        applies=(_MUTATING_BINDING, *_WEBHOOKS),
        check=_bounded,
        severity=PolicySeverity.CRITICAL,
    ),
)
