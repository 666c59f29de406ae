"""The dashboard of one model service, made from its contract: its objectives, releases, servers and replicas.

It belongs to the tenant's stack, so that a team sees its own before anybody asks for it.
"""

from collections.abc import Iterator

from components.addons.grafana_pages import service_uid
from components.observability.expressions import BURN
from components.observability.panels import Dashboard, Panel, PanelRow, PanelUnit, panel, row
from components.platform import gateway_measures
from components.platform.gateway_scripts import BETWEEN, FIRST
from headway.contract.model import Model
from headway.contract.runtime import Engine

_RELEASE = "{{release}} {{source}}"


def service_dashboard(tenant: str, model: Model) -> Dashboard:
    """What can be known of the model with its runtime; a panel that its runtime never fills is not there."""
    return Dashboard(
        uid=service_uid(tenant, model.name),
        title=f"{tenant} / {model.name}",
        tags=("service", tenant),
        about={"tenant": tenant, "model": model.name},
        rows=tuple(_rows(tenant, model)),
    )


def _rows(tenant: str, model: Model) -> list[PanelRow]:
    who = f'model="{model.name}",tenant="{tenant}"'
    return [_objectives(who), _requests(who), *_servers(who, tenant, model), _gpus(who), _replicas(tenant, model.name)]


def _recorded(who: str, title: str, name: str, unit: PanelUnit = PanelUnit.NUMBER, source: str = "") -> Panel:
    narrowed = f'{who},source="{source}"' if source else who
    return panel(title, (f"headway:{name}{{{narrowed}}}", _RELEASE), unit=unit)


def _objectives(who: str) -> PanelRow:
    burning = BURN.replace("share1h", f"share1h{{{who}}}").replace("slo_allowed:share", f"slo_allowed:share{{{who}}}")
    bad = (f"headway:slo_bad:share1d{{{who}}}", "{{objective}}")
    return row(
        "Objectives",
        panel("Burn rate over an hour", (burning, "{{objective}}"), meaning="At 1 the error budget lasts exactly for its window."),
        panel("Share of bad requests by objective", bad, unit=PanelUnit.SHARE),
    )


def _requests(who: str) -> PanelRow:
    return row(
        "Requests by release",
        _recorded(who, "Requests per second", "request_rate", PanelUnit.PER_SECOND, "mesh"),
        _recorded(who, "Server errors", "error_ratio", PanelUnit.SHARE),
        _recorded(who, "Latency p99", "latency:p99", PanelUnit.SECONDS),
        _recorded(who, "Latency p50", "latency:p50", PanelUnit.SECONDS),
    )


def _servers(who: str, tenant: str, model: Model) -> Iterator[PanelRow]:
    """What the model server measures; nothing of a container of the team's own."""
    engine = model.runtime.engine
    if engine is not Engine.CONTAINER:
        yield row(
            "Servers",
            _recorded(who, "Requests in flight", "in_flight", source=engine.value),
            _recorded(who, "Waiting requests", "waiting"),
            _recorded(who, "Queue time", "queue_time", PanelUnit.SECONDS),
            _recorded(who, "Compute time", "compute_time", PanelUnit.SECONDS),
        )
    if engine is Engine.TRITON:
        yield row("Batching", _recorded(who, "Batch size", "batch_size"))
    if engine is Engine.VLLM:
        yield row(
            "Tokens",
            _recorded(who, "Time to first token p95", "ttft:p95", PanelUnit.SECONDS),
            _recorded(who, "Inter-token latency p95", "inter_token:p95", PanelUnit.SECONDS),
            *(
                panel(title, (gateway_measures.quantile(name, 0.95, tenant, model.name), "p95"), unit=PanelUnit.SECONDS)
                for title, name in (("First token p95 at the gateway", FIRST), ("Mean between tokens p95 at the gateway", BETWEEN))
            ),
            _recorded(who, "Time per output token p95", "time_per_token:p95", PanelUnit.SECONDS),
            _recorded(who, "Tokens per second", "tokens_per_second", PanelUnit.TOKENS_PER_SECOND),
            _recorded(who, "Tokens of an answer", "answer_tokens"),
            _recorded(who, "Answers cut off at their limit", "truncated", PanelUnit.SHARE),
            _recorded(who, "KV cache in use", "kv_cache_use", PanelUnit.SHARE),
            _recorded(who, "Preemptions", "preemptions", PanelUnit.PER_SECOND),
        )


def _gpus(who: str) -> PanelRow:
    return row(
        "GPUs",
        _recorded(who, "SM activity", "gpu_activity", PanelUnit.SHARE),
        _recorded(who, "Highest GPU memory in use", "gpu_memory", PanelUnit.BYTES),
        _recorded(who, "Xid events", "gpu_faults"),
    )


def _replicas(tenant: str, model: str) -> PanelRow:
    pods = f'namespace="{tenant}",pod=~"{model}-r[0-9a-f]{{10}}-.+"'
    deployments = f'namespace="{tenant}",deployment=~"{model}-r[0-9a-f]{{10}}(-baseline)?"'
    scalers = f'namespace="{tenant}",horizontalpodautoscaler=~"keda-{model}-r[0-9a-f]{{10}}.*"'
    use = f"kube_horizontalpodautoscaler_status_desired_replicas{{{scalers}}} / kube_horizontalpodautoscaler_spec_max_replicas{{{scalers}}}"
    return row(
        "Replicas",
        panel(
            "Desired vs available replicas",
            (f"kube_deployment_spec_replicas{{{deployments}}}", "{{deployment}} desired"),
            (f"kube_deployment_status_replicas_available{{{deployments}}}", "{{deployment}} available"),
        ),
        panel("Desired replicas as a share of the maximum", (use, "{{horizontalpodautoscaler}}"), unit=PanelUnit.SHARE),
        panel("Container restarts in the last hour", (f"increase(kube_pod_container_status_restarts_total{{{pods}}}[1h])", "{{pod}}")),
        panel("Deployment changes", (f"changes(kube_deployment_metadata_generation{{{deployments}}}[15m])", "{{deployment}}")),
    )
