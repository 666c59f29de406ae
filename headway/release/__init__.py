"""Releases that move traffic only as fast as the evidence allows."""

from headway.release.gate import Counts, Decision, Gate, GatePolicy, Phase, Reason, Signal, Tick, Verdict

__all__ = ["Counts", "Decision", "Gate", "GatePolicy", "Phase", "Reason", "Signal", "Tick", "Verdict"]
