"""Runs the Pulumi project through the Automation API: one stack operation in, one frozen result out.

The engine is whoever answers as `pulumi`: the real command, or the sandbox's embedded one passed as `command`. Nothing
here knows which. The trap to know: `up` never previews, and a mandatory stack policy fires only after the deployment.
So plan with the packs first.
"""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import monotonic
from typing import Any, Literal

from pulumi import automation
from pulumi.automation import errors as automation_errors

from headway.problem import UserError

Operation = Literal["preview", "up", "destroy", "refresh"]
UNCHANGED = frozenset({"same", "read", "refresh"})
GONE = frozenset({"delete", "discard"})
TAKING_OVER = {"PULUMI_K8S_UPSERT_EXISTING_OBJECTS": "true"}
"""Has the Kubernetes provider take over what exists, where it otherwise refuses it (pulumi/pulumi-kubernetes, CHANGELOG, 4.29.0)."""
UNEVALUATED = "can't run policy"
"""How the SDK begins the advisory that replaces a whole policy once it touched an unknown value."""


class MissingStackError(UserError):
    """There is no such stack."""


@dataclass(frozen=True, kw_only=True)
class PackSource:
    """A policy pack's folder and the JSON file that configures it."""

    path: Path
    config: Path | None = None


@dataclass(frozen=True, kw_only=True)
class Violation:
    """One policy event: `level` is advisory, mandatory or remediate; `resource` is the URN."""

    pack: str
    policy: str
    level: str
    message: str
    resource: str

    @property
    def unevaluated(self) -> bool:
        return UNEVALUATED in self.message


@dataclass(frozen=True, kw_only=True)
class StackResult:
    """How one operation on one stack ended. `errors` are the engine's error diagnostics, in order; `changes` counts
    steps by kind."""

    stack: str
    operation: Operation
    ok: bool
    changes: Mapping[str, int] = field(default_factory=dict)
    violations: tuple[Violation, ...] = ()
    errors: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    seconds: float = 0.0
    busy: bool = False
    """Another operation holds the stack's lock."""

    @property
    def total(self) -> int:
        return sum(n for op, n in self.changes.items() if op not in GONE)

    @property
    def changed(self) -> int:
        return sum(n for op, n in self.changes.items() if op not in UNCHANGED)


@dataclass
class _Gathered:
    """What the event stream said, in order of arrival."""

    violations: list[Violation] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    changes: dict[str, int] = field(default_factory=dict)

    def add(self, event: automation.EngineEvent) -> None:
        if event.policy_event:
            p = event.policy_event
            found = Violation(
                pack=p.policy_pack_name,
                policy=p.policy_name,
                level=p.enforcement_level,
                message=p.message.strip(),
                resource=p.resource_urn or "",
            )
            if found not in self.violations:
                self.violations.append(found)
        elif event.diagnostic_event:
            d = event.diagnostic_event
            kept = {"error": self.errors, "warning": self.warnings}.get(d.severity)
            text = _located(d.urn, d.message)
            if kept is not None and text and text not in kept:
                kept.append(text)
        elif event.summary_event:
            self.changes = {str(getattr(op, "value", op)): n for op, n in (event.summary_event.resource_changes or {}).items()}


def _located(urn: str | None, message: str) -> str:
    name = (urn or "").rsplit("::", 1)[-1]
    text = message.strip()
    return f"{name}: {text}" if name and name not in text else text


def _asked(packs: Sequence[PackSource], refresh: bool) -> dict[str, Any]:
    """What a plan and an update are told alike."""
    configs = [str(p.config) for p in packs if p.config]
    return {"policy_packs": [str(p.path) for p in packs] or None, "policy_pack_configs": configs or None, "refresh": refresh or None}


class StackRunner:
    """Operations on the stacks of one project folder.

    `command` is the engine; None means the `pulumi` on the PATH. `environment` is added to the process's own for each
    operation.
    """

    def __init__(
        self, project: Path, *, command: automation.PulumiCommand | None = None, environment: Mapping[str, str] | None = None
    ) -> None:
        self._project, self._command, self._environment = project, command, dict(environment or {})

    def _stack(self, name: str, more: Mapping[str, str] | None = None) -> automation.Stack:
        """The stack, which must exist: made by a typing mistake, an empty one would answer for the one that was meant."""
        return automation.select_stack(stack_name=name, work_dir=str(self._project), opts=self._options(more))

    def _options(self, more: Mapping[str, str] | None = None) -> automation.LocalWorkspaceOptions:
        return automation.LocalWorkspaceOptions(pulumi_command=self._engine(), env_vars={**self._environment, **(more or {})})

    def _engine(self) -> automation.PulumiCommand:
        try:
            return self._command or automation.PulumiCommand()
        except FileNotFoundError:
            raise UserError(
                "There is no `pulumi` on the PATH.",
                "No stack can be read or changed.",
                "Install it; `headway doctor` says which version, and what else is missing.",
            ) from None

    def initialise(self, stack: str) -> None:
        """Make sure that the stack exists, so that others can refer to it before its first update."""
        automation.create_or_select_stack(stack_name=stack, work_dir=str(self._project), opts=self._options())

    def outputs(self, stack: str) -> dict[str, Any]:
        """What the last update of the stack exported, secrets in the clear; empty for a stack that was never updated.

        Raises MissingStackError where there is no such stack, and UserError where the engine does not read it.
        """
        try:
            return {name: output.value for name, output in self._stack(stack).outputs().items()}
        except automation_errors.StackNotFoundError:
            raise MissingStackError(
                f"There is no stack {stack}.",
                "Nobody can say what it deploys; nothing was done.",
                f"Deploy it first (`pulumi stack init {stack}`, then `pulumi up`), or log in to the state that has it.",
            ) from None
        except automation_errors.CommandError as failure:
            raise UserError(
                f"Pulumi does not read stack {stack}: {_last_lines(str(failure))}",
                "Nobody can say what it deploys; nothing was done.",
                "Put right what it says: `pulumi login` chooses the state, PULUMI_CONFIG_PASSPHRASE_FILE or credentials open its secrets.",
            ) from None

    def held(self) -> Mapping[str, int]:
        """How many resources each stack of the project holds, by its name; of a backend that does not count, one."""
        workspace = automation.LocalWorkspace(work_dir=str(self._project), pulumi_command=self._engine(), env_vars=self._environment)
        return {each.name: 1 if each.resource_count is None else each.resource_count for each in workspace.list_stacks()}

    def cancel(self, stack: str) -> None:
        """Ask whatever runs on the stack to stop; nothing happens where nothing runs."""
        with contextlib.suppress(automation_errors.CommandError):
            self._stack(stack).cancel()

    def preview(
        self, stack: str, packs: Sequence[PackSource] = (), *, refresh: bool = False, on_event: Callable[[Any], None] | None = None
    ) -> StackResult:
        """Plan with the packs; nothing is created. `refresh` compares with the live objects first."""
        return self._run(stack, "preview", lambda s, sink: s.preview(**_asked(packs, refresh), on_event=sink), on_event)

    def up(
        self, stack: str, packs: Sequence[PackSource] = (), *, refresh: bool = False, on_event: Callable[[Any], None] | None = None
    ) -> StackResult:
        """Apply. The packs run once more: what they would refuse stops before its step.

        Of what an update was making in Kubernetes when it was killed, the state says no more than that. The provider refuses what exists,
        so there it is told to take it over, and then left to record itself without that.
        """

        def act(more: Mapping[str, str] | None = None) -> StackResult:
            return self._run(stack, "up", lambda s, sink: s.up(**_asked(packs, refresh), show_secrets=False, on_event=sink), on_event, more)

        done = act()
        if done.ok or not any("already exists" in said for said in done.errors) or not self._interrupted(stack):
            return done
        taken = act(TAKING_OVER)
        recorded = act() if taken.ok else taken
        return replace(taken, ok=recorded.ok, errors=recorded.errors, seconds=done.seconds + taken.seconds + recorded.seconds)

    def _interrupted(self, stack: str) -> bool:
        """Whether an update was killed while it was making something in Kubernetes; the engine keeps that until a refresh is told what became
        of it (pulumi/pulumi, `pkg/engine/journal.go`, snap).
        """
        deployment = self._stack(stack).export_stack().deployment or {}
        begun = [each["resource"]["type"] for each in deployment.get("pending_operations") or () if each["type"] == "creating"]
        return any(type.startswith("kubernetes:") for type in begun)

    def look(self, stack: str, *, on_event: Callable[[Any], None] | None = None) -> StackResult:
        """Compare what is recorded with every live object. No program runs, nothing is changed or recorded."""
        return self._run(stack, "refresh", lambda s, sink: s.preview_refresh(on_event=sink), on_event)

    def destroy(self, stack: str, *, on_event: Callable[[Any], None] | None = None) -> StackResult:
        """Delete everything the stack holds, dependants first."""
        return self._run(stack, "destroy", lambda s, sink: s.destroy(on_event=sink), on_event)

    def _run(
        self,
        name: str,
        operation: Operation,
        act: Callable[[automation.Stack, Callable[[automation.EngineEvent], None]], object],
        on_event: Callable[[Any], None] | None,
        more: Mapping[str, str] | None = None,
    ) -> StackResult:
        began, gathered, busy = monotonic(), _Gathered(), False

        def sink(event: automation.EngineEvent) -> None:
            gathered.add(event)
            if on_event:
                on_event(event)

        try:
            act(self._stack(name, more), sink)
            ok = True
        except automation_errors.StackNotFoundError:
            ok = False
            gathered.errors.append(
                f"There is no stack {name}, so nothing was changed. Create it with `pulumi stack init {name}`, or correct its name."
            )
        except automation_errors.CommandError as failure:
            ok, busy = False, isinstance(failure, automation_errors.ConcurrentUpdateError)
            if not gathered.errors and not any(v.level == "mandatory" for v in gathered.violations):
                gathered.errors.append(_last_lines(str(failure)))
        return StackResult(
            stack=name,
            operation=operation,
            ok=ok,
            changes=dict(sorted(gathered.changes.items())),
            violations=tuple(gathered.violations),
            errors=tuple(gathered.errors),
            warnings=tuple(gathered.warnings),
            seconds=monotonic() - began,
            busy=busy,
        )


def _last_lines(text: str) -> str:
    """The part of a CommandError's text that its stderr contributed, or the end of it."""
    _, _, stderr = text.partition("stderr:")
    body = (stderr or text).strip()
    return "\n".join(body.splitlines()[-12:])
