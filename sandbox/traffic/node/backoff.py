"""When a container that ended is started again, and when a probe's verdict counts. Pure.

As kubelets do: at once the first time, then after 10 s, 20 s, 40 s ... up to five minutes, and as if for the first time
after ten minutes of running well (kubernetes/kubernetes, pkg/kubelet: containerBackOff, MaxContainerBackOff).
"""

from dataclasses import dataclass, replace

FIRST_SECONDS, LONGEST_SECONDS, FORGIVEN_SECONDS = 10.0, 300.0, 600.0


@dataclass(frozen=True, kw_only=True)
class BackOff:
    """How often a container has ended too early, and the unit of waiting (`first` seconds)."""

    first: float = FIRST_SECONDS
    ended: int = 0

    def after(self, ran_seconds: float) -> "BackOff":
        """The back-off once a container has ended that ran this long."""
        return replace(self, ended=1 if ran_seconds >= FORGIVEN_SECONDS else self.ended + 1)

    @property
    def seconds(self) -> float:
        """How long to wait before the next start."""
        return 0.0 if self.ended <= 1 else min(LONGEST_SECONDS, self.first * 2 ** (self.ended - 2))


@dataclass(frozen=True, kw_only=True)
class ProbeSpec:
    """A probe of the pod's specification: a command, every so many seconds, tolerated so many failures in a row."""

    command: tuple[str, ...]
    period_seconds: float
    timeout_seconds: float
    failures: int
    delay_seconds: float = 0.0


@dataclass(frozen=True)
class Streak:
    """Failures of one probe in a row."""

    failed: int = 0

    def after(self, *, succeeded: bool) -> "Streak":
        return Streak(0) if succeeded else Streak(self.failed + 1)

    def exhausted(self, probe: ProbeSpec) -> bool:
        return self.failed >= probe.failures
