"""What a tenant spends, in money and tokens, against what its contract grants.

Money is the platform's own measure: what the GPUs that the tenant's pods hold cost at list price. AWS Budgets cannot tell tenants apart: only
the Cost and Usage Report divides an instance among its pods, for "Split cost allocation data is not available in Cost Explorer" (AWS Cost and
Usage Reports user guide, "Enabling split cost allocation data"), whose figures Budgets shows (AWS Billing user guide, "Features"). So what the
bill says, with its discounts, the payer reads there, by the tag `aws:eks:namespace`.
"""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

from components.labels import labels
from components.manifests import object_
from components.observability.expressions import POOL
from components.tenant.surroundings import Surroundings
from headway.contract.accelerators import GPUS
from headway.contract.arithmetic.cost import HOURS_A_MONTH, SPOT_DISCOUNT
from headway.contract.gpu_resources import MIG_PREFIX
from headway.contract.pool import Pool
from headway.contract.pool_parts import SplitSharing
from headway.contract.tenant import Tenant

COST = "headway:tenant_cost:usd_per_hour"
SAMPLES_AN_HOUR = 12
"""Of `COST`. A month is read at once: fewer of them."""


def budget_alert(tenant: Tenant, pools: Sequence[Pool], surroundings: Surroundings) -> dict[str, Any]:
    """Told to the tenant's receivers and the platform's, with the owner's address, when a month costs more than its contract grants, and before."""
    limit = tenant.quota.monthly_budget
    series, most = f'{COST}{{tenant="{tenant.name}"}}', f"{limit.dollars.normalize():f}"
    # A mean is of what was measured: of the first hours alone it foretells no month.
    pace = f"avg_over_time({series}[7d]) * {HOURS_A_MONTH} > {most} and count_over_time({series}[7d]) > {24 * SAMPLES_AN_HOUR}"
    # What was not measured, or is kept no longer, does not count.
    spent = f"sum_over_time({series}[30d]) / {SAMPLES_AN_HOUR} > {most}"
    usd = '{{ $value | printf "%.0f" }} USD'
    figures = (
        ("forecast", pace, f"{tenant.name} costs {usd} a month at the pace of the last week"),
        ("spent", spent, f"{tenant.name} cost {usd} in the last 30 days"),
    )
    return _rule(
        "tenant.budget",
        tenant,
        {
            "name": f"{tenant.name}-budget",
            "interval": f"{60 // SAMPLES_AN_HOUR}m",
            "rules": [
                {"record": COST, "expr": " + ".join(_terms(tenant.name, pools)) or "vector(0)", "labels": {"tenant": tenant.name}},
                *(
                    _alert(
                        "TenantOverBudget",
                        tenant,
                        expression,
                        hold="1h",
                        labels={"figure": figure},
                        annotations={
                            "summary": f"{said}, and {limit} are granted",
                            "description": f"GPUs at list price. The owner is {tenant.owner}.",
                            "runbook_url": f"{surroundings.runbooks}/tenant-over-budget.md",
                        },
                    )
                    for figure, expression, said in figures
                ),
            ],
        },
    )


def _terms(tenant: str, pools: Sequence[Pool]) -> Iterator[str]:
    """USD an hour for what its pods hold of each pool: a pod pays from its node on until it ends, whatever it serves."""
    for pool in sorted(pools, key=lambda pool: pool.name):
        for resource in sorted(pool.resources_per_node):
            held = (
                f'kube_pod_container_resource_requests{{namespace="{tenant}",resource="{_series(resource)}"}}'
                ' and on (namespace, pod) kube_pod_status_phase{phase=~"Pending|Running"} == 1'
            )
            on_pool = f'on (node) group_left () group by (node) (kube_node_labels{{{POOL}="{pool.name}"}})'
            yield f"(sum(({held}) * {on_pool}) or vector(0)) * {device_hour(pool, resource):.6f}"


def device_hour(pool: Pool, resource: str) -> Decimal:
    """USD an hour for one `resource` of `pool`, at list price as `headway.contract.arithmetic.cost` divides it."""
    gpu = pool.instance_type.price.dollars / pool.instance_type.gpus
    if resource.startswith(MIG_PREFIX):
        profile = GPUS[pool.accelerator].profile(resource.removeprefix(MIG_PREFIX))
        assert profile is not None  # noqa: S101  the pool's violations() have refused any other
        gpu *= profile.share
    elif isinstance(pool.sharing, SplitSharing):
        gpu /= pool.sharing.replicas
    return gpu * (SPOT_DISCOUNT if pool.capacity.kind == "spot" else 1)


def _series(resource: str) -> str:
    """As kube-state-metrics calls a resource: every character that no label may hold becomes `_`."""
    return "".join(each if each.isalnum() else "_" for each in resource)


def token_alert(tenant: Tenant, surroundings: Surroundings) -> dict[str, Any] | None:
    """Tokens of prompts and answers above the quota; None for a tenant without one.

    The gateway limits them by the minute (`limits.py`), so this fires where it cannot: answers that it does not
    count, or no limiter.
    """
    if tenant.quota.tokens is None:
        return None
    counts = ("vllm:generation_tokens_total", "vllm:prompt_tokens_total")
    rate = " + ".join(f'sum(rate({each}{{platform_io_tenant="{tenant.name}"}}[5m]))' for each in counts)
    alert = _alert(
        "TenantTokensAboveQuota",
        tenant,
        f"{rate} > {tenant.quota.tokens.per_second:g}",
        hold="10m",
        labels={},
        annotations={
            "summary": f"{tenant.name} uses more tokens than its quota of {tenant.quota.tokens}",
            "runbook_url": f"{surroundings.runbooks}/tenant-tokens-above-quota.md",
        },
    )
    return _rule("tenant.tokens", tenant, {"name": f"{tenant.name}-quota", "rules": [alert]})


def _alert(name: str, tenant: Tenant, expression: str, *, hold: str, labels: dict[str, str], annotations: dict[str, str]) -> dict[str, Any]:
    of_tenant = {"layer": "request", "namespace": tenant.name, "severity": "ticket", "tenant": tenant.name}
    return {"alert": name, "expr": expression, "for": hold, "labels": {**of_tenant, **labels}, "annotations": annotations}


def _rule(name: str, tenant: Tenant, group: dict[str, Any]) -> dict[str, Any]:
    """`name` has a dot, as that of no model: beside it stands one of each model, by the model's name."""
    marks = labels("objectives", tenant=tenant.name)
    return object_("monitoring.coreos.com/v1", "PrometheusRule", name, namespace=tenant.name, labels=marks, spec={"groups": [group]})
