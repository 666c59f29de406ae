"""Quantities that people write: `14Gi`, `500m`, `250ms`, `99.9%`, `12 USD`, `50/s`; exact integers inside.

Each type is an `int` in its smallest unit, so sums and comparisons are exact, and `str()` gives the shortest text that parses back to
the same value (for bytes and CPU that text is also Kubernetes' own). The trap: arithmetic on them answers plain integers; wrap the
result again before showing it.
"""

import re
from decimal import Decimal
from typing import Any, ClassVar, Self

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

LARGEST = 2**63 - 1
"""No quantity exceeds what Kubernetes and JSON readers hold in 64 bits."""

_TEXT = re.compile(r"([0-9]{1,19})(?:\.([0-9]{1,9}))?( ?)([A-Za-z%/]*)", re.ASCII)


class UnitError(ValueError):
    """A text that is no such quantity; the message names the legal units and an example."""


class Quantity(int):
    """A whole, non-negative number of the smallest unit of its kind."""

    what: ClassVar[str]
    """What it measures, for messages."""
    units: ClassVar[dict[str, int]]
    """Suffix to size in the smallest unit, smallest first."""
    spaced: ClassVar[bool] = False
    """Whether a space stands before the unit, as in `12 USD`."""
    bare: ClassVar[str] = ""
    """The unit of a number written without one; empty where that is refused."""
    examples: ClassVar[tuple[str, ...]]

    def __new__(cls, value: int) -> Self:
        if not 0 <= value <= LARGEST:
            raise UnitError(f"{value} is outside 0 to {LARGEST}, what {cls.what} can be")
        return super().__new__(cls, value)

    @classmethod
    def parse(cls, text: str) -> Self:
        """The quantity that `text` names; raises UnitError with the legal units."""
        match = _TEXT.fullmatch(text)
        whole, fraction, space, suffix = match.groups(default="") if match else ("", "", "", "")
        unit = suffix or cls.bare
        if match is None or unit not in cls.units or bool(space) != (cls.spaced and bool(suffix)):
            missing = f"{_shown(text)} has no unit" if match and not suffix else f"{_shown(text)} is not {cls.what}"
            raise UnitError(f"{missing}: write {cls.legal()}")
        exact = Decimal(f"{whole}.{fraction or 0}") * cls.units[unit]
        value = int(exact)
        if value != exact:
            raise UnitError(f"{_shown(text)} is finer than {cls.what} can be: write a multiple of {cls(1)}")
        if value > LARGEST:
            raise UnitError(f"{_shown(text)} is more than {cls.what} can be: write at most {cls(LARGEST)}")
        return cls(value)

    @classmethod
    def legal(cls) -> str:
        """What may be written, for messages and the reference."""
        units = [unit for unit in cls.units if unit]
        named = f"the unit {units[0]}" if len(units) == 1 else f"one of the units {', '.join(units)}"
        bare = f" or none for {cls.bare}" if cls.bare else " or none" if "" in cls.units else ""
        return f"a number with {named}{bare}, such as {' or '.join(cls.examples)}"

    @classmethod
    def _suffix(cls, unit: str) -> str:
        return f" {unit}" if cls.spaced else unit

    def __str__(self) -> str:
        value = int(self)
        fitting = [unit for unit, size in self.units.items() if value % size == 0]
        unit = max(fitting, key=self.units.__getitem__) if value else self.zero_unit()
        return f"{value // self.units[unit]}{self._suffix(unit)}"

    @classmethod
    def zero_unit(cls) -> str:
        """The unit that zero is shown in."""
        return next(iter(cls.units))

    @property
    def brief(self) -> str:
        """For reading only: three significant figures of the largest unit that fits, such as `7.6Gi` for 8160437863B."""
        unit = max((u for u, size in self.units.items() if size <= self), key=self.units.__getitem__, default=self.zero_unit())
        return f"{_three_figures(Decimal(int(self)) / self.units[unit])}{self._suffix(unit)}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    @classmethod
    def _validate(cls, value: Any) -> Self:
        if isinstance(value, cls):
            return value
        try:
            if isinstance(value, str):
                return cls.parse(value)
            if type(value) in (int, float) and ("" in cls.units or cls.bare):
                return cls.parse(repr(value))
            wrong = f"{value} has no unit" if type(value) in (int, float) else f"{_shown(value)} is not {cls.what}"
            raise UnitError(f"{wrong}: write {cls.legal()}")
        except UnitError as error:
            raise PydanticCustomError("unit", "{fact}", {"fact": str(error)}) from None

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            cls._validate, serialization=core_schema.plain_serializer_function_ser_schema(str, return_schema=core_schema.str_schema())
        )

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        suffixes = "|".join(re.escape(unit) for unit in cls.units if unit)
        optional = "?" if cls.bare or "" in cls.units else ""
        space = " " if cls.spaced else ""
        text = {
            "type": "string",
            "pattern": rf"^[0-9]{{1,19}}(\.[0-9]{{1,9}})?({space}({suffixes})){optional}$",
            "title": cls.__name__,
            "examples": list(cls.examples),
        }
        return {**text, "type": ["string", "number"], "minimum": 0} if optional else text


def _three_figures(number: Decimal) -> str:
    decimals = 0 if number >= 100 else 1 if number >= 10 else 2
    text = f"{number:.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _shown(value: object) -> str:
    """The value as the user wrote it, short enough for one line."""
    text = value if isinstance(value, str) else repr(value)
    return repr(text if len(text) <= 40 else text[:37] + "...")


class Bytes(Quantity):
    """Memory or storage, in bytes. Decimal units (`GB`) and Kubernetes' milli-bytes (`500m`) are refused: both hide mistakes of size."""

    what = "a size in bytes"
    units: ClassVar[dict[str, int]] = {"B": 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
    examples = ("14Gi", "512Mi", "98566144B")

    @property
    def enough(self) -> str:
        """The least whole number of the largest unit that has two figures and is not less, such as `1125Gi` for 1151700Mi."""
        unit, size = max((each for each in self.units.items() if int(self) >= 10 * each[1]), key=lambda each: each[1], default=("B", 1))
        return f"{-(-int(self) // size)}{unit}"

    @property
    def kubernetes(self) -> str:
        """As a Kubernetes quantity, which knows no `B`."""
        return str(self).removesuffix("B")


class MilliCpu(Quantity):
    """Processor time, in thousandths of a core."""

    what = "an amount of CPU"
    units: ClassVar[dict[str, int]] = {"m": 1, "": 1000}
    examples = ("500m", "4")


class Duration(Quantity):
    """A span of time, in microseconds. `m` is minutes, as in Prometheus and Go."""

    what = "a span of time"
    units: ClassVar[dict[str, int]] = {
        "us": 1,
        "ms": 1_000,
        "s": 1_000_000,
        "m": 60_000_000,
        "h": 3_600_000_000,
        "d": 86_400_000_000,
    }
    examples = ("250ms", "30s", "28d")

    @classmethod
    def of_seconds(cls, seconds: float) -> "Duration":
        """The inverse of `seconds`, to the microsecond. Raises TypeError for what is no number, as of a ledger: a text would be repeated a
        million times."""
        if type(seconds) not in (int, float):
            raise TypeError(f"a {type(seconds).__name__} is no number of seconds")
        return cls(round(seconds * 1_000_000))

    @property
    def seconds(self) -> float:
        return int(self) / 1_000_000

    @property
    def whole_seconds(self) -> int:
        """Rounded up, for fields of Kubernetes that know whole seconds only."""
        return -(-int(self) // 1_000_000)

    @classmethod
    def zero_unit(cls) -> str:
        return "s"


class Share(Quantity):
    """A part of a whole, in millionths: `99.9%` is 999,000. May exceed 100 % only where a field says so."""

    what = "a percentage"
    units: ClassVar[dict[str, int]] = {"%": 10_000}
    examples = ("99.9%", "5%")

    WHOLE: ClassVar[int] = 1_000_000

    @classmethod
    def percent(cls, number: int) -> "Share":
        """So many hundredths of the whole: what ledgers and meshes carry. Raises TypeError for what is no whole number: a text, of which a
        ledger may hold any, would be repeated ten thousand times."""
        if type(number) is not int:
            raise TypeError(f"a {type(number).__name__} is no whole percentage")
        return cls(number * cls.WHOLE // 100)

    @property
    def whole_percent(self) -> int:
        """Raises ValueError for a share that whole percent cannot say."""
        number, rest = divmod(int(self), self.WHOLE // 100)
        if rest:
            raise UnitError(f"{self} is no whole percentage")
        return number

    @property
    def brief(self) -> str:
        return f"{_three_figures(Decimal(int(self)) / 10_000)}%"

    @property
    def fraction(self) -> float:
        return int(self) / self.WHOLE

    def of(self, amount: int) -> int:
        """This part of `amount`, rounded down."""
        return amount * int(self) // self.WHOLE

    def __str__(self) -> str:
        return f"{(Decimal(int(self)) / 10_000).normalize():f}%"


class Money(Quantity):
    """An amount in US dollars, in millionths of a dollar: list prices go down to that."""

    what = "an amount of money"
    units: ClassVar[dict[str, int]] = {"USD": 1_000_000}
    spaced = True
    examples = ("1200 USD", "0.8048 USD")

    @property
    def brief(self) -> str:
        decimals = 0 if self.dollars >= 100 else 2 if self.dollars >= 1 else 4
        return f"{self.dollars:,.{decimals}f} USD"

    @property
    def dollars(self) -> Decimal:
        return Decimal(int(self)) / 1_000_000

    def __str__(self) -> str:
        return f"{self.dollars.normalize():f} USD"


class Rate(Quantity):
    """How often something happens, exact as a number per hour: `50/s` is 180,000."""

    what = "a rate"
    units: ClassVar[dict[str, int]] = {"/h": 1, "/m": 60, "/s": 3_600}
    examples = ("50/s", "300/m")

    @property
    def per_second(self) -> float:
        return int(self) / 3_600

    @classmethod
    def zero_unit(cls) -> str:
        return "/s"


class Throughput(Quantity):
    """Bytes a second, of storage or of a network."""

    what = "a throughput"
    units: ClassVar[dict[str, int]] = {"B/s": 1, "Ki/s": 2**10, "Mi/s": 2**20, "Gi/s": 2**30}
    examples = ("600Mi/s", "2Gi/s")
