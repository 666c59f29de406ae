"""Gates of earlier versions, word for word: what they began goes on by them, and what they decided can be made again.

The version of a gate is a digest of its sources. Before an edit that changes a figure, the sources as they are become a package here,
`gate_VERSION`, in which nothing but its own name is another; then the gate's `predecessors.SAME_FIGURES` is emptied.

Before the first release of Headway nobody has a ledger of the gates between the first and the last, so of these two alone the sources stand
here; from that release on every gate that it has had stays.
"""

from functools import cache
from importlib import import_module
from types import ModuleType

KEPT = ("a97081ff902c", "fc4f452ae5f1")
"""Versions, oldest first."""


@cache
def kept_gate(version: str) -> ModuleType | None:
    """The package of the gate that gives the figures of `version`; None where no earlier gate does."""
    for kept in KEPT:
        if version == kept or version in import_module(f"{__name__}.gate_{kept}.predecessors").SAME_FIGURES:
            return import_module(f"{__name__}.gate_{kept}")
    return None
