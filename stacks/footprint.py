"""What an environment's system pool holds and what is left of it; `python -m stacks.footprint ENVIRONMENT` prints it as
JSON for `headway check`.

The figures are those of the values and objects that the platform layer registers, so a request that changes there
changes here.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from components.addons import cluster_autoscaler, gpu_operator, istio, keda, loki, node_logs, otel, prometheus, tempo
from components.addons.chart_pods import workloads as requested_by
from components.platform import footprint, limiter, mesh, node_health, release_guard
from components.platform.capacity import PLATFORM_PRIORITY
from components.versions import PAUSE_IMAGE
from headway.contract.arithmetic.system_pool import SystemRoom, Workload, system_room
from headway.contract.explanation import Line
from headway.contract.pool import Pool, SystemPool
from headway.problem import Problem
from stacks.sections import GatewaySettings, ObservabilitySettings

ANY_IMAGE = PAUSE_IMAGE
"""The loops are counted whether an image of them is named yet or not: they are one setting away."""


def workloads(
    system: SystemPool, pools: Sequence[Pool], gateway: GatewaySettings, observability: ObservabilitySettings
) -> tuple[Workload, ...]:
    """Everything that runs on the system pool, and on every node."""
    stored: dict[str, Any] = {"bucket": "any", "region": "any"}
    storage = int(observability.metrics_storage)
    proxies = istio.gateway_values(
        public=gateway.public,
        replicas_min=gateway.replicas_min,
        replicas_max=gateway.replicas_max,
        histogram_buckets=mesh.histogram_buckets(),
    )
    releases: tuple[tuple[str, dict[str, Any]], ...] = (
        ("base", istio.base_values()),
        ("cluster-autoscaler", cluster_autoscaler.values("any", "any", pools)),
        ("cni", istio.node_agent_values()),
        ("gateway", proxies),
        ("gpu-operator", gpu_operator.values(pools)),
        ("istiod", istio.control_plane_values(otel.HOST, otel.PORT)),
        ("keda", keda.values("any")),
        ("kube-prometheus-stack", prometheus.values(days=observability.metrics_days, storage_bytes=storage)),
        ("loki", loki.values(**stored, days=observability.logs_days)),
        ("opentelemetry-collector", otel.values(**stored)),
        ("opentelemetry-collector", node_logs.values(PLATFORM_PRIORITY)),
        ("prometheus-operator-crds", prometheus.definitions_values()),
        ("tempo", tempo.values(**stored, days=observability.traces_days)),
    )
    own = (*limiter.manifests(), *node_health.loop(ANY_IMAGE, "any"), *release_guard.manifests(ANY_IMAGE))
    charts = [each for chart, values in releases for each in requested_by(chart, values)]
    return (*footprint.eks_addons(system, pools), *charts, *footprint.own_workloads(own))


def room(system: SystemPool, pools: Sequence[Pool], gateway: GatewaySettings, observability: ObservabilitySettings) -> SystemRoom:
    """The sums, and what does not fit."""
    return system_room(workloads(system, pools, gateway, observability), system)


def _main(environment: str, folder: Path) -> None:
    # Only here: the settings are judged by this module.
    from stacks.settings import CLUSTER, NAMESPACE, PLATFORM, PlatformSettings, SettingsError, config_of, load

    given = config_of(folder, environment, PLATFORM)
    lines, problems = list[Line](), list[Problem]()
    try:
        found = load(f"{environment}-{PLATFORM}", {key: json.dumps(value) for key, value in given.items()}, folder)
        if isinstance(found, PlatformSettings):
            lines += room(found.system_pool, found.pools, found.gateway, found.observability).lines
    except SettingsError as error:
        problems += error.problems
    shared = f"{NAMESPACE}:system_pool"
    print(  # noqa: T201
        json.dumps(
            {
                "lines": [{"what": line.what, "amount": line.figure, "why": line.why} for line in lines],
                "problems": [
                    {
                        "rule": each.rule,
                        "path": list(each.path),
                        "value": each.value,
                        "fact": each.fact,
                        "consequence": each.consequence,
                        "remedy": each.remedy,
                        "file": f"Pulumi.{environment}-{CLUSTER if each.path[:1] == (shared,) else PLATFORM}.yaml",
                    }
                    for each in problems
                ],
            },
            default=str,
        )
    )


if __name__ == "__main__":
    _main(sys.argv[1], Path(__file__).parent)
