"""NAT gateways: an address is one gateway's, so a second one that is made before the first is gone finds it taken."""

from dataclasses import dataclass

from pulumi_embedded.engine.provider import Properties, ProviderError
from pulumi_embedded.providers.aws.account import SimulatedAccount
from pulumi_embedded.providers.aws.backend import ObjectBackend
from pulumi_embedded.providers.aws.kind import Facts

NAT_GATEWAY = "aws:ec2/natGateway:NatGateway"


@dataclass(frozen=True)
class NatGateways(ObjectBackend):
    """Refused as the gateway itself then fails (pulumi/pulumi-aws#1483)."""

    account: SimulatedAccount

    def before(self, facts: Facts) -> Properties:
        wanted = _addresses(facts.inputs)
        for other in self.account.of(NAT_GATEWAY):
            if other.id != facts.id and (taken := sorted(wanted & _addresses(other.inputs))):
                raise ProviderError(
                    f"Resource.AlreadyAssociated: Elastic IP address [{', '.join(taken)}] is already associated with {other.id}"
                )
        return dict(facts.extra)


def _addresses(inputs: Properties) -> set[str]:
    return {str(id) for id in (inputs.get("allocationId"), *(inputs.get("secondaryAllocationIds") or [])) if id}
