"""Rules as CrossGuard policies: the only module that knows pulumi_policy.

`pulumi_policy` converts a resource's properties from the wire once *for every policy* that has a validation, which makes forty rules cost
forty conversions. It asks `has_validation()` first. So the first policy of each pack, the gate, evaluates every rule once on one copy and
leaves the verdicts for its thread; each rule then has something to validate only where it found something, or where its own
configuration has to be asked. Names, levels, schemas and configuration stay each rule's own. Without the gate (disabled by
configuration) every rule evaluates itself.
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any

from pulumi_policy import (
    EnforcementLevel,
    Policy,
    PolicyConfigSchema,
    PolicyPack,
    ReportViolation,
    ResourceValidationArgs,
    ResourceValidationPolicy,
)

from headway.problem import Problem
from headway.wire import POLICY_GATE
from policies.guardrails import exemptions as exemption_files
from policies.guardrails.exemptions import Exemption
from policies.guardrails.rule import PolicyRule, RuleVerdict, evaluate
from policies.guardrails.view import InputNode, ResourceView, canonical, plain

EXEMPTIONS = "exemptions-are-current"
_STACK_TYPE = "pulumi:pulumi:Stack"


class _Local(threading.local):
    """Verdicts of the resource that this thread analyses now. A rule takes its own away, so that none is ever used twice.

    `fresh` is true between the gate and the policy after it: without a gate (disabled) what an earlier resource left is thrown away.
    """

    def __init__(self) -> None:
        self.verdicts: dict[str, RuleVerdict | None] = {}
        self.fresh = False


class PolicyRun:
    """One pack's rules, their exemptions and the notes they keep during a run."""

    def __init__(self, rules: Sequence[PolicyRule], exemptions: Sequence[Exemption], today: date) -> None:
        self.rules, self.exemptions, self.today = tuple(rules), tuple(exemptions), today
        self._local = _Local()
        self._notes: dict[str, dict[str, Any]] = {r.id: {} for r in rules}
        self._lock = threading.Lock()

    def view(self, args: ResourceValidationArgs) -> ResourceView:
        return ResourceView(canonical(args.resource_type), args.name, args.urn, InputNode(plain(args.props)), bool(args.opts.protect))

    def judge(self, rule: PolicyRule, resource: ResourceView, configuration: Mapping[str, Any] | None) -> RuleVerdict:
        """Evaluate with the rule's own notes; rules that keep notes see one resource at a time."""
        with self._lock:
            noted = ResourceView(resource.type, resource.name, resource.urn, resource.properties, resource.protect, self._notes[rule.id])
            return evaluate(rule, noted, configuration)

    def gate(self, args: ResourceValidationArgs, report: ReportViolation) -> None:
        resource = self.view(args)
        verdicts: dict[str, RuleVerdict | None] = {}
        for rule in self.rules:
            if not rule.covers(resource.type):
                verdicts[rule.id] = RuleVerdict()
                continue
            verdict = self.judge(rule, resource, None)
            if verdict.unevaluated is not None:
                report(_unevaluated(rule, verdict.unevaluated), args.urn)
            verdicts[rule.id] = None if rule.settings else verdict
        self._local.verdicts, self._local.fresh = verdicts, True

    def passed_gate(self) -> bool:
        """Asked by the policy after the gate. Answers whether an exemption has expired, the one thing that it has to say."""
        if not self._local.fresh:
            self._local.verdicts = {}
        self._local.fresh = False
        return any(e.expires < self.today for e in self.exemptions)

    def pending(self, rule: PolicyRule) -> bool:
        """Whether the rule has anything to do for this thread's resource; yes when the gate has not looked at it."""
        verdicts = self._local.verdicts
        if rule.id not in verdicts:
            return True
        verdict = verdicts[rule.id]
        if verdict is not None and not verdict.breaches:
            del verdicts[rule.id]
            return False
        return True

    def validate(self, rule: PolicyRule, args: ResourceValidationArgs, report: ReportViolation) -> None:
        verdict = self._local.verdicts.pop(rule.id, None)
        if verdict is None:
            if not rule.covers(canonical(args.resource_type)):
                return
            verdict = self.judge(rule, self.view(args), {k: _number(v) for k, v in (args.get_config() or {}).items()})
        if any(e.covers(rule.id, args.urn, self.today) for e in self.exemptions):
            return
        for breach in verdict.breaches:
            report(str(breach), args.urn)

    def expired(self, args: ResourceValidationArgs, report: ReportViolation) -> None:
        if args.resource_type != _STACK_TYPE:
            return
        for e in self.exemptions:
            if e.expires < self.today:
                report(
                    str(
                        Problem(
                            file=exemption_files.EXEMPTIONS_FILE.name,
                            fact=f"the exemption of {e.resource} from {e.rule} (owner {e.owner}) expired on {e.expires}",
                            consequence="What it excused is no longer excused, and nobody has looked at it",
                            remedy="Repair the resource and remove the exemption, or renew it with a reason",
                        )
                    ),
                    args.urn,
                )


def _unevaluated(rule: PolicyRule, path: str) -> str:
    return f"{rule.id} could not be evaluated: {path} is not known in this preview; the update checks it before the step"


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


class _Current(ResourceValidationPolicy):
    """An expired exemption fails the run. Comes right after the gate, and closes it where it did not run."""

    def __init__(self, guard: PolicyRun) -> None:
        self._guard = guard
        super().__init__(
            name=EXEMPTIONS,
            description="An exemption ends on its date.",
            validate=guard.expired,
            enforcement_level=EnforcementLevel.MANDATORY,
        )

    def has_validation(self) -> bool:
        return self._guard.passed_gate()


class _Once(ResourceValidationPolicy):
    """A rule that asks to be run only where the gate left something for it."""

    def __init__(self, guard: PolicyRun, rule: PolicyRule) -> None:
        self._guard, self._rule = guard, rule
        schema = PolicyConfigSchema(properties={k: dict(v) for k, v in rule.settings.items()}) if rule.settings else None
        super().__init__(
            name=rule.id,
            description=rule.title,
            validate=lambda args, report: guard.validate(rule, args, report),
            enforcement_level=EnforcementLevel(rule.level.value),
            config_schema=schema,
        )

    def has_validation(self) -> bool:
        return self._guard.pending(self._rule)


def policies(rules: Sequence[PolicyRule], exemptions: Sequence[Exemption] = (), today: Callable[[], date] = date.today) -> list[Policy]:
    """The gate first, then every rule by its own name."""
    guard = PolicyRun(rules, exemptions, today())
    gate = ResourceValidationPolicy(
        name=POLICY_GATE,
        description="Every rule says what it could not evaluate instead of passing.",
        validate=guard.gate,
        enforcement_level=EnforcementLevel.ADVISORY,
    )
    return [gate, _Current(guard), *(_Once(guard, rule) for rule in rules)]


def serve(name: str, rules: Sequence[PolicyRule]) -> None:
    """Run the pack's analyzer until the engine ends it. Blocks."""
    from policies.guardrails.registry import RULES

    PolicyPack(name=name, policies=policies(rules, exemption_files.load(exemption_files.EXEMPTIONS_FILE, [r.id for r in RULES])))
