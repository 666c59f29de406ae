"""Releases that move traffic only as fast as the evidence allows.

The gate's names are loaded at first use: a plan of a stack reads the ledger from this package and needs no numpy.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headway.release.gate import Counts, Decision, Gate, GatePolicy, Phase, Reason, SignalResult, Tick, Verdict

__all__ = ["Counts", "Decision", "Gate", "GatePolicy", "Phase", "Reason", "SignalResult", "Tick", "Verdict"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module("headway.release.gate"), name)
    raise AttributeError(name)
