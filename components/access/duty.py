"""Whose duty a role is, and the names that its permissions are limited to. Pure.

A duty is deploying a layer, deploying a tenant, driving its releases, or looking at it. Names end where a tenant's name
ends: a pattern `headway-prod-vision-*` would also mean the tenant `vision-x`.
"""

from dataclasses import dataclass
from enum import StrEnum

from components.identity import Binding
from components.naming import POLICY_NAME_LIMIT, ROLE_LIMIT, batch_queue_name, bucket_arn, bucket_name, cluster_arn, cluster_name, physical
from components.tenant.manifests import SERVICE_ACCOUNT
from headway.wire import PREFIX, handover_path, witness_path

MANAGED = "arn:aws:iam::aws:policy/"
ENVIRONMENT_TAG = f"{PREFIX}/environment"
"""The tag by which EC2's objects and keys, whose names AWS makes up, are known to be the environment's."""
LAYER_TAG = f"{PREFIX}/layer"
"""Which layer of the environment they are of."""
WORKLOADS, PEOPLE = "workloads", "people"
"""Names of the two boundaries: of the roles that deployers make, and of the deployers themselves."""
EKS_ROLE = "control-plane-eks-eksRole-role"
"""How the control plane's role begins, which `pulumi_eks` names."""


class Role(StrEnum):
    """What a person or a pipeline is to a layer or a tenant."""

    DEPLOYER = "deployer"
    RUNNER = "runner"
    VIEWER = "viewer"


@dataclass(frozen=True, kw_only=True)
class Duty:
    """One role in one environment; `layer` is `cluster` or `platform`, or the name of a tenant."""

    environment: str
    account_id: str
    region: str
    state_bucket: str
    layer: str
    role: Role = Role.DEPLOYER
    binding: Binding = Binding.POD_IDENTITY
    """How the environment's workloads get their roles."""
    disposable: bool = False
    """Whether a destroy of the environment also empties its buckets."""

    @property
    def kind(self) -> str:
        return self.layer if self.layer in ("cluster", "platform") else "tenant"

    @property
    def cluster(self) -> str:
        return cluster_name(self.environment)

    @property
    def title(self) -> str:
        """Tells it from the environment's other duties."""
        return physical(self.layer, self.role, limit=ROLE_LIMIT)

    @property
    def name(self) -> str:
        """The IAM role's name: unique within the account, whatever its path (IAM API reference, CreateRole)."""
        return physical(self.cluster, self.layer, self.role, limit=ROLE_LIMIT)

    @property
    def path(self) -> str:
        """The IAM path of roles and policies of people: no pattern of a deployer's role names reaches it."""
        return f"/{self.cluster}/access/"

    @property
    def role_arn(self) -> str:
        return f"arn:aws:iam::{self.account_id}:role{self.path}{self.name}"

    @property
    def state_key_alias(self) -> str:
        return f"alias/{self.cluster}-state-{self.layer}"

    def policy_name(self, title: str) -> str:
        """Unique within the account, as a role's is."""
        return physical(self.cluster, title, limit=POLICY_NAME_LIMIT)

    def policy_arn(self, title: str) -> str:
        return f"arn:aws:iam::{self.account_id}:policy{self.path}{self.policy_name(title)}"

    def arn(self, service: str, rest: str) -> str:
        return f"arn:aws:{service}:{self.region}:{self.account_id}:{rest}"

    @property
    def eks(self) -> list[str]:
        """The cluster and what is in it."""
        inside = ("access-entry", "addon", "nodegroup", "podidentityassociation")
        return [
            cluster_arn(self.environment, self.account_id, self.region),
            *(self.arn("eks", f"{one}/{self.cluster}/*") for one in inside),
        ]

    @property
    def roles(self) -> list[str]:
        """The roles of workloads that the layer makes; none of people."""
        found = f"arn:aws:iam::{self.account_id}:role/"
        if self.kind == "tenant":
            return [f"{found}{physical(self.cluster, self.layer, SERVICE_ACCOUNT, limit=ROLE_LIMIT)}"]
        own = [f"{found}{self.cluster}-*"]
        return [f"{found}{EKS_ROLE}-*", *own] if self.kind == "cluster" else own

    @property
    def queues(self) -> list[str]:
        name = batch_queue_name(self.environment)
        return [self.arn("sqs", f"{name}-{self.layer}_*" if self.kind == "tenant" else f"{name}*")]

    def bucket(self, role: str) -> str:
        return bucket_arn(bucket_name(self.environment, role, self.account_id))

    @property
    def handover(self) -> str:
        """The path that every duty reads; a layer writes its own parameter below it."""
        return self.arn("ssm", f"parameter{handover_path(self.environment)}")

    @property
    def witness(self) -> str:
        """The path below which each tenant's runners keep what they know of its chains."""
        return self.arn("ssm", f"parameter{witness_path(self.environment)}")
