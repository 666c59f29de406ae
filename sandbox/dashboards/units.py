"""Values in the units of Grafana's names, as people read them. Pure."""

from collections.abc import Callable, Mapping

_DECIMAL = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_BINARY = ((2.0**40, " TiB"), (2.0**30, " GiB"), (2.0**20, " MiB"), (2.0**10, " KiB"))
_TIME = ((86_400.0, " d"), (3_600.0, " h"), (60.0, " min"), (1.0, " s"), (1e-3, " ms"), (1e-6, " µs"))


def shown(value: float, unit: str) -> str:
    """A finite value with three figures and its unit."""
    return UNITS[unit](value)


def _figures(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _scaled(value: float, steps: tuple[tuple[float, str], ...], least: str) -> str:
    for size, name in steps:
        if abs(value) >= size:
            return _figures(value / size) + name
    return _figures(value) + least


def _suffixed(suffix: str) -> Callable[[float], str]:
    return lambda value: _scaled(value, _DECIMAL, "") + suffix


def _seconds(value: float) -> str:
    return "0 s" if value == 0 else _scaled(value, _TIME, " s")


UNITS: Mapping[str, Callable[[float], str]] = {
    "bytes": lambda value: _scaled(value, _BINARY, " B"),
    "celsius": lambda value: f"{_figures(value)} °C",
    "hertz": lambda value: _scaled(value, tuple((size, f" {name}Hz") for size, name in _DECIMAL), " Hz"),
    "percentunit": lambda value: f"{_figures(value * 100)} %",
    "reqps": _suffixed(" req/s"),
    "s": _seconds,
    "short": _suffixed(""),
    "tokps": _suffixed(" tok/s"),
    "watt": _suffixed(" W"),
}
"""By Grafana's id (packages/grafana-data/src/valueFormats/categories.ts)."""
