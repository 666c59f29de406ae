"""What is said of a value that is wrong by its form: one function for each group of pydantic's error types.

pydantic's own messages say neither what follows nor what to do. Contradictions between values bring their own words from the models.
"""

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import NoneType
from typing import Any

from pydantic.fields import FieldInfo

from headway.contract.part import Part
from headway.contract.reading.document import Document
from headway.contract.reading.fields import description_at, example, field_at, legal, part_at
from headway.contract.secret_names import masked, names_a_secret
from headway.problem import FieldPath, Problem, dotted, shown

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

_BOUNDS = {
    "greater_than": "more than",
    "greater_than_equal": "at least",
    "less_than": "less than",
    "less_than_equal": "at most",
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


def kind_of(value: Any) -> str:
    return _KINDS.get(type(value), "a value")


def _meant(given: Any) -> int | None:
    """The whole number that a text in decimal digits, or a number such as `1e3`, stands for."""
    if isinstance(given, float) and given.is_integer() and abs(given) < 2**53:
        return int(given)
    return int(given) if isinstance(given, str) and re.fullmatch(r"-?(0|[1-9][0-9]{0,17})", given, re.ASCII) else None


@dataclass(frozen=True, kw_only=True)
class WrongValue:
    """One of pydantic's errors. `location` is its own path, `path` the one in the document."""

    document: Document
    kind: type[Part]
    location: FieldPath
    path: FieldPath
    type: str
    message: str
    given: Any
    context: Mapping[str, Any] = field(default_factory=dict[str, Any])
    looked_up: bool = True
    """Whether what was meant is looked up."""

    @property
    def field(self) -> FieldInfo | None:
        return field_at(self.kind, self.location)

    @property
    def name(self) -> str:
        return str(self.path[-1]) if self.path else "the document"

    @property
    def may_be_left_out(self) -> bool:
        return self.field is not None and not self.field.is_required()


@dataclass(frozen=True)
class Wording:
    """An empty consequence stands for what the field is about."""

    rule: str
    fact: str
    remedy: str
    consequence: str = ""


def wrong_value(wrong: WrongValue) -> Problem:
    """The problem, with its place in the document."""
    said = _BY_TYPE.get(wrong.type, _other)(wrong)
    about = description_at(wrong.kind, wrong.location).partition(". ")[0].rstrip(".")
    consequence = said.consequence or (f"This stays unknown: {about}" if about else "The contract cannot be read")
    given, path = wrong.given, wrong.path
    written = (
        ""
        if isinstance(given, dict | list) or given is None or wrong.type == "missing"
        else shown(masked(wrong.document.written(path, given)))
    )
    fact, remedy = said.fact, said.remedy or f"Correct {dotted(path)}"
    if "environment" in path and names_a_secret(wrong.name):
        fact, written = "the value of a variable that looks like a secret is not of the right kind", ""
        remedy = "Take it out: contracts hold no secrets; use the workload identity"
    place = wrong.document.place(path)
    return Problem(
        rule=said.rule,
        file=wrong.document.file,
        line=place.line,
        column=place.column,
        path=path,
        value=written,
        fact=fact,
        consequence=consequence,
        remedy=remedy,
    )


LONGEST_WORD = 100
"""Characters of a value that can be a misspelling of anything: comparing costs their product."""


def nearest(given: Any, choices: list[str], otherwise: str) -> str:
    """A remedy: the choice that `given` is a misspelling of, or `otherwise`."""
    word = str(given).lower()
    if len(word) > LONGEST_WORD:
        return otherwise
    near = [choice for choice in choices if word and choice.lower().startswith(word)] or difflib.get_close_matches(word, choices, 1)
    return meant_for(" or ".join(near)) if near else otherwise


def meant_for(choice: str) -> str:
    """The remedy for a misspelling of `choice`."""
    return f"Did you mean {choice}?"


def _missing(wrong: WrongValue) -> Wording:
    return Wording("field-missing", f"{wrong.name} is missing", f"Add {wrong.name}{example(wrong.field)}")


def _unknown(wrong: WrongValue) -> Wording:
    owner = part_at(wrong.kind, wrong.location[:-1])
    names = sorted(owner.model_fields) if owner else []
    fields = f"Fields here: {', '.join(names)}"
    remedy = nearest(wrong.name, names, fields) if wrong.looked_up else fields
    return Wording("field-unknown", f"there is no field {shown(wrong.name)}", remedy, "It would be ignored, so it is refused")


def _not_legal(wrong: WrongValue) -> Wording:
    expected = re.split(", | or ", str(wrong.context.get("expected", "")))
    choices = legal(wrong.kind, wrong.location) or [value.strip("'") for value in expected]
    one_of = ("one of " if len(choices) > 1 else "") + ", ".join(choices)
    given = wrong.given
    fact = f"{shown(given)!r} is not {one_of}" if isinstance(given, str) else f"there is {kind_of(given)}, where a text is expected"
    return Wording("value-not-legal", fact, nearest(given, choices, f"Write {one_of}") if wrong.looked_up else f"Write {one_of}")


def _no_quantity(wrong: WrongValue) -> Wording:
    rule = {"unit": "unit", "range": "value-out-of-range"}.get(wrong.type, "value-wrong-form")
    fact, _, remedy = str(wrong.context["fact"]).partition(": write ")
    remedy = f"Write {remedy}" if remedy else f"Use a value {fact.partition('is not ')[2]}"
    if wrong.given is None:
        fact = f"there is nothing, where {_EXPECTED.get(wrong.type, 'a value')} is expected"
        remedy += f"; or leave {wrong.name} out" if wrong.may_be_left_out else ""
    return Wording(rule, fact, remedy)


def _unreadable(wrong: WrongValue) -> Wording:
    fact, _, remedy = str(wrong.context["fact"]).partition(": ")
    return Wording("text-is-readable", fact, remedy.capitalize())


def _out_of_bounds(wrong: WrongValue) -> Wording:
    bound = next(wrong.context[key] for key in ("gt", "ge", "lt", "le") if key in wrong.context)
    words = _BOUNDS[wrong.type]
    return Wording("value-out-of-range", f"{shown(wrong.given)} is not {words} {bound}", f"Use a number that is {words} {bound}")


def _wrong_form(wrong: WrongValue) -> Wording:
    given, pattern = wrong.given, str(wrong.context.get("pattern"))
    such = next(iter(wrong.field.examples or ()), None) if wrong.field else None
    if isinstance(given, str) and given != given.lower() and re.search(pattern, given.lower(), re.ASCII):
        remedy = "Write it in lower case"
    else:
        remedy = f"Write it as in {such}" if such else f"Write what matches {wrong.context.get('pattern')}"
    return Wording("value-wrong-form", f"{shown(given)!r} has not the form of {wrong.name}", remedy)


def _wrong_length(wrong: WrongValue) -> Wording:
    short, name = wrong.type.endswith("short"), wrong.name
    bound = wrong.context["min_length"] if short else wrong.context["max_length"]
    unit = "characters" if isinstance(wrong.given, str) else "entries"
    fact = f"{name} has {'fewer than' if short else 'more than'} {bound} {unit}" if wrong.given else f"{name} is empty"
    return Wording(
        "value-out-of-range", fact, f"Give it {'at least' if short else 'at most'} {bound} {unit if bound > 1 else _SINGULAR[unit]}"
    )


def _wrong_type(wrong: WrongValue) -> Wording:
    given, expected = wrong.given, _EXPECTED[wrong.type]
    remedy = f"Write {expected}"
    if given is None and wrong.may_be_left_out:
        remedy += f", or leave {wrong.name} out"
    elif expected == "a text" and isinstance(given, int | float):
        remedy = f'Put it in quotes: "{wrong.document.written(wrong.path, given)}"'
    elif expected == "a whole number" and (meant := _meant(given)) is not None:
        remedy = f"Write {meant}" + (", without quotes" if isinstance(given, str) else "")
    elif expected == "true or false" and str(given).lower() in ("yes", "on", "no", "off"):
        remedy = f"Write {'true' if str(given).lower() in ('yes', 'on') else 'false'}"
    return Wording("value-wrong-type", f"there is {kind_of(given)}, where {expected} is expected", remedy)


def _other(wrong: WrongValue) -> Wording:
    return Wording("value-wrong", wrong.message[:1].lower() + wrong.message[1:], "Correct it as the reference says")


_BY_TYPE: Mapping[str, Callable[[WrongValue], Wording]] = {
    "missing": _missing,
    "extra_forbidden": _unknown,
    **dict.fromkeys(("enum", "literal_error"), _not_legal),
    **dict.fromkeys(_EXPECTED, _wrong_type),
    **dict.fromkeys(("unit", "range", "name", "image"), _no_quantity),
    "text": _unreadable,
    **dict.fromkeys(_BOUNDS, _out_of_bounds),
    "string_pattern_mismatch": _wrong_form,
    **dict.fromkeys(("string_too_short", "string_too_long", "too_short", "too_long"), _wrong_length),
}
