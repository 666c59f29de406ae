"""The accelerator catalogue: what a GPU is, how MIG cuts it, and what each EC2 instance type holds and costs.

Data, with the date and the source of each table. It holds the types that pools may name, and no other. The trap: GPU memory is what
the driver reports, a little below the name; a model of 40 GB does not fit a slice called 40gb.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum, unique
from functools import cache

from headway.contract.units import Bytes, Money, Throughput

_MI = 2**20
_GI = 2**30


@unique
class Accelerator(StrEnum):
    """A kind of GPU: the class by which quotas, envelopes and pools count. Not an instance type, which holds one to eight of them."""

    L4 = "l4"
    L40S = "l40s"
    A100_40GB = "a100-40gb"
    A100_80GB = "a100-80gb"
    H100 = "h100"
    H200 = "h200"


@dataclass(frozen=True)
class Link:
    """What joins the GPUs of a node that has several; `rate` is the most that one GPU sends in a second, as its datasheet says."""

    name: str
    rate: Bytes


PCIE = Link("PCIe", Bytes(32 * 10**9))
"""Generation 4, 16 lanes. NVIDIA's datasheets say "64GB/s", which is both ways, and of L4 and L40S that they have no NVLink."""


@dataclass(frozen=True)
class MigProfile:
    """One way to cut a GPU. `starts` are the memory slots where it may begin, `slots` how many it covers, `slices` its compute share."""

    name: str
    memory: Bytes
    slices: int
    slots: int
    starts: tuple[int, ...]

    @property
    def resource(self) -> str:
        """The extended resource of the device plugin under the mixed strategy."""
        return f"nvidia.com/mig-{self.name}"

    @property
    def share(self) -> Decimal:
        """Part of the GPU that nobody else can use: the larger of its memory and compute shares."""
        return max(Decimal(self.slots) / 8, Decimal(self.slices) / 7)


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """One accelerator as the driver sees it."""

    accelerator: Accelerator
    product: str
    """Value of the node label `nvidia.com/gpu.product`."""
    architecture: str
    memory: Bytes
    mig: tuple[MigProfile, ...] = ()
    """Empty where the hardware has no MIG."""
    fp8: bool = False
    """Whether its tensor cores compute in FP8."""
    link: Link = PCIE
    """To its neighbours on a node."""

    def profile(self, name: str) -> MigProfile | None:
        return next((profile for profile in self.mig if profile.name == name), None)


# Compute slices, memory slots and where they may start, by the first part of a profile's name: the same on every card.
_GEOMETRY = {
    "1g": (1, 1, (0, 1, 2, 3, 4, 5, 6)),
    "2g": (2, 2, (0, 2, 4)),
    "3g": (3, 4, (0, 4)),
    "4g": (4, 4, (0,)),
    "7g": (7, 8, (0,)),
}
_DOUBLE_MEMORY = (1, 2, (0, 2, 4, 6))
"""One compute slice with the memory of two."""


def _mig(*rows: tuple[str, int], double: str) -> tuple[MigProfile, ...]:
    """Profiles from (name, MiB); `double` names the one that has two memory slots for one compute slice."""
    return tuple(
        MigProfile(name, Bytes(mebibytes * _MI), *(_DOUBLE_MEMORY if name == double else _GEOMETRY[name[:2]])) for name, mebibytes in rows
    )


# NVIDIA's datasheets of the SXM cards, both ways: A100 600 GB/s, H100 and H200 900 GB/s; NVSwitch joins each with each.
_NVLINK_3, _NVLINK_4 = Link("NVLink", Bytes(300 * 10**9)), Link("NVLink", Bytes(450 * 10**9))

# As of 2026-11. Memory: what `nvidia-smi` prints as total. MIG: planning values, at or a little below what `nvidia-smi mig -lgip` prints;
# profiles and placements by NVIDIA's MIG user guide ("Supported MIG Profiles"). None of it was measured here: check against the driver.
GPUS: Mapping[Accelerator, Gpu] = {
    gpu.accelerator: gpu
    for gpu in (
        Gpu(accelerator=Accelerator.L4, product="NVIDIA-L4", architecture="ada", memory=Bytes(23_034 * _MI), fp8=True),
        Gpu(accelerator=Accelerator.L40S, product="NVIDIA-L40S", architecture="ada", memory=Bytes(46_068 * _MI), fp8=True),
        Gpu(
            accelerator=Accelerator.A100_40GB,
            product="NVIDIA-A100-SXM4-40GB",
            architecture="ampere",
            memory=Bytes(40_960 * _MI),
            link=_NVLINK_3,
            mig=_mig(
                ("1g.5gb", 4_864),
                ("1g.10gb", 9_856),
                ("2g.10gb", 9_856),
                ("3g.20gb", 19_968),
                ("4g.20gb", 19_968),
                ("7g.40gb", 40_192),
                double="1g.10gb",
            ),
        ),
        Gpu(
            accelerator=Accelerator.A100_80GB,
            product="NVIDIA-A100-SXM4-80GB",
            architecture="ampere",
            memory=Bytes(81_920 * _MI),
            link=_NVLINK_3,
            mig=_mig(
                ("1g.10gb", 9_728),
                ("1g.20gb", 19_968),
                ("2g.20gb", 19_968),
                ("3g.40gb", 40_192),
                ("4g.40gb", 40_192),
                ("7g.80gb", 80_640),
                double="1g.20gb",
            ),
        ),
        Gpu(
            accelerator=Accelerator.H100,
            product="NVIDIA-H100-80GB-HBM3",
            architecture="hopper",
            memory=Bytes(81_559 * _MI),
            link=_NVLINK_4,
            fp8=True,
            mig=_mig(
                ("1g.10gb", 9_728),
                ("1g.20gb", 19_968),
                ("2g.20gb", 19_968),
                ("3g.40gb", 40_192),
                ("4g.40gb", 40_192),
                ("7g.80gb", 80_640),
                double="1g.20gb",
            ),
        ),
        Gpu(
            accelerator=Accelerator.H200,
            product="NVIDIA-H200",
            architecture="hopper",
            memory=Bytes(143_771 * _MI),
            link=_NVLINK_4,
            fp8=True,
            mig=_mig(
                ("1g.18gb", 16_384),
                ("1g.35gb", 32_768),
                ("2g.35gb", 32_768),
                ("3g.71gb", 66_560),
                ("4g.71gb", 66_560),
                ("7g.141gb", 138_240),
                double="1g.35gb",
            ),
        ),
    )
}


@dataclass(frozen=True, kw_only=True)
class InstanceType:
    """One EC2 instance type. `price` is the on-demand list price an hour, Linux, us-east-1, as of PRICES_AS_OF."""

    name: str
    accelerator: Accelerator | None
    gpus: int
    vcpus: int
    memory: Bytes
    nvme: Bytes
    """Instance-store NVMe in total; zero where there is none."""
    efa_interfaces: int
    """How many Elastic Fabric Adapters it takes, one a network card; zero where it has none."""
    network: Throughput
    """Of all network cards together, each way, without credits to burst."""
    price: Money

    @property
    def gpu(self) -> Gpu | None:
        return GPUS[self.accelerator] if self.accelerator else None

    @property
    def pods_network(self) -> Throughput:
        """What all pods of a node have: the VPC CNI gives them addresses of the first network card alone."""
        return Throughput(int(self.network) // max(1, self.efa_interfaces))


PRICES_AS_OF = "2026-01-19"
PRICES_SOURCE = "AWS EC2 on-demand list prices, us-east-1, Linux; check before budgeting"
# Read from the table that karpenter-provider-aws generates from AWS's price list (pkg/providers/pricing/zz_generated.pricing_aws.go, commit
# 031e72b, "generated at 2026-01-19"): every row below stands there with this price.

_GB = 10**9
# Hardware: AWS EC2 "Accelerated computing" and "General purpose" instance specifications, 2025-11.
# Network: baselines of the table that karpenter-provider-aws generates from EC2's API (zz_generated.bandwidth.go, commit 1d92708).
# name, accelerator, GPUs, vCPU, GiB, NVMe GB, EFA interfaces, network Mbit/s, USD/h
_ROWS: tuple[tuple[str, Accelerator | None, int, int, int, int, int, int, str], ...] = (
    ("g6.xlarge", Accelerator.L4, 1, 4, 16, 250, 0, 2_500, "0.8048"),
    ("g6.2xlarge", Accelerator.L4, 1, 8, 32, 450, 0, 5_000, "0.9776"),
    ("g6.4xlarge", Accelerator.L4, 1, 16, 64, 600, 0, 10_000, "1.3232"),
    ("g6.8xlarge", Accelerator.L4, 1, 32, 128, 900, 1, 25_000, "2.0144"),
    ("g6.12xlarge", Accelerator.L4, 4, 48, 192, 3760, 1, 40_000, "4.6016"),
    ("g6.16xlarge", Accelerator.L4, 1, 64, 256, 1880, 1, 25_000, "3.3968"),
    ("g6.24xlarge", Accelerator.L4, 4, 96, 384, 3760, 1, 50_000, "6.6752"),
    ("g6.48xlarge", Accelerator.L4, 8, 192, 768, 7520, 1, 100_000, "13.3504"),
    ("g6e.xlarge", Accelerator.L40S, 1, 4, 32, 250, 0, 2_500, "1.861"),
    ("g6e.2xlarge", Accelerator.L40S, 1, 8, 64, 450, 0, 5_000, "2.24208"),
    ("g6e.4xlarge", Accelerator.L40S, 1, 16, 128, 600, 0, 20_000, "3.00424"),
    ("g6e.8xlarge", Accelerator.L40S, 1, 32, 256, 900, 1, 25_000, "4.52856"),
    ("g6e.12xlarge", Accelerator.L40S, 4, 48, 384, 3800, 1, 100_000, "10.49264"),
    ("g6e.16xlarge", Accelerator.L40S, 1, 64, 512, 1900, 1, 35_000, "7.57719"),
    ("g6e.24xlarge", Accelerator.L40S, 4, 96, 768, 3800, 2, 200_000, "15.06559"),
    ("g6e.48xlarge", Accelerator.L40S, 8, 192, 1536, 7600, 4, 400_000, "30.13118"),
    ("p4d.24xlarge", Accelerator.A100_40GB, 8, 96, 1152, 8000, 4, 400_000, "21.957642"),
    ("p4de.24xlarge", Accelerator.A100_80GB, 8, 96, 1152, 8000, 4, 400_000, "27.44705"),
    ("p5.4xlarge", Accelerator.H100, 1, 16, 256, 3840, 1, 100_000, "6.88"),
    ("p5.48xlarge", Accelerator.H100, 8, 192, 2048, 30720, 32, 3_200_000, "55.04"),
    ("p5en.48xlarge", Accelerator.H200, 8, 192, 2048, 30720, 16, 3_200_000, "63.296"),
    ("m7i.large", None, 0, 2, 8, 0, 0, 781, "0.1008"),
    ("m7i.xlarge", None, 0, 4, 16, 0, 0, 1_562, "0.2016"),
    ("m7i.2xlarge", None, 0, 8, 32, 0, 0, 3_125, "0.4032"),
    ("m7i.4xlarge", None, 0, 16, 64, 0, 0, 6_250, "0.8064"),
    ("m7i.8xlarge", None, 0, 32, 128, 0, 0, 12_500, "1.6128"),
)

INSTANCE_TYPES: Mapping[str, InstanceType] = {
    name: InstanceType(
        name=name,
        accelerator=accelerator,
        gpus=gpus,
        vcpus=vcpus,
        memory=Bytes(gibibytes * _GI),
        nvme=Bytes(nvme * _GB),
        efa_interfaces=efa,
        network=Throughput(megabits * 125_000),
        price=Money.parse(f"{price} USD"),
    )
    for name, accelerator, gpus, vcpus, gibibytes, nvme, efa, megabits, price in _ROWS
}

MIG_PROFILES: tuple[str, ...] = tuple(sorted({profile.name for gpu in GPUS.values() for profile in gpu.mig}))


def instance_types_of(accelerator: Accelerator) -> tuple[InstanceType, ...]:
    """The instance types that hold it, cheapest first."""
    return tuple(sorted((i for i in INSTANCE_TYPES.values() if i.accelerator is accelerator), key=lambda i: (int(i.price), i.name)))


def smallest_with(accelerator: Accelerator, gpus: int) -> InstanceType:
    """The cheapest instance type with at least so many GPUs of a kind."""
    return next(each for each in instance_types_of(accelerator) if each.gpus >= gpus)


def mig_layout_fits(accelerator: Accelerator, layout: Mapping[str, int]) -> bool:
    """Whether one GPU can be cut into `layout` (profile name to count) at once: the profiles need disjoint memory slots.

    Unknown profiles raise KeyError: check them first, with `Gpu.profile`.
    """
    known = {profile.name: profile for profile in GPUS[accelerator].mig}
    wanted = sorted((known[name] for name, count in layout.items() for _ in range(min(count, 8))), key=lambda p: (-p.slots, p.name))
    if sum(profile.slices for profile in wanted) > 7 or sum(profile.slots for profile in wanted) > 8:
        return False
    return _placed(tuple((profile.slots, profile.starts) for profile in wanted), 0)


@cache
def _placed(wanted: tuple[tuple[int, tuple[int, ...]], ...], taken: int) -> bool:
    if not wanted:
        return True
    (slots, starts), rest = wanted[0], wanted[1:]
    for start in starts:
        mask = ((1 << slots) - 1) << start
        if start + slots <= 8 and not taken & mask and _placed(rest, taken | mask):
            return True
    return False
