"""Who may assume a role of people: jobs of a CI by their token, and named IAM principals. Pure.

A CI's subject is one branch or one environment of one repository, written out: with a pattern, whoever opens a pull
request there would deploy. Sources: GitHub Docs, "OpenID Connect reference"; GitLab Docs, "Configure OpenID Connect in
AWS"; IAM user guide, "Available keys for AWS OIDC federation".
"""

from collections.abc import Sequence
from typing import Any

from components.permissions import VERSION

AUDIENCE = "sts.amazonaws.com"


def people_trust(account_id: str, issuer: str | None, audience: str, subjects: Sequence[str], principals: Sequence[str]) -> dict[str, Any]:
    """The trust document. `issuer` is the CI's address with its scheme. Raises ValueError for a subject that is a pattern."""
    patterns = [subject for subject in subjects if set(subject) & set("*?")]
    if patterns:
        raise ValueError(f"{', '.join(patterns)} would let in more than one branch or environment: write each out")
    statements: list[dict[str, Any]] = []
    if issuer and subjects:
        host = issuer.removeprefix("https://")
        statements.append(
            {
                "Sid": "Pipelines",
                "Effect": "Allow",
                "Principal": {"Federated": f"arn:aws:iam::{account_id}:oidc-provider/{host}"},
                "Action": "sts:AssumeRoleWithWebIdentity",
                "Condition": {"StringEquals": {f"{host}:aud": audience, f"{host}:sub": sorted(subjects)}},
            }
        )
    if principals:
        statements.append({"Sid": "People", "Effect": "Allow", "Principal": {"AWS": sorted(principals)}, "Action": "sts:AssumeRole"})
    return {"Version": VERSION, "Statement": statements}
