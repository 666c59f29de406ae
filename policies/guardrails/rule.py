"""A rule: one prohibition with its reason and its remedy. Pure: resource in, problems out."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from headway.problem import Problem
from policies.guardrails.view import InputNode, ResourceView, UnevaluatedError


class Domain(StrEnum):
    """Which promise a rule keeps; the axis by which `docs/policies.md` is ordered. Not the layer: that is the pack."""

    ENVELOPE = "envelope"
    TENANCY = "tenancy"
    SUPPLY_CHAIN = "supply chain"
    NETWORK = "network"
    IDENTITY = "identity"
    ENCRYPTION = "encryption"
    COST = "cost"
    RELIABILITY = "reliability"
    OBSERVABILITY = "observability"


class Enforcement(StrEnum):
    """CrossGuard's enforcement level by default; configuration of an environment may change it."""

    MANDATORY = "mandatory"
    ADVISORY = "advisory"


class PolicySeverity(StrEnum):
    """How bad a breach would be, for people who sort; says nothing about enforcement."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


def breach(where: InputNode | str, fact: str) -> Problem:
    """What is wrong at a property, without repeating secrets; `evaluate` adds the rule's consequence and remedy."""
    path = where.path if isinstance(where, InputNode) else where
    return Problem(subject="" if path else "(inputs)", path=tuple(path.split(".")) if path else (), fact=fact, consequence="", remedy="")


Breaches = Iterator[Problem]
"""What one rule finds wrong with one resource."""

RuleCheck = Callable[[ResourceView, Mapping[str, Any]], Breaches]


@dataclass(frozen=True, kw_only=True)
class PolicyRule:
    """`applies` are exact type tokens, or prefixes that end in `:` or `/`. `settings` is the JSON Schema of its configuration, with defaults."""

    id: str
    domain: Domain
    title: str
    """The requirement as a sentence."""
    rationale: str
    """The consequence of a breach."""
    remedy: str
    applies: tuple[str, ...]
    check: RuleCheck
    severity: PolicySeverity = PolicySeverity.HIGH
    level: Enforcement = Enforcement.MANDATORY
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def covers(self, type: str) -> bool:
        return any(type == a or (a[-1] in ":/" and type.startswith(a)) for a in self.applies)

    @property
    def defaults(self) -> Mapping[str, Any]:
        return {name: schema["default"] for name, schema in self.settings.items()}

    def complete(self, breach: Problem) -> Problem:
        """`breach` with the rule's id, consequence and remedy."""
        return replace(breach, rule=self.id, consequence=self.rationale, remedy=self.remedy)


@dataclass(frozen=True, slots=True)
class RuleVerdict:
    """What one rule says of one resource. `unevaluated` is the path of the unknown value that stopped it, if any."""

    breaches: tuple[Problem, ...] = ()
    unevaluated: str | None = None


def evaluate(rule: PolicyRule, resource: ResourceView, configuration: Mapping[str, Any] | None = None) -> RuleVerdict:
    """Run one rule. Breaches found before an unknown was met still count."""
    breaches: list[Problem] = []
    try:
        for each in rule.check(resource, {**rule.defaults, **(configuration or {})}):
            breaches.append(rule.complete(each))  # noqa: PERF401 - what was found before an unknown must be kept
    except UnevaluatedError as unknown:
        return RuleVerdict(tuple(breaches), unknown.path)
    except (AttributeError, KeyError, TypeError, ValueError) as oddity:
        # Fail closed, and do not repeat the value: it may be a secret.
        breaches.append(rule.complete(breach("", f"the inputs have a shape that the rule cannot read ({type(oddity).__name__})")))
    return RuleVerdict(tuple(breaches))
