"""From a document to a contract: validation by the models, and each of pydantic's errors as a finding with its place.

Owns the wording for errors of form; contradictions bring their own words from the models. The trap: pydantic's error paths name the
chosen alternative of a union (`runtime.triton.models`), which is no key of the document and is taken out again here.
"""

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, cast, get_args, get_origin

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from headway.contract.document import Document
from headway.contract.part import Part
from headway.contract.secret_names import names_a_secret
from headway.problem import FieldPath, Problem, dotted, problem, shown

P = TypeVar("P", bound=Part)


def contract_from(document: Document, kind: type[P]) -> tuple[P | None, tuple[Problem, ...]]:
    """The contract in `document`, or everything that is wrong with it. Findings of the document itself are not repeated."""
    if document.findings:
        return None, tuple(_errors(document, kind))
    try:
        return kind.model_validate(document.data), ()
    except ValidationError as error:
        return None, tuple(_findings(document, kind, error))


def contract_of(data: Mapping[str, Any], kind: type[P], file: str = "") -> tuple[P | None, tuple[Problem, ...]]:
    """The same for plain data that comes from elsewhere: settings, an API request, a release record."""
    return contract_from(Document(file, dict(data), {}, ()), kind)


def _errors(document: Document, kind: type[Part]) -> Iterator[Problem]:
    """Errors of form in a document that is already refused, so that all mistakes show at once."""
    if document.data is not None:
        told = {finding.path for finding in document.findings if finding.rule == "document-finite-number"}
        try:
            kind.model_validate(document.data)
        except ValidationError as error:
            # What stands in for a number that could not be read was never written.
            yield from (finding for finding in _findings(document, kind, error) if finding.path not in told)


def _findings(document: Document, kind: type[Part], error: ValidationError) -> Iterator[Problem]:
    for details in error.errors(include_url=False):
        raw = tuple(details["loc"])
        path = _document_path(document.data, raw, missing=details["type"] == "missing")
        context = details.get("ctx", {})
        if details["type"] == "too_short" and len(details["input"]) >= context["min_length"]:
            continue  # pydantic counts valid entries only; the invalid ones have their own errors
        if details["type"] == "violations":
            for violation in cast(tuple[Problem, ...], context["found"]):
                yield at(document, violation, path)
        elif _without_gpu(kind, path, str(details["type"]), context):
            yield at(document, _NO_GPU, path[:2])
        elif details["type"] == "union_tag_invalid" or details["type"] == "union_tag_not_found":
            yield _wrong_alternative(document, path, details["input"], context, _field(kind, raw))
        else:
            yield _wrong_value(document, kind, raw, path, str(details["type"]), str(details["msg"]), details["input"], context)


_NO_GPU = problem(
    "every-model-holds-a-gpu",
    fact="a model that holds no GPU",
    consequence="The pools, quotas and rollouts of this platform count GPUs, so nothing would place, charge or roll it out",
    remedy="Hold a small part of one, such as {share: mps, accelerator: l4, memory: 1Gi}; a server without a GPU is a raw manifest",
)
"""Why: docs/adr/0013-every-model-needs-a-gpu.md."""


def _without_gpu(kind: type[Part], path: FieldPath, type_: str, context: Mapping[str, Any]) -> bool:
    """Whether a model's GPU is left out, or declined by a word for none."""
    if "envelope" not in kind.model_fields or path[:2] != ("envelope", "gpu"):
        return False
    if type_ == "union_tag_invalid":
        return str(context.get("tag")).lower() in ("none", "cpu", "no", "0")
    return type_ == "missing" and len(path) == 2


def at(document: Document, problem: Problem, above: FieldPath = ()) -> Problem:
    """The same problem, placed in its document: with the whole path, the place and the value as text."""
    path = (*above, *problem.path)
    place = document.place(path)
    return replace(problem, subject="", file=document.file, line=place.line, column=place.column, path=path, value=problem.value_text)


def _document_path(data: Any, raw: FieldPath, *, missing: bool) -> FieldPath:
    """`raw` without the parts that name a union's alternative or a mapping's key."""
    path: list[str | int] = []
    for number, part in enumerate(raw):
        last = number == len(raw) - 1
        if isinstance(data, dict) and part in data:
            data = cast(dict[Any, Any], data)[part]
        elif isinstance(data, list) and isinstance(part, int) and part < len(cast(list[Any], data)):
            data = cast(list[Any], data)[part]
        elif not (missing and last):
            continue
        path.append(part)
    return tuple(path)


def _wrong_alternative(document: Document, path: FieldPath, given: Any, context: dict[str, Any], field: FieldInfo | None) -> Problem:
    chooser = str(context.get("discriminator", "")).strip("'")
    path = (*path, chooser)
    place = document.place(path)
    tags = ", ".join(_tags(field, chooser))
    tag = context.get("tag")
    near = difflib.get_close_matches(str(tag), _tags(field, chooser), 1) if tag is not None else []
    if tag is not None:
        fact = f"{shown(tag)!r} is not one of {tags}"
    else:
        fact = f"{chooser} is missing" if isinstance(given, dict) else f"{_kind_of(given)}, where a mapping is expected"
    return Problem(
        rule="value-not-legal" if tag is not None else "field-missing",
        file=document.file,
        line=place.line,
        column=place.column,
        path=path,
        value="" if tag is None else shown(tag),
        fact=fact,
        consequence="It decides which other fields there are, so none of them can be read",
        remedy=f"Did you mean {near[0]}?" if near else f"Write {chooser}: with one of {tags}",
    )


_SINGULAR = {"characters": "character", "entries": "entry"}
_KINDS: dict[type, str] = {
    dict: "a mapping",
    list: "a list",
    str: "a text",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    NoneType: "nothing",
}

_EXPECTED = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "string_type": "a text",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "tuple_type": "a list",
    "list_type": "a list",
    "unit": "a quantity",
}


def _kind_of(value: Any) -> str:
    return _KINDS.get(type(value), "a value")


def _meant(given: Any) -> int | None:
    """The whole number that a text in decimal digits, or a number such as `1e3`, stands for."""
    if isinstance(given, float) and given.is_integer() and abs(given) < 2**53:
        return int(given)
    return int(given) if isinstance(given, str) and re.fullmatch(r"-?(0|[1-9][0-9]{0,17})", given, re.ASCII) else None


def _wrong_value(
    document: Document, kind: type[Part], raw: FieldPath, path: FieldPath, type_: str, message: str, given: Any, context: dict[str, Any]
) -> Problem:
    field = _field(kind, raw)
    about = (field.description or "").partition(". ")[0].rstrip(".") if field else ""
    name = str(path[-1]) if path else "the document"
    rule, fact, remedy = "value-wrong", message[:1].lower() + message[1:], ""
    consequence = f"This stays unknown: {about}" if about else "The contract cannot be read"
    match type_:
        case "missing":
            rule, fact = "field-missing", f"{name} is missing"
            remedy = f"Add {name}{_example(field)}"
        case "extra_forbidden":
            owner = _part(kind, raw[:-1])
            legal = sorted(owner.model_fields) if owner else []
            near = difflib.get_close_matches(name, legal, 1)
            rule, fact, consequence = "field-unknown", f"there is no field {shown(name)}", "It would be ignored, so it is refused"
            remedy = f"Did you mean {near[0]}?" if near else f"Fields here: {', '.join(legal)}"
        case "enum" | "literal_error":
            legal_values = _legal(kind, raw) or [value.strip("'") for value in re.split(", | or ", str(context.get("expected", "")))]
            rule, one_of = "value-not-legal", ("one of " if len(legal_values) > 1 else "") + ", ".join(legal_values)
            fact = f"{shown(given)!r} is not {one_of}" if isinstance(given, str) else f"{_kind_of(given)}, where a text is expected"
            near = difflib.get_close_matches(str(given), legal_values, 1)
            remedy = f"Did you mean {near[0]}?" if near else f"Write {one_of}"
        case "unit" | "range" | "name" | "image":
            rule = {"unit": "unit", "range": "value-out-of-range"}.get(type_, "value-wrong-form")
            fact, _, remedy = str(context["fact"]).partition(": write ")
            remedy = f"Write {remedy}" if remedy else f"Use a value {fact.partition('is not ')[2]}"
            if given is None:
                fact = f"nothing, where {_EXPECTED.get(type_, 'a value')} is expected"
                remedy += "" if field is None or field.is_required() else f"; or leave {name} out"
        case "text":
            rule, (fact, _, remedy) = "text-is-readable", str(context["fact"]).partition(": ")
            remedy = remedy.capitalize()
        case "greater_than" | "greater_than_equal" | "less_than" | "less_than_equal":
            bound = next(context[key] for key in ("gt", "ge", "lt", "le") if key in context)
            words = {"greater_than": "more than", "greater_than_equal": "at least", "less_than": "less than", "less_than_equal": "at most"}[
                type_
            ]
            rule, fact, remedy = "value-out-of-range", f"{shown(given)} is not {words} {bound}", f"Use a number that is {words} {bound}"
        case "string_pattern_mismatch":
            rule, fact = "value-wrong-form", f"{shown(given)!r} has not the form of {name}"
            example = next(iter(field.examples or ()), None) if field else None
            lower = isinstance(given, str) and given != given.lower() and re.search(str(context.get("pattern")), given.lower(), re.ASCII)
            remedy = (
                "Write it in lower case"
                if lower
                else f"Write it as in {example}"
                if example
                else f"Write what matches {context.get('pattern')}"
            )
        case "string_too_short" | "string_too_long" | "too_short" | "too_long":
            short = type_.endswith("short")
            bound = context["min_length"] if short else context["max_length"]
            unit = "characters" if isinstance(given, str) else "entries"
            rule = "value-out-of-range"
            fact = f"{name} is empty" if not given else f"{name} has {'fewer than' if short else 'more than'} {bound} {unit}"
            remedy = f"Give it {'at least' if short else 'at most'} {bound} {unit if bound > 1 else _SINGULAR[unit]}"
        case _ if type_ in _EXPECTED:
            rule, fact = "value-wrong-type", f"{_kind_of(given)}, where {_EXPECTED[type_]} is expected"
            remedy = f"Write {_EXPECTED[type_]}"
            if given is None and field is not None and not field.is_required():
                remedy += f", or leave {name} out"
            elif _EXPECTED[type_] == "a text" and isinstance(given, int | float):
                remedy = f'Put it in quotes: "{document.written(path, given)}"'
            elif _EXPECTED[type_] == "a whole number" and (meant := _meant(given)) is not None:
                remedy = f"Write {meant}" + (", without quotes" if isinstance(given, str) else "")
            elif _EXPECTED[type_] == "true or false" and str(given).lower() in ("yes", "on", "no", "off"):
                remedy = f"Write {'true' if str(given).lower() in ('yes', 'on') else 'false'}"
        case _:
            remedy = "Correct it as the reference says"
    place = document.place(path)
    written = "" if isinstance(given, dict | list) or given is None or type_ == "missing" else shown(document.written(path, given))
    if "environment" in path and names_a_secret(name):
        fact, written = "the value of a variable that looks like a secret is not of the right kind", ""
        remedy = "Take it out: contracts hold no secrets; use the workload identity"
    return Problem(
        rule=rule,
        file=document.file,
        line=place.line,
        column=place.column,
        path=path,
        value=written,
        fact=fact,
        consequence=consequence,
        remedy=remedy or f"Correct {dotted(path)}",
    )


# Problem the field that an error path speaks of -----------------------------------------------------------------------------------


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


def _tags(field: FieldInfo | None, chooser: str) -> list[str]:
    parts = [part for part in alternatives(field.annotation) if is_part(part)] if field else []
    return [str(value) for part in parts for value in get_args(part.model_fields[chooser].annotation)]


def _walk(kind: type[Part], raw: FieldPath) -> tuple[Any, FieldInfo | None]:
    """The annotation that `raw` leads to, and the last field on the way."""
    annotation: Any = kind
    field: FieldInfo | None = None
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
                field = holder.model_fields[str(part)]
                annotation = field.annotation
            elif len(parts) > 1:
                annotation = next((each for each in parts if str(part) in _tagged(each)), None)
            else:
                return None, field if part == raw[-1] and holder is None else None
    return annotation, field


def _legal(kind: type[Part], raw: FieldPath) -> list[str]:
    """The values of an enumeration or of literals that `raw` leads to."""
    for member in alternatives(_walk(kind, raw)[0]):
        if get_origin(member) is Literal:
            return [str(value) for value in get_args(member)]
        if isinstance(member, type) and issubclass(member, Enum):
            return [str(value) for value in member]
    return []


def _field(kind: type[Part], raw: FieldPath) -> FieldInfo | None:
    return _walk(kind, raw)[1]


def _part(kind: type[Part], raw: FieldPath) -> type[Part] | None:
    annotation = _walk(kind, raw)[0]
    members = [member for member in alternatives(annotation) if is_part(member)]
    return cast(type[Part], members[0]) if len(members) == 1 else None


def _example(field: FieldInfo | None) -> str:
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
