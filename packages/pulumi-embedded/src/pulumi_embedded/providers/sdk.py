"""The members of the classes of the installed Pulumi SDK, written down as JSON: what `schema` reads.

Trap: the generated annotations are forward references into lazily imported modules; importing and evaluating them is what costs, so
only what is asked for is imported, and `derived` sees to it that it is done once.
"""

import importlib
import inspect
import typing
import warnings
from collections.abc import Awaitable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from typing import Any

import pulumi

Document = dict[str, Any]
"""`roots`: role -> class; `classes`: class -> `required` and `members`, every class that the roots lead to."""


class UnknownTypeError(LookupError):
    """The installed SDK declares no such resource type."""


def declares(token: str) -> bool:
    """Whether the installed SDK has the resource type `package:module/file:Class`; imports its module."""
    try:
        with _unheard():
            _classes(token)
    except (UnknownTypeError, ValueError):
        return False
    return True


def resource(token: str) -> Document:
    """Roots `inputs` and `outputs` of a resource type; UnknownTypeError if the SDK has no such class."""
    with _unheard():
        args, cls = _classes(token)
        return _document(inputs=(args, True), outputs=(cls, False))


def single(name: str) -> Document:
    """Root `fields`: one class of the SDK, written `package:module:Class` (`module` may be empty)."""
    package, module, cls = name.split(":")
    with _unheard():
        home = importlib.import_module(f"pulumi_{package}.{module}".rstrip("."))
        return _document(fields=(getattr(home, cls), True))


def _classes(token: str) -> tuple[type, type]:
    package, module, name = token.split(":")
    path = f"pulumi_{package}"
    if module.split("/")[0] not in ("index", ""):
        path += "." + module.split("/")[0]
    try:
        cls = getattr(importlib.import_module(path), name)
        # A nested input of the same name takes `...Args`; then the resource's own class is `...InitArgs`.
        own = importlib.import_module(cls.__module__)
        return getattr(own, f"{name}InitArgs", None) or getattr(own, f"{name}Args"), cls
    except (ImportError, AttributeError) as error:
        raise UnknownTypeError(token) from error


@contextmanager
def _unheard() -> Generator[None]:
    """Deprecated classes of the SDK warn as they are defined, which says nothing about the program at hand."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def _document(**roots: tuple[type, bool]) -> Document:
    classes: dict[str, Any] = {}
    waiting = list(roots.values())
    while waiting:
        cls, is_input = waiting.pop()
        if _name(cls) not in classes:
            members = {name: _shape(annotation, waiting) for name, annotation in _members(cls)}
            classes[_name(cls)] = {"required": sorted(_required(cls)) if is_input else [], "members": members}
    return {"roots": {role: _name(cls) for role, (cls, _) in roots.items()}, "classes": classes}


def _name(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def _required(cls: type) -> Iterator[str]:
    parameters = inspect.signature(cls.__init__).parameters.values()
    names = {python_name: name for python_name, name, _ in _getters(cls)}
    return (names.get(p.name, p.name) for p in parameters if p.default is p.empty and p.kind is p.KEYWORD_ONLY)


def _getters(cls: type) -> Iterator[tuple[str, str, Any]]:
    for python_name, value in vars(cls).items():
        if isinstance(value, property) and value.fget is not None and (name := getattr(value.fget, "_pulumi_name", None)):
            yield python_name, name, value.fget


def _members(cls: type) -> Iterator[tuple[str, Any]]:
    scope = vars(inspect.getmodule(cls))
    for _, name, getter in _getters(cls):
        yield name, typing.get_type_hints(getter, globalns=scope, localns=_INPUT_SCOPE)["return"]


_INPUT_SCOPE = {"Output": pulumi.Output, "T": type(None)}
"""`pulumi.Input[T]` ends in the forward reference `Output[T]`, which only pulumi's own module can resolve."""

_SCALARS: Mapping[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}

Found = list[tuple[type, bool]]
"""Classes met on the way, and whether they are inputs."""


def _shape(annotation: Any, found: Found) -> Document:
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is pulumi.Output:
        return _shape(arguments[0], found) if arguments else {"form": "any"}
    if origin is typing.Union:
        return _union([a for a in arguments if a is not type(None) and not _is_wrapper(a)], found)
    if origin in (list, Sequence):
        return {"form": "list", "element": _shape(arguments[0], found)}
    if origin in (dict, Mapping):
        return {"form": "map", "element": _shape(arguments[1], found)}
    if annotation in _SCALARS:
        return {"form": _SCALARS[annotation]}
    if isinstance(annotation, type):
        return _class_shape(annotation, found)
    return {"form": "any"}


def _is_wrapper(annotation: Any) -> bool:
    """`Input[T]` is `T | Awaitable[T] | Output[T]`: on the wire only the T is left."""
    return typing.get_origin(annotation) in (Awaitable, pulumi.Output)


def _union(choices: Sequence[Any], found: Found) -> Document:
    shapes: list[Document] = []
    for choice in choices:
        if (shape := _shape(choice, found)) not in shapes:
            shapes.append(shape)
    if not shapes:
        return {"form": "any"}
    return shapes[0] if len(shapes) == 1 else {**shapes[0], "choices": shapes}


def _class_shape(cls: type, found: Found) -> Document:
    if issubclass(cls, Enum):
        return {"form": "string"}
    if issubclass(cls, (pulumi.Asset, pulumi.Archive)):
        return {"form": "asset"}
    if issubclass(cls, pulumi.Resource):
        return {"form": "resource"}
    if hasattr(cls, "_pulumi_input_type") or hasattr(cls, "_pulumi_output_type"):
        found.append((cls, hasattr(cls, "_pulumi_input_type")))
        return {"form": "object", "class": _name(cls)}
    return {"form": "any"}
