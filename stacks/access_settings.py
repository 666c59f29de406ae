"""The section `headway:access`: who may assume which role of an environment."""

from collections.abc import Iterator, Mapping
from typing import Annotated

from pydantic import Field

from components.access.trust import AUDIENCE
from headway.contract.part import Name, Part
from headway.contract.tenant import TAKEN
from headway.problem import Problem, problem

Principal = Annotated[str, Field(pattern=r"^arn:aws:iam::[0-9]{12}:role/[\w+=,.@/-]+$")]
Subject = Annotated[str, Field(min_length=3, max_length=300)]


class WhoMay(Part):
    """Who may assume one role."""

    subjects: tuple[Subject, ...] = ()
    """`sub` of the CI's tokens, written out: `repo:acme@123/models@456:environment:prod` (without the ids for a GitHub repository from before
    2026-07-15), or GitLab's `project_path:acme/models:ref_type:branch:ref:main`.
    """
    principals: tuple[Principal, ...] = ()
    """ARNs of IAM roles, such as those of your single sign-on."""


class TenantAccess(Part):
    """The roles of one tenant; one that is left out does not exist."""

    deployer: WhoMay | None = None
    runner: WhoMay | None = None
    viewer: WhoMay | None = None


class AccessSettings(Part):
    """Roles of people and pipelines, by layer and by tenant."""

    state_bucket: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")]
    """Where Pulumi keeps state; each layer's lies below `<environment>/<layer>/`."""
    issuer: Annotated[str, Field(pattern=r"^https://[^\s?#]+[^/\s?#]$", max_length=255)] | None
    """Who signs the CI's tokens: `https://token.actions.githubusercontent.com` or your GitLab; None without CI."""
    issuer_known: bool = False
    """Whether the account has a provider of this issuer already, another environment's or your own: IAM takes one of an
    address. It must list `audience`, and is not touched.
    """
    audience: Annotated[str, Field(min_length=1, max_length=255)] = AUDIENCE
    """`aud` of these tokens."""
    cluster: WhoMay
    platform: WhoMay
    tenants: dict[Name, TenantAccess]

    @property
    def layers(self) -> Mapping[str, Mapping[str, WhoMay]]:
        """Roles by layer or tenant."""
        tenants = {
            name: {role: who for role, who in (("deployer", each.deployer), ("runner", each.runner), ("viewer", each.viewer)) if who}
            for name, each in sorted(self.tenants.items())
        }
        return {"cluster": {"deployer": self.cluster}, "platform": {"deployer": self.platform}, **tenants}

    def violations(self) -> Iterator[Problem]:
        for name in sorted(self.tenants.keys() & TAKEN):
            yield problem(
                "tenant-has-a-name-of-its-own",
                "tenants",
                name,
                value=name,
                fact=f"{name} is what the platform calls something of its own",
                consequence="The tenant's roles would take the place of a layer's, or its rights",
                remedy="Name the tenant as its contract does, which may not be called so",
            )
        for layer, roles in self.layers.items():
            for role, who in roles.items():
                path = (layer,) if layer in ("cluster", "platform") else ("tenants", layer, role)
                for number, subject in enumerate(who.subjects):
                    if set(subject) & set("*?"):
                        yield problem(
                            "subject-written-out",
                            *path,
                            "subjects",
                            number,
                            value=subject,
                            fact=f"{subject} is a pattern",
                            consequence="Any branch that it matches, also one of a pull request, could deploy",
                            remedy="Write each branch or environment out, such as repo:acme@123/models@456:environment:prod",
                        )
                if who.subjects and self.issuer is None:
                    yield problem(
                        "subjects-need-an-issuer",
                        *path,
                        "subjects",
                        fact="subjects are named and no issuer of tokens",
                        consequence="No pipeline could assume the role",
                        remedy="Name the issuer of your CI, or principals only",
                    )
                if not who.subjects and not who.principals:
                    yield problem(
                        "role-has-somebody",
                        *path,
                        fact="nobody may assume this role",
                        consequence="IAM refuses a role whose trust names nobody",
                        remedy="Name subjects of your CI or principals, or leave out the role",
                    )
