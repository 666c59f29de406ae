"""`eks:index:Cluster`: the children it registers, what it refuses, and where its kubeconfig leads."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aws_world import Watch, World, urn_of

from pulumi_embedded.engine.provider import UNKNOWN, ComponentChild, Properties, ProviderError
from pulumi_embedded.engine.values import reference, secret
from pulumi_embedded.providers.eks import dependencies
from pulumi_embedded.providers.eks.provider import GET_KUBECONFIG, EksProvider

TYPE = "eks:index:Cluster"
ADMIN = "arn:aws:iam::000000000000:role/admin"


@dataclass
class Context:
    """Registers children with the aws double, as the engine would."""

    world: World
    preview: bool = False
    made: dict[str, tuple[str, Properties, tuple[str, ...]]] = field(default_factory=dict)
    registered: dict[str, Properties] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def component(self, type: str, name: str, inputs: Properties) -> str:
        return urn_of(type, name)

    def resource(
        self,
        type: str,
        name: str,
        inputs: Properties,
        *,
        parent: str,
        depends_on: Sequence[str] = (),
        ignore_changes: Sequence[str] = (),
        version: str = "",
    ) -> ComponentChild:
        urn = urn_of(type, name)
        checked = self.world.checked(type, name, inputs)
        id, outputs = self.world.provider.create(urn, type, name, checked, Watch(preview=self.preview))
        self.made[name] = (type.rsplit(":", 1)[1], checked, tuple(d.rsplit("::", 1)[1] for d in depends_on))
        return ComponentChild(urn, id, outputs)

    def outputs(self, urn: str, outputs: Properties) -> None:
        self.registered[urn] = outputs

    def outputs_of(self, urn: str) -> Properties:
        return self.registered[urn]

    def warn(self, urn: str, message: str) -> None:
        self.warnings.append(message)

    def reference(self, child: ComponentChild) -> Properties:
        return reference(child.urn, child.id)

    def provider_reference(self, package: str) -> Properties:
        return reference(f"urn:provider:{package}", "id")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def inputs(subnets: Sequence[str], **more: Any) -> Properties:
    return {
        "name": "dev",
        "subnetIds": list(subnets),
        "skipDefaultNodeGroup": True,
        "skipDefaultSecurityGroups": True,
        "useDefaultVpcCni": True,
        "corednsAddonOptions": {"enabled": False},
        "kubeProxyAddonOptions": {"enabled": False},
        **more,
    }


def double(world: World, printed: str | None = "aws-cli/2.31.2 Python/3.13.7", *, needs_aws_cli: bool = True) -> EksProvider:
    return EksProvider(world.plane, needs_aws_cli=needs_aws_cli, printed=lambda: printed)


def construct(world: World, context: Context | None = None, **more: Any) -> tuple[Context, Properties]:
    context = context or Context(world)
    _, outputs = double(world).construct(TYPE, "c", inputs(world.subnets(), **more), context)
    return context, outputs


def test_the_least_cluster_is_a_role_its_policy_and_the_cluster(world: World) -> None:
    context, _ = construct(world)
    assert {name: kind for name, (kind, _, _) in context.made.items()} == {
        "c-eksRole-role": "Role",
        "c-eksRole-4b490823": "RolePolicyAttachment",
        "c-eksCluster": "Cluster",
    }


def test_every_child_depends_on_what_it_needs_so_that_it_is_deleted_first(world: World) -> None:
    entries = {"admin": {"principalArn": ADMIN, "accessPolicies": {"all": policy()}}}
    context, _ = construct(world, accessEntries=entries, createOidcProvider=True)
    needs = {name: needed for name, (_, _, needed) in context.made.items()}
    assert needs == {
        "c-eksRole-role": (),
        "c-eksRole-4b490823": ("c-eksRole-role",),
        "c-eksCluster": ("c-eksRole-role", "c-eksRole-4b490823"),
        "c-admin": ("c-eksCluster",),
        "c-admin-all": ("c-admin",),
        "c-oidcProvider": ("c-eksCluster",),
    }


def policy() -> Properties:
    return {"policyArn": "arn:aws:eks::aws:cluster-access-policy/AmazonEKSClusterAdminPolicy", "accessScope": {"type": "cluster"}}


def test_the_options_reach_the_cluster(world: World) -> None:
    key = world.make("kms/key", "key").outputs["arn"]
    context, _ = construct(
        world,
        version="1.36",
        endpointPrivateAccess=True,
        endpointPublicAccess=False,
        encryptionConfigKeyArn=key,
        enabledClusterLogTypes=["audit"],
        authenticationMode="API",
        deletionProtection=True,
        upgradePolicy={"supportType": "STANDARD"},
    )
    _, made, _ = context.made["c-eksCluster"]
    assert made["encryptionConfig"] == {"provider": {"keyArn": key}, "resources": ["secrets"]}
    assert made["accessConfig"] == {"authenticationMode": "API", "bootstrapClusterCreatorAdminPermissions": True}
    assert (made["vpcConfig"]["endpointPublicAccess"], made["vpcConfig"]["endpointPrivateAccess"]) == (False, True)
    assert (made["version"], made["deletionProtection"], made["enabledClusterLogTypes"]) == ("1.36", True, ["audit"])


def test_addons_are_installed_unless_they_are_left_to_others(world: World) -> None:
    context, _ = construct(
        world,
        useDefaultVpcCni=False,
        vpcCniOptions={"addonVersion": "v1.20.0-eksbuild.1", "enablePrefixDelegation": True, "enableNetworkPolicy": True},
        kubeProxyAddonOptions={"version": "v1.36.0-eksbuild.2"},
    )
    _, cni, _ = context.made["c-vpc-cni"]
    assert json.loads(cni["configurationValues"]) == {"enableNetworkPolicy": "true", "env": {"ENABLE_PREFIX_DELEGATION": "true"}}
    assert context.made["c-kube-proxy"][1]["addonVersion"] == "v1.36.0-eksbuild.2"


def test_its_own_security_groups_let_nodes_and_control_plane_talk(world: World) -> None:
    vpc = world.make("ec2/vpc", "other", cidrBlock="10.9.0.0/16")
    context, outputs = construct(world, skipDefaultSecurityGroups=False, vpcId=vpc.id)
    groups = {name for name, (kind, _, _) in context.made.items() if kind == "SecurityGroup"}
    assert groups == {"c-eksClusterSecurityGroup", "c-nodeSecurityGroup"}
    assert outputs["clusterSecurityGroupId"] == context.made["c-eksCluster"][1]["vpcConfig"]["securityGroupIds"][0]
    assert outputs["nodeSecurityGroupId"].startswith("sg-")


def test_the_kubeconfig_is_the_sandboxs_and_secret(world: World) -> None:
    _, outputs = construct(world)
    expected = world.plane.address().kubeconfig
    assert outputs["kubeconfig"] == secret(expected)
    assert outputs["kubeconfigJson"] == secret(json.dumps(expected, sort_keys=True))


def test_identity_outputs_are_the_clusters(world: World) -> None:
    _, outputs = construct(world, createOidcProvider=True)
    assert outputs["oidcProviderUrl"] == f"https://{outputs['oidcIssuer']}"
    assert outputs["oidcProviderArn"] == f"arn:aws:iam::000000000000:oidc-provider/{outputs['oidcIssuer']}"


def test_in_a_preview_nothing_of_a_new_cluster_is_known(world: World) -> None:
    _, outputs = construct(world, Context(world, preview=True), createOidcProvider=True)
    assert outputs["kubeconfig"] == outputs["kubeconfigJson"] == secret(UNKNOWN)
    assert {outputs[key] for key in ("oidcIssuer", "oidcProviderArn", "clusterSecurityGroupId")} == {UNKNOWN}


def test_get_kubeconfig_answers_the_clusters(world: World) -> None:
    context, outputs = construct(world)
    args = {"__self__": reference(urn_of(TYPE, "c"), ""), "roleArn": ADMIN}
    assert double(world).call(GET_KUBECONFIG, args, context) == {"result": outputs["kubeconfigJson"]}


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"skipDefaultNodeGroup": False}, "skipDefaultNodeGroup: must be true"),
        ({"corednsAddonOptions": {"enabled": True}}, "would wait 20 minutes"),
        ({"fargate": True}, "fargate: is not modelled"),
        ({"instanceType": "t3.large"}, "instanceType: is not modelled"),
        ({"endpointPublicAcces": True}, "did you mean endpointPublicAccess"),
        ({"accessEntries": {"a": {"principal": ADMIN}}}, "accessEntries.a.principalArn: is required"),
        ({"endpointPublicAccess": False, "publicAccessCidrs": ["10.0.0.0/8"]}, "publicAccessCidrs: has no effect"),
        ({"vpcCniOptions": {"vethPrefix": "eni"}}, "vpcCniOptions.vethPrefix: is not modelled"),
        ({"subnetIds": None}, "subnetIds: is missing"),
    ],
)
def test_unknown_inputs_are_refused_before_anything_is_made(world: World, more: dict[str, Any], told: str) -> None:
    context = Context(world)
    with pytest.raises(ProviderError, match=r"(?s).*") as error:
        construct(world, context, **more)
    assert told in str(error.value) and not context.made


@pytest.mark.parametrize("type", ["eks:index:ManagedNodeGroup", "eks:index:Clusterr"])
def test_another_component_is_refused_by_name(world: World, type: str) -> None:
    with pytest.raises(ProviderError, match=type):
        double(world).construct(type, "c", {}, Context(world))


@pytest.mark.parametrize(
    ("printed", "told"),
    [
        (None, "Could not find aws CLI for EKS"),
        ("aws-cli/1.23.9 Python/3.8.8", "At least v1.24.0 of aws-cli is required. Current version is: 1.23.9"),
        ("aws-cli/2.6.4 Python/3.9.11", "At least v2.7.0 of aws-cli is required. Current version is: 2.6.4"),
        ("", "does not say its version"),
    ],
)
def test_without_an_aws_cli_that_pulumi_eks_takes_no_cluster_is_planned(world: World, printed: str | None, told: str) -> None:
    context = Context(world, preview=True)
    with pytest.raises(ProviderError, match=told):
        double(world, printed).construct(TYPE, "c", inputs(world.subnets()), context)
    assert not context.made


@pytest.mark.parametrize("printed", ["aws-cli/1.24.0", "aws-cli/2.7.0 Python/3.9.11", "aws-cli/3.0.0"])
def test_an_aws_cli_that_is_new_enough_is_not_spoken_of(world: World, printed: str) -> None:
    context = Context(world)
    double(world, printed).construct(TYPE, "c", inputs(world.subnets()), context)
    assert context.warnings == []


def test_a_host_that_can_do_without_aws_cli_is_told_what_pulumi_eks_would_say(world: World) -> None:
    context = Context(world)
    double(world, None, needs_aws_cli=False).construct(TYPE, "c", inputs(world.subnets()), context)
    assert context.warnings == ["pulumi-eks would refuse this cluster here: Could not find aws CLI for EKS"]


def test_aws_cli_is_looked_for_where_commands_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert dependencies.aws_cli() is None
    (tmp_path / "aws").write_text("#!/bin/sh\necho aws-cli/2.31.2 Python/3.13.7\n")
    (tmp_path / "aws").chmod(0o755)
    assert dependencies.aws_cli() == "aws-cli/2.31.2 Python/3.13.7"
