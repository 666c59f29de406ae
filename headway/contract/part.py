"""What every part of a contract is: a frozen pydantic model that refuses unknown fields and states all its contradictions at once.

The trap: pydantic runs a part's own `violations` only when all
fields of that part are valid, so a contradiction may show up one `check` after the misspelt field beside it.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, Literal, Self, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, GetJsonSchemaHandler, Strict, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, PydanticKnownError

from headway.contract.units import Quantity
from headway.problem import Problem


class Part(BaseModel):
    """Base of all contract parts. Descriptions of fields are their docstrings: reference and JSON Schema are generated from them.

    They are read when one is asked for: pydantic's own `use_attribute_docstrings` parses every source at each start.
    """

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid", validate_default=True)

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        made = handler(core_schema)
        for name, value in handler.resolve_ref_schema(made).get("properties", {}).items():
            if said := description(cls, name):
                value["description"] = said
        return made

    def violations(self) -> Iterator[Problem]:
        """Contradictions between valid fields of this part, their paths relative to it; none by default."""
        return iter(())

    def departs(self, field: str) -> bool:
        """Whether `field` has another value than its default. Rules ask this, not whether it was written: snapshots write every field."""
        return getattr(self, field) != type(self).model_fields[field].get_default(call_default_factory=True, validated_data={})

    @model_validator(mode="after")
    def _refuse_contradictions(self) -> Self:
        found = tuple(self.violations())
        if found:
            raise PydanticCustomError(
                "violations",
                "{text}",
                {"text": "; ".join(problem.brief for problem in found), "found": found},
            )
        return self


def description(part: type[Part], field: str) -> str:
    """The docstring below a field, of the part or of one that it inherits from; empty where there is none."""
    owner = next((each for each in part.__mro__ if field in vars(each).get("__annotations__", {})), part)
    return _docstrings(owner).get(field, "")


@cache
def _docstrings(part: type) -> dict[str, str]:
    body = cast(ast.ClassDef, ast.parse(textwrap.dedent(inspect.getsource(part))).body[0]).body
    return {
        field.target.id: inspect.cleandoc(said.value.value)
        for field, said in pairwise(body)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(said, ast.Expr) and isinstance(said.value, ast.Constant) and isinstance(said.value.value, str)
    }


_LABEL = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)


def _dns_label(value: str) -> str:
    if _LABEL.fullmatch(value) is None:
        meant = re.sub(r"[ ._]+", "-", value.strip().lower())
        raise PydanticCustomError(
            "name",
            "{fact}",
            {
                "fact": f"{value[:40]!r} is no name by RFC 1123: write "
                + (f"{meant}" if _LABEL.fullmatch(meant) else "lower-case ASCII letters, digits and inner hyphens, starting with a letter")
            },
        )
    return value


Name = Annotated[str, AfterValidator(_dns_label), Field(max_length=40, json_schema_extra={"pattern": "^[a-z]([a-z0-9-]*[a-z0-9])?$"})]
"""A name of ours: RFC 1123, at most 40 characters, so that derived object names stay within 63."""

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$", examples=["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"])]
"""A SHA-256 in lower-case hexadecimal."""

_UNREADABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u202a-\u202e\u2066-\u2069]")
"""Control characters, and those that turn the direction of what follows: what people read would not be what is written."""


def _readable(value: str) -> str:
    found = _UNREADABLE.search(value)
    if found:
        raise PydanticCustomError("text", "{fact}", {"fact": f"it holds an invisible character (U+{ord(found[0]):04X}): remove it"})
    if not value.strip():
        raise PydanticCustomError("text", "{fact}", {"fact": "it is blank: say it in words"})
    return value


def _whole(value: Any) -> Any:
    """Python's 1 equals True and 1.0, so a literal alone would take them."""
    if type(value) is not int:
        raise PydanticKnownError("int_type")
    return value


Text = Annotated[str, Field(min_length=1, max_length=500), AfterValidator(_readable)]
"""Something that people read, in alerts and records."""
One = Annotated[Literal[1], BeforeValidator(_whole)]
"""A count that cannot be another."""
Flag = Annotated[bool, Strict()]
Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]
"""A finite number; a text that looks like one is refused."""
Count = Annotated[int, Strict(), Field(ge=1, le=1_000_000)]
"""A number of things, at least one."""
CountOrNone = Annotated[int, Strict(), Field(ge=0, le=1_000_000)]
"""A number of things, possibly zero."""


def between(low: Quantity, high: Quantity) -> AfterValidator:
    """Bounds of a quantity, both included."""

    def check(value: Quantity) -> Quantity:
        if not low <= value <= high:
            raise PydanticCustomError("range", "{fact}", {"fact": f"{value} is not between {low} and {high}"})
        return value

    return AfterValidator(check)
