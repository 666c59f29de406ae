"""The platform's alerts, by failure layer, as data. Each one has a runbook of its name in `docs/runbooks/` and a case
for promtool.

What a model promises is alerted by its own burn rates (`model_service/objectives.py`); here stands what no contract
can say. An alert that names a tenant's namespace is told to the tenant as well (`routes.py`). A comparison with
nothing is nothing, so every alert on a ratio is silent when its source is, and the silence has an alert of its own.
"""

from collections.abc import Sequence
from typing import Any

from components.addons.grafana_pages import leads
from components.observability.alert import Alert, AlertSeverity, FailureLayer
from components.observability.evaluation_alerts import ANSWERS_WORSE, DRIFT_PROVEN, DRIFT_SILENT, EVALUATION_SILENT
from components.platform.namespaces import RATE_LIMIT
from headway.wire import MIG_STARTUP_SECONDS, MIG_TAINT, QUARANTINE

GPU_NODE = 'label_nvidia_com_gpu_present="true"'
TENANTS = 'group by (namespace) (kube_namespace_labels{label_platform_io_tenant!=""})'
"""One series for each tenant's namespace."""
_FIRST = (
    "{{{{ with $labels.model }}}}Begin with `headway diagnose {{{{ or $labels.namespace $labels.tenant }}}}/{{{{ . }}}} -e {environment}`."
    "{{{{ end }}}}"
)
"""Nothing where a pod has another name than the platform gives."""
_FIRST_OF_ALL = "`headway diagnose -e {environment}` says which services it hurts."
"""Of an alert that names a node, a pool or a tenant."""
_OF_ALL = (FailureLayer.REQUEST, FailureLayer.GPU, FailureLayer.NODE, FailureLayer.SCHEDULER)
"""Layers whose alerts hurt services, whether they name one or not."""


_FIRST_REPLICA_LOADS = (
    'label_replace(min_over_time(kube_deployment_status_replicas_available{deployment!~".+-batch"}[10m]) == 0,'
    ' "scaledObject", "$1", "deployment", "(.+)")'
)
"""A candidate is not waited for, so KEDA asks for its load from the beginning, and nothing answers before its first replica has been read:
a large model is on its way for half an hour. ReplicasMissing tells of it; a worker's load is its queue's."""


def _with_model(expression: str, named: str) -> str:
    """With the label `model`, read from a label that is named after a release: `defects-r4363b2e196-...`, an
    autoscaler's with `keda-` before it. All alerts of one service then reach people as one notification, and name what
    `headway status` asks for.
    """
    return f'label_replace({expression}, "model", "$1", "{named}", "(?:keda-)?(.+)-r[0-9a-f]{{10}}(?:-.*)?")'


def _of_tenants(expression: str) -> str:
    """Only series of tenants' namespaces."""
    return f"({expression}) and on (namespace) {TENANTS}"


_REQUEST = (
    Alert(
        name="TenantRateLimited",
        layer=FailureLayer.REQUEST,
        severity=AlertSeverity.TICKET,
        expression=(
            'label_replace(sum by (destination_service_namespace) (rate(istio_requests_total{reporter="source",response_code="429"}[10m]))'
            ' / sum by (destination_service_namespace) (rate(istio_requests_total{reporter="source"}[10m])),'
            ' "namespace", "$1", "destination_service_namespace", "(.*)") > 0.05'
        ),
        hold="15m",
        summary="The gateway refuses {{ $value | humanizePercentage }} of the requests of {{ $labels.namespace }}, because the tenant exceeds its rate limit",
    ),
    Alert(
        name="CallersRefused",
        layer=FailureLayer.REQUEST,
        severity=AlertSeverity.TICKET,
        # 401: the token is not valid; 403: there is none, or it is for somebody else (Istio, "RequestAuthentication").
        expression=(
            'label_replace(sum by (destination_service_namespace) (rate(istio_requests_total{reporter="source",response_code=~"401|403"}[10m]))'
            ' / sum by (destination_service_namespace) (rate(istio_requests_total{reporter="source"}[10m])),'
            ' "namespace", "$1", "destination_service_namespace", "(.*)") > 0.05'
        ),
        hold="15m",
        summary="The gateway refuses {{ $value | humanizePercentage }} of the requests of {{ $labels.namespace }}, because of their tokens",
    ),
    Alert(
        name="RequestsUnanswered",
        layer=FailureLayer.REQUEST,
        of_one_service=True,
        severity=AlertSeverity.PAGE,
        expression=_with_model(
            "label_replace(sum by (destination_service_namespace, destination_service_name)"
            ' (rate(istio_requests_total{reporter="source",response_flags=~".*(UF|UH|URX|UC|UT|NR).*"}[5m]))'
            " / sum by (destination_service_namespace, destination_service_name)"
            ' (rate(istio_requests_total{reporter="source"}[5m])), "namespace", "$1", "destination_service_namespace", "(.*)") > 0.05',
            "destination_service_name",
        ),
        hold="5m",
        summary="{{ $value | humanizePercentage }} of the requests to {{ $labels.destination_service_name }} fail in the mesh without an answer from a server",
    ),
)

_MODEL_SERVER = (
    Alert(
        name="ModelServerSilent",
        layer=FailureLayer.MODEL_SERVER,
        of_one_service=True,
        severity=AlertSeverity.PAGE,
        expression=_with_model(
            'min by (namespace, pod, platform_io_model) (up{platform_io_model!=""}) == 0'
            ' and on (namespace, pod) kube_pod_status_ready{condition="true"} == 1',
            "pod",
        ),
        hold="5m",
        summary="{{ $labels.pod }} serves requests, but Prometheus cannot read its metrics: release gates and autoscaling do not see it",
    ),
    Alert(
        name="ModelServerRestarts",
        layer=FailureLayer.MODEL_SERVER,
        of_one_service=True,
        severity=AlertSeverity.PAGE,
        expression=_with_model(
            _of_tenants("sum by (namespace, pod) (increase(kube_pod_container_status_restarts_total[30m])) > 2.5"), "pod"
        ),
        hold="1m",
        summary='{{ $labels.pod }} has restarted {{ $value | printf "%.0f" }} times within half an hour',
    ),
    Alert(
        name="ModelServerOutOfMemory",
        layer=FailureLayer.MODEL_SERVER,
        of_one_service=True,
        severity=AlertSeverity.TICKET,
        expression=_with_model(
            _of_tenants(
                'max by (namespace, pod) (kube_pod_container_status_last_terminated_reason{reason="OOMKilled"}) == 1'
                " and on (namespace, pod) sum by (namespace, pod) (increase(kube_pod_container_status_restarts_total[1h])) > 0"
            ),
            "pod",
        ),
        hold="1m",
        summary="The kernel killed {{ $labels.pod }} within the last hour, because it exceeded its memory limit",
    ),
    Alert(
        name="KvCacheFull",
        layer=FailureLayer.MODEL_SERVER,
        of_one_service=True,
        severity=AlertSeverity.TICKET,
        # vLLM preempts when no block is free (`Scheduler.schedule` in vllm/v1/core/sched/scheduler.py), and its use falls with each: of a real
        # engine that preempted all the while, it was above 95 % in 78 % of the seconds (`tests/language/test_strain.py`).
        expression='label_replace(headway:preemptions, "namespace", "$1", "tenant", "(.*)") > 0',
        hold="10m",
        summary="The KV cache of {{ $labels.tenant }}/{{ $labels.model }} is full: sequences are preempted and computed twice",
    ),
)

_GPU = (
    Alert(
        name="GpuXid",
        layer=FailureLayer.GPU,
        severity=AlertSeverity.TICKET,
        expression="max by (Hostname, gpu, UUID, xid) (DCGM_EXP_XID_ERRORS_COUNT) > 0",
        hold="0s",
        summary="GPU {{ $labels.gpu }} of {{ $labels.Hostname }} reports Xid {{ $labels.xid }}",
    ),
    Alert(
        name="GpuMemoryBroken",
        layer=FailureLayer.GPU,
        severity=AlertSeverity.PAGE,
        expression=(
            "max by (Hostname, gpu, UUID) (DCGM_FI_DEV_ROW_REMAP_FAILURE) > 0"
            " or max by (Hostname, gpu, UUID) (increase(DCGM_FI_DEV_ECC_DBE_VOL_TOTAL[15m])) > 0"
        ),
        hold="0s",
        summary="GPU {{ $labels.gpu }} of {{ $labels.Hostname }} has memory errors that cannot be corrected: its answers may be wrong",
    ),
    Alert(
        name="GpuThrottled",
        layer=FailureLayer.GPU,
        severity=AlertSeverity.TICKET,
        expression="max by (Hostname, gpu, UUID) (rate(DCGM_FI_DEV_THERMAL_VIOLATION[5m])) / 1e9 > 0.1",
        hold="10m",
        summary="Heat throttles GPU {{ $labels.gpu }} of {{ $labels.Hostname }} for {{ $value | humanizePercentage }} of the time",
    ),
    Alert(
        name="GpuSlowAndSilent",
        layer=FailureLayer.GPU,
        severity=AlertSeverity.TICKET,
        expression="max by (node, replica) (headway_node_health_slower) > 0",
        hold="0s",
        summary='Replica {{ $labels.replica }} on {{ $labels.node }} takes {{ $value | printf "%.2f" }} times as long as its siblings, and no counter says why',
    ),
    Alert(
        name="GpuMemoryFull",
        layer=FailureLayer.GPU,
        severity=AlertSeverity.TICKET,
        expression=("max by (Hostname, gpu, UUID) (DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE)) > 0.98"),
        hold="15m",
        summary="GPU {{ $labels.gpu }} of {{ $labels.Hostname }} has {{ $value | humanizePercentage }} of its memory in use",
    ),
    Alert(
        name="GpuTelemetrySilent",
        layer=FailureLayer.GPU,
        severity=AlertSeverity.TICKET,
        expression=(
            f"group by (node) (kube_node_labels{{{GPU_NODE}}})"
            ' unless on (node) label_replace(group by (Hostname) (DCGM_FI_DEV_FB_USED), "node", "$1", "Hostname", "(.*)")'
        ),
        hold="15m",
        summary="Node {{ $labels.node }} sends no GPU metrics: nobody would notice a GPU fault there",
    ),
)

_NODE = (
    Alert(
        name="NodeNotReady",
        layer=FailureLayer.NODE,
        severity=AlertSeverity.PAGE,
        expression='max by (node) (kube_node_status_condition{condition="Ready",status="true"}) == 0',
        hold="5m",
        summary="Node {{ $labels.node }} is not ready, and its pods have to start elsewhere",
    ),
    Alert(
        name="NodeUnderPressure",
        layer=FailureLayer.NODE,
        severity=AlertSeverity.TICKET,
        expression='max by (node, condition) (kube_node_status_condition{condition=~"(Disk|Memory|PID)Pressure",status="true"}) == 1',
        hold="10m",
        summary="Node {{ $labels.node }} reports {{ $labels.condition }} and may evict pods",
    ),
    Alert(
        name="NodeDiskFilling",
        layer=FailureLayer.NODE,
        severity=AlertSeverity.TICKET,
        expression=(
            'min by (instance, mountpoint) (predict_linear(node_filesystem_avail_bytes{fstype=~"ext4|xfs"}[6h], 4 * 3600)) < 0'
            ' and min by (instance, mountpoint) (node_filesystem_avail_bytes{fstype=~"ext4|xfs"}'
            ' / node_filesystem_size_bytes{fstype=~"ext4|xfs"}) < 0.3'
        ),
        hold="30m",
        summary="The file system {{ $labels.mountpoint }} of {{ $labels.instance }} will be full within four hours",
    ),
    Alert(
        name="GpuNodeWithoutGpus",
        layer=FailureLayer.NODE,
        severity=AlertSeverity.PAGE,
        expression=(
            f"group by (node) (kube_node_labels{{{GPU_NODE}}})"
            ' unless on (node) sum by (node) (kube_node_status_allocatable{resource=~"nvidia_com_(gpu|mig).*"}) > 0'
            # A node that MIG still cuts has longer: MigLayoutLate.
            f' unless on (node) kube_node_spec_taint{{key="{MIG_TAINT}"}}'
        ),
        hold="15m",
        summary="Node {{ $labels.node }} has GPUs, but offers none of them to the scheduler",
    ),
    Alert(
        name="MigLayoutLate",
        layer=FailureLayer.NODE,
        severity=AlertSeverity.TICKET,
        expression=f'max by (node) (kube_node_spec_taint{{key="{MIG_TAINT}"}}) > 0',
        # The loop of node health takes such a node out after half an hour. If it does not run, nobody else says so.
        hold=f"{MIG_STARTUP_SECONDS // 60 + 5}m",
        summary="Node {{ $labels.node }} has not been cut by MIG, or nobody has admitted it: no model is placed there",
    ),
    Alert(
        name="NodeInQuarantine",
        layer=FailureLayer.NODE,
        severity=AlertSeverity.TICKET,
        expression=f'max by (node) (kube_node_spec_taint{{key="{QUARANTINE}"}}) > 0',
        hold="2h",
        summary="Node {{ $labels.node }} has been in quarantine for two hours and was neither readmitted nor replaced",
    ),
    Alert(
        name="NodeHealthAsksForHelp",
        layer=FailureLayer.NODE,
        severity=AlertSeverity.TICKET,
        # It says so again in every round, for as long as it is so.
        expression='sum(increase(headway_node_health_actions_total{action="tell"}[5m])) > 0',
        hold="10m",
        summary="The node health loop waits for a decision that only a person may take; its events on the nodes say which one",
    ),
)

_SCHEDULER = (
    Alert(
        name="PodsUnschedulable",
        layer=FailureLayer.SCHEDULER,
        of_one_service=True,
        severity=AlertSeverity.PAGE,
        expression=_of_tenants(f"sum by (namespace, model) ({_with_model('kube_pod_status_unschedulable', 'pod')}) > 0"),
        hold="15m",
        summary="Pods of {{ $labels.namespace }}{{ with $labels.model }}/{{ . }}{{ end }} that no node takes: {{ $value }}",
    ),
    Alert(
        name="PodsEvicted",
        layer=FailureLayer.SCHEDULER,
        severity=AlertSeverity.TICKET,
        expression=_of_tenants('sum by (namespace) (kube_pod_status_reason{reason=~"Evicted|NodeLost"} == 1) > 0'),
        hold="5m",
        summary="Pods of {{ $labels.namespace }} that were evicted: {{ $value }}",
    ),
    Alert(
        name="NodesNotAdded",
        layer=FailureLayer.SCHEDULER,
        severity=AlertSeverity.PAGE,
        expression="sum by (reason) (increase(cluster_autoscaler_failed_scale_ups_total[15m])) > 0",
        hold="5m",
        summary="The cluster autoscaler could not add nodes: {{ $labels.reason }}",
    ),
)

_DEPLOYMENT = (
    Alert(
        name="ReplicasMissing",
        layer=FailureLayer.DEPLOYMENT,
        of_one_service=True,
        severity=AlertSeverity.PAGE,
        expression=_with_model(_of_tenants("kube_deployment_status_replicas_available < kube_deployment_spec_replicas"), "deployment"),
        hold="20m",
        summary="{{ $labels.deployment }} has had fewer available replicas than desired for twenty minutes",
    ),
    Alert(
        name="RolloutStuck",
        layer=FailureLayer.DEPLOYMENT,
        of_one_service=True,
        severity=AlertSeverity.TICKET,
        expression=_with_model(_of_tenants('kube_deployment_status_condition{condition="Progressing",status="false"} == 1'), "deployment"),
        hold="5m",
        summary="The rollout of {{ $labels.deployment }} makes no progress",
    ),
    Alert(
        name="AtMaximumReplicas",
        layer=FailureLayer.DEPLOYMENT,
        of_one_service=True,
        severity=AlertSeverity.TICKET,
        expression=_with_model(
            _of_tenants(
                "kube_horizontalpodautoscaler_status_desired_replicas >= kube_horizontalpodautoscaler_spec_max_replicas"
                " and kube_horizontalpodautoscaler_spec_max_replicas > kube_horizontalpodautoscaler_spec_min_replicas"
            ),
            "horizontalpodautoscaler",
        ),
        hold="30m",
        summary="{{ $labels.horizontalpodautoscaler }} has asked for its maximum number of replicas for half an hour: more load would queue",
    ),
    Alert(
        name="ScalerFailing",
        layer=FailureLayer.DEPLOYMENT,
        of_one_service=True,
        severity=AlertSeverity.PAGE,
        expression=_with_model(
            'label_replace(sum by (exported_namespace, scaledObject, scaler) (rate(keda_scaler_detail_errors_total[5m])), "namespace", "$1",'
            ' "exported_namespace", "(.*)") > 0'
            f" unless on (namespace, scaledObject) {_FIRST_REPLICA_LOADS}",
            "scaledObject",
        ),
        hold="5m",
        summary="{{ $labels.scaledObject }} of {{ $labels.namespace }} cannot read {{ $labels.scaler }}: its replicas no longer follow the load",
    ),
    Alert(
        name="CanaryWithoutTraffic",
        layer=FailureLayer.DEPLOYMENT,
        of_one_service=True,
        severity=AlertSeverity.TICKET,
        expression=(
            'count by (tenant, model, namespace) (label_replace(headway:in_flight{source=~"triton|vllm"}, "namespace", "$1", "tenant", "(.*)")) > 1'
            ' and on (tenant, model) sum by (tenant, model) (headway:request_rate{source="mesh"}) == 0'
        ),
        hold="30m",
        summary="Two releases of {{ $labels.tenant }}/{{ $labels.model }} run and neither gets requests: their comparison cannot end",
    ),
)

_PLATFORM = (
    Alert(
        name="Watchdog",
        layer=FailureLayer.PLATFORM,
        severity=AlertSeverity.HEARTBEAT,
        expression="vector(1)",
        hold="0s",
        summary="This alert always fires; when its notifications stop, no alert reaches anybody",
    ),
    Alert(
        name="RulesFailing",
        layer=FailureLayer.PLATFORM,
        severity=AlertSeverity.PAGE,
        expression="sum by (rule_group) (increase(prometheus_rule_evaluation_failures_total[10m])) > 0",
        hold="5m",
        summary="Prometheus cannot evaluate the rules of {{ $labels.rule_group }}: nobody watches what they cover",
    ),
    Alert(
        name="SeriesLimitReached",
        layer=FailureLayer.PLATFORM,
        severity=AlertSeverity.TICKET,
        expression=" or ".join(
            f"sum(increase(prometheus_target_{name}_total[10m])) > 0"
            for name in ("scrapes_exceeded_sample_limit", "scrapes_exceeded_body_size_limit", "scrape_pool_exceeded_label_limits")
        ),
        hold="5m",
        summary="A scrape target has more series than its limit, or larger ones, so Prometheus drops all of its metrics",
    ),
    Alert(
        name="NotificationsFailing",
        layer=FailureLayer.PLATFORM,
        severity=AlertSeverity.PAGE,
        expression="sum by (integration) (rate(alertmanager_notifications_failed_total[5m])) > 0",
        hold="10m",
        summary="Alertmanager cannot deliver notifications by {{ $labels.integration }}",
    ),
    Alert(
        name="NodeHealthSilent",
        layer=FailureLayer.PLATFORM,
        severity=AlertSeverity.TICKET,
        # Silent where the loop has not run for hours: an environment may leave it out.
        expression="group(max_over_time(headway_node_health_leads[6h])) unless on () max(headway_node_health_leads) == 1",
        hold="10m",
        summary="The node health loop does not run: nodes with broken GPUs are not quarantined",
    ),
    Alert(
        name="LimiterAway",
        layer=FailureLayer.PLATFORM,
        severity=AlertSeverity.TICKET,
        expression=f'max by (deployment) (kube_deployment_status_replicas_available{{namespace="{RATE_LIMIT}"}}) == 0',
        hold="5m",
        summary="{{ $labels.deployment }} of the rate limiter is unavailable: each gateway proxy limits requests by itself, and tokens are not limited",
    ),
    Alert(
        name="ArtifactsNotOnNodes",
        layer=FailureLayer.PLATFORM,
        severity=AlertSeverity.TICKET,
        # It tries again every minute, for as long as it is so.
        expression='sum by (outcome) (increase(headway_artifact_cache_fetches_total{outcome!="fetched"}[10m])) > 0',
        hold="20m",
        summary="Artifact caches on nodes cannot fetch files ({{ $labels.outcome }}): new replicas fetch them from S3 and start later",
    ),
    Alert(
        name="TelemetryLost",
        layer=FailureLayer.PLATFORM,
        severity=AlertSeverity.TICKET,
        expression=(
            'sum by (exporter, receiver) (rate({__name__=~"otelcol_(exporter_(enqueue|send)_failed|receiver_(failed|refused))_(log_records|spans)'
            '(_total)?"}[10m])) > 0'
        ),
        hold="15m",
        summary="An OpenTelemetry collector loses logs or traces at {{ $labels.exporter }}{{ $labels.receiver }}",
    ),
)

ALERTS: Sequence[Alert] = (
    *_REQUEST,
    ANSWERS_WORSE,
    DRIFT_PROVEN,
    *_MODEL_SERVER,
    *_GPU,
    *_NODE,
    *_SCHEDULER,
    *_DEPLOYMENT,
    *_PLATFORM,
    EVALUATION_SILENT,
    DRIFT_SILENT,
)


def groups(runbooks: str, grafana: str | None = None, *, environment: str) -> list[dict[str, Any]]:
    """One group a layer; `runbooks` is where the runbooks are, `grafana` where people reach it."""
    return [
        {
            "name": f"headway-{layer.value}",
            "rules": [_rule(alert, runbooks, grafana, environment) for alert in ALERTS if alert.layer is layer],
        }
        for layer in FailureLayer
    ]


def _rule(alert: Alert, runbooks: str, grafana: str | None, environment: str) -> dict[str, Any]:
    dashboard = "headway-overview" if alert.layer is FailureLayer.PLATFORM else f"headway-{alert.layer.value}"
    return {
        "alert": alert.name,
        "expr": alert.expression,
        "for": alert.hold,
        "labels": {"layer": alert.layer.value, "severity": alert.severity.value, **alert.labels},
        "annotations": {
            "runbook_url": f"{runbooks}/{alert.runbook}",
            "summary": alert.summary,
            **_begins(alert, environment),
            **leads(grafana, dashboard),
        },
    }


def _begins(alert: Alert, environment: str) -> dict[str, str]:
    if alert.of_one_service:
        return {"description": _FIRST.format(environment=environment)}
    return {"description": _FIRST_OF_ALL.format(environment=environment)} if alert.layer in _OF_ALL else {}
