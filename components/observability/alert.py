"""What an alert is here: which layer it points at, how urgent it is, and its runbook. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum, unique


@unique
class FailureLayer(StrEnum):
    """Where it hurts: what on-call looks at first."""

    REQUEST = "request"
    MODEL_SERVER = "model-server"
    GPU = "gpu"
    NODE = "node"
    SCHEDULER = "scheduler"
    DEPLOYMENT = "deployment"
    PLATFORM = "platform"
    """The watchers themselves."""


@unique
class AlertSeverity(StrEnum):
    PAGE = "page"
    """Somebody gets up: users are hurt, or will be within the hour, and a person can help."""
    TICKET = "ticket"
    """Looked at within a working day."""
    HEARTBEAT = "heartbeat"
    """Fires always; its silence is the alarm."""


@dataclass(frozen=True, kw_only=True)
class Alert:
    """`summary` may hold Prometheus' templates. `hold` is how long it must be so before it fires."""

    name: str
    layer: FailureLayer
    severity: AlertSeverity
    expression: str
    hold: str
    summary: str
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    of_one_service: bool = False
    """Whether it carries the label `model`, beside `namespace` or `tenant`."""

    @property
    def runbook(self) -> str:
        """File name in `docs/runbooks/`: `GpuXid` is `gpu-xid.md`."""
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", self.name).lower() + ".md"
