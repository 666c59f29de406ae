"""Each metric defined once: `signal(name).query(source, scope)`."""

from headway.signals.catalogue import SIGNALS, signal
from headway.signals.definition import Aggregation, Direction, Scope, Signal, Source, Unit, UnknownSignalError

__all__ = ["SIGNALS", "Aggregation", "Direction", "Scope", "Signal", "Source", "Unit", "UnknownSignalError", "signal"]
