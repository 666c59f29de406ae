"""Reads objects of the mesh strictly: what is not modelled is refused by its path, all of it at once. Pure.

A stand-in that ignores a field it does not know proves something about another configuration than the one that
production runs.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from sandbox.traffic.mesh.types import MeshObject


@dataclass(frozen=True)
class UnsupportedField:
    """One thing that the stand-in does not model: the object, the path within it, and why."""

    object: str
    path: str
    why: str

    def __str__(self) -> str:
        return f"{self.object} {self.path}: {self.why}"


@dataclass
class Reader:
    """Collects what is refused of one object."""

    object: str
    refusals: list[UnsupportedField] = field(default_factory=list[UnsupportedField])

    @classmethod
    def of(cls, item: MeshObject) -> "Reader":
        metadata = item["metadata"]
        place = f"{metadata['namespace']}/" if metadata.get("namespace") else ""
        return cls(f"{item['kind']} {place}{metadata['name']}")

    def refuse(self, path: str, why: str) -> None:
        self.refusals.append(UnsupportedField(self.object, path, why))

    def only(self, found: MeshObject, path: str, known: Collection[str]) -> None:
        """Refuse every field of `found` that is not known."""
        for name in sorted(set(found) - set(known)):
            self.refuse(f"{path}.{name}" if path else name, "not modelled here")

    def choice(self, value: Any, path: str, allowed: Collection[str]) -> None:
        if value not in allowed:
            self.refuse(path, f"{value!r} is not modelled here; {', '.join(sorted(allowed))} are")


_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def seconds(text: str) -> float:
    """A duration as Istio writes it (`2000ms`, `30s`, `1m30s`) in seconds. ValueError for any other text."""
    parts = _DURATION.findall(text)
    if not parts or "".join(f"{number}{unit}" for number, unit in parts) != text:
        raise ValueError(f"{text!r} is no duration")
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)


def duration(text: str) -> str:
    """The same for Envoy: seconds with the suffix `s`."""
    return f"{seconds(text):.9g}s"


def labels_match(selector: MeshObject, labels: MeshObject) -> bool:
    return all(labels.get(key) == value for key, value in selector.items())


def items(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """(path, item) of a list that may be absent."""
    for number, item in enumerate(value or ()):
        yield f"{path}[{number}]", item
