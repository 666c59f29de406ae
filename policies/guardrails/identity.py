"""Identity: least privilege, no long-lived credentials, no hidden administrators."""

import json
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from typing import Any

from headway.contract.secret_names import names_a_secret, secret_flags, secret_in
from headway.wire import ARTIFACT_CACHE_AUDIENCE
from policies.guardrails import workloads as w
from policies.guardrails.rule import Breaches, Domain, PolicyRule, PolicySeverity, breach
from policies.guardrails.view import InputNode, ResourceView


def statements(document: Any) -> list[Mapping[str, Any]]:
    """Statements of an IAM policy given as text or as an object; nothing for what cannot be read."""
    if isinstance(document, str):
        try:
            document = json.loads(document)
        except ValueError:
            return []
    if not isinstance(document, Mapping):
        return []
    found = document.get("Statement") or []
    return [found] if isinstance(found, Mapping) else list(found)


def many(value: Any) -> list[str]:
    """One text, or several, as IAM policies write them."""
    return [value] if isinstance(value, str) else [str(v) for v in value or []]


def documents(r: ResourceView) -> Iterator[tuple[str, InputNode]]:
    """The IAM policies that a resource holds, each with its path."""
    if r["policy"].present:
        yield "policy", r["policy"]
    for inline in r["inlinePolicies"].each():
        yield f"{inline.path}.policy", inline["policy"]


def everyone(principal: Any) -> bool:
    """Whether a statement's `Principal` is anybody at all."""
    if isinstance(principal, Mapping):
        return any(everyone(value) for value in principal.values())
    return principal == "*" or (isinstance(principal, list) and "*" in principal)


def _every_action(action: str) -> bool:
    return not action.rpartition(":")[2].strip("*?")


def _every_resource(resource: str) -> bool:
    """`*`, and an ARN that names a service and none of its resources, such as `arn:aws:s3:::*`."""
    return not resource.split(":", 5)[-1].strip("*?/:")


def _wildcard(r: ResourceView, c: Mapping[str, Any]) -> Breaches:
    for path, node in documents(r):
        for i, s in enumerate(statements(node.value)):
            if s.get("Effect") != "Allow":
                continue
            name = s.get("Sid") or i
            for inverted in ("NotAction", "NotResource"):
                if inverted in s:
                    yield breach(f"{path}.Statement[{name}].{inverted}", f"allows everything that {inverted} does not name")
            if any(_every_action(a) for a in many(s.get("Action"))):
                yield breach(f"{path}.Statement[{name}].Action", "allows every action of a service")
            scoped = [a for a in many(s.get("Action")) if not any(fnmatchcase(a, known) for known in c["unscopedActions"])]
            if scoped and any(_every_resource(x) for x in many(s.get("Resource"))) and not s.get("Condition"):
                yield breach(f"{path}.Statement[{name}].Resource", f"allows {', '.join(scoped)} on every resource, without a condition")


def _trust(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    for i, s in enumerate(statements(r["assumeRolePolicy"].value)):
        if s.get("Effect") != "Allow":
            continue
        path = f"assumeRolePolicy.Statement[{s.get('Sid') or i}]"
        if everyone(s.get("Principal")) or "NotPrincipal" in s:
            yield breach(f"{path}.Principal", "anyone may assume the role")
        if "sts:AssumeRoleWithWebIdentity" in many(s.get("Action")) and not _names_a_subject(s):
            yield breach(f"{path}.Condition", "whoever the issuer vouches for may assume the role: no condition names a subject")


_NAMING = ("StringEquals", "StringEqualsIgnoreCase", "StringLike")
"""Operators that name whom they let in; their negations name everybody else."""


def _names_a_subject(statement: Mapping[str, Any]) -> bool:
    naming = {operator: wanted for operator, wanted in (statement.get("Condition") or {}).items() if _plain(operator) in _NAMING}
    conditions = [pair for wanted in naming.values() for pair in wanted.items()]
    return any(key.endswith(":sub") and not any(_anybody(subject) for subject in many(wanted)) for key, wanted in conditions)


def _plain(operator: str) -> str:
    return operator.rpartition(":")[2].removesuffix("IfExists")


def _anybody(subject: str) -> bool:
    """Nobody in particular: nothing, a pattern for namespaces, of which tenants are, or one outside the cluster, where it
    takes in every pull request.
    """
    inside = subject.removeprefix("system:serviceaccount:")
    who = subject if inside == subject else inside.partition(":")[0]
    return not who or bool(set(who) & set("*?"))


_MAKES_ROLES = ("iam:AttachRolePolicy", "iam:CreateRole", "iam:PutRolePermissionsBoundary", "iam:PutRolePolicy")
"""Who may do these without a boundary can make a role that may do anything, and use it."""


def allows(statement: Mapping[str, Any], actions: Sequence[str]) -> list[str]:
    """Which of `actions` a statement allows. IAM does not tell capital letters in actions from small ones."""
    patterns = [pattern.lower() for pattern in many(statement.get("Action"))]
    return [action for action in actions if any(fnmatchcase(action.lower(), pattern) for pattern in patterns)]


def _named(statement: Mapping[str, Any], key: str) -> bool:
    """Whether a condition says which values of `key` it lets pass: by a naming operator, for requests that have the key, and no pattern."""
    found = [
        value
        for operator, wanted in (statement.get("Condition") or {}).items()
        if operator.rpartition(":")[2] in (*_NAMING, "ArnEquals", "ArnLike") and not operator.startswith("ForAllValues:")
        for name, values in wanted.items()
        if name.lower() == key.lower()
        for value in many(values)
    ]
    return bool(found) and all(value and not set(value) & set("*?") for value in found)


def _every_role(resource: str) -> bool:
    """Whether an ARN takes in a role that nobody has named, as `*`, `arn:aws:iam::1:role/*` and `arn:aws:iam::1:rol*` do."""
    return fnmatchcase("role/nobody", resource.split(":", 5)[-1])


def _escalates(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    for path, node in documents(r):
        for i, s in enumerate(statements(node.value)):
            if s.get("Effect") != "Allow":
                continue
            statement = f"{path}.Statement[{s.get('Sid') or i}]"
            makes = allows(s, _MAKES_ROLES)
            if makes and not _named(s, "iam:PermissionsBoundary"):
                yield breach(f"{statement}.Condition", f"allows {', '.join(makes)} for roles without a boundary")
            if not allows(s, ["iam:PassRole"]):
                continue
            if not _named(s, "iam:PassedToService"):
                yield breach(f"{statement}.Condition", "allows iam:PassRole to any service")
            if any(_every_role(each) for each in many(s.get("Resource"))):
                yield breach(f"{statement}.Resource", "allows iam:PassRole of every role, also of those with more rights")


def _bounded_people(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    for s in statements(r["assumeRolePolicy"].value):
        principal = s.get("Principal")
        if s.get("Effect") != "Allow" or not isinstance(principal, Mapping):
            continue
        federated = [one for one in many(principal.get("Federated")) if "/oidc.eks." not in one]
        if (federated or principal.get("AWS")) and not r["permissionsBoundary"].present:
            yield breach("permissionsBoundary", "people or pipelines assume the role, and nothing bounds what is attached to it")
            return


def _admin(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    for node in (r["policyArn"], *r["policyArns"].each(), *r["managedPolicyArns"].each()):
        arn = str(node.value or "")
        if arn.endswith((":policy/AdministratorAccess", ":policy/PowerUserAccess", ":policy/IAMFullAccess")):
            yield breach(node, f"{arn.rsplit('/', 1)[-1]} is attached")


def _no_keys(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    yield breach("", f"{r.kind} creates a long-lived credential")


def _creator(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    access = r["accessConfig"]
    if access["bootstrapClusterCreatorAdminPermissions"].value is not False:
        yield breach("accessConfig.bootstrapClusterCreatorAdminPermissions", "whoever creates the cluster stays its hidden administrator")
    if access["authenticationMode"].value != "API":
        yield breach("accessConfig.authenticationMode", "access is not governed by access entries alone")


def _imds(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    options = r["metadataOptions"]
    if options["httpTokens"].value != "required":
        yield breach("metadataOptions.httpTokens", "instance metadata answers without a session (IMDSv1)")
    if options["httpPutResponseHopLimit"].value not in (1,):
        yield breach("metadataOptions.httpPutResponseHopLimit", "pods can reach the node's own credentials")


def _secret_env(r: ResourceView, _: Mapping[str, Any]) -> Breaches:
    for c in w.containers(r):
        for env in c["env"].each():
            name = str(env["name"].value)
            if names_a_secret(name) and env["value"].present:
                yield breach(f"{env.path}.value", f"{name} is given in clear in the pod specification")
            elif env["value"].known and (found := secret_in(str(env["value"].value or ""))):
                yield breach(f"{env.path}.value", f"the value of {name} has {found} in it")
        for key in ("command", "args"):
            words = list(c[key].each())
            for number, flag in secret_flags([str(word.value) for word in words]):
                yield breach(words[number], f"{flag} is given in clear on the command line")
            for word in words:
                if found := secret_in(str(word.value)):
                    yield breach(word, f"the command line has {found} in it")


def _token(r: ResourceView, c: Mapping[str, Any]) -> Breaches:
    spec = w.pod(r)
    if not w.asks_for_gpu(r):
        return
    if spec["automountServiceAccountToken"].value is not False:
        yield breach(f"{spec.path}.automountServiceAccountToken", "the model server can call the Kubernetes API")
    for volume in spec["volumes"].each():
        for source in volume["projected"]["sources"].each():
            token = source["serviceAccountToken"]
            if token.present and token["audience"].value not in c["audiences"]:
                yield breach(token, f"the model server is given a token for {token['audience'].value or 'the Kubernetes API'}")


_AUDIENCES = (ARTIFACT_CACHE_AUDIENCE, "pods.eks.amazonaws.com", "sts.amazonaws.com")
"""Who else a token may be for: the store of artifacts on the node, and AWS's exchanges of tokens for credentials. None opens the API."""
_UNSCOPED = [
    "autoscaling:Describe*",
    "ec2:Describe*",
    "ec2:GetInstanceTypesFromInstanceRequirements",
    "ecr:GetAuthorizationToken",
    "elasticloadbalancing:Describe*",
    "kms:ListKeys",
    "sts:GetCallerIdentity",
]
"""Actions that know no resource type (AWS Service Authorization Reference): `*` is all that can be said of them."""

IAM = (
    "aws:iam/groupPolicy:GroupPolicy",
    "aws:iam/policy:Policy",
    "aws:iam/role:Role",
    "aws:iam/rolePolicy:RolePolicy",
    "aws:iam/userPolicy:UserPolicy",
)
_ATTACH = (
    "aws:iam/groupPolicyAttachment:GroupPolicyAttachment",
    "aws:iam/policyAttachment:PolicyAttachment",
    "aws:iam/role:Role",
    "aws:iam/rolePolicyAttachment:RolePolicyAttachment",
    "aws:iam/rolePolicyAttachmentsExclusive:RolePolicyAttachmentsExclusive",
    "aws:iam/userPolicyAttachment:UserPolicyAttachment",
)


_rule = partial(PolicyRule, domain=Domain.IDENTITY)

RULES = (
    _rule(
        id="iam-no-wildcard",
        title="IAM policies name their actions and resources.",
        rationale="One compromised pod could reach everything that the AWS service holds.",
        remedy="List the actions and ARNs, or add a condition; put actions that know no resource into a statement of their own.",
        applies=IAM,
        check=_wildcard,
        settings={"unscopedActions": {"type": "array", "items": {"type": "string"}, "default": _UNSCOPED}},
        severity=PolicySeverity.CRITICAL,
    ),
    _rule(
        id="iam-trust-named",
        title="A role names the principals that may assume it.",
        rationale="Any AWS account could assume the role.",
        remedy="Name the service or the role in the trust policy's Principal, and the subject in a condition where an OIDC issuer vouches.",
        applies=("aws:iam/role:Role",),
        check=_trust,
        severity=PolicySeverity.CRITICAL,
    ),
    _rule(
        id="iam-no-escalation",
        title="Who makes roles makes bounded ones, and hands them to named services.",
        rationale="A role without a boundary may be given any permission, also those that its maker does not have.",
        remedy="Add the condition iam:PermissionsBoundary with your boundary's ARN; to iam:PassRole iam:PassedToService, and the roles by name.",
        applies=IAM,
        check=_escalates,
        severity=PolicySeverity.CRITICAL,
    ),
    _rule(
        id="iam-people-bounded",
        title="A role that people or pipelines assume has a permissions boundary.",
        rationale="One policy attached by mistake would make whoever deploys an administrator.",
        remedy="Set permissionsBoundary to the policy that the access layer makes for people.",
        applies=("aws:iam/role:Role",),
        check=_bounded_people,
        severity=PolicySeverity.HIGH,
    ),
    _rule(
        id="iam-no-administrator",
        title="No role of the platform is an administrator of the account.",
        rationale="One mistake or one stolen credential could damage the whole account.",
        remedy="Attach a policy with the actions that are used.",
        applies=_ATTACH,
        check=_admin,
        severity=PolicySeverity.CRITICAL,
    ),
    _rule(
        id="iam-no-long-lived-credentials",
        title="No IAM user and no access key is created.",
        rationale="Long-lived keys leak, and nobody rotates them.",
        remedy="Use Pod Identity or IRSA for workloads and the provider's OIDC for CI.",
        applies=("aws:iam/accessKey:AccessKey", "aws:iam/user:User"),
        check=_no_keys,
        severity=PolicySeverity.CRITICAL,
    ),
    _rule(
        id="cluster-access-by-entries",
        title="Access entries alone give access to the cluster; its creator is no hidden administrator.",
        rationale="The CI role that once created the cluster would stay its administrator for ever, invisible in any list.",
        remedy="Set accessConfig: {authenticationMode: API, bootstrapClusterCreatorAdminPermissions: false} and list access entries.",
        applies=("aws:eks/cluster:Cluster",),
        check=_creator,
    ),
    _rule(
        id="instance-metadata-protected",
        title="Instance metadata needs a session and stays on the node.",
        rationale="A pod could assume the node's role and act as the node.",
        remedy="Set metadataOptions: {httpTokens: required, httpPutResponseHopLimit: 1}.",
        applies=("aws:ec2/launchTemplate:LaunchTemplate",),
        check=_imds,
    ),
    _rule(
        id="no-secret-in-environment",
        title="No secret stands in a pod's environment or command line.",
        rationale="The secret would be readable in the API, in the stack's state and in every support bundle.",
        remedy="Use valueFrom.secretKeyRef or workload identity.",
        applies=w.WORKLOADS,
        check=_secret_env,
        severity=PolicySeverity.CRITICAL,
    ),
    _rule(
        id="model-server-has-no-token",
        title="A model server gets no Kubernetes token.",
        rationale="Model code is not trusted; with a token it could read what belongs to its neighbours.",
        remedy="Set automountServiceAccountToken: false, and project tokens for `audiences` only. Pod Identity mounts its own.",
        applies=w.WORKLOADS,
        check=_token,
        settings={"audiences": {"type": "array", "items": {"type": "string"}, "default": list(_AUDIENCES)}},
    ),
)
