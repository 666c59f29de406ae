"""The gate: anytime-valid comparison of a canary with its control. docs/reference/gate.md shows how to drive it."""

from headway.release.earlier_gates.gate_e2b8dd0d7a98.correctness import Gain
from headway.release.earlier_gates.gate_e2b8dd0d7a98.decision import Decision, Phase, SignalResult, Verdict
from headway.release.earlier_gates.gate_e2b8dd0d7a98.gate import Gate
from headway.release.earlier_gates.gate_e2b8dd0d7a98.policy import GatePolicy, Stage
from headway.release.earlier_gates.gate_e2b8dd0d7a98.reasons import Reason
from headway.release.earlier_gates.gate_e2b8dd0d7a98.tick import Counts, Tick

__all__ = ["Counts", "Decision", "Gain", "Gate", "GatePolicy", "Phase", "Reason", "SignalResult", "Stage", "Tick", "Verdict"]
