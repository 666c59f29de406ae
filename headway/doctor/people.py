"""Whether whoever tenants' contracts name can act in the cluster: each group needs an IAM principal. Pure."""

from collections.abc import Sequence

from headway.capacity.described import Described
from headway.contract.tenant import Tenant
from headway.doctor.check import DoctorResult, judged
from headway.problem import Problem, ProblemLevel

NAME = "groups"
_ACTS = {
    "deployers": "Nobody can deploy or release the tenant's models but the cluster's administrators",
    "runners": "CI cannot drive the tenant's releases",
    "viewers": "Whoever should see the tenant's pods is refused",
}


def judge_groups(layer: Described, tenants: Sequence[Tenant]) -> DoctorResult:
    """Whether the cluster layer maps each group that a tenant names, to at least one principal."""
    named = [(tenant.name, part, group) for tenant in tenants for part in _ACTS for group in getattr(tenant.people, part)]
    problems = [
        Problem(
            rule=NAME,
            subject=f"tenant {tenant}",
            value=group,
            fact=f"people.{part} of {tenant} names group {group}, and no IAM role or user is in it",
            consequence=_ACTS[part],
            remedy=f"Map it in the cluster's stack file: control_plane.groups: {{{group}: [<ARN of a role>]}}",
            level=ProblemLevel.WARNING,
        )
        for tenant, part, group in named
        if not layer.groups.get(group)
    ]
    return judged(NAME, f"All {len(named)} groups that {len(tenants)} tenants name are mapped.", problems)
