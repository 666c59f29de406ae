"""What an environment's cluster layer costs a month, from list prices: each paid thing with its number, at its fewest and at its most.

Pure. The traps: prices are those of us-east-1, other regions differ by tenths; and what is paid by use (traffic, storage, requests, logs) is
in no sum, but named, so that nobody takes the sum for a bill.
"""

from dataclasses import dataclass
from decimal import Decimal

from headway.capacity.described import Described
from headway.contract.accelerators import INSTANCE_TYPES, PRICES_AS_OF
from headway.contract.arithmetic.cost import HOURS_A_MONTH, SPOT_DISCOUNT
from headway.contract.pool import Pool
from headway.contract.pool_parts import Disk
from headway.contract.units import Money

# AWS price list, us-east-1, as of PRICES_AS_OF: pages "Amazon EKS", "Amazon VPC", "Amazon EBS" and "AWS KMS" pricing. USD.
CONTROL_PLANE_HOUR = {"STANDARD": Decimal("0.10"), "EXTENDED": Decimal("0.60")}
NAT_HOUR = Decimal("0.045")
ADDRESS_HOUR = Decimal("0.005")
ENDPOINT_HOUR = Decimal("0.01")
KEY_MONTH = Decimal(1)
GP3_GIBIBYTE_MONTH, GP3_OPERATION_MONTH, GP3_MEBIBYTE_MONTH = Decimal("0.08"), Decimal("0.005"), Decimal("0.04")
GP3_FREE_OPERATIONS, GP3_FREE_MEBIBYTES = 3_000, 125
"""Operations and MiB a second that come with every volume."""

KEYS = 4
"""Secrets, volumes, data, logs. A rotated key costs a dollar more after its first and its second rotation."""

BY_USE = (
    "traffic through NAT, endpoints, load balancers and between zones",
    "objects, requests and versions in the buckets",
    "log groups: control plane, flow log",
    "image storage and scans",
    "volumes that pods claim",
    "queue and KMS requests",
)
"""What is paid by use and is in no line."""


@dataclass(frozen=True)
class Item:
    """One paid thing. `fewest` and `most` are how many there are; `month` is the price of one a month."""

    what: str
    fewest: int
    most: int
    month: Money
    how: str

    @property
    def least(self) -> Money:
        return Money(int(self.month) * self.fewest)

    @property
    def greatest(self) -> Money:
        return Money(int(self.month) * self.most)


@dataclass(frozen=True)
class Estimate:
    """List prices of `as_of` in us-east-1."""

    items: tuple[Item, ...]
    as_of: str

    @property
    def least(self) -> Money:
        """All pools at their minimum, all month."""
        return Money(sum(item.least for item in self.items))

    @property
    def greatest(self) -> Money:
        """All pools at their maximum, all month."""
        return Money(sum(item.greatest for item in self.items))


def estimate(found: Described) -> Estimate:
    """Every paid thing of the layer, nodes first. A node's price is that of its instance and its root volume."""
    return Estimate((*_nodes(found), *_around(found)), PRICES_AS_OF)


def _nodes(found: Described) -> tuple[Item, ...]:
    system = found.system_pool
    instance = INSTANCE_TYPES[system.instance_types[0]]
    month = _together(_hours(instance.price.dollars), disk_month(system.disk))
    items = [Item(f"{system.name} nodes", system.size.min, system.size.max, month, instance.name)]
    for pool in sorted(found.pools, key=lambda pool: pool.name):
        items += _pool(pool)
    return tuple(items)


def _pool(pool: Pool) -> list[Item]:
    hour, zones, disk = pool.instance_type.price.dollars, len(pool.zones), disk_month(pool.disk)
    name = pool.instance_type.name
    how = {
        "block": f"{name}, at the on-demand price: a block is bought at its offer's",
        "on_demand": name,
        "reservation": f"{name}, reserved: paid though it stands idle",
        "spot": f"{name}, spot, reckoned at {SPOT_DISCOUNT:%} of the price",
    }[pool.capacity.kind]
    running = _hours(hour * SPOT_DISCOUNT if pool.capacity.kind == "spot" else hour)
    items = [Item(f"{pool.name} nodes", pool.size.min * zones, pool.size.max * zones, _together(running, disk), how)]
    if pool.warm:
        warm = pool.warm.size * zones
        month = _together(running, disk) if pool.warm.state == "running" else disk
        items.append(Item(f"{pool.name} warm nodes", warm, warm, month, f"{name}, {pool.warm.state}"))
    return items


def _around(found: Described) -> tuple[Item, ...]:
    zones = len(found.zones)
    gateways = {"none": 0, "single": 1, "per-zone": zones, "regional": zones}[found.nat]
    interfaces = len(found.paid_endpoints) * zones
    support = f"{found.support.lower()} support"
    around = [
        ("control plane", 1, _hours(CONTROL_PLANE_HOUR[found.support]), support),
        ("NAT gateways", gateways, _hours(NAT_HOUR), found.nat),
        ("public addresses", gateways, _hours(ADDRESS_HOUR), "of the NAT gateways"),
        ("endpoint interfaces", interfaces, _hours(ENDPOINT_HOUR), f"{len(found.paid_endpoints)} services in {zones} zones"),
        ("keys", KEYS, _money(KEY_MONTH), "secrets, volumes, data, logs"),
    ]
    return tuple(Item(what, count, count, month, how) for what, count, month, how in around if count)


def disk_month(disk: Disk) -> Money:
    """A gp3 volume: what it holds, and what it does beyond what comes with it."""
    gibibytes = -(-int(disk.size) // 2**30)
    mebibytes = -(-int(disk.throughput) // 2**20)
    return _money(
        gibibytes * GP3_GIBIBYTE_MONTH
        + max(0, disk.iops - GP3_FREE_OPERATIONS) * GP3_OPERATION_MONTH
        + max(0, mebibytes - GP3_FREE_MEBIBYTES) * GP3_MEBIBYTE_MONTH
    )


def _together(*prices: Money) -> Money:
    return Money(sum(prices))


def _hours(dollars: Decimal) -> Money:
    return _money(dollars * HOURS_A_MONTH)


def _money(dollars: Decimal) -> Money:
    return Money(int((dollars * 1_000_000).to_integral_value()))
