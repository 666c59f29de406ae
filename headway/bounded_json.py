"""JSON that somebody else wrote: read within bounds, so that nothing in it costs memory or stops a loop. Pure."""

import json
import math
import re
from typing import Any, NoReturn

LARGEST_JSON = 1 << 20
"""Bytes: what an object of Kubernetes may have (etcd takes no more), and more than any event of a ledger has."""
DEEPEST = 32
"""Levels of lists and objects; a tick has 8, a Kubernetes object some 15."""

MOST_VALUES = 3_000_000
"""Commas and brackets of a text. Three million small lists are 5 MB of text and 360 MB of memory; an hour of a large service's samples has
two million."""

_NESTS = (dict, list)
_HALF_OF_A_PAIR = re.compile(r"\\u[dD][89a-fA-F]")


def bounded_json(content: bytes | str, largest: int = LARGEST_JSON, deepest: int = DEEPEST) -> Any:
    """What a JSON text in UTF-8 says: finite numbers, and text that UTF-8 can hold again. Raises ValueError and nothing else, for a text
    that is too large or too deep as for one that is no JSON."""
    if len(content) > largest:
        raise ValueError(f"it has {len(content)} bytes, and at most {largest} are read")
    text = content if isinstance(content, str) else content.decode()
    if len(text) > MOST_VALUES and text.count(",") + text.count("[") + text.count("{") > MOST_VALUES:
        raise ValueError(f"it has more than {MOST_VALUES} values")
    try:
        value = json.loads(text, parse_constant=_no_number, parse_float=_finite)
    except RecursionError:
        raise ValueError(f"it is nested more than {deepest} levels deep") from None
    _refuse_deep(value, deepest)
    if _HALF_OF_A_PAIR.search(text):  # it may have its other half: only the value tells
        json.dumps(value, ensure_ascii=False).encode()
    return value


def _refuse_deep(value: Any, deepest: int) -> None:
    level: list[Any] = [value] if type(value) in _NESTS else []
    for _ in range(deepest + 1):
        if not level:
            return
        level = [part for outer in level for part in (outer.values() if type(outer) is dict else outer) if type(part) in _NESTS]
    raise ValueError(f"it is nested more than {deepest} levels deep")


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is larger than a number may be")
    return number
