"""The gate: anytime-valid comparison of a canary with its control. docs/reference/gate.md shows how to drive it."""

from headway.release.earlier_gates.gate_fc4f452ae5f1.correctness import Gain
from headway.release.earlier_gates.gate_fc4f452ae5f1.decision import Decision, Phase, SignalResult, Verdict
from headway.release.earlier_gates.gate_fc4f452ae5f1.gate import Gate
from headway.release.earlier_gates.gate_fc4f452ae5f1.policy import GatePolicy, Stage
from headway.release.earlier_gates.gate_fc4f452ae5f1.reasons import Reason
from headway.release.earlier_gates.gate_fc4f452ae5f1.tick import Counts, Tick

__all__ = ["Counts", "Decision", "Gain", "Gate", "GatePolicy", "Phase", "Reason", "SignalResult", "Stage", "Tick", "Verdict"]
