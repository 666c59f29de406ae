"""The gate: anytime-valid comparison of a canary with its control. docs/reference/gate.md shows how to drive it."""

from headway.release.earlier_gates.gate_24da7735d3b1.correctness import Gain
from headway.release.earlier_gates.gate_24da7735d3b1.decision import Decision, Phase, SignalResult, Verdict
from headway.release.earlier_gates.gate_24da7735d3b1.gate import Gate
from headway.release.earlier_gates.gate_24da7735d3b1.policy import GatePolicy, Stage
from headway.release.earlier_gates.gate_24da7735d3b1.reasons import Reason
from headway.release.earlier_gates.gate_24da7735d3b1.tick import Counts, Tick

__all__ = ["Counts", "Decision", "Gain", "Gate", "GatePolicy", "Phase", "Reason", "SignalResult", "Stage", "Tick", "Verdict"]
