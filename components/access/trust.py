"""Who may assume a role of people: jobs of a CI by their token, and named IAM principals. Pure.

A CI's subject is one branch or one environment of one repository, written out: with a pattern, whoever opens a pull
request there would deploy. Sources: GitHub Docs, "OpenID Connect reference"; GitLab Docs, "Configure OpenID Connect in
AWS"; IAM user guide, "Available keys for AWS OIDC federation".

The trap: GitHub's subjects know a repository by its ids too, `repo:octocat@123456/my-repo@456789:...`, where it was made, renamed or
transferred since 2026-07-15 or chose so (GitHub Changelog, 2026-04-23, "Immutable subject claims for GitHub Actions OIDC tokens"; github/docs#45221).
"""

import re
from collections.abc import Iterable, Sequence
from typing import Any

from components.permissions import VERSION

AUDIENCE = "sts.amazonaws.com"
GITHUB = "https://token.actions.githubusercontent.com"
"""The issuer of github.com; a server of one's own has another, whose subjects hold no ids."""
_NAME_ALONE = re.compile(r"repo:[^/:@]+/[^/:@]+:")


def by_name_alone(issuer: str | None, subjects: Iterable[str]) -> list[str]:
    """Of subjects at github.com those without ids: no token of a newer repository has them, and whoever takes the name of one that is gone
    gets them.
    """
    return sorted({each for each in subjects if _NAME_ALONE.match(each)}) if issuer == GITHUB else []


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
