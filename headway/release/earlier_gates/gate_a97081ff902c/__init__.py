"""The gate: anytime-valid comparison of a canary with its control. docs/reference/gate.md shows how to drive it."""

from headway.release.earlier_gates.gate_a97081ff902c.correctness import Gain
from headway.release.earlier_gates.gate_a97081ff902c.decision import Decision, Phase, SignalResult, Verdict
from headway.release.earlier_gates.gate_a97081ff902c.gate import Gate
from headway.release.earlier_gates.gate_a97081ff902c.policy import GatePolicy, Stage
from headway.release.earlier_gates.gate_a97081ff902c.reasons import Reason
from headway.release.earlier_gates.gate_a97081ff902c.tick import Counts, Tick

__all__ = ["Counts", "Decision", "Gain", "Gate", "GatePolicy", "Phase", "Reason", "SignalResult", "Stage", "Tick", "Verdict"]
