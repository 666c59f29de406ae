"""Every AWS type that the double models, by token."""

from collections.abc import Mapping

from pulumi_embedded.providers.aws.catalogue import compute, eks, identity, network, operations, storage
from pulumi_embedded.providers.aws.kind import Kind

CATALOGUE: Mapping[str, Kind] = {
    kind.type: kind
    for kind in sorted(
        (*network.KINDS, *compute.KINDS, *identity.KINDS, *eks.KINDS, *storage.KINDS, *operations.KINDS), key=lambda kind: kind.type
    )
}
