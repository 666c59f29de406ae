"""One setting binds every pod that asks AWS to its role: by Pod Identity, or by IRSA (tokens of the cluster's issuer).

Whole layers of environments whose cluster file says `irsa`, beside what they are without it.
"""

import json
import re
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml
from pulumi_policy.proxy import unknown_checking_proxy

from components.identity import INLINE_LIMIT, ClusterIdentity, WorkloadIdentity, WorkloadIdentityArgs, inline_characters
from components.permissions import Statement
from policies.guardrails.registry import PACKS
from policies.guardrails.rule import evaluate
from policies.guardrails.view import InputNode, ResourceView, plain
from stacks import settings
from tests.components.program import config_of, run
from tests.components.recording import Recording, Registration, record
from tests.components.tenant_layer import planned, settings_of

ROLE, ASSOCIATION, ADDON = "aws:iam/role:Role", "aws:eks/podIdentityAssociation:PodIdentityAssociation", "aws:eks/addon:Addon"
ADMISSION = "kubernetes:admissionregistration.k8s.io/v1:ValidatingAdmission"
RELEASE, ACCOUNT = "kubernetes:helm.sh/v3:Release", "kubernetes:core/v1:ServiceAccount"
ANNOTATION = "eks.amazonaws.com/role-arn"
HOST = "oidc.eks.mock/id/1"
"""Of the cluster's issuer, which every layer learns."""
IDENTITIES = {
    "cluster": {"kube-system/aws-node", "kube-system/ebs-csi-controller-sa"},
    "platform": {
        "artifact-cache/artifact-cache",
        "aws-load-balancer-controller/aws-load-balancer-controller",
        "cert-manager/cert-manager",
        "cluster-autoscaler/cluster-autoscaler",
        "diagnosis/diagnosis",
        "evaluation/evaluation",
        "keda/keda-operator",
        "monitoring/loki",
        "monitoring/otel-collector",
        "monitoring/tempo",
        "node-health/node-health",
    },
    "tenant": {"vision/models"},
}
"""Every service account of the layer that has a role."""
CHOICES = {
    "gateway": {"authority": {"kind": "acme", "server": "https://acme.example/d", "email": "a@b.example", "zone": "Z0123456789"}},
    "loops": {"image": f"registry.example.com/headway@sha256:{'a' * 64}"},
}
"""What brings every identity that the platform layer can have."""


def files(folder: Path, environment: str, binding: str | None, **network: Any) -> Path:
    """The environment's stack files with this binding."""
    for file in settings.FOLDER.glob(f"Pulumi.{environment}-*.yaml"):
        document = yaml.safe_load(file.read_text())
        sections = document.get("config") or {}
        if file.stem.endswith("-cluster"):
            sections["headway:network"] |= network
            sections |= {"headway:workload_identity": binding} if binding else {}
        if file.stem == "Pulumi.prod-platform":
            for name, choice in CHOICES.items():
                sections[f"headway:{name}"] |= choice
        (folder / file.name).write_text(yaml.safe_dump(document))
    return folder


def layer(name: str, binding: str | None, folder: Path, *, preview: bool = False, deployed: bool = True) -> Recording:
    """What a layer registers: the tenant's of the sandbox, whose ledger needs no account, the others of prod."""
    files(folder, "sandbox" if name == "tenant" else "prod", binding)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(settings, "load", partial(settings.load, folder=folder))
        if name != "tenant":
            return run(f"prod-{name}", config=config_of(f"prod-{name}", folder), preview=preview, deployed=deployed)
        return planned(settings_of("sandbox-vision", folder=folder), deployed=deployed, preview=preview)


@pytest.fixture(scope="module", params=["cluster", "platform", "tenant"])
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def irsa(name: str, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return layer(name, "irsa", tmp_path_factory.mktemp("irsa"))


@pytest.fixture(scope="module")
def default(name: str, tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return layer(name, None, tmp_path_factory.mktemp("default"))


def trusts(found: Recording) -> Iterator[tuple[Registration, Mapping[str, Any]]]:
    """Roles of workloads, which are those of a WorkloadIdentity, with what they trust."""
    for r in found.of_type("headway:identity:WorkloadIdentity"):
        (role,) = (child for child in found.children(r.urn) if child.type == ROLE)
        (statement,) = json.loads(role.inputs["assumeRolePolicy"])["Statement"]
        yield role, statement


def who(statement: Mapping[str, Any]) -> str:
    """Namespace and name of the service account of a trust under IRSA."""
    ((_, subject),) = ((key, value) for key, value in statement["Condition"]["StringEquals"].items() if key.endswith(":sub"))
    return "/".join(subject.removeprefix("system:serviceaccount:").split(":"))


def accounts(value: Any) -> Iterator[tuple[str, str]]:
    """Name and role of each service account within the values of a chart."""
    if isinstance(value, Mapping):
        if ANNOTATION in (value.get("annotations") or {}):
            yield value["name"], value["annotations"][ANNOTATION]
        for each in value.values():
            yield from accounts(each)


OF_ADDON = {"aws-ebs-csi-driver": "ebs-csi-controller-sa", "vpc-cni": "aws-node"}


def annotated(found: Recording) -> dict[str, str]:
    """What every service account is told: its role, by namespace and name."""
    told: list[tuple[str, str]] = []
    for r in found.of_type(RELEASE):
        told += ((f"{r.inputs['namespace']}/{name}", role) for name, role in accounts(r.inputs["values"]))
    for r in found.of_type(ACCOUNT):
        meta = r.inputs["metadata"]
        told += ((f"{meta['namespace']}/{meta['name']}", role) for key, role in meta.get("annotations", {}).items() if key == ANNOTATION)
    for r in found.of_type(ADDON):
        if arn := r.inputs.get("serviceAccountRoleArn"):
            told.append((f"kube-system/{OF_ADDON[r.inputs['addonName']]}", arn))
    assert len(dict(told)) == len(told)
    return dict(told)


def test_a_role_trusts_one_service_account_by_the_clusters_issuer(name: str, irsa: Recording) -> None:
    named = set[str]()
    for _, statement in trusts(irsa):
        namespace, account = who(statement).split("/")
        assert statement == {
            "Effect": "Allow",
            "Principal": {"Federated": f"arn:aws:iam::000000000000:oidc-provider/{HOST}"},
            "Action": ["sts:AssumeRoleWithWebIdentity"],
            "Condition": {
                "StringEquals": {f"{HOST}:aud": "sts.amazonaws.com", f"{HOST}:sub": f"system:serviceaccount:{namespace}:{account}"}
            },
        }
        named.add(f"{namespace}/{account}")
    assert named == IDENTITIES[name]


def test_every_service_account_with_a_role_is_told_that_role(irsa: Recording) -> None:
    assert annotated(irsa) == {who(statement): f"arn:aws:mock:::{role.name}" for role, statement in trusts(irsa)}


def test_a_role_says_by_its_tag_whose_artifacts_its_pods_may_reach(irsa: Recording) -> None:
    found = {who(statement): role.inputs["tags"] for role, statement in trusts(irsa)}
    assert found == {account: {"kubernetes-namespace": account.partition("/")[0]} for account in found}


def test_pod_identity_is_gone_and_nothing_else_comes_or_goes(name: str, irsa: Recording, default: Recording) -> None:
    before, after = ({(r.type, r.name) for r in found.registrations} for found in (default, irsa))
    agent = {(ADDON, "joining-eks-pod-identity-agent")} if name == "cluster" else set[tuple[str, str]]()
    assert after - before == set()
    assert before - after == agent | {(ASSOCIATION, r.name) for r in default.of_type(ASSOCIATION)}
    assert len(default.of_type(ASSOCIATION)) == len(IDENTITIES[name])


def test_what_a_role_may_do_is_the_same_under_either_binding(irsa: Recording, default: Recording) -> None:
    for kind in ("aws:iam/rolePolicy:RolePolicy", "aws:iam/rolePolicyAttachment:RolePolicyAttachment"):
        assert {r.name: r.inputs for r in irsa.of_type(kind)} == {r.name: r.inputs for r in default.of_type(kind)}
    for found in (irsa, default):
        assert len({role.inputs.get("permissionsBoundary") for role, _ in trusts(found)}) == 1


def breaches(found: Recording, pack: str) -> set[str]:
    states: dict[str, dict[str, Any]] = {}
    told = set[str]()
    for r in found.registrations:
        for rule in PACKS[pack]:
            if rule.covers(r.type):
                given = InputNode(plain(unknown_checking_proxy(dict(r.inputs))))
                verdict = evaluate(rule, ResourceView(r.type, r.name, r.urn, given, state=states.setdefault(rule.id, {})))
                told |= {f"{rule.id} {r.name} {each.dotted}" for each in verdict.breaches}
    return told


def test_the_rules_find_nothing_that_they_do_not_find_without(name: str, irsa: Recording, default: Recording) -> None:
    assert breaches(irsa, name) - breaches(default, name) == set()


@pytest.mark.parametrize("above", ["platform", "tenant"])
def test_a_preview_before_there_is_an_issuer_ends_well(above: str, tmp_path: Path) -> None:
    found = layer(above, "irsa", tmp_path, preview=True, deployed=False)
    roles = [role for role in found.of_type(ROLE) if "assumeRolePolicy" not in role.inputs or '"Statement"' not in str(role.inputs)]
    assert len(roles) == len(IDENTITIES[above]), "whom they trust is known when the issuer is"


def egress(found: Recording) -> list[Mapping[str, Any]]:
    return found.one("kubernetes:networking.k8s.io/v1:NetworkPolicy", "vision-egress").inputs["spec"]["egress"]


AGENT = {"to": [{"ipBlock": {"cidr": "169.254.170.23/32"}}], "ports": [{"port": 80, "protocol": "TCP"}]}


@pytest.mark.parametrize("endpoints", [["s3", "sts"], ["s3"]])
def test_a_tenants_pods_reach_sts_where_it_answers_and_no_agent(endpoints: list[str], tmp_path: Path) -> None:
    found = settings_of("sandbox-vision", folder=files(tmp_path, "sandbox", "irsa", endpoints=endpoints))
    rules = egress(planned(found))
    private = [rule for rule in rules if any(each["ipBlock"]["cidr"].startswith("10.") for each in rule["to"] if "ipBlock" in each)]
    subnets = [{"ipBlock": {"cidr": cidr}} for cidr in ("10.32.0.0/19", "10.32.32.0/19", "10.32.64.0/19")]
    assert private == ([{"to": subnets, "ports": [{"port": 443, "protocol": "TCP"}]}] if "sts" in endpoints else [])
    assert AGENT not in rules


def test_with_pod_identity_a_tenants_pods_reach_the_agent_of_their_node(tmp_path: Path) -> None:
    assert AGENT in egress(layer("tenant", None, tmp_path))


def test_no_pod_of_a_tenant_restarts_because_the_binding_changed(tmp_path: Path) -> None:
    """While its association exists, a new pod would be given Pod Identity, which its role no longer trusts."""
    found = {
        binding: {r.name: r.inputs for r in layer("tenant", binding, tmp_path).of_type("kubernetes:apps/v1:Deployment")}
        for binding in (None, "irsa")
    }
    assert found[None] == found["irsa"] and found["irsa"]


def test_no_platform_pod_that_has_a_role_comes_before_its_credentials(name: str, default: Recording) -> None:
    """EKS gives them while a pod is made and never later; a chart installed on a running platform comes a second after its association."""
    policies = {
        f"{r.inputs['spec']['matchConstraints']['namespaceSelector']['matchLabels']['kubernetes.io/metadata.name']}/{account}": r
        for r in default.of_type(f"{ADMISSION}Policy")
        if r.inputs["metadata"]["name"].startswith("headway-credentials-")
        for account in re.findall("serviceAccountName != '([a-z-]+)'", r.inputs["spec"]["validations"][0]["expression"])
    }
    assert set(policies) == (IDENTITIES["platform"] if name == "platform" else set())
    bindings = {r.inputs["spec"]["policyName"]: r.urn for r in default.of_type(f"{ADMISSION}PolicyBinding")}
    pods = {r.inputs["namespace"]: r for r in default.of_type(RELEASE)}
    for chart in ("cert-manager", "keda") if policies else ():
        (policy,) = (r for account, r in policies.items() if account.startswith(f"{chart}/"))
        assert {bindings[policy.inputs["metadata"]["name"]], policy.urn} <= pods[chart].depends_on


@pytest.mark.parametrize("objects", [100, 120])
def test_a_role_whose_policies_iam_would_not_take_is_refused_by_the_plan(objects: int) -> None:
    """IAM counts all inline policies of a role together, and says so when the apply has made half of what it makes."""
    read = [
        Statement(sid="Read", actions=["s3:GetObject"], resources=[f"arn:aws:s3:::{'b' * 70}/{number:03}" for number in range(objects)])
    ]

    def made() -> None:
        key = [Statement(sid="Use", actions=["kms:Decrypt"], resources=[pulumi.Output.from_input("arn:aws:kms:a:1:key/2")])]
        args = WorkloadIdentityArgs(
            cluster=ClusterIdentity(name="c", account_id="1", region="us-east-1"),
            namespace="evaluation",
            service_account="loop",
            policies={"access": read, "key": key},
        )
        assert (inline_characters(args.policies) > INLINE_LIMIT) is (objects > 100)
        WorkloadIdentity("loop", args)

    if objects > 100:
        with pytest.raises(pulumi.RunError, match="loop of namespace evaluation may do takes 11099 characters, and IAM takes 10240"):
            record(made)
    else:
        assert record(made).of_type(ROLE)
