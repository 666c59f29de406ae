"""The page that on-call opens first: is the right version serving, are promises kept, is capacity used well, are rollouts controlled, do
failures stay where they are. One row each, its indicator first.

The trap: most failures are series that are missing, so an indicator that is empty while things are well is a count that then says 0.
"""

from components.observability.expressions import BURN, GPUS, POOL, SERVICE, by_pool
from components.observability.panels import Dashboard, Unit, panel, row

OVERVIEW = Dashboard(
    uid="headway-overview",
    title="Headway / Five invariants",
    rows=(
        row(
            "Is the right version serving?",
            panel(
                "Models with more than one release serving",
                'sum(count by (tenant, model) (headway:request_rate{source="mesh"}) > bool 1)',
                single=True,
                meaning="Each is a release that is being compared; more than a few at once are hard to watch",
            ),
            panel(
                "Requests by release",
                ('sum by (tenant, model, release) (headway:request_rate{source="mesh"})', SERVICE),
                unit=Unit.PER_SECOND,
            ),
            panel("Releases that run", ('count by (tenant, model) (headway:in_flight{source=~"triton|vllm"})', "{{tenant}}/{{model}}")),
        ),
        row(
            "Are promises kept?",
            panel(
                "Fastest burning error budget",
                f"max({BURN})",
                single=True,
                meaning="1 spends the budget exactly within its window; 14.4 wakes somebody",
            ),
            panel(
                "Burn rate over an hour",
                (BURN, "{{tenant}}/{{model}} {{objective}}"),
            ),
            panel(
                "Burn rate over three days",
                ("headway:slo_bad:share3d / on (tenant, model, objective) headway:slo_allowed:share", "{{tenant}}/{{model}} {{objective}}"),
            ),
        ),
        row(
            "Is capacity used well?",
            panel(
                "GPUs asked for",
                f"sum(kube_pod_container_resource_requests{{{GPUS}}}) / sum(kube_node_status_allocatable{{{GPUS}}})",
                unit=Unit.SHARE,
                single=True,
                meaning="Whole GPUs and MIG slices count one each",
            ),
            panel("Busy multiprocessors", ("avg by (tenant, model) (headway:gpu_activity)", "{{tenant}}/{{model}}"), unit=Unit.SHARE),
            panel(
                "GPUs asked for by pool", (by_pool(f"sum by (node) (kube_pod_container_resource_requests{{{GPUS}}})"), f"{{{{{POOL}}}}}")
            ),
        ),
        row(
            "Are rollouts controlled?",
            panel(
                "Services that want more replicas than they may have",
                "sum((kube_horizontalpodautoscaler_status_desired_replicas >= bool kube_horizontalpodautoscaler_spec_max_replicas)"
                " * (kube_horizontalpodautoscaler_spec_max_replicas > bool kube_horizontalpodautoscaler_spec_min_replicas))",
                single=True,
            ),
            panel(
                "Deployments without all their replicas",
                "sum(kube_deployment_status_replicas_available < bool kube_deployment_spec_replicas)",
            ),
            panel("Deployments changed within an hour", "sum(time() - kube_deployment_created < bool 3600)"),
        ),
        row(
            "Do failures stay where they are?",
            panel(
                "Tenants with an alert that wakes somebody",
                'count(count by (namespace) (ALERTS{alertstate="firing",namespace!="",severity="page"})) or vector(0)',
                single=True,
            ),
            panel("Alerts by layer", ('count by (layer) (ALERTS{alertstate="firing"})', "{{layer}}")),
            panel("Server errors by tenant", ("max by (tenant) (headway:error_ratio)", "{{tenant}}"), unit=Unit.SHARE),
        ),
    ),
)
