"""The parts of a GPU pool: how its instances are bought, how their GPUs are shared, how many there are, and what they run."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from headway.contract.part import Count, CountOrNone, Flag, Part, between
from headway.contract.units import Bytes, Duration, Throughput
from headway.problem import Problem, problem

_GI = 2**30
NodeKey = Annotated[str, Field(pattern=r"^([a-z0-9.-]{1,61}/)?[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$", max_length=63)]
"""Of a label or a taint: EKS takes 63 characters, its domain included."""
_OPERATIONS_A_GIBIBYTE = 500
"""Of a gp3 volume (EBS user guide, "General Purpose SSD volumes")."""
Zone = Annotated[str, Field(pattern=r"^[a-z]{2}(-[a-z]+)+-[0-9][a-z]$", examples=["us-west-2a"])]


class OnDemand(Part):
    """Instances at list price, for as long as they are needed."""

    kind: Literal["on_demand"] = "on_demand"
    """`on_demand`."""


class Spot(Part):
    """Spare instances that AWS takes back with two minutes' notice. For batch work only."""

    kind: Literal["spot"]
    """`spot`."""


class Reservation(Part):
    """An On-Demand Capacity Reservation: it is paid for whether used or not, and available when needed. One zone."""

    kind: Literal["reservation"]
    """`reservation`."""
    id: Annotated[str, Field(pattern=r"^cr-[0-9a-f]{8,17}$", examples=["cr-0123456789abcdef0"])]
    """The reservation, such as `cr-0123456789abcdef0`, of the environment's own account."""


class CapacityBlock(Part):
    """A Capacity Block for ML: GPUs for a number of days, bought in advance. One zone."""

    kind: Literal["block"]
    """`block`."""
    id: Annotated[str, Field(pattern=r"^cr-[0-9a-f]{8,17}$", examples=["cr-0123456789abcdef0"])]
    """The capacity reservation of the block, of the environment's own account."""
    ends: Annotated[str, Field(pattern=r"^20[0-9]{2}-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:00Z$", examples=["2026-12-01T11:30:00Z"])]
    """When it ends, in UTC; the pool drains an hour before."""


Capacity = Annotated[OnDemand | Spot | Reservation | CapacityBlock, Field(discriminator="kind")]


class WholeSharing(Part):
    """Each GPU belongs to one container."""

    mode: Literal["whole"] = "whole"
    """`whole`."""


class MigSharing(Part):
    """Each GPU is cut into hardware partitions."""

    mode: Literal["mig"]
    """`mig`."""
    layout: Annotated[dict[str, Annotated[Count, Field(le=7)]], Field(min_length=1, max_length=6)]
    """Instances of each profile on one GPU, such as `1g.10gb: 7`."""

    @property
    def config(self) -> str:
        """Value of the node label `nvidia.com/mig.config`: mig-parted's own name where it has one."""
        if len(self.layout) == 1:
            return f"all-{next(iter(self.layout))}"
        return "custom-" + "-".join(f"{count}x{profile}" for profile, count in sorted(self.layout.items()))


class SplitSharing(Part):
    """Each GPU is offered several times, through MPS or time slicing."""

    mode: Literal["mps", "slice"]
    """`mps`: at the same time, memory divided equally. `slice`: in turns, without isolation."""
    replicas: Annotated[Count, Field(ge=2, le=48)]
    """The number of shares that one GPU is offered as."""


Sharing = Annotated[WholeSharing | MigSharing | SplitSharing, Field(discriminator="mode")]


class Size(Part):
    """Number of nodes, in each zone."""

    min: Annotated[CountOrNone, Field(le=450)] = 0
    """Nodes that always run."""
    max: Annotated[Count, Field(le=450)]
    """Largest number of nodes."""

    def violations(self) -> Iterator[Problem]:
        if self.min > self.max:
            yield problem(
                "size-in-order",
                "max",
                value=self.max,
                fact=f"at most {self.max} nodes is less than at least {self.min}",
                consequence="EC2 refuses such a group",
                remedy=f"Raise max to {self.min} or more, or lower min",
            )


class Disk(Part):
    """The root volume: encrypted gp3, where images are unpacked."""

    size: Annotated[Bytes, between(Bytes(50 * _GI), Bytes(16 * 2**40))] = Bytes(200 * _GI)
    """Its size; GPU images are 10 to 20 GB each."""
    iops: Annotated[Count, Field(ge=3_000, le=80_000)] = 6_000
    """Operations per second."""
    throughput: Annotated[Throughput, between(Throughput.parse("125Mi/s"), Throughput.parse("2000Mi/s"))] = Throughput.parse("600Mi/s")
    """Bytes per second; parallel image pulls need 600Mi/s."""

    def violations(self) -> Iterator[Problem]:
        most = int(self.size) // _GI * _OPERATIONS_A_GIBIBYTE
        if self.iops > most:
            yield problem(
                "operations-need-size",
                "iops",
                value=self.iops,
                fact=f"gp3 gives at most {_OPERATIONS_A_GIBIBYTE} operations per second for each GiB, {most} for {self.size}",
                consequence="EC2 refuses the volume, and with it each node",
                remedy=f"Use at most {most}, or a larger disk",
            )
        if int(self.throughput) > self.iops * 2**18:
            yield problem(
                "throughput-needs-operations",
                "iops",
                value=self.iops,
                fact=f"gp3 gives at most 0.25 MiB/s for each of {self.iops} operations per second, and {self.throughput} is requested",
                consequence="EC2 refuses the volume",
                remedy=f"Use at least {-(-int(self.throughput) // 2**18)} iops",
            )


class WarmNodes(Part):
    """An EC2 warm pool: instances that have booted once and wait, stopped or running, to join."""

    size: Annotated[Count, Field(le=100)]
    """Instances kept warm in each zone."""
    state: Literal["stopped", "running", "hibernated"] = "stopped"
    """The state in which they wait; stopped ones cost their disks only. `hibernated` is refused: no GPU type can."""


class RepairOverride(Part):
    """What to do about one condition of a node."""

    reason: Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9]{2,63}$", examples=["NvidiaXID74Error"])]
    """The node monitoring agent's reason, such as `NvidiaXID74Error`."""
    action: Literal["replace", "reboot", "none"]
    """What to do."""
    wait: Annotated[Duration, between(Duration.parse("1m"), Duration.parse("24h"))]
    """How long the condition must last; whole minutes."""


def _repair_overrides() -> tuple[RepairOverride, ...]:
    return (RepairOverride(reason="DCGMError", action="none", wait=Duration.parse("1h")),)


class Repair(Part):
    """Automatic repair of broken nodes."""

    enabled: Flag = True
    """Whether EKS drains and replaces nodes that report a fault."""
    parallel: Annotated[Count, Field(le=10)] = 1
    """Nodes under repair at the same time."""
    stop_above_unhealthy: Annotated[Count, Field(ge=1, le=100)] = 30
    """Percentage of unhealthy nodes above which repair stops, because the cause is then not in single nodes."""
    overrides: Annotated[tuple[RepairOverride, ...], Field(max_length=30)] = Field(default_factory=_repair_overrides)
    """Conditions handled otherwise. DCGMError is ignored by default: on tainted nodes the agent reports it for healthy GPUs."""


class Update(Part):
    """How nodes are replaced when their version changes."""

    max_unavailable: Annotated[Count, Field(le=100)] = 1
    """Nodes of a zone that may be unavailable at once."""
    strategy: Literal["minimal", "default"] = "minimal"
    """`minimal`: terminate first, for pools that cannot grow; `default`: launch first."""


class Taint(Part):
    """An extra taint of the nodes; the platform's own for GPU nodes is always there."""

    key: NodeKey
    """Its key."""
    value: Annotated[str, Field(pattern=r"^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$")] = ""
    """Its value."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = "NoSchedule"
    """What it does to pods that do not tolerate it."""


class Ami(Part):
    """The node image."""

    family: Literal["AL2023_x86_64_NVIDIA", "BOTTLEROCKET_x86_64_NVIDIA"] = "AL2023_x86_64_NVIDIA"
    """EKS's name for the image family. Bottlerocket is refused: it reads no settings that the platform writes for nodes."""
    release: Annotated[str, Field(pattern=r"^1\.[0-9]{2}(\.[0-9]{1,3})?-(20[0-9]{6}|[0-9a-f]{8})$", examples=["1.36.2-20260714"])]
    """The pinned release, such as `1.36.2-20260714`; it fixes the driver."""
    driver: Annotated[str, Field(pattern=r"^[1-9][0-9]{2}(\.[0-9]{1,3}){1,2}$", examples=["580.159.03"])]
    """The NVIDIA driver in that release; contracts' `minimum_driver` is checked against it."""
