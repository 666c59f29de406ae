"""What is asked of Prometheus for a diagnosis: each measure once, with its unit and its query, for a service, each of its pods, or the
GPUs and nodes under them.

Names of Istio's series are those of its "Standard metrics", Triton's of its guide's page on metrics, vLLM's of `vllm/v1/metrics/loggers.py`,
cAdvisor's of its page on Prometheus metrics, DCGM's of dcgm-exporter's `dcp-metrics-included.csv`.
"""

from collections.abc import Mapping

from headway.contract.xids import FATAL
from headway.diagnosis import gateway_measures, node_measures
from headway.diagnosis.measure import ANSWERED, NEVER_ZERO, FigureUnit, Measure, Sight, mean
from headway.diagnosis.measure import measure as _of
from headway.release.evidence.queries import quoted
from headway.wire import BURN_ALERT, WAITING_REQUESTS

_FATAL = "|".join(str(code) for code in sorted(FATAL))
_RELEASE = "r[0-9a-f]{10}(-baseline)?"


def _triton(part: str) -> str:
    return mean(f"nv_inference_{part}_duration_us", "nv_inference_request_success", " / 1e6")


def _vllm(histogram: str) -> str:
    return mean(f"vllm:{histogram}_sum", f"vllm:{histogram}_count")


_PROMISES = (
    _of(
        "held",
        "requests held until a first replica serves",
        FigureUnit.COUNT,
        # The activator shows a service only while one waits (`headway/activator/waiting.py`).
        f"max(max_over_time({WAITING_REQUESTS}{{$named}}[$window])) or vector(0)",
    ),
    _of(
        "burn",
        "times as fast as it may that a promise's error budget burns",
        FigureUnit.COUNT,
        "max(headway:slo_bad:share5m{$named} / on (objective) headway:slo_allowed:share{$named})",
    ),
    _of(
        "paged",
        "whether a promise's budget burns so fast that somebody is paged",
        FigureUnit.COUNT,
        # Prometheus keeps each alert that fires as a series (its documentation, "Alerting rules").
        f'max(ALERTS{{alertname="{BURN_ALERT}",alertstate="firing",severity="page",$named}}) or 0 * max(headway:slo_allowed:share{{$named}})',
    ),
)

_SERVER = (
    _of(
        "at_replica",
        "mean time of an answer at the replicas' proxies",
        FigureUnit.SECONDS,
        mean("istio_request_duration_milliseconds_sum", "istio_request_duration_milliseconds_count", " / 1e3", f"$replicas,{ANSWERED}"),
    ),
    _of(
        "served",
        "mean time of an answer in the server",
        FigureUnit.SECONDS,
        f"({_triton('request')}) or ({_vllm('e2e_request_latency_seconds')})",
    ),
    _of("queue", "mean time in the server's queue", FigureUnit.SECONDS, f"({_triton('queue')}) or ({_vllm('request_queue_time_seconds')})"),
    _of("input", "mean time to read inputs", FigureUnit.SECONDS, _triton("compute_input")),
    _of("compute", "mean time of the model itself", FigureUnit.SECONDS, _triton("compute_infer")),
    _of("output", "mean time to write outputs", FigureUnit.SECONDS, _triton("compute_output")),
    _of("prefill", "mean time to read a prompt", FigureUnit.SECONDS, _vllm("request_prefill_time_seconds")),
    _of("decode", "mean time to write an answer's tokens", FigureUnit.SECONDS, _vllm("request_decode_time_seconds")),
    _of("batch_size", "requests in a batch", FigureUnit.COUNT, mean("nv_inference_count", "nv_inference_exec_count")),
    _of(
        "busy",
        "instances that compute at once",
        FigureUnit.COUNT,
        # The server counts a batch's time for each of its requests.
        "sum $by (rate(nv_inference_compute_infer_duration_us{$pods}[$window])) / 1e6"
        " * sum $by (rate(nv_inference_exec_count{$pods}[$window])) / (sum $by (rate(nv_inference_count{$pods}[$window])) > 0)",
    ),
    _of(
        "running", "sequences that compute at once", FigureUnit.COUNT, "sum $by (avg_over_time(vllm:num_requests_running{$pods}[$window]))"
    ),
    _of(
        "kv_cache",
        "filled share of the fullest replica's KV cache",
        FigureUnit.SHARE,
        "max(avg_over_time(vllm:kv_cache_usage_perc{$pods}[$window]))",
    ),
    _of("prompt_tokens", "tokens of a prompt", FigureUnit.TOKENS, _vllm("request_prompt_tokens")),
    _of("answer_tokens", "tokens of an answer", FigureUnit.TOKENS, _vllm("request_generation_tokens")),
    _of(
        "preemptions",
        "sequences thrown out of a full cache",
        FigureUnit.PER_SECOND,
        "sum(rate(vllm:num_preemptions_total{$pods}[$window]))",
    ),
    _of(
        "prefix_hits",
        "tokens of prompts that were in the cache",
        FigureUnit.SHARE,
        mean("vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total"),
    ),
    _of(
        "failures",
        "requests that the server itself failed",
        FigureUnit.SHARE,
        "sum $by (rate(nv_inference_request_failure{$pods}[$window]))"
        f' / clamp_min(sum $by (rate({{__name__=~"nv_inference_request_(failure|success)",$pods}}[$window])), {NEVER_ZERO})',
    ),
    _of(
        "throttled",
        "scheduling periods in which the container's CPU quota was used up",
        FigureUnit.SHARE,
        mean("container_cpu_cfs_throttled_periods_total", "container_cpu_cfs_periods_total", where="$containers"),
    ),
    _of("cpu", "cores in use", FigureUnit.COUNT, "sum $by (rate(container_cpu_usage_seconds_total{$containers}[$window]))"),
    _of(
        "memory",
        "memory in use, of its limit",
        FigureUnit.SHARE,
        # The chart drops `container_spec.*` of cAdvisor (kube-prometheus-stack, values.yaml, cAdvisorMetricRelabelings).
        "max $by (container_memory_working_set_bytes{$containers}"
        ' / on (namespace, pod, container) (kube_pod_container_resource_limits{resource="memory",$containers} > 0))',
    ),
    _of("replicas", "replicas that are ready", FigureUnit.COUNT, 'sum(kube_pod_status_ready{condition="true",$containers})'),
    _of(
        "of_maximum",
        "replicas that the autoscaler asks for, of the most that it may",
        FigureUnit.SHARE,
        "max(kube_horizontalpodautoscaler_status_desired_replicas{$scalers} / (kube_horizontalpodautoscaler_spec_max_replicas{$scalers} > 1))",
    ),
    _of(
        "maximum",
        "replicas that the autoscaler may make",
        FigureUnit.COUNT,
        "max(kube_horizontalpodautoscaler_spec_max_replicas{$scalers})",
    ),
    _of(
        "scaler_errors",
        "failed readings of the autoscaler's triggers",
        FigureUnit.PER_SECOND,
        "sum(rate(keda_scaler_detail_errors_total{$scaled}[$window]))",
    ),
)

_BY_POD = tuple(
    _of(f"{each.name}_by_pod", each.says, each.unit, each.query, Sight.POD)
    for each in _SERVER
    if each.name in ("at_replica", "served", "queue", "compute", "prefill", "decode", "failures", "throttled", "memory", "busy", "running")
)

_DEVICES = (
    _of(
        "clock",
        "clock of the GPU's multiprocessors",
        FigureUnit.MEGAHERTZ,
        "max by (UUID, Hostname) (DCGM_FI_DEV_SM_CLOCK{$devices})",
        Sight.GPU,
    ),
    _of(
        "hot",
        "time in which heat slowed the GPU down",
        FigureUnit.SHARE,
        "max by (UUID, Hostname) (rate(DCGM_FI_DEV_THERMAL_VIOLATION{$devices}[$window])) / 1e9",
        Sight.GPU,
    ),
    _of(
        "power_capped",
        "time in which the power limit slowed the GPU down",
        FigureUnit.SHARE,
        "max by (UUID, Hostname) (rate(DCGM_FI_DEV_POWER_VIOLATION{$devices}[$window])) / 1e9",
        Sight.GPU,
    ),
    _of(
        "replays",
        "packets sent again on PCIe",
        FigureUnit.PER_SECOND,
        "max by (UUID, Hostname) (rate(DCGM_FI_DEV_PCIE_REPLAY_COUNTER{$devices}[$window]))",
        Sight.GPU,
    ),
    _of(
        "xid",
        "Xid errors after which a GPU serves nothing",
        FigureUnit.COUNT,
        f'sum by (UUID, Hostname) (DCGM_EXP_XID_ERRORS_COUNT{{$devices,xid=~"{_FATAL}"}} or 0 * DCGM_FI_DEV_FB_USED{{$devices}})',
        Sight.GPU,
    ),
    _of(
        "ecc",
        "memory errors that cannot be corrected",
        FigureUnit.PER_SECOND,
        "max by (UUID, Hostname) (rate(DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{$devices}[$window]))",
        Sight.GPU,
    ),
)

MEASURES: Mapping[str, Measure] = {
    each.name: each for each in (*gateway_measures.ALL, *_PROMISES, *_SERVER, *_BY_POD, *_DEVICES, *node_measures.ALL)
}
"""All of them by name."""

PHASES = ("queue", "input", "compute", "output")
"""The parts of Triton's time (`request` = queue + input + compute + output, and what the server does besides)."""
STREAMED_PHASES = ("queue", "prefill", "decode")
"""The same of vLLM."""


def query(measure: Measure, tenant: str, model: str, window: str) -> str:
    """PromQL of the measure for one service; `window` as Prometheus writes durations."""
    namespace, named = quoted(tenant), quoted(f"{model}-{_RELEASE}")
    pod = quoted(f"{model}-{_RELEASE}-[a-z0-9]+-[a-z0-9]{{5}}")
    filled = {
        "$gateway": f'reporter="source",destination_service_namespace={namespace},destination_service_name=~{named}',
        "$replicas": f'reporter="destination",mirrored!="true",destination_workload_namespace={namespace},destination_workload=~{named}',
        "$pods": f"platform_io_tenant={namespace},platform_io_model={quoted(model)}",
        "$named": f"tenant={namespace},model={quoted(model)}",
        "$others": f"tenant!={namespace}",
        "$containers": f"namespace={namespace},pod=~{pod}",
        "$scalers": f"namespace={namespace},horizontalpodautoscaler=~{quoted(f'(keda-)?{model}-{_RELEASE}')}",
        "$scaled": f"exported_namespace={namespace},scaledObject=~{named}",
        "$devices": f"exported_namespace={namespace},exported_pod=~{pod}",
        "$by ": f"by ({measure.sight.value}) " if measure.sight else "",
        "$window": window,
    }
    text = measure.query
    for place, value in filled.items():
        text = text.replace(place, value)
    return text
