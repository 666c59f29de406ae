"""What the program wants of one resource: from a RegisterResource request to the resource as it should become.

Also owns the list of what a registration may ask for that this engine does not do: each is refused by its name.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pulumi.runtime.proto import alias_pb2, resource_pb2

from pulumi_embedded.engine.assets import AssetError, has_asset, hashed
from pulumi_embedded.engine.context import Context
from pulumi_embedded.engine.halt import StepError, UnsupportedError
from pulumi_embedded.engine.model import Resource
from pulumi_embedded.engine.paths import PathError, carried, parse
from pulumi_embedded.engine.urns import AliasSpec, aliases_of
from pulumi_embedded.engine.values import Properties, from_struct, from_value

Request = resource_pb2.RegisterResourceRequest

HOOK_KINDS: Final = ("before_create", "after_create", "before_update", "after_update", "before_delete", "after_delete")
_TIMEOUTS: Final = ("create", "update", "delete")
_UNIT_SECONDS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_DURATION: Final = re.compile(r"([0-9]*\.?[0-9]+)(ms|us|µs|ns|h|m|s)")


@dataclass(frozen=True, slots=True)
class Goal:
    """`wanted` has neither id nor outputs yet. `delete_before_replace` is None where the provider decides."""

    wanted: Resource
    delete_before_replace: bool | None = None
    quiet: bool = False


def refuse_unsupported(request: Request, urn: str) -> None:
    """Raises UnsupportedError for the first thing this engine does not do."""
    for asked, what in _unsupported(request):
        if asked:
            raise UnsupportedError(what, urn)


def goal_of(request: Request, urn: str, context: Context) -> Goal:
    """Raises StepError for a timeout or an asset that cannot be read."""
    inputs = from_struct(request.object)
    if has_asset(inputs):
        try:
            inputs = hashed(inputs, context.directory)
        except AssetError as error:
            raise StepError(str(error), urn) from error
    wanted = Resource(
        urn=urn,
        type=request.type,
        custom=request.custom,
        inputs=inputs,
        parent=request.parent,
        provider=request.provider,
        dependencies=tuple(sorted(set(request.dependencies))),
        property_dependencies={key: tuple(sorted(set(value.urns))) for key, value in sorted(request.propertyDependencies.items())},
        protect=request.protect,
        retain_on_delete=request.retainOnDelete,
        deleted_with=request.deletedWith,
        aliases=_aliases(request, context),
        custom_timeouts=_timeouts(request, urn),
        import_id=request.importId,
        additional_secret_outputs=tuple(sorted(set(request.additionalSecretOutputs))),
        ignore_changes=tuple(request.ignoreChanges),
        replace_on_changes=tuple(request.replaceOnChanges),
        replacement_trigger=from_value(request.replacement_trigger) if request.HasField("replacement_trigger") else None,
        resource_hooks={kind: names for kind in HOOK_KINDS if (names := tuple(getattr(request.hooks, kind)))}
        if request.HasField("hooks")
        else {},
    )
    return Goal(wanted, request.deleteBeforeReplace if request.deleteBeforeReplaceDefined else None)


def with_ignored(inputs: Properties, old: Properties, wanted: Resource) -> Properties:
    """`inputs` with the recorded values (or their absence) wherever ignoreChanges says.

    Raises StepError for a path that cannot be read, and for all that name a place which only the program or only the state has.
    """
    missing: list[str] = []
    for text in wanted.ignore_changes:
        try:
            path = parse(text)
        except PathError as error:
            raise StepError(f"ignoreChanges of {wanted.name}: {error}", wanted.urn) from error
        try:
            inputs = carried(inputs, old, path)
        except PathError as error:
            missing.append(f"{text} ({error})")
    if missing:
        raise StepError(
            f"{wanted.name} cannot ignore changes to the following properties, because the program and the state do not agree on the way "
            f"there: {', '.join(missing)}. Ignore a property further up, or none that comes and goes.",
            wanted.urn,
        )
    return inputs


def seconds(text: str) -> float:
    """A Go duration such as `1h30m`. Raises ValueError."""
    parts = _DURATION.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"{text!r} is not a duration such as 30s, 5m or 1h30m")
    return sum(float(number) * _UNIT_SECONDS[unit] for number, unit in parts)


def _timeouts(request: Request, urn: str) -> dict[str, float]:
    if not request.HasField("customTimeouts"):
        return {}
    try:
        return {key: seconds(text) for key in _TIMEOUTS if (text := getattr(request.customTimeouts, key))}
    except ValueError as error:
        raise StepError(f"customTimeouts of {request.name}: {error}", urn) from error


def _aliases(request: Request, context: Context) -> tuple[str, ...]:
    inherited = context.ledger.aliases(request.parent)
    if not request.aliases and not request.aliasURNs and not inherited:
        return ()
    specs = [*map(_alias, request.aliases), *(AliasSpec(urn=urn) for urn in request.aliasURNs)]
    return aliases_of(context.namer, request.type, request.name, request.parent, specs, inherited)


def _alias(alias: alias_pb2.Alias) -> AliasSpec:
    if alias.WhichOneof("alias") == "urn":
        return AliasSpec(urn=alias.urn)
    spec = alias.spec
    return AliasSpec(type=spec.type, name=spec.name, stack=spec.stack, project=spec.project, parent=spec.parentUrn, no_parent=spec.noParent)


def _unsupported(request: Request) -> Iterator[tuple[bool, str]]:
    yield bool(request.replace_with), "the resource option replaceWith"
    yield bool(request.packageRef), "a parameterized package"
    yield bool(request.state_migrations), "the resource option stateMigrations"
    yield bool(request.envVarMappings), "the provider option envVarMappings"
    yield bool(request.hideDiffs), "the resource option hideDiffs"
    yield request.HasField("hooks") and bool(request.hooks.on_error), "an onError resource hook"
    yield request.HasField("customTimeouts") and bool(request.customTimeouts.read), "a custom timeout for reading"
    yield request.type.startswith("pulumi-python:dynamic"), "a dynamic provider"
