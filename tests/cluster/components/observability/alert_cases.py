"""For every alert of the platform: series under which it fires, and series almost like them under which it must not."""

from collections.abc import Mapping
from dataclasses import dataclass

LONG = 480
"""Steps of fifteen seconds: two hours."""
TENANT = 'kube_namespace_labels{namespace="vision",label_platform_io_tenant="vision"} 1x480'
POD = 'namespace="vision",pod="defects-r0123456789-1"'
GPU = 'Hostname="l4-0",gpu="0",UUID="GPU-1"'
MESH = 'destination_service_namespace="vision",destination_service_name="defects-r0123456789",reporter="source"'
SERVICE = 'tenant="vision",model="defects"'
RELEASE = f'{SERVICE},release="r0123456789"'


@dataclass(frozen=True, kw_only=True)
class Case:
    """`sick` and `well` are lines `series{labels} values`; at `at` the alert fires with these labels and this summary."""

    alert: str
    sick: tuple[str, ...]
    well: tuple[str, ...]
    at: str
    labels: Mapping[str, str]
    summary: str


def _tenants(alert: str, sick: tuple[str, ...], well: tuple[str, ...], at: str, labels: Mapping[str, str], summary: str) -> Case:
    """A case in a tenant's namespace."""
    return Case(alert=alert, sick=(TENANT, *sick), well=(TENANT, *well), at=at, labels={"namespace": "vision", **labels}, summary=summary)


_GPU_LABELS = {"Hostname": "l4-0", "UUID": "GPU-1", "gpu": "0"}
_POD_LABELS = {"model": "defects", "pod": "defects-r0123456789-1"}
_CAPACITY = 'kube_node_labels{node="l4-0",label_nvidia_com_gpu_present="true"} 1x480'
_UNCUT = 'kube_node_spec_taint{node="mig-0",key="platform.io/mig-layout",effect="NoSchedule"}'

CASES = (
    Case(
        alert="TenantRateLimited",
        sick=(
            f'istio_requests_total{{{MESH},response_code="200"}} 0+90x480',
            f'istio_requests_total{{{MESH},response_code="429"}} 0+10x480',
        ),
        well=(
            f'istio_requests_total{{{MESH},response_code="200"}} 0+97x480',
            f'istio_requests_total{{{MESH},response_code="429"}} 0+3x480',
        ),
        at="40m",
        labels={"namespace": "vision", "destination_service_namespace": "vision"},
        summary="The gateway refuses 10% of the requests of vision, because the tenant exceeds its rate limit",
    ),
    Case(
        alert="CallersRefused",
        sick=(
            f'istio_requests_total{{{MESH},response_code="200"}} 0+90x480',
            f'istio_requests_total{{{MESH},response_code="401"}} 0+7x480',
            f'istio_requests_total{{{MESH},response_code="403"}} 0+3x480',
        ),
        well=(
            f'istio_requests_total{{{MESH},response_code="200"}} 0+90x480',
            f'istio_requests_total{{{MESH},response_code="401"}} 0+3x480',
            f'istio_requests_total{{{MESH},response_code="404"}} 0+7x480',
        ),
        at="40m",
        labels={"namespace": "vision", "destination_service_namespace": "vision"},
        summary="The gateway refuses 10% of the requests of vision, because of their tokens",
    ),
    Case(
        alert="RequestsUnanswered",
        sick=(
            f'istio_requests_total{{{MESH},response_flags="-"}} 0+80x480',
            f'istio_requests_total{{{MESH},response_flags="UH"}} 0+20x480',
        ),
        well=(
            f'istio_requests_total{{{MESH},response_flags="-"}} 0+80x480',
            f'istio_requests_total{{{MESH},response_flags="DC"}} 0+20x480',
        ),
        at="20m",
        labels={
            "namespace": "vision",
            "destination_service_namespace": "vision",
            "destination_service_name": "defects-r0123456789",
            "model": "defects",
        },
        summary="20% of the requests to defects-r0123456789 fail in the mesh without an answer from a server",
    ),
    Case(
        alert="AnswersWorse",
        sick=(f'headway_evaluation_loss{{{SERVICE},pod="a"}} 0x40 1x240', f'headway_evaluation_loss{{{SERVICE},pod="b"}} 0x40 1x240'),
        well=(f'headway_evaluation_loss{{{SERVICE},pod="a"}} 1x40 0x240', f'headway_evaluation_loss{{{SERVICE},pod="b"}} 1x40 0x240'),
        at="20m",
        labels={"namespace": "vision", "tenant": "vision", "model": "defects"},
        summary="vision/defects is proven to answer worse than its contract accepts, and serves on",
    ),
    Case(
        alert="DriftProven",
        sick=(f'headway_drift_proven{{{SERVICE},pod="a"}} 0x40 1x240', f'headway_drift_proven{{{SERVICE},pod="b"}} 0x280'),
        well=(f'headway_drift_proven{{{SERVICE},pod="a"}} 1x40 0x240', f'headway_drift_proven{{{SERVICE},pod="b"}} 0x280'),
        at="20m",
        labels={"namespace": "vision", "tenant": "vision", "model": "defects"},
        summary="What users of vision/defects send or get drifted since the promotion; that is no proof against its version, and a person decides",
    ),
    Case(
        alert="ModelServerSilent",
        sick=(
            f'up{{{POD},platform_io_model="defects"}} 0x480',
            f'kube_pod_status_ready{{{POD},condition="true"}} 1x480',
        ),
        well=(
            f'up{{{POD},platform_io_model="defects"}} 0x480',
            f'kube_pod_status_ready{{{POD},condition="true"}} 0x480',
        ),
        at="10m",
        labels={"namespace": "vision", "platform_io_model": "defects", **_POD_LABELS},
        summary="defects-r0123456789-1 serves requests, but Prometheus cannot read its metrics: release gates and autoscaling do not see it",
    ),
    _tenants(
        "ModelServerRestarts",
        (f'kube_pod_container_status_restarts_total{{{POD},container="server"}} 0x40 3x400',),
        (f'kube_pod_container_status_restarts_total{{{POD},container="server"}} 0x40 1x400',),
        "20m",
        _POD_LABELS,
        "defects-r0123456789-1 has restarted 3 times within half an hour",
    ),
    _tenants(
        "ModelServerOutOfMemory",
        (
            f'kube_pod_container_status_restarts_total{{{POD},container="server"}} 0x40 1x400',
            f'kube_pod_container_status_last_terminated_reason{{{POD},reason="OOMKilled"}} _x41 1x400',
        ),
        (
            f'kube_pod_container_status_restarts_total{{{POD},container="server"}} 7x480',
            f'kube_pod_container_status_last_terminated_reason{{{POD},reason="OOMKilled"}} 1x480',
        ),
        "30m",
        _POD_LABELS,
        "The kernel killed defects-r0123456789-1 within the last hour, because it exceeded its memory limit",
    ),
    Case(
        alert="KvCacheFull",
        # As a real engine was seen: what is thrown out makes room, for a moment.
        sick=(f'headway:kv_cache_use{{{RELEASE},source="vllm"}} 0.97 0.87x480', f'headway:preemptions{{{RELEASE},source="vllm"}} 0.1x480'),
        well=(f'headway:kv_cache_use{{{RELEASE},source="vllm"}} 1x480', f'headway:preemptions{{{RELEASE},source="vllm"}} 0x480'),
        at="20m",
        labels={"namespace": "vision", "tenant": "vision", "model": "defects", "release": "r0123456789", "source": "vllm"},
        summary="The KV cache of vision/defects is full: sequences are preempted and computed twice",
    ),
    Case(
        alert="GpuXid",
        sick=(f'DCGM_EXP_XID_ERRORS_COUNT{{{GPU},xid="79"}} 0x10 1x470',),
        well=(f'DCGM_EXP_XID_ERRORS_COUNT{{{GPU},xid="79"}} 0x480',),
        at="10m",
        labels={**_GPU_LABELS, "xid": "79"},
        summary="GPU 0 of l4-0 reports Xid 79",
    ),
    Case(
        alert="GpuMemoryBroken",
        sick=(f"DCGM_FI_DEV_ROW_REMAP_FAILURE{{{GPU}}} 1x480",),
        well=(f"DCGM_FI_DEV_ROW_REMAP_FAILURE{{{GPU}}} 0x480", f"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{{{GPU}}} 3x480"),
        at="10m",
        labels=_GPU_LABELS,
        summary="GPU 0 of l4-0 has memory errors that cannot be corrected: its answers may be wrong",
    ),
    Case(
        alert="GpuMemoryBroken",
        sick=(f"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{{{GPU}}} 3x20 4x460",),
        well=(f"DCGM_FI_DEV_ECC_SBE_VOL_TOTAL{{{GPU}}} 3x20 4x460",),
        at="10m",
        labels=_GPU_LABELS,
        summary="GPU 0 of l4-0 has memory errors that cannot be corrected: its answers may be wrong",
    ),
    Case(
        alert="GpuThrottled",
        sick=(f"DCGM_FI_DEV_THERMAL_VIOLATION{{{GPU}}} 0+3000000000x480",),
        well=(f"DCGM_FI_DEV_THERMAL_VIOLATION{{{GPU}}} 0+1000000000x480",),
        at="30m",
        labels=_GPU_LABELS,
        summary="Heat throttles GPU 0 of l4-0 for 20% of the time",
    ),
    Case(
        alert="GpuSlowAndSilent",
        sick=('headway_node_health_slower{node="l4-0",replica="vision/defects-1",pod="a"} 1.31x480',),
        well=('headway_node_health_leads{pod="a"} 1x480',),
        at="10m",
        labels={"node": "l4-0", "replica": "vision/defects-1"},
        summary="Replica vision/defects-1 on l4-0 takes 1.31 times as long as its siblings, and no counter says why",
    ),
    Case(
        alert="GpuMemoryFull",
        sick=(f"DCGM_FI_DEV_FB_USED{{{GPU}}} 99x480", f"DCGM_FI_DEV_FB_FREE{{{GPU}}} 1x480"),
        well=(f"DCGM_FI_DEV_FB_USED{{{GPU}}} 97x480", f"DCGM_FI_DEV_FB_FREE{{{GPU}}} 3x480"),
        at="30m",
        labels=_GPU_LABELS,
        summary="GPU 0 of l4-0 has 99% of its memory in use",
    ),
    Case(
        alert="GpuTelemetrySilent",
        sick=(_CAPACITY,),
        well=(_CAPACITY, f"DCGM_FI_DEV_FB_USED{{{GPU}}} 5x480"),
        at="30m",
        labels={"node": "l4-0"},
        summary="Node l4-0 sends no GPU metrics: nobody would notice a GPU fault there",
    ),
    Case(
        alert="NodeNotReady",
        sick=('kube_node_status_condition{node="l4-0",condition="Ready",status="true"} 1x20 0x460',),
        well=('kube_node_status_condition{node="l4-0",condition="Ready",status="true"} 1x480',),
        at="20m",
        labels={"node": "l4-0"},
        summary="Node l4-0 is not ready, and its pods have to start elsewhere",
    ),
    Case(
        alert="NodeUnderPressure",
        sick=('kube_node_status_condition{node="l4-0",condition="DiskPressure",status="true"} 1x480',),
        well=('kube_node_status_condition{node="l4-0",condition="DiskPressure",status="true"} 0x480',),
        at="20m",
        labels={"node": "l4-0", "condition": "DiskPressure"},
        summary="Node l4-0 reports DiskPressure and may evict pods",
    ),
    Case(
        alert="NodeDiskFilling",
        sick=(
            'node_filesystem_avail_bytes{instance="10.0.0.1:9100",mountpoint="/",fstype="xfs"} 300-1x480',
            'node_filesystem_size_bytes{instance="10.0.0.1:9100",mountpoint="/",fstype="xfs"} 1000x480',
        ),
        well=(
            'node_filesystem_avail_bytes{instance="10.0.0.1:9100",mountpoint="/",fstype="xfs"} 900-1x480',
            'node_filesystem_size_bytes{instance="10.0.0.1:9100",mountpoint="/",fstype="xfs"} 1000x480',
        ),
        at="60m",
        labels={"instance": "10.0.0.1:9100", "mountpoint": "/"},
        summary="The file system / of 10.0.0.1:9100 will be full within four hours",
    ),
    Case(
        alert="GpuNodeWithoutGpus",
        sick=(_CAPACITY, 'kube_node_status_allocatable{node="l4-0",resource="nvidia_com_gpu"} 0x480'),
        well=(
            _CAPACITY,
            'kube_node_status_allocatable{node="l4-0",resource="nvidia_com_mig_1g_10gb"} 7x480',
            _CAPACITY.replace("l4-0", "mig-0"),
            f"{_UNCUT} 1x480",
        ),
        at="30m",
        labels={"node": "l4-0"},
        summary="Node l4-0 has GPUs, but offers none of them to the scheduler",
    ),
    _tenants(
        "PodsUnschedulable",
        (f"kube_pod_status_unschedulable{{{POD}}} 1x480",),
        ('kube_pod_status_unschedulable{namespace="headway-warm",pod="placeholder-1"} 1x480',),
        "30m",
        {"model": "defects"},
        "Pods of vision/defects that no node takes: 1",
    ),
    _tenants(
        "PodsEvicted",
        (f'kube_pod_status_reason{{{POD},reason="Evicted"}} 1x480',),
        (f'kube_pod_status_reason{{{POD},reason="Evicted"}} 0x480',),
        "30m",
        {},
        "Pods of vision that were evicted: 1",
    ),
    Case(
        alert="NodesNotAdded",
        sick=('cluster_autoscaler_failed_scale_ups_total{reason="cloudProviderError"} 0+1x480',),
        well=('cluster_autoscaler_failed_scale_ups_total{reason="cloudProviderError"} 4x480',),
        at="30m",
        labels={"reason": "cloudProviderError"},
        summary="The cluster autoscaler could not add nodes: cloudProviderError",
    ),
    _tenants(
        "ReplicasMissing",
        (
            'kube_deployment_status_replicas_available{namespace="vision",deployment="defects-r0123456789"} 1x480',
            'kube_deployment_spec_replicas{namespace="vision",deployment="defects-r0123456789"} 2x480',
        ),
        (
            'kube_deployment_status_replicas_available{namespace="vision",deployment="defects-r0123456789"} 2x480',
            'kube_deployment_spec_replicas{namespace="vision",deployment="defects-r0123456789"} 2x480',
        ),
        "30m",
        {"deployment": "defects-r0123456789", "model": "defects"},
        "defects-r0123456789 has had fewer available replicas than desired for twenty minutes",
    ),
    _tenants(
        "RolloutStuck",
        (
            'kube_deployment_status_condition{namespace="vision",deployment="defects-r0123456789",condition="Progressing",status="false"} 1x480',
        ),
        (
            'kube_deployment_status_condition{namespace="vision",deployment="defects-r0123456789",condition="Progressing",status="true"} 1x480',
        ),
        "30m",
        {"deployment": "defects-r0123456789", "model": "defects", "condition": "Progressing", "status": "false"},
        "The rollout of defects-r0123456789 makes no progress",
    ),
    _tenants(
        "AtMaximumReplicas",
        (
            'kube_horizontalpodautoscaler_status_desired_replicas{namespace="vision",horizontalpodautoscaler="keda-defects-r0123456789"} 8x480',
            'kube_horizontalpodautoscaler_spec_max_replicas{namespace="vision",horizontalpodautoscaler="keda-defects-r0123456789"} 8x480',
            'kube_horizontalpodautoscaler_spec_min_replicas{namespace="vision",horizontalpodautoscaler="keda-defects-r0123456789"} 2x480',
        ),
        (
            # An arm of fixed size is always at its maximum.
            'kube_horizontalpodautoscaler_status_desired_replicas{namespace="vision",horizontalpodautoscaler="keda-defects-r9876543210"} 2x480',
            'kube_horizontalpodautoscaler_spec_max_replicas{namespace="vision",horizontalpodautoscaler="keda-defects-r9876543210"} 2x480',
            'kube_horizontalpodautoscaler_spec_min_replicas{namespace="vision",horizontalpodautoscaler="keda-defects-r9876543210"} 2x480',
        ),
        "60m",
        {"horizontalpodautoscaler": "keda-defects-r0123456789", "model": "defects"},
        "keda-defects-r0123456789 has asked for its maximum number of replicas for half an hour: more load would queue",
    ),
    Case(
        alert="ScalerFailing",
        sick=(
            'keda_scaler_detail_errors_total{exported_namespace="vision",scaledObject="defects-r0123456789",scaler="prometheusScaler"} 0+1x480',
            'kube_deployment_status_replicas_available{namespace="vision",deployment="defects-r0123456789"} 1x480',
        ),
        well=(
            'keda_scaler_detail_errors_total{exported_namespace="vision",scaledObject="defects-r0123456789",scaler="prometheusScaler"} 9x480',
            # A candidate whose first replica took a while to load, and is read since two minutes.
            'keda_scaler_detail_errors_total{exported_namespace="vision",scaledObject="defects-r9876543210",scaler="waiting"} 0+1x111 111x368',
            'kube_deployment_status_replicas_available{namespace="vision",deployment="defects-r9876543210"} 0x109 1x370',
        ),
        at="30m",
        labels={
            "namespace": "vision",
            "exported_namespace": "vision",
            "model": "defects",
            "scaledObject": "defects-r0123456789",
            "scaler": "prometheusScaler",
        },
        summary="defects-r0123456789 of vision cannot read prometheusScaler: its replicas no longer follow the load",
    ),
    Case(
        alert="CanaryWithoutTraffic",
        sick=(
            f'headway:in_flight{{{SERVICE},release="r1",source="triton"}} 1x480',
            f'headway:in_flight{{{SERVICE},release="r2",source="triton"}} 0x480',
            f'headway:request_rate{{{SERVICE},release="r1",source="mesh"}} 0x480',
        ),
        well=(
            f'headway:in_flight{{{SERVICE},release="r1",source="triton"}} 1x480',
            f'headway:in_flight{{{SERVICE},release="r2",source="triton"}} 0x480',
            f'headway:request_rate{{{SERVICE},release="r1",source="mesh"}} 3x480',
        ),
        at="60m",
        labels={"namespace": "vision", "tenant": "vision", "model": "defects"},
        summary="Two releases of vision/defects run and neither gets requests: their comparison cannot end",
    ),
    Case(
        alert="RulesFailing",
        sick=('prometheus_rule_evaluation_failures_total{rule_group="g"} 0+1x480',),
        well=('prometheus_rule_evaluation_failures_total{rule_group="g"} 4x480',),
        at="30m",
        labels={"rule_group": "g"},
        summary="Prometheus cannot evaluate the rules of g: nobody watches what they cover",
    ),
    Case(
        alert="SeriesLimitReached",
        sick=("prometheus_target_scrapes_exceeded_sample_limit_total 0+1x480",),
        well=(
            "prometheus_target_scrapes_exceeded_sample_limit_total 4x480",
            "prometheus_target_scrapes_exceeded_body_size_limit_total 4x480",
        ),
        at="30m",
        labels={},
        summary="A scrape target has more series than its limit, or larger ones, so Prometheus drops all of its metrics",
    ),
    Case(
        alert="NotificationsFailing",
        sick=('alertmanager_notifications_failed_total{integration="webhook"} 0+1x480',),
        well=('alertmanager_notifications_failed_total{integration="webhook"} 4x480',),
        at="30m",
        labels={"integration": "webhook"},
        summary="Alertmanager cannot deliver notifications by webhook",
    ),
    Case(
        alert="MigLayoutLate",
        sick=(f"{_UNCUT} 1x240",),
        well=(f"{_UNCUT} 1x130 _x110",),
        at="40m",
        labels={"node": "mig-0"},
        summary="Node mig-0 has not been cut by MIG, or nobody has admitted it: no model is placed there",
    ),
    Case(
        alert="NodeInQuarantine",
        sick=('kube_node_spec_taint{node="l4-0",key="platform.io/quarantine",effect="NoSchedule"} 1x560',),
        well=('kube_node_spec_taint{node="l4-0",key="platform.io/quarantine",effect="NoSchedule"} 1x470 _x90',),
        at="130m",
        labels={"node": "l4-0"},
        summary="Node l4-0 has been in quarantine for two hours and was neither readmitted nor replaced",
    ),
    Case(
        alert="NodeHealthAsksForHelp",
        sick=('headway_node_health_actions_total{action="tell",outcome="done"} 0+1x480',),
        well=(
            'headway_node_health_actions_total{action="tell",outcome="done"} 4x480',
            'headway_node_health_actions_total{action="evict",outcome="refused"} 0+1x480',
        ),
        at="30m",
        labels={},
        summary="The node health loop waits for a decision that only a person may take; its events on the nodes say which one",
    ),
    Case(
        alert="NodeHealthSilent",
        sick=('headway_node_health_leads{pod="a"} 1x40 0x200', 'headway_node_health_leads{pod="b"} 0x40 _x200'),
        well=('headway_node_health_leads{pod="a"} 1x40 _x200', 'headway_node_health_leads{pod="b"} 0x40 1x200'),
        at="30m",
        labels={},
        summary="The node health loop does not run: nodes with broken GPUs are not quarantined",
    ),
    Case(
        alert="EvaluationSilent",
        sick=(
            f'headway_evaluation_last_look_timestamp_seconds{{{SERVICE},pod="a"}} 0+15x40 _x440',
            f'headway_evaluation_last_look_timestamp_seconds{{{SERVICE},pod="b"}} 0+15x40 600x440',
            f'headway:request_rate{{{RELEASE},source="mesh"}} 5x480',
        ),
        well=(
            f'headway_evaluation_last_look_timestamp_seconds{{{SERVICE},pod="a"}} 0+15x40 600x440',
            f'headway_evaluation_last_look_timestamp_seconds{{{SERVICE},pod="b"}} 0+15x480',
            f'headway:request_rate{{{RELEASE},source="mesh"}} 5x480',
            'headway_evaluation_last_look_timestamp_seconds{tenant="vision",model="idle",pod="a"} 0+15x40 600x440',
            'headway:request_rate{tenant="vision",model="idle",release="r1",source="mesh"} 0x480',
        ),
        at="60m",
        labels={"tenant": "vision", "model": "defects"},
        summary="Nobody finds out any more whether vision/defects answers as well as it did",
    ),
    Case(
        alert="DriftSilent",
        sick=(
            f'headway_drift_last_look_timestamp_seconds{{{SERVICE},pod="a"}} 0x480',
            f'headway:request_rate{{{RELEASE},source="mesh"}} 5x480',
        ),
        well=(
            f'headway_drift_last_look_timestamp_seconds{{{SERVICE},pod="a"}} 0x480',
            f'headway_drift_last_look_timestamp_seconds{{{SERVICE},pod="b"}} 0+15x480',
            f'headway:request_rate{{{RELEASE},source="mesh"}} 5x480',
        ),
        at="60m",
        labels={"tenant": "vision", "model": "defects"},
        summary="Nobody finds out any more whether what users of vision/defects send or get drifts",
    ),
    Case(
        alert="LimiterAway",
        sick=('kube_deployment_status_replicas_available{namespace="rate-limit",deployment="counts"} 1x40 0x200',),
        well=(
            'kube_deployment_status_replicas_available{namespace="rate-limit",deployment="limiter"} 1x240',
            'kube_deployment_status_replicas_available{namespace="vision",deployment="defects"} 0x240',
        ),
        at="30m",
        labels={"deployment": "counts"},
        summary="counts of the rate limiter is unavailable: each gateway proxy limits requests by itself, and tokens are not limited",
    ),
    Case(
        alert="ArtifactsNotOnNodes",
        sick=('headway_artifact_cache_fetches_total{outcome="refused",pod="a"} 0+1x480',),
        well=(
            'headway_artifact_cache_fetches_total{outcome="fetched",pod="a"} 0+1x480',
            'headway_artifact_cache_fetches_total{outcome="refused",pod="a"} 4x480',
        ),
        at="35m",
        labels={"outcome": "refused"},
        summary="Artifact caches on nodes cannot fetch files (refused): new replicas fetch them from S3 and start later",
    ),
    Case(
        alert="TelemetryLost",
        sick=('otelcol_exporter_send_failed_spans{exporter="otlp_grpc"} 0+1x480',),
        well=('otelcol_exporter_send_failed_log_records{exporter="otlp_http"} 4x480',),
        at="30m",
        labels={"exporter": "otlp_grpc"},
        summary="An OpenTelemetry collector loses logs or traces at otlp_grpc",
    ),
    Case(
        alert="TelemetryLost",
        sick=('otelcol_receiver_refused_log_records{receiver="otlp"} 0+1x480',),
        well=('otelcol_receiver_accepted_log_records{receiver="otlp"} 0+1x480',),
        at="30m",
        labels={"receiver": "otlp"},
        summary="An OpenTelemetry collector loses logs or traces at otlp",
    ),
)
"""Watchdog fires always, which needs no series."""
