"""GPU pools as one typed concept: what nodes, how many, where, how their GPUs are shared, and for whom.

Validated against the accelerator catalogue, so that a combination that EC2 or the device plugin cannot do is refused before the first
resource. The trap: the pool is a set of node groups, one a zone: GPUs are scarce by zone and reservations are bound to one.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from headway.contract.accelerators import GPUS, INSTANCE_TYPES, Accelerator, InstanceType, mig_layout_fits
from headway.contract.envelope import MigGpu, SharedGpu, WholeGpu
from headway.contract.offerings import offering_problems
from headway.contract.part import Flag, Name, Part
from headway.contract.placement import Packing, WorkloadClass
from headway.contract.pool_parts import (
    Ami,
    Capacity,
    Disk,
    MigSharing,
    NodeKey,
    OnDemand,
    Repair,
    Sharing,
    Size,
    SplitSharing,
    Taint,
    Update,
    WarmNodes,
    WholeSharing,
    Zone,
)
from headway.contract.units import Bytes, Throughput
from headway.problem import Problem, problem

MOST_LABELS = 20
"""Each is a tag of the Auto Scaling group, which takes 50 (Auto Scaling user guide, "Tag Auto Scaling groups and instances"), with EKS's own."""

RESERVED_DOMAINS = (".kubernetes.io", ".k8s.io", ".eks.amazonaws.com")
"""Nobody else may label nodes below these, which a dot before the whole name finds too."""


class Pool(Part):
    """A set of equal GPU nodes."""

    name: Name
    """Its name; node groups are named after it and their zone."""
    instance_types: Annotated[tuple[str, ...], Field(min_length=1, max_length=10)]
    """EC2 instance types, first choice first; all with the same number of the same GPU."""
    capacity: Capacity = OnDemand()
    """How instances are bought."""
    zones: Annotated[tuple[Zone, ...], Field(min_length=1, max_length=6)]
    """Availability zones; one node group in each."""
    size: Size
    """Number of nodes in each zone."""
    sharing: Sharing = WholeSharing()
    """How GPUs are shared; one mode a pool."""
    workload_class: WorkloadClass
    """The class of workloads that the pool is for; their models find it by this."""
    packing: Packing | None = None
    """How replicas are placed on its nodes; follows from the workload class when left out."""
    efa: Flag = False
    """Elastic Fabric Adapters; `true` is refused, for no device plugin offers them to pods and no contract asks for them."""
    ami: Ami
    """The node image."""
    disk: Disk = Disk()
    """The root volume."""
    model_cache: Literal["nvme", "disk"] = "nvme"
    """Where images and artifacts are cached on a node: striped instance-store NVMe, or the root volume."""
    warm: WarmNodes | None = None
    """Instances that have booted once and wait."""
    repair: Repair = Field(default_factory=Repair)
    """Automatic repair."""
    update: Update = Update()
    """How nodes are replaced."""
    labels: Annotated[
        dict[NodeKey, Annotated[str, Field(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$")]], Field(max_length=MOST_LABELS)
    ] = {}  # noqa: RUF012
    """Extra node labels."""
    taints: Annotated[tuple[Taint, ...], Field(max_length=10)] = ()
    """Extra taints."""

    def violations(self) -> Iterator[Problem]:
        unknown = [(n, t) for n, t in enumerate(self.instance_types) if t not in INSTANCE_TYPES or not INSTANCE_TYPES[t].gpus]
        for number, name in unknown:
            yield problem(
                "instance-type-in-catalogue",
                "instance_types",
                number,
                value=name,
                fact=f"the catalogue has no GPU instance type {name}",
                consequence="Its GPUs, memory and price are unknown, so nothing could be placed or checked",
                remedy=f"Use one of {', '.join(sorted(i.name for i in INSTANCE_TYPES.values() if i.gpus))}",
            )
        for name, times in Counter(self.zones).items():
            if times > 1:
                yield problem(
                    "zone-named-once",
                    "zones",
                    value=name,
                    fact=f"zone {name} is named {times} times",
                    consequence="Two node groups would claim one name",
                    remedy="Name it once",
                )
        yield from offering_problems(self.instance_types, self.zones)
        yield from self._label_violations()
        yield from self._taint_violations()
        yield from self._image_violations()
        yield from self._capacity_violations()
        yield from self._warm_violations()
        if not unknown:
            yield from self._hardware_violations()

    def _label_violations(self) -> Iterator[Problem]:
        # eksctl-io/eksctl#4007 from EKS, terraform-aws-modules/terraform-aws-eks#3346 from the kubelet.
        for key in self.labels:
            if f".{key.rpartition('/')[0]}".endswith(RESERVED_DOMAINS):
                yield problem(
                    "node-label-reserved",
                    "labels",
                    key,
                    value=key,
                    fact=f"{key} is a name of Kubernetes or EKS",
                    consequence="EKS refuses the node group, or its nodes do not join",
                    remedy="Use a domain of your own",
                )

    def _taint_violations(self) -> Iterator[Problem]:
        # The autoscaler hears of a taint by a tag whose key is the taint's (`components/nodes/gpu_node.py`, scale_from_zero).
        for key, times in Counter(taint.key for taint in self.taints).items():
            if times > 1:
                yield problem(
                    "taint-named-once",
                    "taints",
                    value=key,
                    fact=f"taint {key} is named {times} times",
                    consequence="The autoscaler would hear of one of them, and make nodes for pods that the others keep off",
                    remedy="Name it once",
                )

    def _image_violations(self) -> Iterator[Problem]:
        if self.ami.family.startswith("BOTTLEROCKET"):
            # EKS user guide, "Customize managed nodes with launch templates"; terraform-aws-modules/terraform-aws-eks#1729.
            yield problem(
                "image-reads-the-nodes-settings",
                "ami",
                "family",
                value=self.ami.family,
                fact="the pool asks for Bottlerocket, and the platform writes its nodes' settings for nodeadm, which is Amazon Linux's",
                consequence="EKS refuses the node group: Bottlerocket reads TOML alone",
                remedy="Leave family out",
            )

    def _capacity_violations(self) -> Iterator[Problem]:
        if self.capacity.kind == "spot" and self.workload_class is not WorkloadClass.BATCH:
            yield problem(
                "spot-for-batch-only",
                "capacity",
                "kind",
                value="spot",
                fact=f"this {self.workload_class} pool uses spot instances",
                consequence="AWS can take its nodes away with two minutes' notice, which is shorter than a start",
                remedy="Use on_demand or reservation, or workload_class: batch",
            )
        if self.capacity.kind in ("reservation", "block") and len(self.zones) > 1:
            yield problem(
                "reservation-in-one-zone",
                "zones",
                value=list(self.zones),
                fact=f"the pool has a {self.capacity.kind} and {len(self.zones)} zones",
                consequence="A reservation belongs to one zone, so the node groups of the other zones could never launch a node",
                remedy="Name the reservation's zone only; make a pool for each reservation",
            )
        if self.capacity.kind in ("reservation", "block") and len(self.instance_types) > 1:
            # A reservation has one `InstanceType` (EC2 API reference, CapacityReservation), and takes instances of no other.
            yield problem(
                "reservation-of-one-type",
                "instance_types",
                value=list(self.instance_types),
                fact=f"the pool has a {self.capacity.kind} and {len(self.instance_types)} instance types",
                consequence="It is of one instance type: nodes of the others could never be launched in it",
                remedy="Name the type that it was made for; make a pool for each",
            )
        if self.capacity.kind == "block" and self.size.min:
            yield problem(
                "block-starts-empty",
                "size",
                "min",
                value=self.size.min,
                fact=f"the pool keeps at least {self.size.min} nodes of a capacity block",
                consequence="Before the block begins and after it ends they cannot be launched, and EKS updates such a group only while it is empty",
                remedy="Set min: 0; pods that wait for a GPU bring the nodes",
            )
        if self.sharing.mode == "slice" and self.workload_class is WorkloadClass.LATENCY:
            yield problem(
                "latency-is-never-time-sliced",
                "sharing",
                "mode",
                value="slice",
                fact="this latency pool uses time slicing",
                consequence="Each neighbour's kernel delays every answer, and any neighbour can take all GPU memory",
                remedy="Use whole, mig or mps, or workload_class: throughput or batch",
            )
        if self.update.max_unavailable > self.size.max:
            yield problem(
                "update-within-size",
                "update",
                "max_unavailable",
                value=self.update.max_unavailable,
                fact=f"an update may take away {self.update.max_unavailable} of at most {self.size.max} nodes",
                consequence="An update could take away all nodes of a zone at once",
                remedy=f"Use at most {max(1, self.size.max - 1)}",
            )

    def _warm_violations(self) -> Iterator[Problem]:
        if self.capacity.kind in ("spot", "reservation", "block") and self.warm:
            yield problem(
                "warm-nodes-on-demand-only",
                "warm",
                fact=f"the pool asks for warm nodes on {self.capacity.kind} capacity",
                consequence="EC2 has no warm pools for spot instances"
                if self.capacity.kind == "spot"
                else "Reserved instances are paid for whether warm or running",
                remedy="Leave warm out, or raise size.min",
            )
        # EC2 User Guide, "Prerequisites for EC2 instance hibernation", lists the families that can.
        if self.warm and self.warm.state == "hibernated":
            yield problem(
                "gpu-nodes-do-not-hibernate",
                "warm",
                "state",
                value="hibernated",
                fact="EC2 hibernates no instance type that has GPUs",
                consequence="No warm node could be launched",
                remedy="Use stopped or running",
            )
        # amazon-eks-ami binds containerd's images to the instance store (`setup-local-disks`), which EC2 empties at a stop.
        if self.warm and self.warm.state == "stopped" and self.model_cache == "nvme":
            yield problem(
                "stopped-nodes-keep-no-instance-store",
                "model_cache",
                value="nvme",
                fact="the pool's nodes wait stopped, and keep their images on the instance store",
                consequence="A stop empties the instance store: each warm node would pull every image again, as a new one does",
                remedy="Set model_cache: disk, or warm.state: running",
            )

    def _hardware_violations(self) -> Iterator[Problem]:
        types = [INSTANCE_TYPES[name] for name in self.instance_types]
        first = types[0]
        for number, other in enumerate(types[1:], start=1):
            if (other.accelerator, other.gpus) != (first.accelerator, first.gpus):
                yield problem(
                    "one-gpu-shape-a-pool",
                    "instance_types",
                    number,
                    value=other.name,
                    fact=f"{first.name} has {first.gpus} {first.accelerator}, {other.name} has {other.gpus} {other.accelerator}",
                    consequence="The autoscaler assumes that all nodes of a group are equal, and would plan with a wrong number of GPUs",
                    remedy="Make a pool for each",
                )
        if self.efa:
            # The plugin is a chart of its own (aws/eks-charts, stable/aws-efa-k8s-device-plugin), and one of its resources must be asked for.
            yield problem(
                "efa-needs-a-device-plugin",
                "efa",
                value=True,
                fact="the pool asks for Elastic Fabric Adapters, and the platform installs no device plugin for them",
                consequence="Nodes would take their interfaces, and no pod could use one: replicas of a model do not span nodes",
                remedy="Leave efa out",
            )
        if isinstance(self.sharing, MigSharing):
            yield from self._mig_violations(self.sharing)

    def _mig_violations(self, sharing: MigSharing) -> Iterator[Problem]:
        gpu = GPUS[self.accelerator]
        if not gpu.mig:
            having = ", ".join(sorted(t.name for t in INSTANCE_TYPES.values() if t.gpu and t.gpu.mig))
            yield problem(
                "mig-needs-its-hardware",
                "sharing",
                "mode",
                value="mig",
                fact=f"{self.accelerator} has no MIG",
                consequence="The MIG manager would leave every node of the pool unusable",
                remedy=f"Use mode: mps or slice, or one of {having}",
            )
            return
        unknown = [profile for profile in sorted(sharing.layout) if gpu.profile(profile) is None]
        for profile in unknown:
            yield problem(
                "mig-profile-exists",
                "sharing",
                "layout",
                profile,
                value=profile,
                fact=f"{self.accelerator} has no MIG profile {profile}",
                consequence="The MIG manager would leave every node of the pool unusable",
                remedy=f"Use {', '.join(p.name for p in gpu.mig)}",
            )
        if not unknown and not mig_layout_fits(self.accelerator, sharing.layout):
            shown = ", ".join(f"{count} x {profile}" for profile, count in sorted(sharing.layout.items()))
            yield problem(
                "mig-layout-fits",
                "sharing",
                "layout",
                value=dict(sharing.layout),
                fact=f"{shown} do not fit on one {self.accelerator} together",
                consequence="The MIG manager would leave every node of the pool unusable",
                remedy="Each GPU has 7 compute slices and 8 memory slots, and profiles start at fixed slots: use fewer or smaller ones",
            )

    @property
    def accelerator(self) -> Accelerator:
        """The kind of its GPUs; every instance type has the same."""
        accelerator = self.instance_type.accelerator
        assert accelerator is not None  # noqa: S101  violations() has refused any other
        return accelerator

    @property
    def instance_type(self) -> InstanceType:
        """The first choice: by it sizes and prices are reckoned."""
        return INSTANCE_TYPES[self.instance_types[0]]

    @property
    def max_nodes(self) -> int:
        return self.size.max * len(self.zones)

    @property
    def resources_per_node(self) -> dict[str, int]:
        """Extended resources that the device plugin offers on one node."""
        gpus = self.instance_type.gpus
        if isinstance(self.sharing, MigSharing):
            return {f"nvidia.com/mig-{profile}": count * gpus for profile, count in sorted(self.sharing.layout.items())}
        if isinstance(self.sharing, SplitSharing):
            return {"nvidia.com/gpu.shared": self.sharing.replicas * gpus}
        return {"nvidia.com/gpu": gpus}

    @property
    def share_memory(self) -> Bytes:
        """GPU memory of one share under MPS; of the whole GPU otherwise, for time slicing divides nothing."""
        memory = GPUS[self.accelerator].memory
        return (
            Bytes(int(memory) // self.sharing.replicas) if isinstance(self.sharing, SplitSharing) and self.sharing.mode == "mps" else memory
        )

    def offers(self, gpu: WholeGpu | MigGpu | SharedGpu) -> bool:
        """Whether one node of the pool can ever hold a replica with this envelope; says nothing about free room."""
        if gpu.accelerator is not self.accelerator or gpu.share != self.sharing.mode:
            return False
        if self.resources_per_node.get(gpu.resource, 0) < gpu.count:
            return False
        return not isinstance(gpu, SharedGpu) or gpu.memory <= self.share_memory


class SystemPool(Part):
    """Nodes without GPUs, for gateways, Prometheus, KEDA, operators and everything else that needs none."""

    name: Name
    """Its name."""
    instance_types: Annotated[tuple[str, ...], Field(min_length=1, max_length=10)]
    """EC2 instance types without GPUs, first choice first."""
    zones: Annotated[tuple[Zone, ...], Field(min_length=1, max_length=6)]
    """Availability zones; one node group over all of them."""
    size: Size
    """Number of nodes in all zones together."""
    release: Annotated[str, Field(pattern=r"^1\.[0-9]{2}(\.[0-9]{1,3})?-20[0-9]{6}$", examples=["1.36.2-20260714"])]
    """The pinned AMI release of `AL2023_x86_64_STANDARD`."""
    disk: Disk = Field(default_factory=lambda: Disk(size=Bytes(100 * 2**30), iops=3_000, throughput=Throughput.parse("125Mi/s")))
    """The root volume."""

    def violations(self) -> Iterator[Problem]:
        for number, name in enumerate(self.instance_types):
            if name not in INSTANCE_TYPES or INSTANCE_TYPES[name].gpus:
                yield problem(
                    "instance-type-in-catalogue",
                    "instance_types",
                    number,
                    value=name,
                    fact=f"the catalogue has no instance type {name} without GPUs",
                    consequence="System pods would pay for GPUs that they do not use, or land on unknown hardware",
                    remedy=f"Use one of {', '.join(sorted(i.name for i in INSTANCE_TYPES.values() if not i.gpus))}",
                )
        yield from offering_problems(self.instance_types, self.zones)
