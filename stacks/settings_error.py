"""How a stack file is refused: every problem with its path, its value, what follows from it and what to write instead.

pydantic's own words ("Input should be a valid integer") say neither consequence nor remedy; both are added here by
kind.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NoReturn

import pulumi
from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from headway.problem import FieldPath, Problem, count

NOTHING_PLANNED = "Nothing was planned"
HIDDEN = "[secret]"
_SHOWN_CHARACTERS = 60

_KINDS = {
    "missing": ("this setting is missing", "Add it; stacks/sections.py describes every field"),
    "extra_forbidden": ("there is no such setting; it would have been ignored", "Delete it, or correct its spelling"),
    "string_type": ("it is no text", "Put it in quotes: YAML takes digits without them for a number"),
    "int_type": ("it is no whole number", "Write a whole number"),
    "int_parsing": ("it is no whole number", "Write a whole number"),
    "bool_type": ("it is neither true nor false", "Write true or false"),
    "tuple_type": ("it is no list", "Write a list, such as [a, b]"),
    "list_type": ("it is no list", "Write a list, such as [a, b]"),
    "model_type": ("it is no mapping", "Write the fields of this section below it, each with its value"),
    "dict_type": ("it is no mapping", "Write names with values below it"),
}


class SettingsError(pulumi.RunError):
    """A stack file cannot stand. Ends the program with this text and without a traceback."""

    def __init__(self, source: str, problems: Sequence[Problem]) -> None:
        told = [f"  {line}" for problem in problems for line in str(problem).splitlines()]
        super().__init__("\n".join([f"{source} is refused: {count(len(problems), 'problem')}. {NOTHING_PLANNED}.", *told]))
        self.problems = tuple(problems)


def refuse(rule: str, value: Any, *, fact: str, consequence: str, remedy: str) -> NoReturn:
    """Refuse one field from its own validator, so that it is reported beside every other field's problem."""
    found = Problem(rule=rule, value=value, fact=fact, consequence=consequence, remedy=remedy)
    raise PydanticCustomError("violations", "{text}", {"text": fact, "found": (found,)})


def problems_in(error: ValidationError, hidden: frozenset[str] = frozenset()) -> tuple[Problem, ...]:
    """Every problem that pydantic found, ordered by path. `hidden` names the sections whose values are secret."""
    return tuple(sorted(_problems(error, hidden), key=lambda problem: (problem.dotted, problem.fact)))


def _problems(error: ValidationError, hidden: frozenset[str]) -> Iterator[Problem]:
    for item in error.errors(include_url=False):
        where = item["loc"]
        secret = bool(where) and where[0] in hidden
        stated: Sequence[Problem] = item.get("ctx", {}).get("found", ())
        for problem in stated:
            yield replace(problem, path=_path((*where, *problem.path)), value=_value(problem.value, secret))
        if not stated:
            fact, remedy = _KINDS.get(item["type"], (_sentence(item["msg"]), "Write a value of that kind"))
            if item["type"] == "string_type" and not isinstance(item["input"], int | float):
                remedy = "Write a text"
            given = None if item["type"] == "missing" else item["input"]
            yield Problem(path=_path(where), value=_value(given, secret), fact=fact, consequence=NOTHING_PLANNED, remedy=remedy)


def _path(where: FieldPath) -> FieldPath:
    return (f"headway:{where[0]}", *where[1:]) if where else ("the stack file",)


def _value(value: Any, secret: bool) -> str | None:
    if value is None:
        return None
    if secret:
        return HIDDEN
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 3]}..."


def _sentence(message: str) -> str:
    return message[:1].lower() + message[1:].rstrip(".") if message else "it is not valid"
