"""PromQL that several dashboards share."""

SERVICE = "{{tenant}}/{{model}} {{release}}"
"""How a release is called in a legend."""
POOL = "label_platform_io_pool"
GPUS = 'resource=~"nvidia_com_(gpu|mig).*"'
BURN = "headway:slo_bad:share1h / on (tenant, model, objective) headway:slo_allowed:share"
"""How many times as fast as it may an error budget is spent, over an hour."""


def by_pool(expression: str) -> str:
    """A sum over nodes, by pool."""
    return f"sum by ({POOL}) ({in_pools(expression)})"


def in_pools(expression: str) -> str:
    """A number of each node, labelled with its pool."""
    return f'(({expression}) * on (node) group_left ({POOL}) kube_node_labels{{{POOL}!=""}})'


FREE = (
    f"sum by (node) (kube_node_status_allocatable{{{GPUS}}})"
    f" - (sum by (node) (kube_pod_container_resource_requests{{{GPUS}}}) or 0 * sum by (node) (kube_node_status_allocatable{{{GPUS}}}))"
)
"""GPUs, or slices of them, that nobody has asked for, by node."""
