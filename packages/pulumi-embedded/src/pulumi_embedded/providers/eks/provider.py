"""The double of the pulumi eks provider: one remote component, `eks:index:Cluster`, whose kubeconfig leads to the host's cluster."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from pulumi_embedded.engine.provider import (
    UNKNOWN,
    CheckResult,
    ComponentChild,
    ComponentContext,
    DiffResult,
    LiveResource,
    Properties,
    Provider,
    ProviderError,
    ProviderStep,
)
from pulumi_embedded.engine.values import plain, secret
from pulumi_embedded.providers.conform import closest
from pulumi_embedded.providers.control_plane import EksControlPlane
from pulumi_embedded.providers.eks import component
from pulumi_embedded.providers.eks.dependencies import aws_cli, refusal
from pulumi_embedded.providers.schema import declares

VERSION = "4.4.0"
GET_KUBECONFIG = "eks:index:Cluster/getKubeconfig"
_ROLE = "aws:iam/role:Role"
_ATTACHMENT = "aws:iam/rolePolicyAttachment:RolePolicyAttachment"
_CLUSTER = "aws:eks/cluster:Cluster"
_ADDON = "aws:eks/addon:Addon"
_ENTRY = "aws:eks/accessEntry:AccessEntry"
_ASSOCIATION = "aws:eks/accessPolicyAssociation:AccessPolicyAssociation"
_GROUP = "aws:ec2/securityGroup:SecurityGroup"
_RULE = "aws:ec2/securityGroupRule:SecurityGroupRule"
_OIDC = "aws:iam/openIdConnectProvider:OpenIdConnectProvider"


class EksProvider(Provider):
    """Components only: every resource it makes belongs to another provider.

    `printed` says what AWS CLI of this machine prints as its version. Without one that pulumi-eks takes, a cluster is
    refused; a host whose kubeconfig runs no `aws eks get-token` may say that it `needs_aws_cli` not, and is warned.
    """

    package = "eks"
    version = VERSION

    def __init__(self, plane: EksControlPlane, *, needs_aws_cli: bool = True, printed: Callable[[], str | None] = aws_cli) -> None:
        self._plane = plane
        self._needs_aws_cli = needs_aws_cli
        self._printed = printed

    def construct(self, type: str, name: str, inputs: Properties, context: ComponentContext) -> tuple[str, Properties]:
        if type != component.CLUSTER:
            raise ProviderError(_unmodelled(type))
        lacking = refusal(self._printed())
        if lacking and self._needs_aws_cli:
            raise ProviderError(lacking)
        given = plain(inputs)
        component.refuse(given)
        urn = context.component(type, name, inputs)
        if lacking:
            context.warn(urn, f"pulumi-eks would refuse this cluster here: {lacking.partition('. See')[0]}")
        return urn, _Construction(self._plane, context, name, given, urn).run()

    def call(self, token: str, args: Properties, context: ComponentContext) -> Properties:
        if token != GET_KUBECONFIG:
            raise ProviderError(f"method {token} is not modelled by the embedded eks provider; it answers {GET_KUBECONFIG}")
        # A profile or role would choose credentials of AWS; the host's cluster knows its administrator's certificate alone.
        outputs = context.outputs_of(str(plain(args)["__self__"]["urn"]))
        return {"result": outputs.get("kubeconfigJson", UNKNOWN)}

    # -- It has no resources of its own; the engine reaches these only for a type that it should not have sent here.

    def check(self, urn: str, type: str, name: str, old: Properties | None, new: Properties) -> CheckResult:
        raise ProviderError(_unmodelled(type))

    def diff(
        self, urn: str, type: str, id: str, old_inputs: Properties, old_outputs: Properties, new: Properties, ignore_changes: Sequence[str]
    ) -> DiffResult:
        raise ProviderError(_unmodelled(type))

    def create(self, urn: str, type: str, name: str, inputs: Properties, step: ProviderStep) -> tuple[str, Properties]:
        raise ProviderError(_unmodelled(type))

    def read(self, urn: str, type: str, id: str, inputs: Properties, outputs: Properties) -> LiveResource | None:
        raise ProviderError(_unmodelled(type))

    def update(
        self, urn: str, type: str, id: str, old_inputs: Properties, old_outputs: Properties, new: Properties, step: ProviderStep
    ) -> Properties:
        raise ProviderError(_unmodelled(type))

    def delete(self, urn: str, type: str, id: str, inputs: Properties, outputs: Properties, step: ProviderStep) -> None:
        raise ProviderError(_unmodelled(type))


class _Construction:
    """The children of one component, in the order in which each needs the one before.

    The engine sees no properties flow between them, so each names what it needs: that is also the order of their deletion.
    """

    def __init__(self, plane: EksControlPlane, context: ComponentContext, name: str, inputs: Properties, urn: str) -> None:
        self._plane = plane
        self._context = context
        self._name = name
        self._inputs = inputs
        self._urn = urn

    def run(self) -> Properties:
        context, inputs = self._context, self._inputs
        role_arn, needed = self._role()
        group = (
            None if inputs.get("skipDefaultSecurityGroups") is True else self._child(_GROUP, *component.cluster_group(self._name, inputs))
        )
        groups = [_known(group.id)] if group else self._given_group()
        needed += [group.urn] if group else []
        described = component.cluster(self._name, inputs, role_arn, groups)
        cluster = self._child(_CLUSTER, *described, after=needed, ignore=component.DECIDED_AT_CREATION)
        name = _output(cluster, "name")
        for addon, wanted in component.addons(self._name, inputs, name):
            self._child(_ADDON, addon, wanted, after=[cluster.urn])
        for entry, wanted, policies in component.access_entries(self._name, inputs, name):
            made = self._child(_ENTRY, entry, wanted, after=[cluster.urn])
            for association, policy in policies:
                self._child(_ASSOCIATION, association, policy, after=[made.urn])
        outputs = self._identity(cluster) | self._node_group(group, name) | self._access(cluster)
        outputs |= {"eksCluster": context.reference(cluster), "awsProvider": context.provider_reference("aws")}
        own = cluster.outputs.get("vpcConfig")
        outputs["clusterSecurityGroupId"] = (
            _known(group.id) if group else own.get("clusterSecurityGroupId", UNKNOWN) if isinstance(own, dict) else UNKNOWN
        )
        context.outputs(self._urn, outputs)
        return outputs

    def _child(self, type: str, name: str, inputs: Properties, after: Sequence[str] = (), ignore: Sequence[str] = ()) -> ComponentChild:
        return self._context.resource(type, name, inputs, parent=self._urn, depends_on=after, ignore_changes=ignore)

    def _role(self) -> tuple[str, list[str]]:
        given = self._inputs.get("serviceRole")
        if isinstance(given, dict):
            return str(self._context.outputs_of(given["urn"]).get("arn", UNKNOWN)), []
        role = self._child(_ROLE, *component.role(self._name, self._inputs))
        attachment = self._child(_ATTACHMENT, *component.role_attachment(self._name, _output(role, "name")), after=[role.urn])
        return _output(role, "arn"), [role.urn, attachment.urn]

    def _given_group(self) -> list[str]:
        given = self._inputs.get("clusterSecurityGroup")
        return [str(given.get("id") or UNKNOWN)] if isinstance(given, dict) else []

    def _node_group(self, clusters: ComponentChild | None, cluster_name: str) -> Properties:
        if clusters is None:
            return {}
        nodes = self._child(_GROUP, *component.node_group(self._name, self._inputs, cluster_name))
        rules = {
            rule: self._child(_RULE, rule, wanted, after=[clusters.urn, nodes.urn])
            for rule, wanted in component.group_rules(self._name, _known(clusters.id), _known(nodes.id))
        }
        ingress = rules[f"{self._name}-eksClusterIngressRule"]
        return {
            "nodeSecurityGroup": self._context.reference(nodes),
            "nodeSecurityGroupId": _known(nodes.id),
            "eksClusterIngressRule": self._context.reference(ingress),
            "clusterIngressRuleId": _known(ingress.id),
        }

    def _identity(self, cluster: ComponentChild) -> Properties:
        identities = cluster.outputs.get("identities", UNKNOWN)
        issuer = UNKNOWN if identities == UNKNOWN else str(identities[0]["oidcs"][0]["issuer"])
        outputs: Properties = {"oidcIssuer": issuer if issuer == UNKNOWN else issuer.removeprefix("https://"), "oidcProviderUrl": issuer}
        if self._inputs.get("createOidcProvider") is True:
            provider = self._child(_OIDC, *component.oidc_provider(self._name, issuer), after=[cluster.urn])
            outputs["oidcProviderArn"] = _output(provider, "arn")
        return outputs

    def _access(self, cluster: ComponentChild) -> Properties:
        if cluster.outputs.get("endpoint", UNKNOWN) == UNKNOWN:
            return {"kubeconfig": secret(UNKNOWN), "kubeconfigJson": secret(UNKNOWN)}
        try:
            kubeconfig: Any = self._plane.address().kubeconfig
        except ProviderError:
            if not self._context.preview:
                raise
            kubeconfig = UNKNOWN
        text = UNKNOWN if kubeconfig == UNKNOWN else json.dumps(kubeconfig, sort_keys=True)
        return {"kubeconfig": secret(kubeconfig), "kubeconfigJson": secret(text)}


def _output(child: ComponentChild, key: str) -> str:
    value = plain(child.outputs.get(key, UNKNOWN))
    return UNKNOWN if value is None else str(value)


def _known(id: str) -> str:
    return id or UNKNOWN


def _unmodelled(type: str) -> str:
    if not declares(type):
        return f"{type} is no component of pulumi_eks {VERSION}{closest(type, [component.CLUSTER])}"
    return f"{type} is not modelled by the embedded eks provider, which knows {component.CLUSTER}; use the resources of aws.eks themselves"
