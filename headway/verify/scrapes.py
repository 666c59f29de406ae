"""Whether Prometheus reads every metric that somebody asked it to. The judgement is pure.

Each endpoint of a PodMonitor or ServiceMonitor becomes a scrape pool `podMonitor/NAMESPACE/NAME/NUMBER` (the Prometheus
operator's `promcfg.go`), and `/api/v1/targets` lists the targets of each with their health and last error (Prometheus
documentation, "HTTP API", Targets). The trap: a monitor that the operator refuses makes no pool, and no target is down.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headway.bounded_json import bounded_json
from headway.environment.port import Facility
from headway.problem import Problem
from headway.verify.outcome import Sighting
from headway.verify.policies import selected
from headway.verify.site import LARGEST_ANSWER, Site

RULE = "scrapes"
_GROUP = "/apis/monitoring.coreos.com/v1"


@dataclass(frozen=True, kw_only=True)
class ScrapePool:
    """One endpoint of a monitor, and of how many running pods or Services it speaks."""

    name: str
    picks: int
    of: str


def look(site: Site) -> Sighting:
    """Compare the monitors of the cluster with what Prometheus scrapes."""
    addresses = site.environment.metrics_address
    if not addresses:
        return Sighting(unanswered=(f"No Prometheus is known{site.environment.metrics_hint}.",))
    running = [body for body in site.items("/api/v1/pods") if (body.get("status") or {}).get("phase") == "Running"]
    wanted = (
        *pools("podMonitor", site.items(f"{_GROUP}/podmonitors"), running),
        *pools("serviceMonitor", site.items(f"{_GROUP}/servicemonitors"), site.items("/api/v1/services")),
    )
    first = addresses.split(",")[0].strip()
    targets = bounded_json(site.http(f"{first}/api/v1/targets?state=active"), LARGEST_ANSWER)["data"]["activeTargets"]
    return judge(wanted, targets, site.environment.cannot_show(Facility.SCRAPES))


def pools(kind: str, monitors: Sequence[Mapping[str, Any]], picked: Sequence[Mapping[str, Any]]) -> tuple[ScrapePool, ...]:
    """The scrape pools of monitors of one kind; `picked` are all pods, or all Services, that they may select."""
    found: list[ScrapePool] = []
    for monitor in monitors:
        head, spec = monitor["metadata"], monitor["spec"]
        where = spec.get("namespaceSelector") or {}
        names = None if where.get("any") else set(where.get("matchNames") or [head["namespace"]])
        picks = sum(
            (names is None or body["metadata"]["namespace"] in names)
            and selected(spec.get("selector") or {}, body["metadata"].get("labels") or {})
            for body in picked
        )
        endpoints = spec.get("podMetricsEndpoints" if kind == "podMonitor" else "endpoints") or ()
        of = "running pods" if kind == "podMonitor" else "Services"
        found += [
            ScrapePool(name=f"{kind}/{head['namespace']}/{head['name']}/{number}", picks=picks, of=of) for number in range(len(endpoints))
        ]
    return tuple(found)


def judge(wanted: Sequence[ScrapePool], targets: Sequence[Mapping[str, Any]], lacks: str | None = None) -> Sighting:
    """Whether every pool that selects something has targets, and every target answers."""
    by_pool = Counter(str(target["scrapePool"]) for target in targets)
    problems, silent, bare = list[Problem](), 0, list[str]()
    for pool in wanted:
        if by_pool[pool.name] or not pool.picks:
            silent += not by_pool[pool.name]
        elif lacks:
            bare.append(pool.name)
        else:
            problems.append(
                Problem(
                    rule=RULE,
                    subject=pool.name,
                    fact=f"{pool.name} has no target, and selects {pool.picks} {pool.of}",
                    consequence="What its panels and alerts are made of is missing, and nothing alerts",
                    remedy="`kubectl logs -n monitoring deploy/kube-prometheus-stack-operator`; compare the port's name with the pods'",
                )
            )
    problems += [
        Problem(
            rule=RULE,
            subject=str(target["scrapePool"]),
            fact=f"Target {target.get('scrapeUrl')} is {target['health']}: {target.get('lastError') or 'not scraped yet'}",
            consequence="Its series end here: panels are empty, and alerts on them are silent",
            remedy="Ask it yourself from a pod of namespace monitoring; a NetworkPolicy or a port that changed are usual",
        )
        for target in sorted(targets, key=lambda each: str(each.get("scrapeUrl")))
        if target["health"] != "up"
    ]
    up = sum(target["health"] == "up" for target in targets)
    some = f" {silent} pools select nothing now." if silent else ""
    said = f"{up} of {len(targets)} targets of {len(by_pool)} scrape pools are up.{some}"
    not_shown = f"{len(bare)} of {len(wanted)} scrape pools have no target: {lacks}."
    return Sighting(evidence=(said,) if targets else (), problems=tuple(problems), not_shown=(not_shown,) if bare else ())
