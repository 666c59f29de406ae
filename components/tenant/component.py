"""The Tenant component: registers what `manifests` builds, and the tenant's AWS side: its identity and its alarms."""

from collections.abc import Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from components.identity import ClusterIdentity, WorkloadIdentity, WorkloadIdentityArgs
from components.manifests import register
from components.permissions import Statement
from components.tenant.manifests import SERVICE_ACCOUNT, TenantPlan, artifact_prefix
from components.tenant.queue_alarms import alarms, topic_name
from components.tenant.queues import rights
from headway.contract.model import Model


@dataclass(frozen=True, kw_only=True)
class TenantNamespaceArgs:
    """`plan` shapes the tenant; the ARN of the key that artifacts are encrypted with only flows."""

    plan: TenantPlan
    cluster: ClusterIdentity
    data_key_arn: pulumi.Input[str]


class TenantNamespace(pulumi.ComponentResource):
    """Creates a tenant's namespace with its quotas, network isolation, AWS identity, access of people and alarms."""

    namespace: pulumi.Resource
    role_arn: pulumi.Output[str]
    objects: dict[str, pulumi.Resource]
    """Every Kubernetes object by role."""

    def __init__(self, name: str, args: TenantNamespaceArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("headway:tenant:Tenant", name, {}, opts)
        self._name, self._args = name, args
        self._identity = identity = self._create_identity()
        self.objects = self._create_objects(identity)
        self._create_alarms()
        self.namespace, self.role_arn = self.objects["namespace"], identity.role_arn
        self.register_outputs({"role_arn": self.role_arn})

    @property
    def foundation(self) -> list[pulumi.Resource]:
        """What a model service needs before its first pod: the namespace with its identity, in Kubernetes and in AWS,
        quotas, admission and priority classes.
        """
        needed = ("admission-binding", "identity", "limits", "namespace", "priority-", "quota")
        return [self._identity, *(resource for role, resource in sorted(self.objects.items()) if role.startswith(needed))]

    def _create_identity(self) -> WorkloadIdentity:
        tenant = self._args.plan.tenant.name
        key = Statement(sid="DecryptArtifacts", actions=["kms:Decrypt"], resources=[self._args.data_key_arn])
        policies: dict[str, Sequence[Statement]] = {"data-key": (key,)}
        if self._args.plan.running:
            policies["artifacts"] = (reads_artifacts(tenant, self._args.plan.running, self._args.plan.surroundings.artifact_bucket),)
        feeds = tuple(
            Statement(sid=sid, actions=actions, resources=resources)
            for sid, actions, resources in rights(tenant, self._args.plan.models, self._args.plan.surroundings)
        )
        if feeds:
            encrypts = Statement(sid="EncryptAnswers", actions=["kms:GenerateDataKey"], resources=[self._args.data_key_arn])
            policies |= {"batch": feeds, "data-key": (key, encrypts)}
        return WorkloadIdentity(
            f"{self._name}-models",
            WorkloadIdentityArgs(cluster=self._args.cluster, namespace=tenant, service_account=SERVICE_ACCOUNT, policies=policies),
            pulumi.ResourceOptions(parent=self),
        )

    def _create_objects(self, identity: WorkloadIdentity) -> dict[str, pulumi.Resource]:
        def options(needed: list[pulumi.Resource]) -> pulumi.ResourceOptions:
            return pulumi.ResourceOptions(parent=self, depends_on=needed)

        return register(self._name, self._args.plan.manifests(identity.annotations), options)

    def _create_alarms(self) -> None:
        """Of batch queues, to the owner's address; nothing for a tenant without any."""
        plan, child = self._args.plan, pulumi.ResourceOptions(parent=self)
        found = alarms(plan.tenant.name, plan.models, plan.surroundings)
        if not found:
            return
        name = topic_name(plan.tenant.name, plan.surroundings)
        topic = aws.sns.Topic(f"{self._name}-alarms", name=name, kms_master_key_id=self._args.data_key_arn, opts=child)
        aws.sns.TopicSubscription(f"{self._name}-alarms-owner", topic=topic.arn, protocol="email", endpoint=plan.tenant.owner, opts=child)
        for role, arguments in found:
            told = [topic.arn]
            aws.cloudwatch.MetricAlarm(f"{self._name}-{role}", alarm_actions=told, ok_actions=told, opts=child, **arguments)


def reads_artifacts(tenant: str, models: Sequence[Model], bucket: str) -> Statement:
    """Objects below the tenant's own prefixes, and no listing: the contract names every file."""
    prefixes = sorted({artifact_prefix(tenant, model.artifact.located(bucket)) for model in models})
    return Statement(sid="ReadArtifacts", actions=["s3:GetObject"], resources=[f"arn:aws:s3:::{prefix}*" for prefix in prefixes])
