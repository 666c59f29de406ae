"""Every AWS type that the double models, by token."""

from collections.abc import Mapping

from pulumi_embedded.providers.aws.catalogue import compute, eks, identity, network, operations, security_groups, storage
from pulumi_embedded.providers.aws.kind import AwsKind

CATALOGUE: Mapping[str, AwsKind] = {
    kind.type: kind
    for kind in sorted(
        (*network.KINDS, *security_groups.KINDS, *compute.KINDS, *identity.KINDS, *eks.KINDS, *storage.KINDS, *operations.KINDS),
        key=lambda kind: kind.type,
    )
}
