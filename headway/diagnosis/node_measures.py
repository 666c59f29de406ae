"""What is asked of the nodes under a service, of who else is on them, of the autoscaler that adds them, and of who watches all of it.

Names of node exporter's series are those of its collectors `cpu`, `meminfo`, `diskstats`, `netdev` and `netstat`, which run unless somebody
turns them off (prometheus/node_exporter, `collector/*_linux.go`); the platform's values give each its node's name
(`components/addons/prometheus.py`). Pressure of a container is the kubelet's since Kubernetes 1.34 (kubernetes/website, "Understand Pressure
Stall Information metrics"), and EKS's images have it on (awslabs/amazon-eks-ami#1161). The label `node` of cAdvisor's series comes from the
operator (prometheus-operator, `pkg/prometheus/promcfg.go`, targets of kind Node). Groups of nodes: kubernetes/autoscaler,
`cluster-autoscaler/metrics/metrics.go`, with `--emit-per-nodegroup-metrics`.

The sandbox answers neither pressure, for its processes have no control group of their own, nor groups of nodes, for its autoscaler is a model.
"""

from headway.diagnosis.measure import FigureUnit, Measure, Sight, measure
from headway.wire import GATEWAY_NAMESPACE, SERVER_CONTAINER

_UNDER = " and on (node) group by (node) (last_over_time(kube_pod_info{$containers}[$window] @ end()))"
"""Of the nodes on which the service runs at the end of the time that is looked at."""
_ON_THE_WAY = (
    " and on (node) group by (node) (last_over_time(kube_pod_info{$containers}[$window] @ end())"
    f' or last_over_time(kube_pod_info{{namespace="{GATEWAY_NAMESPACE}"}}[$window] @ end()))'
)
"""Of those and the gateway's."""
_NEIGHBOURS = 5
"""The largest, as they are at the end."""
_IDLE = 'mode=~"idle|iowait"'
_WIRED = 'device!~"lo|(eni|veth|cali|cilium|lxc|docker|br-).*"'
"""Of the machine itself: those of pods on AWS's network are called eni (aws/amazon-vpc-cni-k8s, `AWS_VPC_K8S_CNI_VETHPREFIX`)."""


def _by_node(query: str, under: str = _UNDER) -> str:
    return f"({query}){under}"


def _neighbours(usage: str) -> str:
    """Usage by pods on the same nodes that are not the service's."""
    there = f"{usage.replace('WHEN', '[5m] @ end()')}{_UNDER}"
    largest = f"topk({_NEIGHBOURS}, {there} unless on (namespace, pod) last_over_time(kube_pod_info{{$containers}}[$window] @ end()))"
    return f'label_join({usage.replace("WHEN", "[$window]")} and on (namespace, pod) {largest}, "neighbour", "/", "namespace", "pod")'


def _stall(name: str, of: str, says: str) -> Measure:
    series = f'container_pressure_{of}_waiting_seconds_total{{$containers,container="{SERVER_CONTAINER}"}}'
    return measure(f"{name}_by_pod", says, FigureUnit.SHARE, f"max $by (rate({series}[$window]))", Sight.POD)


CONTAINERS = (
    measure(
        "answered_by_pod",
        "answers of a replica",
        FigureUnit.PER_SECOND,
        "sum $by (rate(nv_inference_request_success{$pods}[$window])) or sum $by (rate(vllm:request_success_total{$pods}[$window]))",
        Sight.POD,
    ),
    _stall("cpu_stall", "cpu", "time in which the server waits for a processor"),
    _stall("memory_stall", "memory", "time in which the server waits for memory to be freed"),
    _stall("disk_stall", "io", "time in which the server waits for a disk"),
)

NODES = (
    measure(
        "node_busy",
        "processor time of the node that is in use",
        FigureUnit.SHARE,
        _by_node(
            f"1 - sum by (node) (rate(node_cpu_seconds_total{{{_IDLE}}}[$window]))"
            ' / count by (node) (rate(node_cpu_seconds_total{mode="idle"}[$window]))'
        ),
        Sight.NODE,
    ),
    measure(
        "others_cores",
        "cores of the node that others use",
        FigureUnit.COUNT,
        _by_node(
            'sum by (node) (rate(node_cpu_seconds_total{mode!~"idle|iowait|steal"}[$window]))'
            ' - sum by (node) (rate(container_cpu_usage_seconds_total{$containers,container!=""}[$window]))'
        ),
        Sight.NODE,
    ),
    measure(
        "node_memory_left",
        "memory of the node that is left",
        FigureUnit.SHARE,
        _by_node("max by (node) (node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes)"),
        Sight.NODE,
    ),
    measure(
        "disk_busy",
        "time in which a disk of the node is busy",
        FigureUnit.SHARE,
        _by_node("max by (node) (rate(node_disk_io_time_seconds_total[$window]))"),
        Sight.NODE,
    ),
    measure(
        "disk_wait",
        "time that a disk of the node takes for one reading or writing",
        FigureUnit.SECONDS,
        _by_node(
            "max by (node) ((rate(node_disk_read_time_seconds_total[$window]) + rate(node_disk_write_time_seconds_total[$window]))"
            " / (rate(node_disk_reads_completed_total[$window]) + rate(node_disk_writes_completed_total[$window]) > 0))"
        ),
        Sight.NODE,
    ),
    measure(
        "resent",
        # Of the node's own network alone, for each pod's is counted in it; what its link loses, it loses for both.
        "segments of TCP that the node sends again",
        FigureUnit.SHARE,
        _by_node(
            "max by (node) (rate(node_netstat_Tcp_RetransSegs[$window]) / (rate(node_netstat_Tcp_OutSegs[$window]) > 0))", _ON_THE_WAY
        ),
        Sight.NODE,
    ),
    measure(
        "packets_lost",
        "packets that the node's network card drops, or gets broken",
        FigureUnit.PER_SECOND,
        _by_node(
            " + ".join(
                f"sum by (node) (rate(node_network_{way}_{how}_total{{{_WIRED}}}[$window]))"
                for way in ("receive", "transmit")
                for how in ("drop", "errs")
            ),
            _ON_THE_WAY,
        ),
        Sight.NODE,
    ),
    measure(
        "neighbours_cores",
        "cores that another pod on the node uses",
        FigureUnit.COUNT,
        _neighbours('sum by (node, namespace, pod) (rate(container_cpu_usage_seconds_total{container!=""}WHEN))'),
        Sight.NEIGHBOUR,
    ),
    measure(
        "neighbours_memory",
        "memory that another pod on the node uses",
        FigureUnit.BYTES,
        _neighbours('sum by (node, namespace, pod) (last_over_time(container_memory_working_set_bytes{container!=""}WHEN))'),
        Sight.NEIGHBOUR,
    ),
)

GROUPS = (
    measure(
        "group_full",
        "nodes that the autoscaler asks for, of the most that the group may have",
        FigureUnit.SHARE,
        "max by (node_group) (cluster_autoscaler_node_group_target_count / (cluster_autoscaler_node_group_max_count > 0))",
        Sight.GROUP,
    ),
    measure(
        "group_failing",
        "whether the autoscaler waits after AWS gave it no node",
        FigureUnit.COUNT,
        "max by (node_group) (cluster_autoscaler_node_group_backoff_status)",
        Sight.GROUP,
    ),
)
"""Of every group of the cluster: which are a service's is known by the pool that its pods wait for."""

WATCHERS = (
    measure(
        "unread",
        "pages of ready replicas that Prometheus cannot read",
        FigureUnit.SHARE,
        '1 - avg(up{$pods} and on (namespace, pod) kube_pod_status_ready{condition="true",$containers} == 1)',
    ),
    measure(
        "gpus_silent",
        "ready replicas of whose GPU the exporter says nothing",
        FigureUnit.SHARE,
        "1 - (count(group by (exported_pod) (DCGM_FI_DEV_FB_USED{$devices})) or vector(0))"
        ' / count(kube_pod_status_ready{condition="true",$containers} == 1)',
    ),
    measure(
        "rules_failing",
        "rules that Prometheus cannot evaluate",
        FigureUnit.PER_SECOND,
        "sum(rate(prometheus_rule_evaluation_failures_total[$window]))",
    ),
)

ALL = (*CONTAINERS, *NODES, *GROUPS, *WATCHERS)
