"""What a model costs: its part of an instance an hour, a month, 1,000 requests, a million tokens. List prices, with their date.

A replica pays for the part of a node that nobody else can use meanwhile: whole GPUs by count, MIG instances by the larger of their memory
and compute parts, shares by their number. The trap: node remainders that nobody uses are in no model's cost.
"""

from dataclasses import dataclass
from decimal import Decimal

from headway.contract.accelerators import PRICES_AS_OF, instance_types_of
from headway.contract.envelope import MigGpu, SharedGpu
from headway.contract.explanation import Line
from headway.contract.model import Model
from headway.contract.pool import Pool
from headway.contract.pool_parts import SplitSharing
from headway.contract.units import Money
from headway.problem import count

HOURS_A_MONTH = 730
SPOT_DISCOUNT = Decimal("0.4")
"""Part of the list price that spot GPU capacity is reckoned at; it varies by the hour."""


@dataclass(frozen=True)
class Cost:
    """List prices; `as_of` is their date."""

    replica_hour: Money
    thousand_requests: Money
    """At the declared capacity; half the use costs twice as much."""
    million_tokens: Money | None
    month_at_least: Money
    """Minimum replicas and warm places, all month."""
    month_at_most: Money
    """Maximum replicas, warm places and batch workers, all month."""
    as_of: str
    lines: tuple[Line, ...]


def cost(model: Model, pool: Pool | None = None) -> Cost:
    """Cost of `model` on `pool`; without one, on the cheapest instance type that holds its GPU."""
    gpu, scaling = model.envelope.gpu, model.scaling
    instance = pool.instance_type if pool else instance_types_of(gpu.accelerator)[0]
    part = Decimal(gpu.count * model.nodes_each) / instance.gpus
    over = f" x {model.nodes_each} nodes" if model.nodes_each > 1 else ""
    how = f"{gpu.count} of {instance.gpus} GPUs of {instance.name} at {instance.price}{over}"
    if isinstance(gpu, MigGpu):
        part *= gpu.mig_profile.share
        how += f" x {gpu.profile}"
    elif isinstance(gpu, SharedGpu):
        shares = pool.sharing.replicas if pool and isinstance(pool.sharing, SplitSharing) else 1
        part /= shares
        how += f" / {shares} shares"
    hour = _money(Decimal(int(instance.price)) * part)
    always, most = scaling.min_replicas + scaling.warm_replicas, scaling.max_replicas + scaling.warm_replicas
    batch = Decimal(model.batch.max_replicas) * SPOT_DISCOUNT if model.batch else Decimal(0)
    thousand = _money(Decimal(int(hour)) * 1000 / int(scaling.capacity))
    million = _money(Decimal(int(hour)) * 1_000_000 / int(scaling.token_capacity)) if scaling.token_capacity else None
    least = Money(int(hour) * HOURS_A_MONTH * always)
    greatest = _money(Decimal(int(hour)) * HOURS_A_MONTH * (most + batch))
    lines = (
        Line("a replica, an hour", hour, how),
        Line("1,000 requests", thousand, f"at {scaling.capacity} a replica"),
        *((Line("1,000,000 tokens", million, f"at {scaling.token_capacity} a replica"),) if million is not None else ()),
        Line("a month, at least", least, f"{count(always, 'replica')} x {HOURS_A_MONTH} h"),
        Line(
            "a month, at most",
            greatest,
            f"{count(most, 'replica')} x {HOURS_A_MONTH} h" + (f" + {model.batch.max_replicas} spot workers" if model.batch else ""),
        ),
        Line("list prices of", PRICES_AS_OF, "us-east-1, on demand"),
    )
    return Cost(hour, thousand, million, least, greatest, PRICES_AS_OF, lines)


def _money(micros: Decimal) -> Money:
    return Money(int(micros.to_integral_value()))
