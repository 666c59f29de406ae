"""The field of a contract that a path in a document speaks of: its annotation, its description and its legal values."""

from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

from pydantic.fields import FieldInfo

from headway.contract.part import Part, description
from headway.problem import FieldPath


def alternatives(annotation: Any) -> tuple[Any, ...]:
    """The members of a union without None, seen through Annotated; a single one for anything else."""
    if get_origin(annotation) is Annotated:
        return alternatives(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return tuple(member for each in get_args(annotation) if each is not NoneType for member in alternatives(each))
    return (annotation,)


def is_part(annotation: Any) -> bool:
    """Whether an annotation is a part of a contract."""
    return isinstance(annotation, type) and issubclass(annotation, Part)


def _tagged(part: type[Part]) -> set[str]:
    """The literals by which a union recognises `part`."""
    return {
        str(value) for info in part.model_fields.values() if get_origin(info.annotation) is Literal for value in get_args(info.annotation)
    }


def tags(field: FieldInfo | None, chooser: str) -> list[str]:
    parts = [part for part in alternatives(field.annotation) if is_part(part)] if field else []
    return [str(value) for part in parts for value in get_args(part.model_fields[chooser].annotation)]


def walk(kind: type[Part], raw: FieldPath) -> tuple[Any, FieldInfo | None, tuple[type[Part], str] | None]:
    """The annotation that `raw` leads to, the last field on the way, and that field's part and name."""
    annotation: Any = kind
    field: FieldInfo | None = None
    owner: tuple[type[Part], str] | None = None
    for part in raw:
        members = alternatives(annotation)
        origins = [get_origin(member) for member in members]
        if tuple in origins and isinstance(part, int):
            annotation = get_args(members[origins.index(tuple)])[0]
        elif dict in origins:
            annotation = get_args(members[origins.index(dict)])[1]
        else:
            parts = [cast(type[Part], member) for member in members if is_part(member)]
            holder = parts[0] if len(parts) == 1 else None
            if holder is not None and part in holder.model_fields:
                field, owner = holder.model_fields[str(part)], (holder, str(part))
                annotation = field.annotation
            elif len(parts) > 1:
                annotation = next((each for each in parts if str(part) in _tagged(each)), None)
            else:
                kept = part == raw[-1] and holder is None
                return None, field if kept else None, owner if kept else None
    return annotation, field, owner


def legal(kind: type[Part], raw: FieldPath) -> list[str]:
    """The values of an enumeration or of literals that `raw` leads to."""
    for member in alternatives(walk(kind, raw)[0]):
        if get_origin(member) is Literal:
            return [str(value) for value in get_args(member)]
        if isinstance(member, type) and issubclass(member, Enum):
            return [str(value) for value in member]
    return []


def field_at(kind: type[Part], raw: FieldPath) -> FieldInfo | None:
    return walk(kind, raw)[1]


def description_at(kind: type[Part], raw: FieldPath) -> str:
    """What the field at `raw` is about; empty where nothing is known of it."""
    owner = walk(kind, raw)[2]
    return description(*owner) if owner else ""


def part_at(kind: type[Part], raw: FieldPath) -> type[Part] | None:
    annotation = walk(kind, raw)[0]
    members = [member for member in alternatives(annotation) if is_part(member)]
    return cast(type[Part], members[0]) if len(members) == 1 else None


def example(field: FieldInfo | None) -> str:
    """What to write, for a field that is missing."""
    if field is None:
        return ""
    members = alternatives(field.annotation)
    first = members[0]
    if get_origin(first) is Literal:
        return f": {' | '.join(map(str, get_args(first)))}"
    if hasattr(first, "examples"):
        return f", such as {first.examples[0]}"
    if isinstance(first, type) and hasattr(first, "__members__"):
        return f": {' | '.join(map(str, cast(Any, first)))}"
    if any(is_part(member) for member in members):
        return " with its fields"
    return ""
