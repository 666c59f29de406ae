"""The inputs and outputs of a resource type, as the classes of the installed Pulumi SDK declare them.

Owns no list of names: what the SDK's generated `...Args` classes declare is what is legal, so the doubles can never lag behind it.
Trap: `sdk` (and with it the SDK) is imported only where nothing derived is kept yet; an import here would cost every run a second.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, Literal

from pulumi_embedded.providers.derived import derived

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

    cls: str
    """`module:Class`."""
    classes: Mapping[str, Any] = field(compare=False, repr=False)
    """The document that names it; see `sdk.Document`."""

    @cached_property
    def required(self) -> frozenset[str]:
        """Pulumi names that must be given; none for what is only an output."""
        return frozenset(self.classes[self.cls]["required"])

    @cached_property
    def members(self) -> Mapping[str, Shape]:
        """Pulumi name -> shape, in the order of declaration."""
        return {name: _shape(shape, self.classes) for name, shape in self.classes[self.cls]["members"].items()}


@dataclass(frozen=True)
class ResourceSchema:
    """What one resource type takes and gives."""

    token: str
    inputs: Fields
    outputs: Fields


@cache
def schema_of(token: str) -> ResourceSchema:
    """The schema of `package:module/file:Class` (or `package:index:Class`); `sdk.UnknownTypeError` if the SDK has no such class."""

    def derive() -> Any:
        from pulumi_embedded.providers import sdk

        return sdk.resource(token)

    roots = derived(f"resource {token}", derive, _roots)
    return ResourceSchema(token, roots["inputs"], roots["outputs"])


@cache
def fields_of(name: str) -> Fields:
    """The members of one class of the SDK, written `package:module:Class`."""

    def derive() -> Any:
        from pulumi_embedded.providers import sdk

        return sdk.single(name)

    return derived(f"class {name}", derive, _roots)["fields"]


def provider_schema(package: str) -> Fields:
    """Configuration of the package's provider resource."""
    return fields_of(f"{package}::ProviderArgs")


def declares(token: str) -> bool:
    """Whether the installed SDK has the resource type `token`. Keeps nothing: it words a refusal."""
    from pulumi_embedded.providers import sdk

    return sdk.declares(token)


def _roots(document: Any) -> dict[str, Fields]:
    return {role: Fields(cls, document["classes"]) for role, cls in document["roots"].items()}


def _shape(document: Any, classes: Mapping[str, Any]) -> Shape:
    element, cls = document.get("element"), document.get("class")
    return Shape(
        document["form"],
        _shape(element, classes) if element else None,
        Fields(cls, classes) if cls else None,
        tuple(_shape(choice, classes) for choice in document.get("choices", ())),
    )
