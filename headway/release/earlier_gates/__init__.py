"""Gates of earlier versions, word for word: what they began goes on by them, and what they decided can be made again.

The version of a gate is a digest of its sources. Before an edit that changes a figure, the sources as they are become a package here,
`gate_VERSION`, in which nothing but its own name is another; then the gate's `predecessors.SAME_FIGURES` is emptied.
"""

from functools import cache
from importlib import import_module
from types import ModuleType

KEPT = ("a97081ff902c", "5d5926b96a39", "24da7735d3b1", "e2b8dd0d7a98", "fc4f452ae5f1")
"""Versions, oldest first."""


@cache
def kept_gate(version: str) -> ModuleType | None:
    """The package of the gate that gives the figures of `version`; None where no earlier gate does."""
    for kept in KEPT:
        if version == kept or version in import_module(f"{__name__}.gate_{kept}.predecessors").SAME_FIGURES:
            return import_module(f"{__name__}.gate_{kept}")
    return None
