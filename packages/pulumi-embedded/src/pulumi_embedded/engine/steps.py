"""Which operation a registration needs: a pure decision from what was recorded, what is wanted and how they differ.

Knows nothing of providers, state or threads; every row of the decision is a test.
"""

from dataclasses import dataclass

from pulumi_embedded.engine.changes import changes
from pulumi_embedded.engine.model import Op, Resource
from pulumi_embedded.engine.paths import Path, covers, parse
from pulumi_embedded.engine.provider import DiffResult
from pulumi_embedded.engine.values import plain

NO_CHANGE = DiffResult()


@dataclass(frozen=True, slots=True)
class Forced:
    """Reasons to replace that do not come from the provider."""

    asked: bool = False
    """`--replace` names it."""
    trigger: bool = False
    """Its replacement trigger has changed."""
    provider: bool = False
    """Another provider instance manages it now."""
    displaced: tuple[str, ...] = ()
    """It was deleted ahead, because of these properties."""
    became_managed: bool = False
    """It was only read so far."""

    @property
    def reasons(self) -> tuple[str, ...]:
        flags = {"--replace": self.asked, "replacementTrigger": self.trigger, "provider": self.provider, "id": self.became_managed}
        return (*(reason for reason, holds in flags.items() if holds), *self.displaced)


@dataclass(frozen=True, slots=True)
class StepDecision:
    """`op` is SAME, CREATE, UPDATE, REPLACE or IMPORT. `delete_first` counts for REPLACE alone."""

    op: Op
    diff: DiffResult = NO_CHANGE
    replaces: tuple[str, ...] = ()
    delete_first: bool = False


def replacing_paths(diff: DiffResult, old: Resource, wanted: Resource) -> tuple[str, ...]:
    """Changed paths that force a replacement: the provider's, and those that replaceOnChanges covers.

    A provider may name a structure of which only a part has changed; the parts are then found in the inputs.
    """
    if not wanted.replace_on_changes:
        return diff.replaces
    patterns = [parse(pattern) for pattern in wanted.replace_on_changes]
    changed = [parse(path) for path in changes(plain(old.inputs), plain(wanted.inputs))]

    def forces(path: Path) -> bool:
        parts = [path, *(part for part in changed if covers(path, part))]
        return any(covers(pattern, part) for pattern in patterns for part in parts)

    return tuple(dict.fromkeys((*diff.replaces, *(path for path in diff.details if forces(parse(path))))))


def decide(
    old: Resource | None,
    wanted: Resource,
    diff: DiffResult,
    forced: Forced = Forced(),
    delete_before_replace: bool | None = None,
) -> StepDecision:
    """`diff` is between `old` and `wanted`; without `old` it is not looked at. `delete_before_replace` is the user's choice, if any."""
    if old is None or old.pending_replacement:
        return StepDecision(Op.IMPORT if wanted.import_id and old is None else Op.CREATE)
    replaces = (*replacing_paths(diff, old, wanted), *forced.reasons) if wanted.custom else ()
    if replaces:
        first = diff.delete_before_replace if delete_before_replace is None else delete_before_replace
        return StepDecision(Op.REPLACE, diff, replaces, delete_first=first or bool(forced.displaced))
    if diff.details or old.init_errors:
        return StepDecision(Op.UPDATE, diff)
    return StepDecision(Op.SAME, diff)
