"""What `up --with` adds to the sandbox: servers that the platform can do without for a look, each built at its first
use.

Data and order; the rooms do the work. An extra stays asked for until `down`, so a later `up` without its name leaves it
running, and starts it again when one of its processes has died.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from headway.problem import Exit, UserError
from sandbox.cluster.processes import ProcessStatus
from sandbox.layout import Layout
from sandbox.progress import Progress


@dataclass(frozen=True, kw_only=True)
class Extra:
    """Servers beside the control plane. `start` has them run and ready; `needs` names extras that it cannot work
    without."""

    name: str
    summary: str
    tool_sets: tuple[str, ...]
    processes: tuple[str, ...]
    start: Callable[[Layout, Progress], object]
    needs: tuple[str, ...] = ()
    charts: tuple[str, ...] = ()
    """Add-ons whose work the processes do here; their charts are recorded all the same."""


def ran_before(extra: Extra, layout: Layout) -> bool:
    """Whether its processes ran here once: what they serve may then be waited for."""
    return all((layout.logs / f"{name}.log").exists() for name in extra.processes)


def _monitoring(layout: Layout, progress: Progress) -> None:
    from sandbox.cluster.processes import Supervisor
    from sandbox.monitoring import diagnosis_loop, exporters, follower, servers

    exporters.start(layout, progress)
    servers.start(layout, progress, exporters.settings(layout, Supervisor(layout)))
    diagnosis_loop.start(layout, progress)
    follower.start(layout, progress)


def _autoscaling(layout: Layout, progress: Progress) -> None:
    from sandbox.autoscaling import servers
    from sandbox.cloud import objectstore

    servers.start(layout, progress, queues=objectstore.environment(layout))


def _cluster_autoscaler(layout: Layout, progress: Progress) -> None:
    from sandbox.cloud.scaling import server

    server.start(layout, progress)


def _traffic(layout: Layout, progress: Progress) -> None:
    from sandbox.traffic import servers

    servers.scrape(layout, servers.start(layout, progress))


EXTRAS: Mapping[str, Extra] = {
    each.name: each
    for each in (
        Extra(
            name="monitoring",
            summary="Prometheus and Alertmanager with the cluster's monitors, rules and routes, and causes for pages",
            tool_sets=("prometheus", "alertmanager", "kube-state-metrics", "node-exporter"),
            processes=("alertmanager", "diagnosis-loop", "kube-state-metrics", "monitoring-follower", "node-exporter", "prometheus"),
            charts=("kube-prometheus-stack",),
            start=_monitoring,
        ),
        Extra(
            name="autoscaling",
            summary="KEDA, which moves the replicas of every ScaledObject by what Prometheus answers",
            tool_sets=("keda",),
            processes=("keda-adapter", "keda-operator", "keda-webhooks"),
            charts=("keda",),
            start=_autoscaling,
            needs=("monitoring",),
        ),
        Extra(
            name="cluster-autoscaler",
            summary="A model of the Cluster Autoscaler, which adds and removes simulated nodes",
            tool_sets=(),
            processes=("cluster-autoscaler",),
            charts=("cluster-autoscaler",),
            start=_cluster_autoscaler,
        ),
        Extra(
            name="traffic",
            summary="Triton behind Envoy, as processes, for the services of the demonstration (`make demo`)",
            tool_sets=(),
            processes=("envoy", "mesh", "node-agent"),
            start=_traffic,
            needs=("monitoring",),
        ),
    )
}


@dataclass(frozen=True, kw_only=True)
class RunningExtra:
    """The processes of an extra that run."""

    extra: Extra
    processes: tuple[ProcessStatus, ...]


def live(found: Sequence[ProcessStatus]) -> tuple[RunningExtra, ...]:
    """Extras of which something runs, in the order of their start."""
    running = [(extra, tuple(p for p in found if p.running and p.name in extra.processes)) for extra in EXTRAS.values()]
    return tuple(RunningExtra(extra=extra, processes=processes) for extra, processes in running if processes)


def fallen(found: Sequence[ProcessStatus]) -> tuple[str, ...]:
    """Names of the extras that were started, were not taken down, and have lost a process."""
    dead = {p.name for p in found if not p.running}
    return tuple(extra.name for extra in EXTRAS.values() if dead & set(extra.processes))


def chosen(names: Iterable[str]) -> tuple[Extra, ...]:
    """The extras of these names and what they need, in the order of their start. UserError for a name that there is
    not."""
    wanted = [name for name in names if name]
    unknown = sorted(set(wanted) - EXTRAS.keys())
    if unknown:
        raise UserError(
            f"The sandbox has no {', '.join(unknown)} to bring up.",
            "Nothing was done.",
            f"Choose from {', '.join(sorted(EXTRAS))}, separated by commas.",
            Exit.USAGE,
        )
    found: set[str] = set()

    def add(name: str) -> None:
        found.add(name)
        for needed in EXTRAS[name].needs:
            add(needed)

    for name in wanted:
        add(name)
    return tuple(extra for extra in EXTRAS.values() if extra.name in found)
