"""All rules in one place, and which layer's pack lists which. Refuses two rules of one id."""

from policies.guardrails import (
    admission,
    encryption,
    envelope,
    execution,
    identity,
    ledger,
    mesh,
    network,
    packets,
    reliability,
    rights,
    supply_chain,
    tenancy,
)
from policies.guardrails.rule import PolicyRule


def _unique(rules: tuple[PolicyRule, ...]) -> tuple[PolicyRule, ...]:
    seen: set[str] = set()
    for rule in rules:
        if rule.id in seen:
            raise ValueError(f"two rules are called {rule.id}; an id is a promise to configurations and exemptions, choose another")
        seen.add(rule.id)
    return tuple(sorted(rules, key=lambda r: r.id))


RULES = _unique(
    (
        *admission.RULES,
        *encryption.RULES,
        *envelope.RULES,
        *execution.RULES,
        *identity.RULES,
        *ledger.RULES,
        *mesh.RULES,
        *network.RULES,
        *packets.RULES,
        *reliability.RULES,
        *rights.RULES,
        *supply_chain.RULES,
        *tenancy.RULES,
    )
)

PACKS = {"cluster": RULES, "platform": RULES, "tenant": RULES}
"""Layer -> rules. Each pack has all of them: a layer may create any kind of object, none is a way around a rule, and one configuration file
of an environment names rules of every pack. A rule that covers nothing in a layer costs nothing."""
