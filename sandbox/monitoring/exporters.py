"""Keeps the exporters that production's chart brings: kube-state-metrics, told what its values say, and node exporter.

Every simulated node is this one machine, so each node with a pod that is a process has the machine's figures, under its own name; the others
have none. Of node exporter's collectors only those run that somebody reads; production's chart has all that run by themselves.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from components.addons import prometheus as chart
from sandbox.cluster.api import LoopbackEndpoint
from sandbox.cluster.nodes import RUN_BY_AGENT
from sandbox.cluster.processes import Process, Supervisor
from sandbox.cluster.toolchain import Toolchain, ensure_toolchain
from sandbox.layout import Layout
from sandbox.monitoring.configuration import MonitoringSettings, ScrapeJob
from sandbox.monitoring.servers import PROMETHEUS
from sandbox.progress import Progress

TOOL_SETS = ("kube-state-metrics", "node-exporter")
STATES, NODES = NAMES = ("kube-state-metrics", "node-exporter")
COLLECTORS = ("cpu", "diskstats", "filesystem", "meminfo", "netdev", "netstat", "vmstat")
"""Whose series alerts, dashboards and diagnoses read."""
NODE_SECONDS = 2
"""Between two readings of a node: a rate over ten seconds, which a diagnosis asks for, takes several."""


def settings(layout: Layout, supervisor: Supervisor) -> MonitoringSettings:
    """Of a Prometheus that reads both, and itself of what rules and scrapes come to."""
    states = ScrapeJob(name=STATES, targets=(f"127.0.0.1:{supervisor.port(STATES)}",))
    itself = {
        "job_name": PROMETHEUS,
        "static_configs": [{"targets": [f"127.0.0.1:{supervisor.port(PROMETHEUS)}"]}],
        "metric_relabel_configs": [{"source_labels": ["__name__"], "regex": "prometheus_(rule|target)_.*", "action": "keep"}],
    }
    return MonitoringSettings(jobs=(states,), scrape_configs=(_of_nodes(layout, supervisor.port(NODES)), itself))


def start(layout: Layout, progress: Progress, *, supervisor: Supervisor | None = None) -> None:
    """Have both run and ready, building their programs first if need be (minutes). Needs the control plane. UserError when they cannot be."""
    keeper = supervisor or Supervisor(layout)
    toolchain = ensure_toolchain(layout, progress, TOOL_SETS)
    keeper.ensure_all(tuple(processes(layout, toolchain, keeper)), progress)


def options(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Options of kube-state-metrics that its chart makes of these values (prometheus-community/helm-charts, charts/kube-state-metrics,
    templates/deployment.yaml)."""
    return (f"--resources={','.join(values['collectors'])}", f"--metric-labels-allowlist={','.join(values['metricLabelsAllowlist'])}")


def processes(layout: Layout, toolchain: Toolchain, keeper: Supervisor) -> Iterator[Process]:
    """Both, kube-state-metrics first."""
    states, own, nodes = keeper.port(STATES), keeper.port(f"{STATES}-telemetry"), keeper.port(NODES)
    at = ("--host=127.0.0.1", f"--port={states}", "--telemetry-host=127.0.0.1", f"--telemetry-port={own}")
    told = options(chart.values(days=1, storage_bytes=2**30)["kube-state-metrics"])
    yield Process(
        name=STATES,
        argv=(str(toolchain.binary("kube-state-metrics")), f"--kubeconfig={layout.kubeconfig}", *at, *told),
        ports=(states, own),
        inputs=(layout.kubeconfig,),
        ready=lambda: LoopbackEndpoint(port=states).unready("/healthz"),
    )
    yield Process(
        name=NODES,
        argv=(
            str(toolchain.binary("node_exporter")),
            "--collector.disable-defaults",
            *(f"--collector.{each}" for each in COLLECTORS),
            "--log.level=warn",
            "--web.disable-exporter-metrics",
            f"--web.listen-address=127.0.0.1:{nodes}",
        ),
        ports=(nodes,),
        ready=lambda: LoopbackEndpoint(port=nodes).unready("/"),
    )


def _of_nodes(layout: Layout, port: int) -> dict[str, Any]:
    """One target for each node that runs a process, as the chart's relabeling names it."""
    ((marked, by),) = RUN_BY_AGENT.items()
    annotation = "".join(each if each.isalnum() else "_" for each in marked)
    return {
        "job_name": NODES,
        "scrape_interval": f"{NODE_SECONDS}s",
        "scrape_timeout": f"{NODE_SECONDS}s",
        "kubernetes_sd_configs": [{"role": "pod", "kubeconfig_file": str(layout.kubeconfig)}],
        "relabel_configs": [
            {"source_labels": [f"__meta_kubernetes_pod_annotation_{annotation}"], "regex": by, "action": "keep"},
            {"source_labels": ["__meta_kubernetes_pod_node_name"], "regex": ".+", "action": "keep"},
            {"source_labels": ["__meta_kubernetes_pod_node_name"], "target_label": "node"},
            {"source_labels": ["__meta_kubernetes_pod_node_name"], "target_label": "instance", "replacement": "$1:9100"},
            {"target_label": "__address__", "replacement": f"127.0.0.1:{port}"},
        ],
    }
