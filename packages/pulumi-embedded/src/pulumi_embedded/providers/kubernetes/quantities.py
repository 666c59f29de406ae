"""Kubernetes quantities: `1000m` and `1` are the same amount, and the API server rewrites one as the other.

Grammar: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/
"""

import re
from fractions import Fraction
from typing import Any

_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(n|u|m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][+-]?\d{1,3})?")
_SCALES = {
    "": Fraction(1),
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate(("k", "M", "G", "T", "P", "E"), 1)},
    **{suffix: Fraction(1024) ** power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)},
}

# Fields whose children are quantities, and fields that are one.
_PARENTS = frozenset(
    {"allocatable", "capacity", "default", "defaultRequest", "hard", "limits", "max", "maxLimitRequestRatio", "min", "overhead", "podFixed"}
    | {"requests", "used"}
)
_FIELDS = frozenset({"averageValue", "divisor", "sizeLimit", "storage", "storageCapacity"})


def amount(value: Any) -> Fraction | None:
    """The exact amount, or None for what is no quantity."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    found = _QUANTITY.fullmatch(str(value))
    if not found:
        return None
    number, suffix = Fraction(found.group(1)), found.group(2) or ""
    return number * (_SCALES[suffix] if suffix in _SCALES else Fraction(10) ** int(suffix[1:]))


def holds_quantity(path: tuple[str | int, ...]) -> bool:
    """Whether the field at the path is a quantity, by its name or its parent's."""
    return bool(path) and (path[-1] in _FIELDS or (len(path) > 1 and path[-2] in _PARENTS))


def equal(one: Any, other: Any) -> bool:
    """Whether both are quantities of the same amount."""
    left = amount(one)
    return left is not None and left == amount(other)
