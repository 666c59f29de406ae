"""The gate: anytime-valid comparison of a canary with its control. docs/reference/gate.md shows how to drive it."""

from headway.release.gate.correctness import Gain
from headway.release.gate.decision import Decision, Phase, SignalResult, Verdict
from headway.release.gate.gate import Gate
from headway.release.gate.policy import GatePolicy, Stage
from headway.release.gate.reasons import Reason
from headway.release.gate.tick import Counts, Tick

__all__ = ["Counts", "Decision", "Gain", "Gate", "GatePolicy", "Phase", "Reason", "SignalResult", "Stage", "Tick", "Verdict"]
