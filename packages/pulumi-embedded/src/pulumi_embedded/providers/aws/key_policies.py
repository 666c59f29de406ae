"""Policies of KMS keys: whom they name must be there.

"Policy contains a statement with one or more invalid principals" (hashicorp/terraform-provider-aws, internal/service/kms/key.go: "AWS requires
any principal in the policy to exist before the key is created"). Only roles of the own account are looked for: users are not modelled, and
service-linked roles are made by whoever first uses their service.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pulumi_embedded.engine.provider import Properties, ProviderError
from pulumi_embedded.providers.aws.account import Handle, SimulatedAccount
from pulumi_embedded.providers.aws.backend import ObjectBackend
from pulumi_embedded.providers.aws.kind import Facts


@dataclass(frozen=True)
class KeyPolicies(ObjectBackend):
    """`aws:kms/key:Key` and `aws:kms/keyPolicy:KeyPolicy`."""

    account: SimulatedAccount

    def before(self, facts: Facts) -> Properties:
        own = re.compile(rf"arn:[\w-]+:iam::{facts.account}:role/(?!aws-service-role/).+")
        missing = sorted(
            name
            for name in _named(facts.inputs.get("policy"))
            if own.fullmatch(name) and not self.account.find(Handle("role ARN", name), "")
        )
        if missing:
            raise ProviderError(
                "MalformedPolicyDocumentException: policy: Policy contains a statement with one or more invalid principals: "
                f"{', '.join(missing)} is not in the simulated account; create it first"
            )
        return dict(facts.extra)


def _named(policy: Any) -> Iterator[str]:
    """Every AWS principal of a document, which the type's own rule has read before."""
    found = json.loads(policy)["Statement"] if isinstance(policy, str) else []
    for statement in found if isinstance(found, list) else [found]:
        principal = statement.get("Principal")
        names = principal.get("AWS", ()) if isinstance(principal, dict) else ()
        yield from [names] if isinstance(names, str) else names
