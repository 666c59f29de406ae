"""What changes between the recorded inputs of an object and the new ones, by path, and whether that replaces it.

Pure. A missing namespace is `default`, because that is where the API server puts the object.
"""

from collections.abc import Sequence
from typing import Any

from pulumi_embedded.engine.paths import Path, parse, render
from pulumi_embedded.engine.provider import UNKNOWN, DiffKind, DiffResult, Properties
from pulumi_embedded.providers.kubernetes import names, paths
from pulumi_embedded.providers.kubernetes.kinds import ObjectKind
from pulumi_embedded.providers.kubernetes.replacements import must_replace

_ABSENT = object()
_REPLACED: dict[DiffKind, DiffKind] = {"add": "add-replace", "delete": "delete-replace", "update": "update-replace"}


def changes(old: Any, new: Any, at: Path = ()) -> dict[Path, DiffKind]:
    """Leaf changes by path, sorted; None is the same as absent. Lists are compared element by element."""
    found: dict[Path, DiffKind] = {}
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            found |= changes(old.get(key, _ABSENT), new.get(key, _ABSENT), (*at, key))
    elif isinstance(old, list) and isinstance(new, list):
        for index in range(max(len(old), len(new))):
            before = old[index] if index < len(old) else _ABSENT
            after = new[index] if index < len(new) else _ABSENT
            found |= changes(before, after, (*at, index))
    else:
        absent = (_ABSENT, None) if not at or not isinstance(at[-1], int) else (_ABSENT,)
        was, is_ = old not in absent, new not in absent
        if was and is_ and not _same(old, new):
            found[at] = "update"
        elif was != is_:
            found[at] = "delete" if was else "add"
    return found


def _same(one: Any, other: Any) -> bool:
    # In Python True == 1; in a manifest they are different values.
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def compare(
    kind: ObjectKind, old: Properties, new: Properties, ignored: Sequence[str], *, namespaced: bool, payload_mutable: bool
) -> DiffResult:
    """The difference as the engine wants it. Raises ValueError for an `ignored` path that cannot be read."""
    left, right = (_placed(side, namespaced) for side in (old, new))
    ignore = [parse(written) for written in ignored]
    mutable = payload_mutable and old.get("immutable") is not True
    details: dict[str, DiffKind] = {}
    replaces: list[str] = []
    for path, change in changes(left, right).items():
        if any(paths.covers(pattern, path) for pattern in ignore):
            continue
        written = render(path)
        replace = must_replace(kind, path, payload_mutable=mutable) or _hides_identity(path, change)
        details[written] = _REPLACED[change] if replace else change
        if replace:
            replaces.append(written)
    # Only where a change of its own replaces (pulumi-kubernetes, provider/pkg/provider/provider.go, `Diff`): whoever asks otherwise for a
    # replacement (`--replace`, `replaceOnChanges`) says himself that the old object goes first, or the new one meets it.
    return DiffResult(details, tuple(replaces), bool(replaces) and keeps_name(left, right) and not names.autonamed(new))


def compare_plain(old: Properties, new: Properties, ignored: Sequence[str], *, replacing: Sequence[str]) -> DiffResult:
    """The difference of inputs that are no object; changes at or below `replacing` replace, and the old one never goes first
    (provider/pkg/provider/helm_release.go, `Diff`). Raises ValueError as `compare`.
    """
    ignore, forced = [parse(written) for written in ignored], [parse(written) for written in replacing]
    found: dict[Path, DiffKind] = {
        path: change for path, change in changes(old, new).items() if not any(paths.covers(pattern, path) for pattern in ignore)
    }
    replaces = {path for path in found if any(paths.covers(pattern, path) for pattern in forced)}
    details: dict[str, DiffKind] = {render(path): _REPLACED[change] if path in replaces else change for path, change in found.items()}
    return DiffResult(details, tuple(render(path) for path in found if path in replaces), delete_before_replace=False)


def keeps_name(old: Properties, new: Properties) -> bool:
    """Whether a replacement would meet its predecessor under the same name: that one must go first."""
    before, after = names.metadata(old), names.metadata(new)
    known = UNKNOWN not in (after.get("name"), after.get("namespace"), new.get("metadata"))
    return known and (before.get("name"), before.get("namespace")) == (after.get("name"), after.get("namespace"))


def _hides_identity(path: Path, change: DiffKind) -> bool:
    return path == ("metadata",) and change != "add"


def _placed(inputs: Properties, namespaced: bool) -> Properties:
    head = inputs.get("metadata")
    if not isinstance(head, dict):
        return inputs
    if not namespaced:
        return {**inputs, "metadata": {k: v for k, v in head.items() if k != "namespace"}}
    return {**inputs, "metadata": {**head, "namespace": head.get("namespace") or "default"}}
