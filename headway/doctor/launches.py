"""Whether the account has ever launched an instance. Pure.

AWS refuses the launches of an account that it has not verified yet by errors that name quotas which Service Quotas does not show: node groups
end with "You've reached your quota for maximum Fleet Requests for this account" (terraform-aws-modules/terraform-aws-eks#2149,
eksctl-io/eksctl#7299), or EC2 says that the account is blocked (coiled/feedback#225). A dry run judges rights only.
"""

from headway.capacity.described import Described
from headway.doctor.check import DoctorResult, Unanswered, judged, unknown, wrong
from headway.problem import Problem, ProblemLevel

LAUNCHES = "launches"


def judge_launches(layer: Described, launched: bool | Unanswered) -> DoctorResult:
    """`launched`: whether an instance runs in the region, or was started within the last 90 days."""
    if isinstance(launched, Unanswered):
        return unknown(LAUNCHES, launched)
    if launched:
        return judged(LAUNCHES, "The account launches instances.")
    return wrong(
        Problem(
            rule=LAUNCHES,
            fact=f"The account launched no instance in {layer.region} within 90 days, perhaps never",
            consequence="AWS refuses launches of an account that it has not verified, whatever the quotas: node groups would end as CREATE_FAILED, "
            "after the control plane is made and paid for",
            remedy=f"Start one {layer.system_pool.instance_types[0]} and end it; if EC2 refuses it, ask AWS Support to verify the account",
            level=ProblemLevel.WARNING,
        )
    )
