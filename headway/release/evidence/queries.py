"""The metrics and labels that a release is judged by, by their exact names. Pure.

Whoever emits them (the mesh's proxies, the sandbox's stand-in for them) and whoever reads them agree on this file. Counts and latencies are
those of the replica's own proxy (`reporter="destination"`), which sees users' requests and copies alike, so that the arms are compared
from the same place; the caller's proxy (`reporter="source"`) adds what never reached a replica.

Copies never appear at the caller's proxy, and at the replica's they look like users' requests, save that Envoy ends their host
with `-shadow`, before a port; the label `mirrored` says so.
"""

import functools
import re
from collections.abc import Mapping

from headway.wire import BROKEN_STREAMS, CLASS_TAG, FIRST_TOKEN, NEXT_TOKEN, STREAM_TIMES

REQUESTS = "istio_requests_total"
DURATIONS = "istio_request_duration_milliseconds_bucket"
"""Cumulative over `le`, in milliseconds; edges: headway.signals.buckets."""

FIRST, NEXT = "first_token", "next_token"
STREAMS: Mapping[str, tuple[str, float]] = {
    FIRST: (f"envoy_{STREAM_TIMES}_{FIRST_TOKEN}_bucket", 1e-3),
    NEXT: (f"envoy_{STREAM_TIMES}_{NEXT_TOKEN}_bucket", 1e-6),
}
"""Of streams of tokens, by the gate's histogram: the metric, cumulative over `le`, of the pod that the scrape found it at, and seconds in one
of its units."""

REPORTER = "reporter"
AT_REPLICA, AT_CALLER = "destination", "source"
WORKLOAD, WORKLOAD_NAMESPACE = "destination_workload", "destination_workload_namespace"
"""At the replica: the Deployment of the arm, which has the name of the arm's Service; the tenant's namespace."""
SERVICE, SERVICE_NAMESPACE = "destination_service_name", "destination_service_namespace"
"""At the caller: the arm's Service."""
CODE, FLAGS = "response_code", "response_flags"
GRPC_CODE = "grpc_response_status"
CLASS = CLASS_TAG
"""Written by the gateway (header x-request-class, from the size of the body, whatever the client sent); "" or absent: no class."""
MIRRORED = "mirrored"
"""`"true"` for copies, else `"false"`."""
POD = "pod"
"""Which target; added by the scrape. Counters of one pod start anew together."""

BROKEN = f"envoy_{STREAM_TIMES}_{BROKEN_STREAMS}"
"""Streams of the pod whose server said in the middle that it had failed."""
CUT = ("LR", "UC", "UPE", "UR")
"""Flags at the replica's proxy of answers that its server broke off, whatever their status: reset here, connection closed, no HTTP, reset by
the server. A caller who leaves is none of them."""

UNREACHED = ("UC", "UF", "UH", "URX")
"""Flags of requests that the caller's proxy failed: connection cut, not made, no healthy replica, retries used up."""

UP = "up"
READY = "kube_pod_status_ready"
RESTARTS = "kube_pod_container_status_restarts_total"
TERMINATED = "kube_pod_container_status_last_terminated_reason"
OUT_OF_MEMORY = "OOMKilled"
MEMORY_USED, MEMORY_FREE = "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE"
ACTIVITY = "DCGM_FI_PROF_SM_ACTIVE"
XID = "DCGM_FI_DEV_XID_ERRORS"
"""A gauge that holds the last code."""

QUEUE_SECONDS: tuple[tuple[str, str, float], ...] = (
    ("nv_inference_queue_duration_us", "nv_inference_request_success", 1e-6),
    ("vllm:request_queue_time_seconds_sum", "vllm:request_queue_time_seconds_count", 1.0),
)
"""Time spent in queues, how many requests spent it, and seconds in one unit of it; of whichever server there is."""


def quoted(text: str) -> str:
    """`text` as a PromQL string, so that no name can end the selector."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def one_of(names: tuple[str, ...]) -> str:
    """A regular expression for exactly these names (RE2, anchored by Prometheus), quoted."""
    return quoted("|".join(re.escape(name).replace("\\-", "-") for name in sorted(names)))


def at_replica(metric: str, namespace: str, arms: tuple[str, ...]) -> str:
    """Counters of the mesh at the replicas of `arms`."""
    return f'{metric}{{{REPORTER}="{AT_REPLICA}",{WORKLOAD_NAMESPACE}={quoted(namespace)},{WORKLOAD}=~{one_of(arms)}}}'


def unreached(namespace: str, arms: tuple[str, ...]) -> str:
    """Requests to `arms` that no replica answered."""
    flags = quoted(f"(.*,)?({'|'.join(UNREACHED)})(,.*)?")
    of = f"{SERVICE_NAMESPACE}={quoted(namespace)},{SERVICE}=~{one_of(arms)}"
    return f'{REQUESTS}{{{REPORTER}="{AT_CALLER}",{of},{FLAGS}=~{flags}}}'


def pods_of(arm: str) -> str:
    """Pods of a Deployment: its name, the template's digest, five characters. No arm's pattern matches a pod of another."""
    return f"{re.escape(arm)}-[a-z0-9]+-[a-z0-9]{{5}}".replace("\\-", "-")


@functools.cache
def compiled_pods_of(arm: str) -> re.Pattern[str]:
    """The same, for labels that were read."""
    return re.compile(pods_of(arm))


def of_pods(metric: str, namespace: str, arms: tuple[str, ...], *extra: str) -> str:
    """Series of the pods of `arms`, as the exporter that runs in them, or kube-state-metrics, names them."""
    pods = quoted("|".join(pods_of(arm) for arm in sorted(arms)))
    return f"{metric}{{{','.join([f'namespace={quoted(namespace)}', f'{POD}=~{pods}', *extra])}}}"


def of_exported_pods(metric: str, namespace: str, arms: tuple[str, ...]) -> str:
    """The same where an exporter of the node tells whose GPU it saw, and the scrape renamed its labels."""
    pods = quoted("|".join(pods_of(arm) for arm in sorted(arms)))
    return f"{metric}{{exported_namespace={quoted(namespace)},exported_pod=~{pods}}}"
