"""All rules in one place, and which layer's pack lists which. Refuses two rules of one id."""

from policies.guardrails import encryption, envelope, identity, network, reliability, supply_chain, tenancy
from policies.guardrails.rule import Rule


def _unique(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    seen: set[str] = set()
    for rule in rules:
        if rule.id in seen:
            raise ValueError(f"two rules are called {rule.id}; an id is a promise to configurations and exemptions, choose another")
        seen.add(rule.id)
    return tuple(sorted(rules, key=lambda r: r.id))


RULES = _unique(
    (
        *encryption.RULES,
        *envelope.RULES,
        *identity.RULES,
        *network.RULES,
        *reliability.RULES,
        *supply_chain.RULES,
        *tenancy.RULES,
    )
)

_AWS = ("aws:", "eks:")
_KUBERNETES = ("kubernetes:",)


def _about(*packages: str) -> tuple[Rule, ...]:
    return tuple(r for r in RULES if any(a.startswith(packages) for a in r.applies))


PACKS = {
    "cluster": _about(*_AWS),
    "platform": _about(*_AWS, *_KUBERNETES),
    "tenant": _about(*_AWS, *_KUBERNETES),
}
"""Layer -> rules. A layer may create AWS objects too (identities, budgets), so those rules travel with it."""
