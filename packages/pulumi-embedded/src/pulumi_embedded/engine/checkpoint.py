"""A deployment as JSON: resources to and from Pulumi's checkpoint format version 3, and what makes a checkpoint whole.

Public definition: sdk/go/common/apitype (resources.json, deployments.json, property-values.json; core.go for fields that the schemas do
not list). Fields that the published schema knows are always written; others (retainOnDelete, deletedWith, ...) only where a resource
uses them, and times of creation never, so that a checkpoint is valid by that schema to the letter whenever it can be.

The trap: two entries may carry one URN while a replacement is under way; only the one without `delete` is what others depend on.
"""

import json
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from pulumi_embedded.engine.errors import EngineError
from pulumi_embedded.engine.model import PendingKind, PendingOperation, Resource
from pulumi_embedded.engine.values import SECRET, SIGNATURE, Properties, map_secrets, plain

VERSION: Final = 3
PENDING_KINDS: Final = ("creating", "updating", "deleting", "reading", "importing")

REFUSED: Final = {
    "taint": "remove it, and name the resource with `--replace` in the next update",
    "replaceWith": "remove it, and name what must be replaced together with `--replace`",
    "viewOf": "the resource belongs to another one; take it out of the checkpoint",
    "refreshBeforeUpdate": "remove it, and refresh with `--refresh`",
}
"""Fields of core.go's ResourceV3 that would change what an operation does, and that this engine does not act on."""

Transform = Callable[[Properties], Any]
"""Turns one secret dictionary into another form."""


def to_json(resource: Resource, seal: Transform) -> Properties:
    """The entry of `resource`; `seal` gives the stored form of a secret. Empty fields are left out, as Go's `omitempty` does."""
    entry: Properties = {"urn": resource.urn, "custom": resource.custom, "type": resource.type}
    optional: dict[str, Any] = {
        "id": resource.id,
        "inputs": map_secrets(resource.inputs, seal),
        "outputs": map_secrets(resource.outputs, seal),
        "parent": resource.parent,
        "provider": resource.provider,
        "dependencies": list(resource.dependencies),
        "propertyDependencies": {key: list(urns) for key, urns in resource.property_dependencies.items()},
        "delete": resource.delete,
        "external": resource.external,
        "protect": resource.protect,
        "retainOnDelete": resource.retain_on_delete,
        "deletedWith": resource.deleted_with,
        "aliases": list(resource.aliases),
        "customTimeouts": dict(resource.custom_timeouts),
        "importID": resource.import_id,
        "initErrors": list(resource.init_errors),
        "additionalSecretOutputs": list(resource.additional_secret_outputs),
        "ignoreChanges": list(resource.ignore_changes),
        "replaceOnChanges": list(resource.replace_on_changes),
        "pendingReplacement": resource.pending_replacement,
        "resourceHooks": {key: list(names) for key, names in resource.resource_hooks.items()},
    }
    entry.update((key, value) for key, value in optional.items() if value)
    if resource.replacement_trigger is not None:
        entry["replacementTrigger"] = map_secrets(resource.replacement_trigger, seal)
    return entry


def from_json(entry: Any, open_secret: Transform, where: str) -> Resource:
    """The resource of an entry. Raises EngineError naming the field below `where` that has the wrong shape."""
    if not isinstance(entry, dict):
        raise EngineError(f"{where}: expected an object, found {type(entry).__name__}")
    read = _Reader(cast(Properties, entry), where)
    for field, why in REFUSED.items():
        if read.any(field):
            raise EngineError(f"{where}.{field}: not supported by the embedded engine: {why}")
    return Resource(
        urn=read.text("urn", required=True),
        type=read.text("type", required=True),
        custom=read.flag("custom"),
        id=read.text("id"),
        inputs=map_secrets(read.map("inputs"), open_secret),
        outputs=map_secrets(read.map("outputs"), open_secret),
        parent=read.text("parent"),
        provider=read.text("provider"),
        dependencies=read.texts("dependencies"),
        property_dependencies=read.text_lists("propertyDependencies"),
        delete=read.flag("delete"),
        external=read.flag("external"),
        protect=read.flag("protect"),
        retain_on_delete=read.flag("retainOnDelete"),
        deleted_with=read.text("deletedWith"),
        aliases=read.texts("aliases"),
        custom_timeouts=read.map("customTimeouts"),
        import_id=read.text("importID"),
        init_errors=read.texts("initErrors"),
        additional_secret_outputs=read.texts("additionalSecretOutputs"),
        ignore_changes=read.texts("ignoreChanges"),
        replace_on_changes=read.texts("replaceOnChanges"),
        replacement_trigger=map_secrets(read.any("replacementTrigger"), open_secret),
        pending_replacement=read.flag("pendingReplacement"),
        resource_hooks=read.text_lists("resourceHooks"),
    )


def pending_from_json(entry: Any, open_secret: Transform, where: str) -> PendingOperation:
    if not isinstance(entry, dict) or entry.get("type") not in PENDING_KINDS:
        raise EngineError(f"{where}.type: expected one of {', '.join(PENDING_KINDS)}")
    kind = cast(PendingKind, entry["type"])
    return PendingOperation(kind, from_json(entry.get("resource"), open_secret, f"{where}.resource"))


def plaintext(secret: Properties) -> str:
    """The JSON text that is encrypted for a secret; keys are sorted so that an unchanged value has an unchanged text."""
    return json.dumps(plain(secret["value"]), separators=(",", ":"), sort_keys=True)


def shown(secret: Properties) -> Properties:
    """A secret for `stack export --show-secrets`."""
    return {SIGNATURE: SECRET, "plaintext": plaintext(secret)}


def faults(resources: Sequence[Resource]) -> list[str]:
    """Why `resources` are not a whole checkpoint, every reason at once: twins, parents, providers or dependencies that are missing."""
    urns = {resource.urn for resource in resources}
    providers = {f"{resource.urn}::{resource.id}" for resource in resources if resource.is_provider}
    found: list[str] = []
    seen: set[tuple[str, bool, str]] = set()
    for resource in resources:
        if resource.key in seen:
            found.append(f"{resource.urn}: appears twice")
        seen.add(resource.key)
        if resource.parent and resource.parent not in urns:
            found.append(f"{resource.urn}: its parent {resource.parent} is missing")
        if resource.provider and resource.provider not in providers:
            found.append(f"{resource.urn}: its provider {resource.provider} is missing")
        found += [f"{resource.urn}: its dependency {urn} is missing" for urn in sorted(set(resource.dependencies)) if urn not in urns]
        if resource.id and not resource.custom:
            found.append(f"{resource.urn}: a component has the id {resource.id}")
    return found


class _Reader:
    """Reads typed fields of one entry and names the field that has another type."""

    def __init__(self, entry: Properties, where: str) -> None:
        self._entry, self._where = entry, where

    def any(self, key: str) -> Any:
        return self._entry.get(key)

    def text(self, key: str, *, required: bool = False) -> str:
        value = self._entry.get(key)
        if value is None and not required:
            return ""
        return value if isinstance(value, str) else self._refuse(key, "a string")

    def flag(self, key: str) -> bool:
        value = self._entry.get(key, False)
        return value if isinstance(value, bool) else self._refuse(key, "true or false")

    def map(self, key: str) -> dict[str, Any]:
        value = self._entry.get(key)
        if value is None:
            return {}
        return value if isinstance(value, dict) else self._refuse(key, "an object")

    def texts(self, key: str) -> tuple[str, ...]:
        value = self._entry.get(key)
        if value is None:
            return ()
        return tuple(value) if _is_texts(value) else self._refuse(key, "a list of strings")

    def text_lists(self, key: str) -> dict[str, tuple[str, ...]]:
        lists = self.map(key)
        if any(value is not None and not _is_texts(value) for value in lists.values()):
            self._refuse(key, "lists of strings")
        return {name: tuple(value or ()) for name, value in lists.items()}

    def _refuse(self, key: str, expected: str) -> Any:
        raise EngineError(f"{self._where}.{key}: expected {expected}, found {json.dumps(type(self._entry.get(key)).__name__)}")


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(inner, str) for inner in value)
