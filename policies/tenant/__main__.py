"""The pack of the tenant layer."""

from policies.guardrails.crossguard import serve
from policies.guardrails.registry import PACKS

serve("headway-tenant", PACKS["tenant"])
