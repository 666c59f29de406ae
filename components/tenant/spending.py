"""What a tenant spends, in money and tokens, against what its contract grants.

Cost is known a day later, from AWS's split cost allocation for EKS, which divides a node's price by what each
namespace's pods reserve (GPUs included). Tokens are known at once. The trap: the cost allocation tag
`aws:eks:namespace` must be activated once in the payer account; until then the budget sees nothing and stays silent.
"""

from typing import Any

from components.labels import labels
from components.manifests import object_
from components.tenant.surroundings import Surroundings
from headway.contract.tenant import Tenant

NAMESPACE_TAG = "aws:eks:namespace"
FORECAST_PERCENT, ACTUAL_PERCENT = 100, 80


def budget(tenant: Tenant, cluster: str) -> dict[str, Any]:
    """Arguments of the AWS budget: told to the owner at 80 % spent, and when the forecast passes the whole."""
    told = {"subscriber_email_addresses": [tenant.owner], "comparison_operator": "GREATER_THAN", "threshold_type": "PERCENTAGE"}
    return {
        "name": f"{cluster}-{tenant.name}",
        "budget_type": "COST",
        "limit_amount": f"{tenant.quota.monthly_budget.dollars.normalize():f}",
        "limit_unit": "USD",
        "time_unit": "MONTHLY",
        "cost_filters": [{"name": "TagKeyValue", "values": [f"{NAMESPACE_TAG}${tenant.name}"]}],
        "notifications": [
            {**told, "notification_type": "ACTUAL", "threshold": ACTUAL_PERCENT},
            {**told, "notification_type": "FORECASTED", "threshold": FORECAST_PERCENT},
        ],
    }


def token_alert(tenant: Tenant, surroundings: Surroundings) -> dict[str, Any] | None:
    """Tokens of prompts and answers above the quota; None for a tenant without one.

    The gateway limits them by the minute (`limits.py`), so this fires where it cannot: answers that it does not
    count, or no limiter.
    """
    if tenant.quota.tokens is None:
        return None
    counts = ("vllm:generation_tokens_total", "vllm:prompt_tokens_total")
    rate = " + ".join(f'sum(rate({each}{{platform_io_tenant="{tenant.name}"}}[5m]))' for each in counts)
    granted = tenant.quota.tokens.per_second
    return object_(
        "monitoring.coreos.com/v1",
        "PrometheusRule",
        "tenant.tokens",  # as no model is called: beside it stands one of each model, by the model's name
        namespace=tenant.name,
        labels=labels("objectives", tenant=tenant.name),
        spec={
            "groups": [
                {
                    "name": f"{tenant.name}-quota",
                    "rules": [
                        {
                            "alert": "TenantTokensAboveQuota",
                            "expr": f"{rate} > {granted:g}",
                            "for": "10m",
                            "labels": {"layer": "request", "namespace": tenant.name, "severity": "ticket", "tenant": tenant.name},
                            "annotations": {
                                "summary": f"{tenant.name} uses more tokens than its quota of {tenant.quota.tokens}",
                                "runbook_url": f"{surroundings.runbooks}/tenant-tokens-above-quota.md",
                            },
                        }
                    ],
                }
            ]
        },
    )
