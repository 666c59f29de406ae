"""Rights in Kubernetes: roles name what they give, nobody is bound to more than that, and none opens secrets or pods."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from policies.guardrails.rule import Breaches, Domain, PolicyRule, PolicySeverity, breach
from policies.guardrails.view import InputNode, ResourceView

_RBAC = "kubernetes:rbac.authorization.k8s.io/v1:"
CLUSTER_ROLE, ROLE = f"{_RBAC}ClusterRole", f"{_RBAC}Role"
_BINDINGS, _ROLES = (f"{_RBAC}ClusterRoleBinding", f"{_RBAC}RoleBinding"), (CLUSTER_ROLE, ROLE)

_EVERYBODY = ("*", "system:anonymous", "system:authenticated", "system:serviceaccounts", "system:unauthenticated")
_MASTERS = ("system:masters", "system:nodes")
"""Groups whose members may do everything, or everything that a node may (Kubernetes documentation, RBAC)."""
_FILLED = ("admin", "edit", "view")
"""User-facing roles of Kubernetes itself; `admin` and `edit` read secrets, and all take what other roles add to them by a label."""
_GROWING = ("bind", "escalate", "impersonate")
"""Verbs that give rights which the role does not name (Kubernetes documentation, RBAC good practices)."""
_AGGREGATED = "rbac.authorization.k8s.io/aggregate-to-"
_READING, _MAKING = ("get", "list", "watch"), ("create",)
_DOORS: Mapping[str, tuple[str, ...]] = {
    "nodes/proxy": ("create", "get"),
    "pods/attach": ("create", "get"),
    "pods/ephemeralcontainers": ("patch", "update"),
    "pods/exec": ("create", "get"),
    "pods/portforward": ("create", "get"),
    "pods/proxy": ("create", "get"),
    "services/proxy": ("create", "get"),
}
"""Subresources that lead into a running container or its node, and the verbs that open each (Kubernetes documentation, RBAC good practices;
the API server takes `get` for a web socket)."""
_ENTRANCE = ("certificatesigningrequests/approval", "signers", "mutatingadmissionpolicies", "mutatingadmissionpolicybindings")
_HOOKS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_CHANGING = ("create", "delete", "deletecollection", "patch", "update")


def _binding(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    if r.at("roleRef", "name").value == "cluster-admin":
        yield breach("roleRef.name", "cluster-admin is bound")
    for subject in r["subjects"].each():
        if subject["name"].value in _EVERYBODY:
            yield breach(subject["name"], f"{subject['name'].value} gets the role")
        elif subject["name"].value in _MASTERS:
            yield breach(subject["name"], f"{subject['name'].value} is named, whose members need no role")


def _kubernetes_own(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    name = r.at("roleRef", "name")
    if r.at("roleRef", "kind").value == "Role":
        return
    if name.value in _FILLED or str(name.value).startswith("system:"):
        yield breach(name, f"{name.value} is bound, whose rights Kubernetes and whoever labels a ClusterRole decide")


def _role_wildcard(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    for rule in r["rules"].each():
        for key in ("apiGroups", "nonResourceURLs", "resources", "verbs"):
            if any("*" in str(x.value) for x in rule[key].each()):
                yield breach(f"{rule.path}.{key}", f"{key} hold a wildcard")
        for verb in rule["verbs"].each():
            if verb.value in _GROWING:
                yield breach(verb, f"whoever holds the role can take more by {verb.value}")


def _given(rule: InputNode, resource: str, verbs: tuple[str, ...]) -> bool:
    """Whether a rule gives any of `verbs` on `resource`, in whatever group it says."""
    part = f"*/{resource.partition('/')[2]}"
    named = any(x.value in (resource, "*") or ("/" in resource and x.value == part) for x in rule["resources"].each())
    return named and any(x.value in (*verbs, "*") for x in rule["verbs"].each())


def _core(rule: InputNode) -> bool:
    return any(x.value in ("", "*") for x in rule["apiGroups"].each())


def _unnamed(rule: InputNode) -> bool:
    """Whether a rule is for objects of every name. `create` and `list` cannot be bound by a name, but for the latter's field selector."""
    return not rule["resourceNames"].filled


def _secrets(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    for rule in r["rules"].each():
        if not _core(rule):
            continue
        if _given(rule, "secrets", _READING) and (_unnamed(rule) or r.type == CLUSTER_ROLE):
            yield breach(f"{rule.path}.resources", "whoever holds the role reads secrets")
        if _given(rule, "serviceaccounts/token", _MAKING) and _unnamed(rule):
            yield breach(f"{rule.path}.resources", "whoever holds the role makes tokens of any service account")


def _doors(r: ResourceView, c: Mapping[str, Any]) -> Breaches:
    asks = r.type == ROLE and r.at("metadata", "name").value in c["askingRoles"]
    for rule in r["rules"].each():
        for door, verbs in _DOORS.items():
            if not (asks and door == "pods/exec") and _core(rule) and _given(rule, door, verbs) and _unnamed(rule):
                yield breach(f"{rule.path}.resources", f"whoever holds the role gets inside by {door}")


def _laws(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    """What is behind every other wall: who admits objects, and who vouches for identities."""
    for rule in r["rules"].each():
        for resource in (*_ENTRANCE, *_HOOKS):
            if _given(rule, resource, (*_CHANGING, "approve", "sign")):
                yield breach(f"{rule.path}.resources", f"whoever holds the role changes {resource}")


def _aggregates(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    if r["aggregationRule"].present:
        yield breach("aggregationRule", "the role takes the rights of every ClusterRole that has a label")
    for key, node in r.at("metadata", "labels").entries():
        if key.startswith(_AGGREGATED):
            yield breach(node, f"the role's rights become {key.removeprefix(_AGGREGATED)}'s too")


_rule = partial(PolicyRule, domain=Domain.IDENTITY)

RULES = (
    _rule(
        id="no-cluster-admin-binding",
        title="Nobody is bound to cluster-admin, and no role to everybody.",
        rationale="Quota, isolation and admission rules would no longer bind anyone.",
        remedy="Bind a role with the verbs that are used, to named groups.",
        applies=_BINDINGS,
        check=_binding,
        severity=PolicySeverity.CRITICAL,
    ),
    _rule(
        id="no-default-role-binding",
        title="Nobody is bound to a ClusterRole that Kubernetes brings.",
        rationale="`admin` and `edit` read every secret and start pods under every identity of a namespace; a new version may add to any of them.",
        remedy="Write a Role with the verbs and resources that are used, and bind that.",
        applies=_BINDINGS,
        check=_kubernetes_own,
        severity=PolicySeverity.CRITICAL,
    ),
    _rule(
        id="role-names-verbs-and-resources",
        title="A role names its verbs, groups and resources, and none that lets its holder take more.",
        rationale="A wildcard also grants what the next Kubernetes version adds; bind, escalate and impersonate grant what others have.",
        remedy="List the verbs, groups and resources that are used.",
        applies=_ROLES,
        check=_role_wildcard,
    ),
    _rule(
        id="role-reads-no-secrets",
        title="A role reads no secrets and makes no tokens.",
        rationale="A secret is another's identity: certificates of the gateway, keys of issuers and tokens of every service account.",
        remedy="Mount the secret in the pod that needs it; a Role, no ClusterRole, may name one by resourceNames.",
        applies=_ROLES,
        check=_secrets,
        severity=PolicySeverity.CRITICAL,
    ),
    _rule(
        id="role-enters-no-container",
        title="A role opens no shell, port or proxy into a container or node.",
        rationale="Whoever enters a container has its identity, its weights and the requests in its memory, past the gateway and unseen by it.",
        remedy="Leave exec, attach, portforward, proxy and ephemeralcontainers out. Roles that ask replicas by exec are listed in askingRoles.",
        applies=_ROLES,
        check=_doors,
        severity=PolicySeverity.CRITICAL,
        settings={"askingRoles": {"type": "array", "items": {"type": "string"}, "default": ["evaluator", "runner"]}},
    ),
    _rule(
        id="role-changes-no-webhook",
        title="A role changes no webhook, and signs no certificate.",
        rationale="A webhook sees and changes every object, secrets among them; an approved certificate can be anybody's.",
        remedy="Leave the change to the platform's deployer.",
        applies=_ROLES,
        check=_laws,
        severity=PolicySeverity.CRITICAL,
    ),
    _rule(
        id="cluster-role-not-aggregated",
        title="A ClusterRole neither takes rights from others by label, nor adds its own to theirs.",
        rationale="What the role gives would stand in no plan: each ClusterRole with the label changes it, also those of charts.",
        remedy="Write the rules out, without aggregationRule and without labels rbac.authorization.k8s.io/aggregate-to-*.",
        applies=(CLUSTER_ROLE,),
        check=_aggregates,
    ),
)
