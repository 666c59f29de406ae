"""The pack of the platform layer."""

from policies.guardrails.crossguard import serve
from policies.guardrails.registry import PACKS

serve("headway-platform", PACKS["platform"])
