"""The pack of the cluster layer."""

from policies.guardrails.crossguard import serve
from policies.guardrails.registry import PACKS

serve("headway-cluster", PACKS["cluster"])
