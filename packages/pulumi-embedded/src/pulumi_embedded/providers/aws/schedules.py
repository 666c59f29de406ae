"""Scheduled actions of Auto Scaling groups, which end by themselves.

AWS refuses one whose time is past, and deletes one that has been carried out (hashicorp/terraform-provider-aws#8646;
pulumi/pulumi-aws#2473 and hashicorp/terraform-provider-aws#3033 have its words).
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

from pulumi_embedded.engine.provider import Properties, ProviderError
from pulumi_embedded.providers.aws.account import AccountObject
from pulumi_embedded.providers.aws.backend import ObjectBackend
from pulumi_embedded.providers.aws.kind import Facts


@dataclass(frozen=True)
class Schedules(ObjectBackend):
    """`aws:autoscaling/schedule:Schedule`."""

    clock: Callable[[], datetime] = lambda: datetime.now(UTC)

    def before(self, facts: Facts) -> Properties:
        if self._past(facts.inputs):
            raise ProviderError(f"ValidationError: startTime: Given start time is in the past ({facts.inputs['startTime']})")
        return dict(facts.extra)

    def live(self, object: AccountObject, inputs: Properties) -> Properties | None:
        return None if not inputs.get("recurrence") and self._past(inputs) else inputs

    def _past(self, inputs: Properties) -> bool:
        try:
            starts = datetime.fromisoformat(str(inputs.get("startTime")))
        except ValueError:
            return False
        return starts.tzinfo is not None and starts <= self.clock()
