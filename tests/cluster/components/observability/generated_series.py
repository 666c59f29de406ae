"""Series of a platform that works: every metric that rules and dashboards read, with the labels that its exporter gives it.

Names and labels are those of Triton, vLLM, Istio's proxies, DCGM exporter, kube-state-metrics, node exporter, cAdvisor, the Cluster
Autoscaler and KEDA, as their documentation and sources have them; no exporter of a GPU ran here.
"""

from collections.abc import Iterator
from time import time

from components.model_service.objectives import INTER_TOKEN_EDGES_S, QUEUE_EDGES_S, TTFT_EDGES_S
from components.platform.gateway_measures import BETWEEN_EDGES_MS, FIRST_EDGES_MS
from components.platform.gateway_scripts import BETWEEN, FIRST
from headway.signals.buckets import latency_edges_milliseconds

TRITON = 'platform_io_tenant="vision",platform_io_model="defects",platform_io_release="r0123456789",namespace="vision",pod="defects-r0123456789-abc"'
VLLM = (
    'platform_io_tenant="assist",platform_io_model="chat",platform_io_release="r9876543210",namespace="assist",pod="chat-r9876543210-def"'
)
_SERVICES = (("vision", "defects-r0123456789", "l4-0", TRITON), ("assist", "chat-r9876543210", "h100-0", VLLM))
_LATENCY_EDGES = (*map(str, latency_edges_milliseconds()), "+Inf")


def text(seconds: float) -> str:
    """What an exporter of all of it shows after that many seconds: counters grow, gauges stand."""
    lines = [*_counters(seconds), *_gauges()]
    return "\n".join(lines) + "\n"


def _counters(seconds: float) -> Iterator[str]:
    def counter(name: str, labels: str, per_second: float) -> str:
        return f"{name}{{{labels}}} {1000 + per_second * seconds:.3f}"

    def histogram(name: str, labels: str, edges: tuple[str, ...], mean: float) -> Iterator[str]:
        yield f"# TYPE {name} histogram"  # upon which Prometheus writes every edge as a float, as from a real exporter
        for number, edge in enumerate(edges, start=1):
            yield counter(f"{name}_bucket", f'{labels},le="{edge}"', 10 * number)
        yield counter(f"{name}_count", labels, 10 * len(edges))
        yield counter(f"{name}_sum", labels, 10 * len(edges) * mean)

    for name in ("count", "exec_count", "request_success"):
        yield counter(f"nv_inference_{name}", f'{TRITON},version="1"', 40)
    yield counter("nv_inference_request_failure", f'{TRITON},version="1",reason="BACKEND"', 1)
    for name in ("request", "queue", "compute_input", "compute_infer", "compute_output"):
        yield counter(f"nv_inference_{name}_duration_us", f'{TRITON},version="1"', 2e6)
    yield counter("vllm:request_success_total", f'{VLLM},finished_reason="stop"', 4)
    yield counter("vllm:request_success_total", f'{VLLM},finished_reason="length"', 1)
    yield counter("vllm:generation_tokens_total", VLLM, 900)
    yield counter("vllm:prefix_cache_hits_total", VLLM, 300)
    yield counter("vllm:prefix_cache_queries_total", VLLM, 600)
    for name in ("request_generation_tokens", "request_prompt_tokens"):
        yield from histogram(f"vllm:{name}", VLLM, ("1.0", "10.0", "100.0", "1000.0", "+Inf"), 80)
    yield counter("vllm:num_preemptions_total", VLLM, 0.5)
    for name, edges, mean in (
        ("time_to_first_token", TTFT_EDGES_S, 0.2),
        ("inter_token_latency", INTER_TOKEN_EDGES_S, 0.03),
        ("request_time_per_output_token", INTER_TOKEN_EDGES_S, 0.03),
        ("request_queue_time", QUEUE_EDGES_S, 0.1),
        ("request_inference_time", QUEUE_EDGES_S, 2.0),
    ):
        yield from histogram(f"vllm:{name}_seconds", VLLM, (*(str(float(edge)) for edge in edges), "+Inf"), mean)
    for name, edges, mean in ((FIRST, FIRST_EDGES_MS, 220), (BETWEEN, BETWEEN_EDGES_MS, 31)):
        yield from histogram(f"envoy_headway_{name}", 'tenant="assist",model="chat"', (*map(str, edges), "+Inf"), mean)
    for namespace, service, node, pod in _SERVICES:
        to = f'destination_service_namespace="{namespace}",destination_service_name="{service}",reporter="source"'
        yield counter("istio_requests_total", f'{to},response_code="200",response_flags="-"', 90)
        yield counter("istio_requests_total", f'{to},response_code="503",response_flags="UH"', 1)
        yield counter("istio_requests_total", f'{to},response_code="429",response_flags="RL"', 2)
        yield counter("istio_requests_total", f'{to},response_code="200",response_flags="-",degraded="true"', 3)
        yield from histogram("istio_request_duration_milliseconds", f'{to},response_code="200"', _LATENCY_EDGES, 40)
        gpu = _gpu(node, pod)
        yield counter("DCGM_FI_DEV_THERMAL_VIOLATION", gpu, 1e7)
        yield counter("DCGM_FI_DEV_POWER_VIOLATION", gpu, 1e7)
        for name in ("ECC_DBE_VOL_TOTAL", "ECC_SBE_VOL_TOTAL", "NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", "PCIE_REPLAY_COUNTER"):
            yield counter(f"DCGM_FI_DEV_{name}", gpu, 0)
        yield counter("kube_pod_container_status_restarts_total", f'{_pod(pod)},container="server"', 0)
        yield counter("node_cpu_seconds_total", f'instance="{node}:9100",cpu="0",mode="idle"', 0.4)
        yield counter("node_network_receive_bytes_total", f'instance="{node}:9100",device="eth0"', 1e6)
        yield counter("node_vmstat_oom_kill", f'instance="{node}:9100"', 0)
        scaled = f'exported_namespace="{namespace}",scaledObject="{service}",scaler="prometheusScaler",triggerIndex="0"'
        yield counter("keda_scaler_detail_errors_total", scaled, 0.1)
        yield f"keda_scaler_metrics_value{{{scaled}}} 3"
    limiter = 'destination_service_namespace="rate-limit",reporter="destination",response_code="200"'
    yield counter("istio_requests_total", f'{limiter},grpc_response_status="0",response_flags="-"', 180)
    yield counter("istio_requests_total", f'{limiter},grpc_response_status="14",response_flags="-"', 1)
    yield from histogram("istio_request_duration_milliseconds", limiter, _LATENCY_EDGES, 2)
    yield counter("cluster_autoscaler_failed_scale_ups_total", 'reason="cloudProviderError"', 0)


def _gauges() -> Iterator[str]:
    yield f'nv_inference_pending_request_count{{{TRITON},version="1"}} 2'
    yield f"vllm:num_requests_running{{{VLLM}}} 3"
    yield f"vllm:num_requests_waiting{{{VLLM}}} 1"
    yield f"vllm:kv_cache_usage_perc{{{VLLM}}} 0.6"
    yield "cluster_autoscaler_unschedulable_pods_count 0"
    yield 'headway_artifact_cache_missing_files{platform_io_pool="l4",namespace="artifact-cache",pod="artifact-cache-l4-x"} 0'
    yield 'kube_deployment_status_replicas_available{namespace="rate-limit",deployment="limiter"} 2'
    for namespace, service, node, pod in _SERVICES:
        gpu = _gpu(node, pod)
        for name, value in (
            ("DCGM_EXP_XID_ERRORS_COUNT", 0),
            ("DCGM_FI_DEV_FB_FREE", 8000),
            ("DCGM_FI_DEV_FB_USED", 16000),
            ("DCGM_FI_DEV_GPU_TEMP", 60),
            ("DCGM_FI_DEV_POWER_USAGE", 70),
            ("DCGM_FI_DEV_ROW_REMAP_FAILURE", 0),
            ("DCGM_FI_DEV_SM_CLOCK", 1500),
            ("DCGM_FI_PROF_DRAM_ACTIVE", 0.3),
            ("DCGM_FI_PROF_NVLINK_RX_BYTES", 1000),
            ("DCGM_FI_PROF_NVLINK_TX_BYTES", 1000),
            ("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", 0.4),
            ("DCGM_FI_PROF_SM_ACTIVE", 0.5),
        ):
            yield f"{name}{{{gpu}}} {value}"
        yield from _kubernetes(namespace, service, node, pod)
        filesystem = f'instance="{node}:9100",mountpoint="/",fstype="xfs"'
        yield f"node_filesystem_avail_bytes{{{filesystem}}} 6e10"
        yield f"node_filesystem_size_bytes{{{filesystem}}} 1e11"
        yield f'node_memory_MemAvailable_bytes{{instance="{node}:9100"}} 6e10'
        yield f'node_memory_MemTotal_bytes{{instance="{node}:9100"}} 1e11'
        yield f'container_memory_working_set_bytes{{{_pod(pod)},container="server"}} 2e9'


def _kubernetes(namespace: str, service: str, node: str, pod: str) -> Iterator[str]:
    """kube-state-metrics."""
    deployment, scaler = (
        f'namespace="{namespace}",deployment="{service}"',
        f'namespace="{namespace}",horizontalpodautoscaler="keda-{service}"',
    )
    resource = f'node="{node}",resource="nvidia_com_gpu",unit="integer"'
    yield f'kube_node_labels{{node="{node}",label_platform_io_pool="{node[:-2]}",label_nvidia_com_gpu_present="true"}} 1'
    yield f'kube_node_status_condition{{node="{node}",condition="Ready",status="true"}} 1'
    yield f'kube_node_status_condition{{node="{node}",condition="DiskPressure",status="true"}} 0'
    yield f'kube_node_spec_unschedulable{{node="{node}"}} 0'
    yield f"kube_node_status_allocatable{{{resource}}} 4"
    yield f'kube_pod_container_resource_requests{{{resource},{_pod(pod)},container="server"}} 1'
    yield f'kube_namespace_labels{{namespace="{namespace}",label_platform_io_tenant="{namespace}"}} 1'
    yield f"kube_pod_status_unschedulable{{{_pod(pod)}}} 1"
    yield f"kube_pod_deletion_timestamp{{{_pod(pod)}}} {time()}"
    yield f'kube_pod_status_phase{{{_pod(pod)},phase="Pending"}} 0'
    yield f'kube_pod_status_ready{{{_pod(pod)},condition="true"}} 1'
    yield f'kube_pod_status_reason{{{_pod(pod)},reason="Evicted"}} 0'
    yield f"kube_deployment_spec_replicas{{{deployment}}} 2"
    yield f"kube_deployment_status_replicas_available{{{deployment}}} 2"
    yield f"kube_deployment_metadata_generation{{{deployment}}} 3"
    yield f"kube_deployment_created{{{deployment}}} 1.7e9"
    yield f"kube_horizontalpodautoscaler_status_desired_replicas{{{scaler}}} 2"
    yield f"kube_horizontalpodautoscaler_spec_max_replicas{{{scaler}}} 8"
    yield f"kube_horizontalpodautoscaler_spec_min_replicas{{{scaler}}} 1"
    for kind, value in (("used", 1), ("hard", 4)):
        yield f'kube_resourcequota{{namespace="{namespace}",resourcequota="tenant",resource="requests.nvidia.com/gpu",type="{kind}"}} {value}'


def _gpu(node: str, pod: str) -> str:
    """As the exporter labels a GPU that a pod holds."""
    return f'Hostname="{node}",gpu="0",UUID="GPU-{node}",xid="0",{pod}'


def _pod(labels: str) -> str:
    return ",".join(part for part in labels.split(",") if part.startswith(("namespace=", "pod=")))
