"""The providers by which layers make their resources: bound to one account, and to one cluster."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

import pulumi_aws as aws
import pulumi_kubernetes as kubernetes

from components.naming import cluster_arn
from headway.wire import KUBECONFIG_OUTPUT
from stacks.sections import AccountSettings

if TYPE_CHECKING:
    from stacks.upstream import Upstream


def aws_provider(account: AccountSettings, tags: Mapping[str, str]) -> aws.Provider:
    """AWS with the credentials of whoever deploys, which must be the account's own; `tags` come to be on everything."""
    return aws.Provider(
        "aws", region=account.region, allowed_account_ids=[account.id], default_tags=aws.ProviderDefaultTagsArgs(tags=dict(tags))
    )


def kubernetes_provider(environment: str, account: AccountSettings, upstream: "Upstream") -> kubernetes.Provider:
    """The cluster, with a token that AWS CLI signs with the identity that deploys: a tenant's own, not the cluster's."""
    return kubernetes.Provider(
        "kubernetes",
        kubeconfig=upstream.require(KUBECONFIG_OUTPUT).apply(json.dumps),
        # Another kubeconfig, or one that is not known yet, would plan to replace every object (pulumi-kubernetes,
        # provider/pkg/provider/provider.go, DiffConfig).
        cluster_identifier=cluster_arn(environment, account.id, account.region),
        enable_server_side_apply=True,
        delete_unreachable=False,
    )
