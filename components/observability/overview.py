"""The page that on-call opens first: is the right version serving, are promises kept, is capacity used well, are
rollouts controlled, do failures stay where they are. One row each, its indicator first.

Most failures are series that are missing, so an indicator that is empty while things are well is a count that then
says 0.
"""

from components.observability.expressions import BURN, GPUS, POOL, SERVICE, by_pool
from components.observability.panels import Dashboard, PanelUnit, panel, row

OVERVIEW = Dashboard(
    uid="headway-overview",
    title="Headway / Five invariants",
    rows=(
        row(
            "Is the right version serving?",
            panel(
                "Models with more than one release in service",
                'sum(count by (tenant, model) (headway:request_rate{source="mesh"} > 0) > bool 1) or vector(0)',
                single=True,
                meaning="Each of them compares two releases. More than a few at once are hard to watch.",
            ),
            panel(
                "Requests by release",
                ('sum by (tenant, model, release) (headway:request_rate{source="mesh"})', SERVICE),
                unit=PanelUnit.PER_SECOND,
            ),
            panel(
                "Running releases by model", ('count by (tenant, model) (headway:in_flight{source=~"triton|vllm"})', "{{tenant}}/{{model}}")
            ),
        ),
        row(
            "Are objectives met?",
            panel(
                "Highest burn rate of an error budget",
                f"max({BURN})",
                single=True,
                meaning="At 1 the budget lasts exactly for its window. At 14.4 somebody is paged.",
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
                "Share of GPUs requested",
                f"sum(kube_pod_container_resource_requests{{{GPUS}}}) / sum(kube_node_status_allocatable{{{GPUS}}})",
                unit=PanelUnit.SHARE,
                single=True,
                meaning="A whole GPU and a MIG slice count as one each.",
            ),
            panel("SM activity by model", ("avg by (tenant, model) (headway:gpu_activity)", "{{tenant}}/{{model}}"), unit=PanelUnit.SHARE),
            panel(
                "Requested GPUs by pool", (by_pool(f"sum by (node) (kube_pod_container_resource_requests{{{GPUS}}})"), f"{{{{{POOL}}}}}")
            ),
        ),
        row(
            "Are rollouts controlled?",
            panel(
                "Services at their maximum number of replicas",
                "sum((kube_horizontalpodautoscaler_status_desired_replicas >= bool kube_horizontalpodautoscaler_spec_max_replicas)"
                " * (kube_horizontalpodautoscaler_spec_max_replicas > bool kube_horizontalpodautoscaler_spec_min_replicas))",
                single=True,
            ),
            panel(
                "Deployments with missing replicas",
                "sum(kube_deployment_status_replicas_available < bool kube_deployment_spec_replicas)",
            ),
            panel("Deployments created in the last hour", "sum(time() - kube_deployment_created < bool 3600)"),
        ),
        row(
            "Are failures contained?",
            panel(
                "Tenants with a paging alert",
                'count(count by (namespace) (ALERTS{alertstate="firing",namespace!="",severity="page"})) or vector(0)',
                single=True,
            ),
            panel("Firing alerts by layer", ('count by (layer) (ALERTS{alertstate="firing",severity!="heartbeat"})', "{{layer}}")),
            panel("Server errors by tenant", ("max by (tenant) (headway:error_ratio)", "{{tenant}}"), unit=PanelUnit.SHARE),
        ),
    ),
)
