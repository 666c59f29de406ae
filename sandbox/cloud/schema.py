"""The inputs and outputs of a resource type, read from the classes of the installed Pulumi SDK.

Owns no list of names: what the SDK's generated `...Args` classes declare is what is legal, so the doubles can never lag behind it.
Trap: the generated annotations are forward references into lazily imported modules; only types that are asked for are imported.
"""

import importlib
import inspect
import typing
from collections.abc import Awaitable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache, cached_property
from typing import Any, Literal

import pulumi

Form = Literal["string", "integer", "number", "boolean", "list", "map", "object", "asset", "resource", "any"]


@dataclass(frozen=True)
class Shape:
    """The form of one value. `choices` are the alternatives of a union; then `form` is that of the first."""

    form: Form
    element: "Shape | None" = None
    fields: "Fields | None" = None
    choices: tuple["Shape", ...] = ()


@dataclass(frozen=True)
class Fields:
    """The members of one SDK class, resolved when first read (the classes refer to each other)."""

    cls: type
    required: frozenset[str] = frozenset()

    @cached_property
    def members(self) -> Mapping[str, Shape]:
        """Pulumi name -> shape, in the order of declaration."""
        return dict(_members(self.cls))


@dataclass(frozen=True)
class ResourceSchema:
    """What one resource type takes and gives."""

    token: str
    inputs: Fields
    outputs: Fields

    @property
    def computed(self) -> tuple[str, ...]:
        """Outputs that are no inputs."""
        return tuple(name for name in self.outputs.members if name not in self.inputs.members)


class UnknownTypeError(LookupError):
    """The installed SDK declares no such resource type."""


@cache
def schema_of(token: str) -> ResourceSchema:
    """The schema of `package:module/file:Class` (or `package:index:Class`); UnknownTypeError if the SDK has no such class."""
    package, module, name = token.split(":")
    path = f"pulumi_{package}"
    if module.split("/")[0] not in ("index", ""):
        path += "." + module.split("/")[0]
    try:
        home = importlib.import_module(path)
        cls = getattr(home, name)
        # A nested input of the same name takes `...Args`; then the resource's own class is `...InitArgs`.
        own = importlib.import_module(cls.__module__)
        args = getattr(own, f"{name}InitArgs", None) or getattr(own, f"{name}Args")
    except (ImportError, AttributeError) as error:
        raise UnknownTypeError(token) from error
    return ResourceSchema(token, _fields(args), Fields(cls))


@cache
def fields_of(name: str) -> Fields:
    """The members of one class of the SDK, written `package:module:Class`."""
    package, module, cls = name.split(":")
    return _fields(getattr(importlib.import_module(f"pulumi_{package}.{module}"), cls))


def provider_schema(package: str) -> Fields:
    """Configuration of the package's provider resource."""
    return _fields(importlib.import_module(f"pulumi_{package}").ProviderArgs)


def _fields(cls: type) -> Fields:
    parameters = inspect.signature(cls.__init__).parameters.values()
    names = _python_names(cls)
    required = (names.get(p.name, p.name) for p in parameters if p.default is p.empty and p.kind is p.KEYWORD_ONLY)
    return Fields(cls, frozenset(required))


def _getters(cls: type) -> Iterator[tuple[str, str, Any]]:
    for python_name, value in vars(cls).items():
        if isinstance(value, property) and value.fget is not None and (name := getattr(value.fget, "_pulumi_name", None)):
            yield python_name, name, value.fget


def _python_names(cls: type) -> dict[str, str]:
    return {python_name: name for python_name, name, _ in _getters(cls)}


def _members(cls: type) -> Iterator[tuple[str, Shape]]:
    scope = vars(inspect.getmodule(cls))
    for _, name, getter in _getters(cls):
        yield name, _shape(typing.get_type_hints(getter, globalns=scope, localns=_INPUT_SCOPE)["return"])


_INPUT_SCOPE = {"Output": pulumi.Output, "T": type(None)}
"""`pulumi.Input[T]` ends in the forward reference `Output[T]`, which only pulumi's own module can resolve."""

_SCALARS: Mapping[Any, Form] = {str: "string", int: "integer", float: "number", bool: "boolean"}


def _shape(annotation: Any) -> Shape:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is pulumi.Output:
        return _shape(arguments[0]) if arguments else Shape("any")
    if origin is typing.Union:
        return _union([a for a in arguments if a is not type(None) and not _is_wrapper(a)])
    if origin in (list, Sequence):
        return Shape("list", element=_shape(arguments[0]))
    if origin in (dict, Mapping):
        return Shape("map", element=_shape(arguments[1]))
    if annotation in _SCALARS:
        return Shape(_SCALARS[annotation])
    if isinstance(annotation, type):
        return _class_shape(annotation)
    return Shape("any")


def _is_wrapper(annotation: Any) -> bool:
    """`Input[T]` is `T | Awaitable[T] | Output[T]`: on the wire only the T is left."""
    return typing.get_origin(annotation) in (Awaitable, pulumi.Output)


def _union(choices: Sequence[Any]) -> Shape:
    shapes = list(dict.fromkeys(_shape(choice) for choice in choices))
    if not shapes:
        return Shape("any")
    return shapes[0] if len(shapes) == 1 else Shape(shapes[0].form, shapes[0].element, shapes[0].fields, tuple(shapes))


def _class_shape(cls: type) -> Shape:
    if issubclass(cls, Enum):
        return Shape("string")
    if issubclass(cls, (pulumi.Asset, pulumi.Archive)):
        return Shape("asset")
    if issubclass(cls, pulumi.Resource):
        return Shape("resource")
    if hasattr(cls, "_pulumi_input_type"):
        return Shape("object", fields=_fields(cls))
    if hasattr(cls, "_pulumi_output_type"):
        return Shape("object", fields=Fields(cls))
    return Shape("any")
