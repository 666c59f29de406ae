"""What an environment's system pool holds, what is left of it, and what the platform layer costs a month;
`python -m stacks.footprint ENVIRONMENT` prints it as JSON for `headway check` and `headway cost`, with what
else is to be said of that layer and of the cluster layer below.

The figures are those of the values and objects that the platform layer registers, so a request that changes there
changes here.
"""

import json
import sys
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from components.addons import (
    cert_manager,
    cluster_autoscaler,
    gpu_operator,
    istio,
    keda,
    load_balancer,
    loki,
    node_logs,
    otel,
    prometheus,
    tempo,
)
from components.addons.chart_pods import workloads as requested_by
from components.platform import activator, diagnosis, endpoint_picker, evaluation, footprint, limiter, mesh, node_health, release_guard
from components.platform.capacity import PLATFORM_PRIORITY
from components.versions import PAUSE_IMAGE, SUPPORT
from headway.contract.arithmetic.month import Estimate, Item, platform_month
from headway.contract.arithmetic.system_pool import SystemRoom, Workload, system_room
from headway.contract.explanation import Line
from headway.problem import FieldPath, Problem

if TYPE_CHECKING:
    from stacks.settings import PlatformSettings

ANY_IMAGE = PAUSE_IMAGE
"""The loops are counted whether an image of them is named yet or not: they are one setting away."""


def workloads(settings: "PlatformSettings") -> tuple[Workload, ...]:
    """Everything that runs on the system pool, and on every node."""
    pools, gateway, observability = settings.pools, settings.gateway, settings.observability
    stored: dict[str, Any] = {"bucket": "any", "region": "any"}
    storage = int(observability.metrics_storage)
    proxies = istio.gateway_values(
        replicas_min=gateway.replicas_min,
        replicas_max=gateway.replicas_max,
        histogram_buckets=mesh.histogram_buckets(),
    )
    releases: tuple[tuple[str, dict[str, Any]], ...] = (
        ("aws-load-balancer-controller", load_balancer.values("any", "any", "any", {})),
        ("base", istio.base_values()),
        *((("cert-manager", cert_manager.values()),) if gateway.authority else ()),
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
    own = (
        *activator.manifests(ANY_IMAGE),
        *diagnosis.manifests(ANY_IMAGE, "any", ""),
        *endpoint_picker.manifests(ANY_IMAGE),
        *evaluation.manifests(ANY_IMAGE, "any", ""),
        *limiter.manifests(),
        *node_health.loop(ANY_IMAGE, "any"),
        *release_guard.manifests(ANY_IMAGE),
    )
    charts = [each for chart, values in releases for each in requested_by(chart, values)]
    return (*footprint.eks_addons(settings.system_pool, pools), *charts, *footprint.own_workloads(own))


def room(settings: "PlatformSettings") -> SystemRoom:
    """The sums, and what does not fit."""
    return system_room(workloads(settings), settings.system_pool)


def month(settings: "PlatformSettings") -> Estimate:
    """What the platform layer costs beside the nodes that it runs on."""
    return platform_month(workloads(settings), zones=len(settings.network.zones), public=settings.gateway.public)


def _main(environment: str, folder: Path, today: date) -> None:
    # Only here: the settings are judged by this module.
    from stacks.loops_image import unnamed
    from stacks.sections import many_rules
    from stacks.settings import CLUSTER, NAMESPACE, PLATFORM, SHARED, PlatformSettings, SettingsError, config_of, load
    from stacks.support import ending

    lines, items, told = list[Line](), list[Item](), dict[tuple[str, FieldPath, str], Problem]()
    for layer in (CLUSTER, PLATFORM):
        problems = list[Problem]()
        try:
            given = config_of(folder, environment, layer)
            found = load(f"{environment}-{layer}", {key: json.dumps(value) for key, value in given.items()}, folder)
            if isinstance(found, PlatformSettings):
                lines += room(found).lines
                items += month(found).items
                problems += (*unnamed(found), *many_rules(found.gateway), *ending(SUPPORT, today))
        except SettingsError as error:
            problems += error.problems
        for each in problems:
            section = str(each.path[0]).removeprefix(f"{NAMESPACE}:") if each.path else ""
            told.setdefault((SHARED[layer].get(section, layer), each.path, each.fact), each)
    print(  # noqa: T201
        json.dumps(
            {
                "lines": [{"what": line.what, "amount": line.figure, "why": line.why} for line in lines],
                "month": [
                    {"what": each.what, "fewest": each.fewest, "most": each.most, "month": int(each.month), "how": each.how}
                    for each in items
                ],
                "problems": [
                    {
                        **each.record("rule", "level", "subject", "path", "value"),
                        "path": list(each.path),
                        "file": f"Pulumi.{environment}-{layer}.yaml",
                    }
                    for (layer, _, _), each in told.items()
                ],
            },
            default=str,
        )
    )


if __name__ == "__main__":
    _main(sys.argv[1], Path(__file__).parent, datetime.now(UTC).date())
