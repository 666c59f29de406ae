"""Taking over what exists, where a stack's state is lost: the ids of its objects, from `stacks/adopted/STACK.json`.

The engine then imports what the file lists instead of making it: it reads each object, and refuses one that is not as the program says
(Pulumi's page "Importing resources", the option `import`; it has no effect on what the state holds already). The file has the rows of
Pulumi's own import files, `{"resources": [{"type", "name", "id"}]}`, and in `inputs` the names that a provider once made up, which the
program does not know. The trap: without its row such an object would be planned under another made-up name, so a row stays as long as its
object does.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pulumi

from headway.bounded_json import bounded_json
from headway.problem import Problem
from stacks.settings_error import SettingsError

FOLDER = Path("stacks") / "adopted"
"""Below the project's folder, in which the engine starts the program."""

Key = tuple[str, str]
"""Type and logical name, which the naming law makes unique in a stack."""


@dataclass(frozen=True)
class AdoptedObject:
    """An object that exists: its id, in the form that the provider's page gives below "Import"; inputs that only its maker knew."""

    id: str
    inputs: Mapping[str, Any] = field(default_factory=dict[str, Any])


def adopt(stack: str, folder: Path = FOLDER) -> None:
    """Have the engine import what the stack's file lists. Without a file nothing changes. Raises SettingsError with all that is wrong in it."""
    file = folder / f"{stack}.json"
    if not file.exists():
        return
    known = adopted(file)

    def found(args: pulumi.ResourceTransformArgs) -> pulumi.ResourceTransformResult | None:
        object = known.get((args.type_, args.name))
        if object is None:
            return None
        options = pulumi.ResourceOptions.merge(args.opts, pulumi.ResourceOptions(import_=object.id))
        return pulumi.ResourceTransformResult({**args.props, **object.inputs}, options)

    pulumi.runtime.register_resource_transform(found)


def adopted(file: Path) -> Mapping[Key, AdoptedObject]:
    """The rows of a file. Raises SettingsError for a file that has none, an incomplete row, and a second row of one object."""
    try:
        rows = bounded_json(file.read_bytes())["resources"]
        if not isinstance(rows, list):
            raise TypeError("resources is no list")
    except (OSError, ValueError, KeyError, TypeError) as error:
        remedy = 'Write {"resources": [{"type": ..., "name": ..., "id": ...}]}, or delete the file'
        raise SettingsError(str(file), [_problem("", f"it holds no rows ({type(error).__name__})", remedy)]) from None
    found: dict[Key, AdoptedObject] = {}
    wrong: list[Problem] = []
    for number, row in enumerate(rows):
        where = f"resources[{number}]"
        texts = [row.get(key) for key in ("type", "name", "id")] if isinstance(row, dict) else []
        if len(texts) < 3 or not all(isinstance(text, str) and text and not text.startswith("<") for text in texts):
            wrong.append(_problem(where, "type, name or id is missing", "Write all three, or take the row out to have the object made"))
            continue
        if not isinstance(row.get("inputs") or {}, dict):
            wrong.append(_problem(where, "its inputs are no mapping", "Write the inputs by name, or leave them out"))
            continue
        key = (cast(str, texts[0]), cast(str, texts[1]))
        if key in found:
            wrong.append(_problem(where, f"{key[0]} {key[1]} has a row already", "Leave one of them"))
        found[key] = AdoptedObject(cast(str, texts[2]), row.get("inputs") or {})
    if wrong:
        raise SettingsError(str(file), wrong)
    return found


def _problem(where: str, fact: str, remedy: str) -> Problem:
    return Problem(subject=where, fact=fact, consequence="An object that exists could be made a second time", remedy=remedy)
