"""What one layer takes from another: what `components/handover.py` published, of a layer that may not be deployed yet.

A missing layer must not end a preview, or no one could preview a whole new environment; and it must end an update,
or the layer would be built on nothing. Asking for a path answers with what there is, and fails for nothing missing
(hashicorp/terraform-provider-aws, internal/service/ssm/parameters_by_path_data_source.go).
"""

import json
from collections.abc import Mapping
from typing import Any

import pulumi
import pulumi_aws as aws
from pulumi.output import UNKNOWN
from pulumi.runtime import is_dry_run

from components.identity import Binding, ClusterIdentity
from components.naming import cluster_name
from headway.wire import handover_path
from stacks.access import boundary
from stacks.settings import PlatformSettings, TenantSettings


class Upstream:
    """What `<environment>-<layer>` handed over."""

    def __init__(self, environment: str, layer: str, provider: aws.Provider) -> None:
        self.stack = f"{environment}-{layer}"
        path = handover_path(environment)
        found = aws.ssm.get_parameters_by_path(path=path, opts=pulumi.InvokeOptions(provider=provider))
        published = dict(zip(found.names, found.values, strict=True))
        self._given: Mapping[str, Any] = json.loads(published.get(f"{path}/{layer}", "{}"))
        self._warned = False

    def require(self, name: str) -> pulumi.Output[Any]:
        """What was handed over as `name`. Where it is missing: unknown in a preview, pulumi.RunError in an update."""
        found = self._given.get(name)
        return pulumi.Output.from_input(found) if found is not None else self._missing(name)

    def _missing(self, name: str) -> pulumi.Output[Any]:
        if not is_dry_run():
            raise pulumi.RunError(
                f"Stack {self.stack} has not handed over {name!r}.\n"
                f"  This layer is built on it, so nothing of it can be created.\n"
                f"  Remedy: deploy it first with `pulumi up -s {self.stack}`."
            )
        if not self._warned:
            self._warned = True
            pulumi.warn(f"{self.stack} is not deployed yet: what comes from it is unknown in this preview")
        return pulumi.Output.from_input(UNKNOWN)


def cluster_identity(settings: PlatformSettings | TenantSettings, upstream: Upstream) -> ClusterIdentity:
    """What the identities of a layer above the cluster's need to know of it."""
    irsa = settings.workload_identity is Binding.IRSA
    return ClusterIdentity(
        name=cluster_name(settings.environment),
        account_id=settings.account.id,
        region=settings.account.region,
        binding=settings.workload_identity,
        oidc_issuer=upstream.require("oidc_issuer") if irsa else None,
        oidc_provider_arn=upstream.require("oidc_provider_arn") if irsa else None,
        boundary=boundary(settings.environment, settings.account, settings.access),
    )
