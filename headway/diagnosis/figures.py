"""How a measure's figures are told to people. Pure."""

from datetime import UTC, datetime

from headway.diagnosis.comparison import BeforeAfter
from headway.diagnosis.measure import FigureUnit


def clock(moment: float, at: float) -> str:
    """Unix seconds as people say them who look `at` another time: with the date where that is another day."""
    then, now = (datetime.fromtimestamp(each, UTC) for each in (moment, at))
    return f"{then:%H:%M:%S} UTC" if then.date() == now.date() else f"{then:%Y-%m-%d %H:%M:%S} UTC"


def shown(value: float, unit: FigureUnit) -> str:
    """`38 ms`, `12.3 %`, `41/s`, `1.2 MiB`."""
    match unit:
        case FigureUnit.SECONDS:
            return f"{value * 1e3:.3g} ms" if abs(value) < 1 else f"{value:.3g} s"
        case FigureUnit.SHARE:
            return f"{value * 100:.3g} %"
        case FigureUnit.BYTES:
            return f"{value / 2**20:.3g} MiB" if abs(value) >= 2**20 else f"{value:.0f} bytes"
        case FigureUnit.PER_SECOND:
            return f"{value:.3g}/s"
        case FigureUnit.MEGAHERTZ:
            return f"{value:.4g} MHz"
        case _:
            return f"{value:.3g} {unit}".strip()


def signed(value: float, unit: FigureUnit) -> str:
    """`+38 ms`: what was added."""
    return f"{'+' if value >= 0 else '-'}{shown(abs(value), unit)}"


def both(found: BeforeAfter, unit: FigureUnit) -> str:
    """`3 ms before, 41 ms since (+36 to +40 ms, n 30 and 18)`: both means, the interval of what they differ by, and of how many steps."""
    n = f"n {found.blocks[0]} and {found.blocks[1]}"
    return f"{shown(found.before, unit)} before, {shown(found.since, unit)} since ({interval(found, unit)}, {n})"


def interval(found: BeforeAfter, unit: FigureUnit) -> str:
    """`+36 to +40 ms`: what both means differ by."""
    low, high = signed(found.low, unit), signed(found.high, unit)
    number, _, unit_of_low = low.partition(" ")
    low = number if high.endswith(f" {unit_of_low}") else low
    return f"{low} to {high}"
