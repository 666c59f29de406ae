"""What a part of the gate remembers between ticks, as named arrays that can be stored and read back.

Everything that is remembered must be a public array attribute or part; a plain number that changed from tick to tick would be lost.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

Arrays = dict[str, NDArray[Any]]


class Stateful:
    """A part with memory: its array attributes, and those of the parts it is made of."""

    def keep(self) -> Arrays:
        """Copies of all arrays, by dotted name."""
        kept: Arrays = {}
        for name, value in sorted(_remembered(self)):
            if isinstance(value, np.ndarray):
                kept[name] = value.copy()
            for key, part in _parts(name, value):
                kept |= {f"{key}.{inner}": array for inner, array in part.keep().items()}
        return kept

    def resume(self, kept: Mapping[str, NDArray[Any]]) -> None:
        """Take over what `keep` gave. Raises ValueError when it came from a gate of another shape."""
        mine = self.keep()
        if {k: v.shape for k, v in mine.items()} != {k: v.shape for k, v in kept.items()}:
            raise ValueError("The stored state is of a gate with another policy, edges, classes or shape. It cannot go on here. Start anew")
        for name, value in _remembered(self):
            if isinstance(value, np.ndarray):
                setattr(self, name, kept[name].copy())
            for key, part in _parts(name, value):
                part.resume({k.removeprefix(f"{key}."): v for k, v in kept.items() if k.startswith(f"{key}.")})


def _remembered(part: Stateful) -> list[tuple[str, object]]:
    """Attributes with an underscore are constants of the policy and are not kept."""
    return [(name, value) for name, value in vars(part).items() if not name.startswith("_")]


def _parts(name: str, value: object) -> list[tuple[str, Stateful]]:
    if isinstance(value, Stateful):
        return [(name, value)]
    if isinstance(value, dict):
        return [(f"{name}.{key}", part) for key, part in value.items() if isinstance(part, Stateful)]
    return []
