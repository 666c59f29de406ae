"""How a stack file is refused: every problem with its path, its value, what follows from it and what to write instead.

The trap: pydantic's own words ("Input should be a valid integer") say neither consequence nor remedy; both are added here by kind.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import pulumi
from pydantic import ValidationError
from pydantic_core import PydanticCustomError

from headway.contract.part import Violation

NOTHING_PLANNED = "Nothing was planned"
HIDDEN = "[secret]"
_SHOWN_CHARACTERS = 60

_KINDS = {
    "missing": ("is missing", "add it; stacks/settings.py says of every field what it means"),
    "extra_forbidden": ("is not a setting: it would have been ignored", "delete it, or correct its spelling"),
}


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """One problem. `value` is empty when there is none to show or it must not be shown."""

    path: str
    value: str
    fact: str
    consequence: str
    remedy: str

    def __str__(self) -> str:
        value = f" = {self.value}" if self.value else ""
        return f"  {self.path}{value}\n    {self.fact}.\n    {self.consequence}.\n    Remedy: {self.remedy}."


class SettingsError(pulumi.RunError):
    """A stack file cannot stand. Ends the program with this text and without a traceback."""

    def __init__(self, source: str, found: Sequence[Refusal]) -> None:
        count = f"{len(found)} problem{'s' if len(found) > 1 else ''}"
        super().__init__(f"{source} is refused: {count}. {NOTHING_PLANNED}.\n" + "\n".join(map(str, found)))
        self.found = tuple(found)


def refuse(violation: Violation) -> NoReturn:
    """Refuse one field from its own validator, so that it is reported beside every other field's problem."""
    raise PydanticCustomError("violations", "{text}", {"text": violation.fact, "found": (violation,)})


def refusals(error: ValidationError, hidden: frozenset[str] = frozenset()) -> tuple[Refusal, ...]:
    """Every problem that pydantic found, ordered by path. `hidden` names the sections whose values are secret."""
    return tuple(sorted(_refusals(error, hidden), key=lambda refusal: (refusal.path, refusal.fact)))


def _refusals(error: ValidationError, hidden: frozenset[str]) -> Iterator[Refusal]:
    for item in error.errors(include_url=False):
        where = item["loc"]
        secret = bool(where) and where[0] in hidden
        found: Sequence[Violation] = item.get("ctx", {}).get("found", ())
        for violation in found:
            yield Refusal(
                path=_path((*where, *violation.path)),
                value=_value(violation.value, secret),
                fact=violation.fact,
                consequence=violation.consequence,
                remedy=violation.remedy,
            )
        if not found:
            fact, remedy = _KINDS.get(item["type"], (_sentence(item["msg"]), "write a value of that kind"))
            given = None if item["type"] == "missing" else item["input"]
            yield Refusal(path=_path(where), value=_value(given, secret), fact=fact, consequence=NOTHING_PLANNED, remedy=remedy)


def _path(where: Sequence[str | int]) -> str:
    text = ""
    for part in where:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else f"headway:{part}"
    return text or "the stack file"


def _value(value: Any, secret: bool) -> str:
    if value is None:
        return ""
    if secret:
        return HIDDEN
    text = repr(value)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[: _SHOWN_CHARACTERS - 3]}..."


def _sentence(message: str) -> str:
    return message[:1].lower() + message[1:].rstrip(".") if message else "is not valid"
