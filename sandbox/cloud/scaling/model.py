"""What the Cluster Autoscaler knows at the start of a turn, what it remembers from one to the next, and what it may
order. Frozen data.

Read from kubernetes/autoscaler at cluster-autoscaler-1.35.2, below `cluster-autoscaler/`; defaults of arguments from
`config/flags/flags.go` and `config/const.go`. An argument that is not here is refused by name, because what it would
do is not done.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

from headway.contract.accelerators import InstanceType
from headway.contract.units import Duration
from headway.problem import UserError
from sandbox.cloud.autoscaler import Body

EXPANDERS = ("priority", "least-waste")
_DECIDES_NOTHING = ("emit-per-nodegroup-metrics",)
"""What is only told by it (`metrics.RegisterAll` in `main.go`)."""


@dataclass(frozen=True, kw_only=True)
class AutoscalerArguments:
    """Its command line, as far as a turn is decided by it."""

    expander: tuple[str, ...] = ("least-waste",)
    startup_taint: str = ""
    priorities: Mapping[int, Sequence[str]] = field(default_factory=dict[int, Sequence[str]])
    """Patterns of group names by priority: the ConfigMap `cluster-autoscaler-priority-expander`."""
    scan_interval: timedelta = timedelta(seconds=10)
    new_pod_scale_up_delay: timedelta = timedelta(0)
    expendable_pods_priority_cutoff: int = -10
    max_node_provision_time: timedelta = timedelta(minutes=15)
    max_node_startup_time: timedelta = timedelta(minutes=15)
    initial_node_group_backoff_duration: timedelta = timedelta(minutes=5)
    max_node_group_backoff_duration: timedelta = timedelta(minutes=30)
    node_group_backoff_reset_timeout: timedelta = timedelta(minutes=180)
    scale_down_delay_after_add: timedelta = timedelta(minutes=10)
    scale_down_delay_after_delete: timedelta = timedelta(0)
    scale_down_delay_after_failure: timedelta = timedelta(minutes=3)
    scale_down_unneeded_time: timedelta = timedelta(minutes=10)
    scale_down_unready_time: timedelta = timedelta(minutes=20)
    scale_down_utilization_threshold: Decimal = Decimal("0.5")
    scale_down_gpu_utilization_threshold: Decimal = Decimal("0.5")
    unremovable_node_recheck_timeout: timedelta = timedelta(minutes=5)
    max_scale_down_parallelism: int = 10
    max_drain_parallelism: int = 1
    max_graceful_termination_sec: int = 600
    skip_nodes_with_local_storage: bool = True
    skip_nodes_with_system_pods: bool = True
    blocking_system_pod_distruption_timeout: timedelta = timedelta(minutes=60)
    skip_nodes_with_custom_controller_pods: bool = True

    @classmethod
    def of_chart(cls, values: Mapping[str, Any]) -> "AutoscalerArguments":
        """From the values of its chart. UserError names every argument that is not modelled."""
        given = {name.replace("-", "_"): value for name, value in values["extraArgs"].items() if name not in _DECIDES_NOTHING}
        if given.pop("balance_similar_node_groups", False):
            given["balance_similar_node_groups"] = True
        known = {each.name: each for each in fields(cls)}
        if strange := sorted(name.replace("_", "-") for name in given.keys() - known.keys()):
            raise UserError(
                f"The Cluster Autoscaler has arguments that the sandbox does not model: {', '.join(strange)}.",
                "Its simulated turns would decide otherwise than the real ones, so it was not started.",
                "Model them in sandbox/cloud/scaling, or leave out `--with cluster-autoscaler`.",
            )
        read = {name: _read(known[name].default, value) for name, value in given.items() if name != "expander"}
        expander = tuple(str(given.get("expander", "least-waste")).split(","))
        if unknown := [name for name in expander if name not in EXPANDERS]:
            raise UserError(
                f"The Cluster Autoscaler has expanders that the sandbox does not model: {', '.join(unknown)}.",
                "It would choose other node groups than the real one, so it was not started.",
                f"Choose among {', '.join(EXPANDERS)}, or model the expander in sandbox/cloud/scaling/expander.py.",
            )
        priorities = {int(priority): tuple(patterns) for priority, patterns in (values.get("expanderPriorities") or {}).items()}
        return cls(expander=expander, priorities=priorities, **read)

    def faster(self, speed: float) -> "AutoscalerArguments":
        """With every span of time but the interval between turns divided by `speed`."""
        spans = {each.name: getattr(self, each.name) for each in fields(self) if isinstance(getattr(self, each.name), timedelta)}
        return replace(self, **{name: span / speed for name, span in spans.items() if name != "scan_interval"})

    @property
    def thresholds(self) -> dict[str, Any]:
        """As `sandbox/cloud/autoscaler.py` reads them."""
        return {
            "scale-down-utilization-threshold": self.scale_down_utilization_threshold,
            "scale-down-gpu-utilization-threshold": self.scale_down_gpu_utilization_threshold,
        }


def _read(default: object, given: object) -> Any:
    if isinstance(default, bool) or not isinstance(default, timedelta | Decimal | int):
        return given
    if isinstance(default, timedelta):
        return timedelta(seconds=Duration.parse(str(given)).seconds)
    return type(default)(str(given))


@dataclass(frozen=True, kw_only=True)
class ScalableGroup:
    """An Auto Scaling group, and what EKS says of the node group before it."""

    name: str
    min: int
    max: int
    desired: int
    instance_type: InstanceType
    region: str
    zone: str
    """The first of its zones: `cloudprovider/aws/aws_manager.go`, getAsgTemplate."""
    instances: Mapping[str, datetime]
    """When each was launched, by the provider ID that its node has or will have."""
    tags: Mapping[str, str] = field(default_factory=dict[str, str])
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    """Of DescribeNodegroup, which the autoscaler asks for: `cloudprovider/aws/aws_wrapper.go`."""
    taints: Sequence[Body] = ()
    """Of DescribeNodegroup, with Kubernetes' names of the effects."""
    architecture: str = "amd64"


@dataclass(frozen=True, kw_only=True)
class AutoscalerWorld:
    """What the turn looks at. Nodes, pods, budgets and daemon sets are bodies as the API server gives them."""

    now: datetime
    groups: Sequence[ScalableGroup]
    nodes: Sequence[Body] = ()
    pods: Sequence[Body] = ()
    budgets: Sequence[Body] = ()
    daemon_sets: Sequence[Body] = ()


@dataclass(frozen=True, kw_only=True)
class GroupBackoff:
    """A group that did not give a node in time gets no other before `until`: `utils/backoff/exponential_backoff.go`."""

    until: datetime
    lasts: timedelta
    failed: datetime


@dataclass(frozen=True, kw_only=True)
class ScalingState:
    """What the process keeps in memory; a new one knows nothing, as after its restart."""

    requested: Mapping[str, datetime] = field(default_factory=dict[str, datetime])
    """Until when each group that was enlarged must have given its nodes."""
    backoffs: Mapping[str, GroupBackoff] = field(default_factory=dict[str, GroupBackoff])
    unneeded: Mapping[str, datetime] = field(default_factory=dict[str, datetime])
    """Since when, by node."""
    unremovable: Mapping[str, datetime] = field(default_factory=dict[str, datetime])
    """Until when the node is not looked at again."""
    seen: Mapping[str, Body] = field(default_factory=dict[str, Body])
    """A node of each group that once was ready; later ones are taken to be like it."""
    scaled_up: datetime | None = None
    deleted: datetime | None = None
    failed: datetime | None = None


@dataclass(frozen=True, kw_only=True)
class CapacityChange:
    """SetDesiredCapacity of the group: it is to have `capacity` nodes."""

    group: str
    capacity: int


@dataclass(frozen=True, kw_only=True)
class Termination:
    """TerminateInstanceInAutoScalingGroup with ShouldDecrementDesiredCapacity; first `evict` (namespace, name) leave."""

    group: str
    provider_id: str
    node: str | None
    """None for an instance that never joined."""
    evict: tuple[tuple[str, str], ...] = ()


ScalingDecision = CapacityChange | Termination

NOTHING_REMEMBERED: Final = ScalingState()


@dataclass(frozen=True, kw_only=True)
class AutoscalerTurn:
    """What one turn orders, what it remembers, and what it says in the log."""

    decisions: tuple[ScalingDecision, ...]
    state: ScalingState
    said: tuple[str, ...] = ()
