"""Dashboards of the six failure layers: request, model server, GPU, node, scheduler, deployment.

Panels stand in the order in which on-call looks. Those of layers that know tenants are narrowed by the variable
`$tenant`. The trap: a panel that filters by a name that nobody exports looks like health; each query is asked of a
Prometheus that holds every series (tests/cluster).
"""

from components.observability.expressions import FREE, GPUS, POOL, SERVICE, by_pool, in_pools
from components.observability.panels import Dashboard, Panel, PanelUnit, panel, row
from components.platform.namespaces import RATE_LIMIT

_T = 'tenant=~"$tenant"'
_GPU = "{{Hostname}} {{gpu}}"
_LIMITER = f'destination_service_namespace="{RATE_LIMIT}",reporter="destination"'
"""As the limiter's own proxies count what the gateway asks: the gateway itself counts no question of a filter."""


def _mesh(selector: str, by: str) -> str:
    return f'sum by ({by}) (rate(istio_requests_total{{destination_service_namespace=~"$tenant",reporter="source"{selector}}}[5m]))'


_LIMITED = _mesh(',response_code="429",response_flags=~".*RL.*"', "destination_service_namespace")

REQUEST = Dashboard(
    uid="headway-request",
    title="Headway / Request",
    tags=("layer",),
    by_tenant=True,
    rows=(
        row(
            "Request rate and responses",
            panel("Requests per second", (f'headway:request_rate{{source="mesh",{_T}}}', SERVICE), unit=PanelUnit.PER_SECOND),
            panel(
                "Requests by response code",
                (_mesh("", "destination_service_namespace, response_code"), "{{destination_service_namespace}} {{response_code}}"),
                unit=PanelUnit.PER_SECOND,
            ),
            panel("Server errors", (f"headway:error_ratio{{{_T}}}", SERVICE), unit=PanelUnit.SHARE),
        ),
        row(
            "Latency",
            *(panel(f"Latency p{p}", (f"headway:latency:p{p}{{{_T}}}", SERVICE), unit=PanelUnit.SECONDS) for p in (50, 95, 99)),
        ),
        row(
            "Requests that failed in the mesh",
            panel(
                "Requests by Envoy response flag",
                (
                    _mesh(',response_flags!="-"', "destination_service_name, response_flags"),
                    "{{destination_service_name}} {{response_flags}}",
                ),
                unit=PanelUnit.PER_SECOND,
                meaning="UH: no healthy server. UF: connection failed. UT: timed out. URX: retries exhausted. RL: rate limited.",
            ),
            panel(
                "Requests refused by rate limits",
                (_mesh(',response_code="429"', "destination_service_namespace"), "{{destination_service_namespace}}"),
                unit=PanelUnit.PER_SECOND,
            ),
            panel("Queue time", (f"headway:queue_time{{{_T}}}", SERVICE), unit=PanelUnit.SECONDS),
        ),
        row(
            "Degraded or rejected requests",
            panel(
                "Requests answered by a fallback model",
                (
                    _mesh(',degraded="true"', "destination_service_namespace, destination_service_name"),
                    "{{destination_service_namespace}}/{{destination_service_name}}",
                ),
                unit=PanelUnit.PER_SECOND,
                meaning="The gateway sends requests to the fallback while the requested model is overloaded. Their log lines have the route `degraded`.",
            ),
            panel(
                "Share of requests refused by rate limits",
                (f"{_LIMITED} / {_mesh('', 'destination_service_namespace')}", "{{destination_service_namespace}}"),
                unit=PanelUnit.SHARE,
            ),
            panel(
                "Rate limiter calls by status",
                (f"sum by (grpc_response_status) (rate(istio_requests_total{{{_LIMITER}}}[5m]))", "status {{grpc_response_status}}"),
                unit=PanelUnit.PER_SECOND,
                meaning="Status 0 is an answer, whether it allows or refuses. With any other status the gateway lets the request pass.",
            ),
            panel(
                "Rate limiter latency p99",
                f"histogram_quantile(0.99, sum by (le) (rate(istio_request_duration_milliseconds_bucket{{{_LIMITER}}}[5m]))) / 1000",
                unit=PanelUnit.SECONDS,
                meaning="Every request waits for the rate limiter.",
            ),
            panel(
                "Rate limiter: available replicas",
                (f'kube_deployment_status_replicas_available{{namespace="{RATE_LIMIT}"}}', "{{deployment}}"),
            ),
        ),
    ),
)


def _recorded(title: str, name: str, unit: PanelUnit = PanelUnit.NUMBER) -> Panel:
    return panel(title, (f"headway:{name}{{{_T}}}", SERVICE + " {{source}}"), unit=unit)


MODEL_SERVER = Dashboard(
    uid="headway-model-server",
    title="Headway / Model server",
    tags=("layer",),
    by_tenant=True,
    rows=(
        row(
            "Load",
            _recorded("Requests in flight", "in_flight"),
            _recorded("Waiting requests", "waiting"),
            _recorded("Completed requests per second", "request_rate", PanelUnit.PER_SECOND),
        ),
        row(
            "Latency",
            _recorded("Queue time", "queue_time", PanelUnit.SECONDS),
            _recorded("Compute time", "compute_time", PanelUnit.SECONDS),
            _recorded("Input time", "input_time", PanelUnit.SECONDS),
            _recorded("Output time", "output_time", PanelUnit.SECONDS),
            _recorded("Batch size", "batch_size"),
        ),
        row(
            "Language models",
            _recorded("Time to first token p95", "ttft:p95", PanelUnit.SECONDS),
            _recorded("Inter-token latency p95", "inter_token:p95", PanelUnit.SECONDS),
            _recorded("Tokens per second", "tokens_per_second", PanelUnit.TOKENS_PER_SECOND),
            _recorded("KV cache in use", "kv_cache_use", PanelUnit.SHARE),
            _recorded("Preemptions", "preemptions", PanelUnit.PER_SECOND),
        ),
        row(
            "Server processes",
            panel(
                "Replicas with readable metrics",
                (
                    'sum by (platform_io_tenant, platform_io_model, platform_io_release) (up{platform_io_model!="",platform_io_tenant=~"$tenant"})',
                    "{{platform_io_model}} {{platform_io_release}}",
                ),
            ),
            panel(
                "Failed requests by reason",
                (
                    'sum by (platform_io_model, reason) (rate(nv_inference_request_failure{platform_io_tenant=~"$tenant"}[5m]))',
                    "{{platform_io_model}} {{reason}}",
                ),
                unit=PanelUnit.PER_SECOND,
            ),
            panel(
                "Container restarts in the last hour",
                ('sum by (namespace, pod) (increase(kube_pod_container_status_restarts_total{namespace=~"$tenant"}[1h]))', "{{pod}}"),
            ),
            panel("Ready pods", ('sum by (namespace) (kube_pod_status_ready{condition="true",namespace=~"$tenant"})', "{{namespace}}")),
        ),
    ),
)


def _gpu(title: str, expression: str, unit: PanelUnit = PanelUnit.NUMBER, meaning: str = "") -> Panel:
    return panel(title, (f"max by (Hostname, gpu) ({expression})", _GPU), unit=unit, meaning=meaning)


GPU = Dashboard(
    uid="headway-gpu",
    title="Headway / GPU",
    tags=("layer",),
    rows=(
        row(
            "Utilization",
            _gpu(
                "SM activity",
                "DCGM_FI_PROF_SM_ACTIVE",
                PanelUnit.SHARE,
                "The share of multiprocessors that work. GPU utilization says less: it is 1 whenever any kernel runs.",
            ),
            _gpu("Tensor core activity", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", PanelUnit.SHARE),
            _gpu("Memory bandwidth activity", "DCGM_FI_PROF_DRAM_ACTIVE", PanelUnit.SHARE),
            _gpu("Memory in use", "DCGM_FI_DEV_FB_USED * 1048576", PanelUnit.BYTES),
            _gpu("Share of memory in use", "DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE)", PanelUnit.SHARE),
            panel("SM activity by service", ("headway:gpu_activity", SERVICE), unit=PanelUnit.SHARE),
        ),
        row(
            "Faults",
            _gpu("Xid events", "DCGM_EXP_XID_ERRORS_COUNT"),
            _gpu("Double-bit ECC errors", "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL"),
            _gpu("Single-bit ECC errors per hour", "increase(DCGM_FI_DEV_ECC_SBE_VOL_TOTAL[1h])"),
            _gpu("Row remapping failures", "DCGM_FI_DEV_ROW_REMAP_FAILURE"),
            _gpu("PCIe replays per hour", "increase(DCGM_FI_DEV_PCIE_REPLAY_COUNTER[1h])"),
            _gpu("NVLink CRC errors per hour", "increase(DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL[1h])"),
        ),
        row(
            "Thermal and power limits",
            _gpu("Temperature", "DCGM_FI_DEV_GPU_TEMP", PanelUnit.CELSIUS),
            _gpu("Power", "DCGM_FI_DEV_POWER_USAGE", PanelUnit.WATTS),
            _gpu("SM clock", "DCGM_FI_DEV_SM_CLOCK * 1e6", PanelUnit.HERTZ),
            _gpu("Share of time throttled by heat", "rate(DCGM_FI_DEV_THERMAL_VIOLATION[5m]) / 1e9", PanelUnit.SHARE),
            _gpu("Share of time throttled by the power limit", "rate(DCGM_FI_DEV_POWER_VIOLATION[5m]) / 1e9", PanelUnit.SHARE),
            _gpu("NVLink traffic", "DCGM_FI_PROF_NVLINK_RX_BYTES + DCGM_FI_PROF_NVLINK_TX_BYTES", PanelUnit.BYTES),
        ),
    ),
)

NODE = Dashboard(
    uid="headway-node",
    title="Headway / Node",
    tags=("layer",),
    rows=(
        row(
            "Node state",
            panel(
                "Nodes that are not ready",
                'sum(kube_node_status_condition{condition="Ready",status="true"} == bool 0)',
                single=True,
            ),
            panel(
                "Nodes under pressure",
                ('sum by (condition) (kube_node_status_condition{condition=~".*Pressure",status="true"})', "{{condition}}"),
            ),
            panel("Nodes by pool", (f'count by ({POOL}) (kube_node_labels{{{POOL}!=""}})', f"{{{{{POOL}}}}}")),
            panel("Allocatable GPUs", (f"sum by (node) (kube_node_status_allocatable{{{GPUS}}})", "{{node}}")),
            panel("Cordoned nodes", "sum(kube_node_spec_unschedulable)"),
        ),
        row(
            "Resources",
            panel(
                "CPU in use",
                ('1 - avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}[5m]))', "{{instance}}"),
                unit=PanelUnit.SHARE,
            ),
            panel(
                "Memory in use", ("1 - node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes", "{{instance}}"), unit=PanelUnit.SHARE
            ),
            panel(
                "Memory use by pod",
                ('sum by (namespace, pod) (container_memory_working_set_bytes{container!="",namespace!=""})', "{{namespace}}/{{pod}}"),
                unit=PanelUnit.BYTES,
            ),
            panel(
                "Disk in use",
                (
                    '1 - node_filesystem_avail_bytes{fstype=~"ext4|xfs"} / node_filesystem_size_bytes{fstype=~"ext4|xfs"}',
                    "{{instance}} {{mountpoint}}",
                ),
                unit=PanelUnit.SHARE,
            ),
            panel(
                "Network receive rate",
                ('sum by (instance) (rate(node_network_receive_bytes_total{device!="lo"}[5m]))', "{{instance}}"),
                unit=PanelUnit.BYTES,
            ),
            panel("Processes killed for lack of memory", ("increase(node_vmstat_oom_kill[1h])", "{{instance}}")),
        ),
    ),
)

SCHEDULER = Dashboard(
    uid="headway-scheduler",
    title="Headway / Scheduler",
    tags=("layer",),
    rows=(
        row(
            "Waiting pods",
            panel("Unschedulable pods", "count(kube_pod_status_unschedulable == 1) or vector(0)", single=True),
            panel(
                "Artifact files still missing on nodes",
                ("sum by (platform_io_pool) (headway_artifact_cache_missing_files)", "{{platform_io_pool}}"),
                meaning="Replicas that start on these nodes fetch the files from S3.",
            ),
            panel("Pending pods", ('sum by (namespace) (kube_pod_status_phase{phase="Pending"})', "{{namespace}}")),
            panel("Unschedulable pods seen by the cluster autoscaler", "sum(cluster_autoscaler_unschedulable_pods_count)"),
            panel(
                "Failed scale-ups of nodes in the last hour",
                ("sum by (reason) (increase(cluster_autoscaler_failed_scale_ups_total[1h]))", "{{reason}}"),
            ),
        ),
        row(
            "Capacity",
            panel("Free GPUs by pool", (by_pool(FREE), f"{{{{{POOL}}}}}")),
            panel(
                "Most free GPUs on one node by pool",
                (f"max by ({POOL}) ({in_pools(FREE)})", f"{{{{{POOL}}}}}"),
                meaning="A pod that asks for more GPUs than this cannot be placed, however many are free in total.",
            ),
            panel(
                "Fragmentation by pool",
                (
                    f"1 - max by ({POOL}) ({in_pools(FREE)}) / clamp_min({by_pool(FREE)}, 1)",
                    f"{{{{{POOL}}}}}",
                ),
                unit=PanelUnit.SHARE,
                meaning="0 means that all free GPUs are on one node.",
            ),
            panel(
                "Quota in use",
                ('kube_resourcequota{type="used"} / ignoring (type) (kube_resourcequota{type="hard"} > 0)', "{{namespace}} {{resource}}"),
                unit=PanelUnit.SHARE,
            ),
        ),
        row(
            "Evictions and deletions",
            panel("Evicted pods", ('sum by (namespace) (kube_pod_status_reason{reason="Evicted"})', "{{namespace}}")),
            panel(
                "Pods deleted in the last hour",
                "count(time() - kube_pod_deletion_timestamp < 3600) or vector(0)",
            ),
        ),
    ),
)

DEPLOYMENT = Dashboard(
    uid="headway-deployment",
    title="Headway / Deployment",
    tags=("layer",),
    by_tenant=True,
    rows=(
        row(
            "Releases",
            panel(
                "Share of requests by release",
                (
                    (
                        f'headway:request_rate{{source="mesh",{_T}}} / on (tenant, model) group_left'
                        f' clamp_min(sum by (tenant, model) (headway:request_rate{{source="mesh",{_T}}}), 1e-9)'
                    ),
                    SERVICE,
                ),
                unit=PanelUnit.SHARE,
            ),
            panel("Server errors by release", (f"headway:error_ratio{{{_T}}}", SERVICE), unit=PanelUnit.SHARE),
            panel("Latency p99 by release", (f"headway:latency:p99{{{_T}}}", SERVICE), unit=PanelUnit.SECONDS),
        ),
        row(
            "Recent changes",
            panel(
                "Deployment changes",
                ('changes(kube_deployment_metadata_generation{namespace=~"$tenant"}[15m])', "{{namespace}}/{{deployment}}"),
                meaning="Each step is a change of the object, by a person or a controller.",
            ),
            panel(
                "Deployment age",
                ('time() - kube_deployment_created{namespace=~"$tenant"}', "{{namespace}}/{{deployment}}"),
                unit=PanelUnit.SECONDS,
            ),
            panel(
                "Container restarts",
                (
                    'sum by (namespace, pod) (changes(kube_pod_container_status_restarts_total{namespace=~"$tenant"}[15m]))',
                    "{{namespace}}/{{pod}}",
                ),
            ),
        ),
        row(
            "Replicas",
            panel(
                "Desired vs available replicas",
                ('kube_deployment_spec_replicas{namespace=~"$tenant"}', "{{deployment}} desired"),
                ('kube_deployment_status_replicas_available{namespace=~"$tenant"}', "{{deployment}} available"),
            ),
            panel(
                "Desired replicas as a share of the maximum",
                (
                    (
                        'kube_horizontalpodautoscaler_status_desired_replicas{namespace=~"$tenant"}'
                        ' / kube_horizontalpodautoscaler_spec_max_replicas{namespace=~"$tenant"}'
                    ),
                    "{{horizontalpodautoscaler}}",
                ),
                unit=PanelUnit.SHARE,
            ),
            panel(
                "Errors of scaling triggers",
                (
                    'sum by (exported_namespace, scaledObject) (rate(keda_scaler_detail_errors_total{exported_namespace=~"$tenant"}[5m]))',
                    "{{exported_namespace}}/{{scaledObject}}",
                ),
            ),
            panel(
                "Values of scaling triggers",
                (
                    'sum by (exported_namespace, scaledObject, scaler) (keda_scaler_metrics_value{exported_namespace=~"$tenant"})',
                    "{{scaledObject}} {{scaler}}",
                ),
            ),
        ),
    ),
)

LAYERS = (REQUEST, MODEL_SERVER, GPU, NODE, SCHEDULER, DEPLOYMENT)
