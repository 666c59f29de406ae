"""The access layer, the first of an environment: roles, boundaries, trust. An administrator of the account applies it.

`duties` is the one list of an environment's roles: the cluster layer makes its access entries of it, and
`python -m stacks.access ENVIRONMENT` prints what each may do as JSON, for `headway access`.
"""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pulumi

from components.access.boundaries import people_boundary, workloads_boundary
from components.access.component import Access, AccessArgs, Entrants
from components.access.duty import PEOPLE, WORKLOADS, Duty, Role
from components.access.permissions import documents
from components.access.trust import by_name_alone, people_trust
from components.identity import Binding
from components.labels import tags
from components.permissions import VERSION, Statement, finds
from headway.contract.reading.loader import load_tenant
from headway.contract.tenant import People
from headway.problem import Problem
from stacks.access_settings import AccessSettings
from stacks.providers import aws_provider
from stacks.sections import AccountSettings
from stacks.settings import ACCESS, FOLDER, AccessLayerSettings
from stacks.settings_error import SettingsError

CONTRACTS = Path(__file__).parents[1] / "tenants"


def build(settings: AccessLayerSettings) -> None:
    """Register the layer."""
    account = settings.account
    provider = aws_provider(account, tags(settings.environment, ACCESS))
    found = duties(settings.environment, account, settings.access, settings.workload_identity, disposable=settings.storage.disposable)
    access = settings.access
    if named := by_name_alone(access.issuer, (subject for entrants in found.values() for subject in entrants.subjects)):
        pulumi.warn(
            f"{len(named)} subjects know their repository by its name alone: {', '.join(named)}. GitHub's tokens hold its ids too where it was "
            "made, renamed or transferred since 2026-07-15, and AWS refuses their jobs. Write these as repo:OWNER@ID/NAME@ID:..., as the "
            "repository's OIDC settings show; an older repository can opt in there."
        )
    args = AccessArgs(entrants=found, issuer=access.issuer, known=access.issuer_known, audience=access.audience)
    Access("access", args, pulumi.ResourceOptions(provider=provider))
    pulumi.export("roles", {f"{duty.layer}/{duty.role}": duty.role_arn for duty in found})


def duties(
    environment: str,
    account: AccountSettings,
    access: AccessSettings,
    binding: Binding = Binding.POD_IDENTITY,
    *,
    disposable: bool = False,
) -> Mapping[Duty, Entrants]:
    """Every role of the environment's people and pipelines, and who may assume it; roles that nobody may, are left out."""
    return {
        Duty(
            environment=environment,
            account_id=account.id,
            region=account.region,
            state_bucket=access.state_bucket,
            layer=layer,
            role=role,
            binding=binding,
            disposable=disposable,
        ): Entrants(subjects=who.subjects, principals=who.principals)
        for layer, roles in access.layers.items()
        for role, who in ((Role(name), who) for name, who in roles.items())
    }


def groups(environment: str, account: AccountSettings, access: AccessSettings, contracts: Path = CONTRACTS) -> Iterator[tuple[str, str]]:
    """(Kubernetes group, ARN of who is in it), by the contracts of the tenants. Raises SettingsError where two tenants
    name one group: a contract would give its tenant's roles what the other's may do."""
    entered = dict[str, set[str]]()
    for duty in duties(environment, account, access):
        people = _people(contracts / duty.layer) if duty.kind == "tenant" else None
        if people:
            of_role: Mapping[Role, Sequence[str]] = {
                Role.DEPLOYER: people.deployers,
                Role.RUNNER: people.runners,
                Role.VIEWER: people.viewers,
            }
            for group in of_role[duty.role]:
                entered.setdefault(group, set()).add(duty.layer)
                yield group, duty.role_arn
    shared = [
        Problem(
            rule="group-of-one-tenant",
            path=("people",),
            value=group,
            subject=", ".join(sorted(tenants)),
            fact=f"the contracts of {' and '.join(sorted(tenants))} name the group {group}",
            consequence="The generated roles of each tenant would enter it, and do in the other's namespace what it may do there",
            remedy="Name the groups of each tenant after it",
        )
        for group, tenants in sorted(entered.items())
        if len(tenants) > 1
    ]
    if shared:
        raise SettingsError(f"headway:access of {environment}", shared)


def administrators(environment: str, account: AccountSettings, access: AccessSettings) -> list[str]:
    """Who administers the cluster by its duty: the platform's deployer."""
    return [duty.role_arn for duty in duties(environment, account, access) if duty.layer == "platform"]


def cluster_deployer(environment: str, account: AccountSettings, access: AccessSettings | None) -> str | None:
    """The role that makes the environment's keys; None where the environment generates no access."""
    found = () if access is None else duties(environment, account, access)
    return next((duty.role_arn for duty in found if duty.layer == "cluster"), None)


def everybody(environment: str, account: AccountSettings, access: AccessSettings | None) -> list[str]:
    """A pattern of the ARNs of all these roles: one, for an endpoint's policy has no room for every tenant's."""
    if access is None:
        return []
    first = next(iter(duties(environment, account, access)))
    return [f"arn:aws:iam::{first.account_id}:role{first.path}*"]


def boundary(environment: str, account: AccountSettings, access: AccessSettings | None) -> str | None:
    """The boundary that roles of workloads bear; None where the environment generates no access."""
    if access is None:
        return None
    duty = Duty(environment=environment, account_id=account.id, region=account.region, state_bucket=access.state_bucket, layer="cluster")
    return duty.policy_arn(WORKLOADS)


def _people(folder: Path) -> People | None:
    found = [tenant for contracts in load_tenant(folder).contracts for tenant in [contracts.tenant]]
    return found[0].people if found else None


def _written(statements: Sequence[Statement]) -> dict[str, object]:
    return {"Version": VERSION, "Statement": [statement.wire() for statement in statements]}


def _main(environment: str, folder: Path) -> None:
    from stacks.settings import NAMESPACE, config_of, load

    given = {key: json.dumps(value) for key, value in config_of(folder, environment, ACCESS).items() if key.startswith(NAMESPACE)}
    settings = load(f"{environment}-{ACCESS}", given, folder)
    assert isinstance(settings, AccessLayerSettings)  # noqa: S101  by the stack's name
    access = settings.access
    found = duties(environment, settings.account, access, settings.workload_identity, disposable=settings.storage.disposable)
    first = next(iter(found))
    roles = [
        {
            "layer": duty.layer,
            "role": duty.role,
            "arn": duty.role_arn,
            "backend": f"s3://{access.state_bucket}/{environment}/{duty.layer}",
            "secrets_provider": f"awskms://{duty.state_key_alias}",
            "trust": people_trust(duty.account_id, access.issuer, access.audience, who.subjects, who.principals),
            "policies": {name: _written(statements) for name, statements in documents(duty).items()},
        }
        for duty, who in found.items()
    ]
    limits = {WORKLOADS: _written(workloads_boundary(first)), PEOPLE: _written(people_boundary(first))}
    print(json.dumps({"roles": roles, "boundaries": limits, "bootstrap": _written(bootstrap(first))}))  # noqa: T201


def bootstrap(duty: Duty) -> tuple[Statement, ...]:
    """What whoever applies the access layer for the first time needs: its roles, policies, keys and state, and no more."""
    account = duty.account_id
    own = [f"arn:aws:iam::{account}:{kind}{duty.path}*" for kind in ("policy", "role")]
    issuer = f"arn:aws:iam::{account}:oidc-provider/*"
    bucket, prefix = f"arn:aws:s3:::{duty.state_bucket}", f"{duty.environment}/{ACCESS}/"
    region = {"StringEquals": {"aws:RequestedRegion": duty.region}}
    return (
        Statement(
            sid="People",
            actions=[
                "iam:AddClientIDToOpenIDConnectProvider",
                "iam:AttachRolePolicy",
                "iam:RemoveClientIDFromOpenIDConnectProvider",
                *(f"iam:{verb}*" for verb in ("Create", "Delete", "Detach", "Get", "List", "Put", "Set", "Tag", "Untag", "Update")),
            ],
            resources=[*own, issuer],
            reason="Below the path of the environment's people and its issuers only",
        ),
        Statement(
            sid="StateKeys",
            actions=[
                "kms:DeleteAlias",
                *(f"kms:{verb}*" for verb in ("Create", "Decrypt", "Describe", "Enable", "Encrypt", "Get", "List", "Put", "Schedule")),
                *(f"kms:{verb}*" for verb in ("Tag", "Untag", "Update")),
            ],
            resources=["*"],
            conditions=region,
            reason="Keys have made-up names",
        ),
        Statement(sid="State", actions=["s3:DeleteObject", "s3:GetObject", "s3:PutObject"], resources=[f"{bucket}/{prefix}*"]),
        finds("FindState", bucket, f"{prefix}*"),
    )


if __name__ == "__main__":
    _main(sys.argv[1], FOLDER)
