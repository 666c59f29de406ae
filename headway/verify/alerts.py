"""Whether an alert reaches each receiver: one is made for each, and Alertmanager's own counters say what became of it. The
judgements are pure.

Sources: Alertmanager's API v2 (`api/v2/openapi.yaml`: `/receivers`, `/alerts`), its counters of requests to receivers, which
carry the receiver's name where feature `receiver-name-in-metrics` is on (`notify/notify.go`, `featurecontrol`), and the
Prometheus operator's naming of a receiver, `NAMESPACE/CONFIG/RECEIVER` (`pkg/alertmanager/amcfg.go`).
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headway.bounded_json import bounded_json
from headway.problem import Problem
from headway.verify.outcome import Sighting
from headway.verify.site import Site
from headway.wire import MONITORING_NAMESPACE

RULE = "alerts"
ALERT = "HeadwayVerify"
SUMMARY = "A test by `headway verify`: nothing is wrong, and this ends by itself"
SECONDS = 150.0
"""A route's groupWait, one replica's turn behind another's, and a receiver that is slow."""
LOOK_SECONDS = 5.0
_CONFIGS = "/apis/monitoring.coreos.com/v1alpha1/alertmanagerconfigs"
_TRIED, _LOST = "alertmanager_notification_requests_total", "alertmanager_notification_requests_failed_total"
_LINE = re.compile(r"(\w+)\{(.*)\} ([0-9]+(?:\.[0-9]+)?(?:e[+-]?[0-9]{1,2})?)", re.ASCII)
_NAMED = re.compile(r'receiver_name="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, kw_only=True)
class AlertReceiver:
    """A receiver by its whole name, and the labels by which an alert finds the way to it; None where no route does."""

    name: str
    labels: Mapping[str, str] | None


@dataclass(frozen=True)
class Deliveries:
    """Requests to each receiver so far, and how many of them failed."""

    tried: Mapping[str, float]
    lost: Mapping[str, float]


def look(site: Site) -> Sighting:
    """Make an alert for each receiver, and wait until each took one or the time is over."""
    addresses = [each.strip() for each in (site.environment.alertmanager_address or "").split(",") if each.strip()]
    if not addresses:
        return Sighting(unanswered=(f"No Alertmanager is known{site.environment.metrics_hint}.",))
    wanted = receivers(site.items(_CONFIGS))
    known = {str(each["name"]) for each in bounded_json(site.http(f"{addresses[0]}/api/v2/receivers"))}
    before = _counted(site, addresses)
    for address in addresses:
        site.http(f"{address}/api/v2/alerts", alerts(wanted, site.namespace))
    deadline = site.clock() + SECONDS
    while True:
        after = _counted(site, addresses)
        if site.clock() >= deadline or all(_taken(each.name, before, after) for each in wanted if each.name in known):
            return judge(wanted, known, before, after)
        site.sleep(LOOK_SECONDS)


def receivers(configs: Sequence[Mapping[str, Any]]) -> tuple[AlertReceiver, ...]:
    """Every receiver that an AlertmanagerConfig names."""
    found: list[AlertReceiver] = []
    for config in sorted(configs, key=lambda each: (each["metadata"]["namespace"], each["metadata"]["name"])):
        head, spec = config["metadata"], config["spec"]
        own = {} if head["namespace"] == MONITORING_NAMESPACE else {"namespace": head["namespace"]}
        ways = dict(reversed(list(_ways(spec["route"], own))))
        prefix = f"{head['namespace']}/{head['name']}"
        found += [AlertReceiver(name=f"{prefix}/{each['name']}", labels=ways.get(each["name"])) for each in spec.get("receivers") or ()]
    return tuple(found)


def _ways(route: Mapping[str, Any], given: Mapping[str, str]) -> Iterator[tuple[str, Mapping[str, str]]]:
    """(receiver, labels) of each route, inner ones first; only matchers for equality are understood."""
    labels = dict(given)
    for matcher in route.get("matchers") or ():
        if matcher.get("matchType", "=") != "=":
            return
        if matcher["value"]:
            labels[matcher["name"]] = matcher["value"]
    if "receiver" in route:
        yield route["receiver"], labels
    for child in route.get("routes") or ():
        yield from _ways(child, labels)


def alerts(wanted: Sequence[AlertReceiver], run: str) -> list[dict[str, Any]]:
    """One alert for each receiver that can be reached, told apart by `verification`; no end is given, so that it ends
    after Alertmanager's own resolve_timeout."""
    return [
        {
            "labels": {**each.labels, "alertname": ALERT, "verification": f"{run}-{number}"},
            "annotations": {"summary": SUMMARY, "receiver": each.name},
        }
        for number, each in enumerate(wanted)
        if each.labels is not None
    ]


def counted(metrics: str) -> Deliveries:
    """What Alertmanager's `/metrics` says, by receiver."""
    tried, lost = dict[str, float](), dict[str, float]()
    for line in metrics.splitlines():
        found = _LINE.fullmatch(line)
        named = _NAMED.search(found[2]) if found else None
        if found and named and found[1] in (_TRIED, _LOST):
            kind = tried if found[1] == _TRIED else lost
            kind[named[1]] = kind.get(named[1], 0.0) + float(found[3])
    return Deliveries(tried, lost)


def judge(wanted: Sequence[AlertReceiver], known: frozenset[str] | set[str], before: Deliveries, after: Deliveries) -> Sighting:
    """Whether each receiver took a notification meanwhile."""
    problems, taken, unanswered = list[Problem](), list[str](), list[str]()
    counts = bool(after.tried)
    for each in wanted:
        tried = _since(each.name, before.tried, after.tried)
        if each.name not in known:
            why = "Alertmanager does not know it: the operator left its AlertmanagerConfig out"
            problems.append(
                _lost(each.name, why, "See that secret `alerts-<receiver>` with key `url` is there: the operator's log names it")
            )
        elif each.labels is None:
            unanswered.append(f"No route of equalities leads to {each.name}, so no alert was made for it.")
        elif _taken(each.name, before, after):
            taken.append(each.name)
        elif tried:
            why = f"{tried:.0f} notifications were sent to it, and it took none"
            problems.append(_lost(each.name, why, "Ask its address yourself, and compare it with the key `url` of its secret"))
        elif not counts:
            unanswered.append(f"Alertmanager does not count by receiver, so nobody knows whether {each.name} took its alert.")
        else:
            problems.append(
                _lost(each.name, "no notification was sent to it", "Look for a silence or an inhibition: `amtool silence query`")
            )
    evidence = (f"{len(taken)} receivers took an alert: {', '.join(taken)}.",) if taken else ()
    return Sighting(evidence=evidence, problems=tuple(problems), unanswered=tuple(unanswered))


def _counted(site: Site, addresses: Sequence[str]) -> Deliveries:
    return counted("\n".join(site.http(f"{address}/metrics").decode() for address in addresses))


def _taken(name: str, before: Deliveries, after: Deliveries) -> bool:
    return _since(name, before.tried, after.tried) > _since(name, before.lost, after.lost)


def _since(name: str, before: Mapping[str, float], after: Mapping[str, float]) -> float:
    return after.get(name, 0.0) - before.get(name, 0.0)


def _lost(name: str, why: str, remedy: str) -> Problem:
    return Problem(
        rule=RULE,
        subject=f"receiver {name}",
        fact=f"Receiver {name} got no alert: {why}",
        consequence="Whoever should be called at night is not",
        remedy=remedy,
    )
