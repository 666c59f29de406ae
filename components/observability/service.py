"""The dashboard of one model service, made from its contract: its promises, its releases, its servers, its replicas.

It belongs to the tenant's stack, so that a team sees its own before anybody asks for it.
"""

from components.naming import distinct
from components.observability.expressions import BURN
from components.observability.panels import Dashboard, Panel, PanelRow, PanelUnit, panel, row
from headway.contract.model import Model
from headway.contract.runtime import Engine

UID_LIMIT = 40
"""Of Grafana."""
_RELEASE = "{{release}} {{source}}"


def service_dashboard(tenant: str, model: Model) -> Dashboard:
    """What can be known of the model with its runtime; a panel that its runtime never fills is not there."""
    return Dashboard(
        uid=distinct(f"headway-{tenant}", model.name, limit=UID_LIMIT),
        title=f"{tenant} / {model.name}",
        tags=("service", tenant),
        about={"tenant": tenant, "model": model.name},
        rows=tuple(_rows(tenant, model)),
    )


def _rows(tenant: str, model: Model) -> list[PanelRow]:
    who = f'model="{model.name}",tenant="{tenant}"'
    pods = f'namespace="{tenant}",pod=~"{model.name}-r[0-9a-f]{{10}}-.+"'
    deployments = f'namespace="{tenant}",deployment=~"{model.name}-r[0-9a-f]{{10}}(-baseline)?"'
    scalers = f'namespace="{tenant}",horizontalpodautoscaler=~"keda-{model.name}-r[0-9a-f]{{10}}.*"'

    def recorded(title: str, name: str, unit: PanelUnit = PanelUnit.NUMBER, source: str = "") -> Panel:
        narrowed = f'{who},source="{source}"' if source else who
        return panel(title, (f"headway:{name}{{{narrowed}}}", _RELEASE), unit=unit)

    burning = BURN.replace("share1h", f"share1h{{{who}}}").replace("slo_allowed:share", f"slo_allowed:share{{{who}}}")
    rows = [
        row(
            "Objectives",
            panel("Burn rate over an hour", (burning, "{{objective}}"), meaning="At 1 the error budget lasts exactly for its window."),
            panel(
                "Share of bad requests by objective",
                (f"headway:slo_bad:share1d{{{who}}}", "{{objective}}"),
                unit=PanelUnit.SHARE,
            ),
        ),
        row(
            "Requests by release",
            recorded("Requests per second", "request_rate", PanelUnit.PER_SECOND, "mesh"),
            recorded("Server errors", "error_ratio", PanelUnit.SHARE),
            recorded("Latency p99", "latency:p99", PanelUnit.SECONDS),
            recorded("Latency p50", "latency:p50", PanelUnit.SECONDS),
        ),
    ]
    if model.runtime.engine is not Engine.CONTAINER:
        rows.append(
            row(
                "Servers",
                recorded("Requests in flight", "in_flight", source=model.runtime.engine.value),
                recorded("Waiting requests", "waiting"),
                recorded("Queue time", "queue_time", PanelUnit.SECONDS),
                recorded("Compute time", "compute_time", PanelUnit.SECONDS),
            )
        )
    if model.runtime.engine is Engine.TRITON:
        rows.append(row("Batching", recorded("Batch size", "batch_size")))
    if model.runtime.engine is Engine.VLLM:
        rows.append(
            row(
                "Tokens",
                recorded("Time to first token p95", "ttft:p95", PanelUnit.SECONDS),
                recorded("Inter-token latency p95", "inter_token:p95", PanelUnit.SECONDS),
                recorded("Tokens per second", "tokens_per_second", PanelUnit.TOKENS_PER_SECOND),
                recorded("KV cache in use", "kv_cache_use", PanelUnit.SHARE),
                recorded("Preemptions", "preemptions", PanelUnit.PER_SECOND),
            )
        )
    return [
        *rows,
        row(
            "GPUs",
            recorded("SM activity", "gpu_activity", PanelUnit.SHARE),
            recorded("Highest GPU memory in use", "gpu_memory", PanelUnit.BYTES),
            recorded("Xid events", "gpu_faults"),
        ),
        row(
            "Replicas",
            panel(
                "Desired vs available replicas",
                (f"kube_deployment_spec_replicas{{{deployments}}}", "{{deployment}} desired"),
                (f"kube_deployment_status_replicas_available{{{deployments}}}", "{{deployment}} available"),
            ),
            panel(
                "Desired replicas as a share of the maximum",
                (
                    (
                        f"kube_horizontalpodautoscaler_status_desired_replicas{{{scalers}}}"
                        f" / kube_horizontalpodautoscaler_spec_max_replicas{{{scalers}}}"
                    ),
                    "{{horizontalpodautoscaler}}",
                ),
                unit=PanelUnit.SHARE,
            ),
            panel("Container restarts in the last hour", (f"increase(kube_pod_container_status_restarts_total{{{pods}}}[1h])", "{{pod}}")),
            panel("Deployment changes", (f"changes(kube_deployment_metadata_generation{{{deployments}}}[15m])", "{{deployment}}")),
        ),
    ]
