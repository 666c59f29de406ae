"""The roles of people and pipelines in AWS, with their policies, boundaries and trust, and a key for each layer's state."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pulumi
import pulumi_aws as aws

from components.access.boundaries import people_boundary, workloads_boundary
from components.access.duty import PEOPLE, WORKLOADS, Duty, Role
from components.access.permissions import documents
from components.access.trust import people_trust
from components.keys import account_decides, state_users
from components.permissions import Statement, document

_AN_HOUR, TWELVE_HOURS = 3_600, 43_200
"""Seconds. An update of nodes, zone by zone, takes hours, and a release too; once its session has ended, Pulumi cannot write its state
(pulumi/pulumi#19452). IAM gives an hour to who says nothing, and twelve at most (API reference, CreateRole, MaxSessionDuration);
who comes by way of another role has an hour whatever this says (IAM user guide, "Methods to assume a role", role chaining).
"""


@dataclass(frozen=True, kw_only=True)
class Entrants:
    """Who may assume one role: subjects of the CI's tokens, and ARNs of IAM principals."""

    subjects: Sequence[str] = ()
    principals: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class AccessArgs:
    """`entrants` by duty; `issuer` is the CI's address, None without CI, and `known` where the account has its provider."""

    entrants: Mapping[Duty, Entrants]
    issuer: str | None
    known: bool
    audience: str


class Access(pulumi.ComponentResource):
    """Creates what has to be there before the first layer: only an administrator of the account may change it."""

    def __init__(self, name: str, args: AccessArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("headway:access:Access", name, {}, opts)
        self._name, self._args, self._child = name, args, pulumi.ResourceOptions(parent=self)
        first = next(iter(args.entrants))
        self._policy(first, WORKLOADS, workloads_boundary(first))
        boundary = self._policy(first, PEOPLE, people_boundary(first))
        issuers: list[pulumi.Resource] = []
        if args.issuer and not args.known:
            issuers.append(aws.iam.OpenIdConnectProvider(f"{name}-ci", url=args.issuer, client_id_lists=[args.audience], opts=self._child))
        made: dict[Duty, aws.iam.Role] = {}
        for duty, entrants in sorted(args.entrants.items(), key=lambda item: item[0].title):
            made[duty] = self._role(duty, entrants, boundary, issuers)
        for duty in made:
            if duty.role is Role.DEPLOYER:
                self._state_key(duty, {each: made[each] for each in made if each.layer == duty.layer and each.role is not Role.VIEWER})
        self.register_outputs({})

    def _policy(self, duty: Duty, title: str, statements: Sequence[Statement]) -> aws.iam.Policy:
        text = document(*statements).apply(lambda found: json.dumps(json.loads(found), separators=(",", ":")))
        name = duty.policy_name(title)
        return aws.iam.Policy(f"{self._name}-{title}", name=name, path=duty.path, policy=text, opts=self._child)

    def _role(self, duty: Duty, entrants: Entrants, boundary: aws.iam.Policy, issuers: Sequence[pulumi.Resource]) -> aws.iam.Role:
        args = self._args
        trust = people_trust(duty.account_id, args.issuer, args.audience, entrants.subjects, entrants.principals)
        role = aws.iam.Role(
            f"{self._name}-{duty.title}",
            name=duty.name,
            path=duty.path,
            description=f"{duty.role.capitalize()} of {duty.layer} in {duty.environment}",
            assume_role_policy=json.dumps(trust, separators=(",", ":")),
            permissions_boundary=boundary.arn,
            max_session_duration=_AN_HOUR if duty.role is Role.VIEWER else TWELVE_HOURS,
            opts=pulumi.ResourceOptions(parent=self, depends_on=list(issuers)),
        )
        for title, statements in documents(duty).items():
            policy = self._policy(duty, f"{duty.title}-{title}", statements)
            aws.iam.RolePolicyAttachment(f"{self._name}-{duty.title}-{title}", role=role.name, policy_arn=policy.arn, opts=self._child)
        return role

    def _state_key(self, duty: Duty, users: Mapping[Duty, aws.iam.Role]) -> None:
        """One for each state, or who deploys one tenant could read the secrets in another's. KMS refuses a policy that names who is not
        there yet (API reference, CreateKey, Policy), so roles come first.
        """
        name = f"{self._name}-state-{duty.layer}"
        key = aws.kms.Key(
            name,
            description=f"Secrets in the state of {duty.environment}-{duty.layer}",
            enable_key_rotation=True,
            policy=document(account_decides(duty.account_id), *state_users([each.role_arn for each in users])),
            opts=pulumi.ResourceOptions(parent=self, protect=True, depends_on=list(users.values())),
        )
        aws.kms.Alias(f"{name}-alias", name=duty.state_key_alias, target_key_id=key.key_id, opts=self._child)
