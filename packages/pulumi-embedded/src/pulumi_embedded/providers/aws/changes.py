"""What a new set of inputs changes, by path, and which of those changes need a new object. Pure."""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pulumi_embedded.engine.paths import render
from pulumi_embedded.engine.provider import DiffKind, DiffResult, Properties
from pulumi_embedded.providers.aws.kind import AwsKind, at
from pulumi_embedded.providers.kubernetes.diff import changes

_REPLACED: Mapping[DiffKind, DiffKind] = {"add": "add-replace", "delete": "delete-replace", "update": "update-replace"}


def compare(kind: AwsKind, old: Properties, new: Properties, *, same_name: bool) -> DiffResult:
    """The difference; `same_name` says that a replacement would meet its predecessor under the same physical name.

    It is passed on without any difference too, because the engine may be told to replace.
    """
    old, new = _visible(old), _visible(new)
    details: dict[str, DiffKind] = {}
    replaces: list[str] = []
    for path, change in changes(old, _aligned(old, new, "", kind.ordered)).items():
        where = render(path)
        replacing = (not kind.updatable and path[0] not in ("tags",)) or any(_touches(rule, where, old, new) for rule in kind.replaces)
        details[where] = _REPLACED[change] if replacing else change
        if replacing:
            replaces.append(where)
    return DiffResult(dict(sorted(details.items())), tuple(sorted(replaces)), same_name)


def _visible(inputs: Properties) -> Properties:
    return {key: value for key, value in inputs.items() if not key.startswith("__")}


def _touches(rule: str, path: str, old: Properties, new: Properties) -> bool:
    """Whether a change at `path` changes what `rule` names: at it, below it, or above it where the value itself differs."""
    plain = re.sub(r"\[\d+\]", "", path)
    if plain == rule or plain.startswith(rule + "."):
        return True
    return rule.startswith(plain + ".") and at(old, rule) != at(new, rule)


def _aligned(old: Any, new: Any, path: str, ordered: Sequence[str]) -> Any:
    """`new` with every part that means the same as in `old` spelled as there: sets in another order, JSON with other white space."""
    if isinstance(old, dict) and isinstance(new, dict):
        return {key: _aligned(old.get(key), value, f"{path}.{key}" if path else key, ordered) for key, value in new.items()}
    if isinstance(old, list) and isinstance(new, list):
        if path not in ordered and _bag(old) == _bag(new):
            return old
        return [_aligned(old[index] if index < len(old) else None, value, path, ordered) for index, value in enumerate(new)]
    return old if _same_document(old, new) else new


def _bag(items: Sequence[Any]) -> list[str]:
    return sorted(json.dumps(item, sort_keys=True) for item in items)


def _same_document(old: Any, new: Any) -> bool:
    if not (isinstance(old, str) and isinstance(new, str) and old[:1] in "{[" and new[:1] in "{["):
        return False
    try:
        return json.loads(old) == json.loads(new)
    except ValueError:
        return False
