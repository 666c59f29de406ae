"""What Prometheus would have somebody told: its alerts that wait or fire, with what their notifications say; and what Alertmanager was given as
their causes."""

import http.client
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from components.observability.alert import FailureLayer
from headway.wire import CAUSE_ALERT
from sandbox.cluster.api import LoopbackEndpoint

_HIDDEN = {"alertname", "instance", "job", "layer", "long_window", "owner", "receiver", "severity"}


@dataclass(frozen=True, kw_only=True)
class RaisedAlert:
    """One alert that holds. `since` when its condition began to hold; `told_at` when its hold is over and people hear of
    it."""

    name: str
    severity: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    since: datetime
    told_at: datetime
    firing: bool
    """Whether people have been told."""

    @property
    def key(self) -> str:
        return json.dumps([self.name, dict(sorted(self.labels.items()))])

    @property
    def subject(self) -> str:
        """What it is about, whatever its windows and its severity are."""
        about = {name: value for name, value in self.labels.items() if name not in _HIDDEN}
        return json.dumps([self.name, dict(sorted(about.items()))])

    @property
    def notification(self) -> str:
        """What people get it in: all of one urgency on one service are together (`components/observability/routes.py`)."""
        if "namespace" not in self.labels:
            return json.dumps([self.severity, self.subject])
        return json.dumps([self.severity, self.labels["namespace"], self.labels.get("model", "")])


def raised(port: int) -> tuple[RaisedAlert, ...] | None:
    """Alerts that hold now, but the heartbeat; None where Prometheus does not answer."""
    try:
        answer = LoopbackEndpoint(port=port).call("GET", "/api/v1/rules?type=alert")
        return alerts_of(json.loads(answer.body)) if answer.status == http.client.OK else None
    except (OSError, ValueError, http.client.HTTPException):
        return None


def alerts_of(rules: Mapping[str, Any]) -> tuple[RaisedAlert, ...]:
    """From the answer of Prometheus' `/api/v1/rules`."""
    found = [
        _raised(each, float(rule["duration"]))
        for group in rules["data"]["groups"]
        for rule in group["rules"]
        for each in rule.get("alerts") or ()
        if each["labels"].get("severity") != "heartbeat"
    ]
    return tuple(sorted(found, key=lambda each: (each.since, each.key)))


def _raised(alert: Mapping[str, Any], hold_seconds: float) -> RaisedAlert:
    since = datetime.fromisoformat(alert["activeAt"])
    labels = dict(alert["labels"])
    return RaisedAlert(
        name=labels["alertname"],
        severity=labels.get("severity", ""),
        labels=labels,
        annotations=alert["annotations"],
        since=since,
        told_at=since + timedelta(seconds=hold_seconds),
        firing=alert.get("state") == "firing",
    )


@dataclass(frozen=True, kw_only=True)
class ToldCause:
    """Why a page fires, as people get it beside the page. `key`: what is equal when the same is said again."""

    key: str
    summary: str
    description: str

    @property
    def lines(self) -> list[str]:
        return [f"CAUSE {self.summary}", *(f"  {line}" for line in self.description.splitlines())]


def causes(port: int) -> tuple[ToldCause, ...]:
    """What Alertmanager was given; nothing where it does not answer."""
    query = urlencode({"filter": f'alertname="{CAUSE_ALERT}"'})
    try:
        answer = LoopbackEndpoint(port=port).call("GET", f"/api/v2/alerts?{query}")
        return causes_of(json.loads(answer.body)) if answer.status == http.client.OK else ()
    except (OSError, ValueError, http.client.HTTPException):
        return ()


def causes_of(alerts: Iterable[Mapping[str, Any]]) -> tuple[ToldCause, ...]:
    """From the answer of Alertmanager's `/api/v2/alerts`."""
    found = [
        ToldCause(
            key=json.dumps(dict(sorted(each["labels"].items()))),
            summary=each["annotations"].get("summary", ""),
            description=each["annotations"].get("description", ""),
        )
        for each in alerts
    ]
    return tuple(sorted(found, key=lambda each: each.key))


def once_each(alerts: Iterable[RaisedAlert]) -> Sequence[RaisedAlert]:
    """Of alerts that differ in their windows or severity alone, the one that is told first."""
    kept: dict[str, RaisedAlert] = {}
    for each in sorted(alerts, key=lambda each: each.told_at):
        kept.setdefault(each.subject, each)
    return list(kept.values())


def page(alert: RaisedAlert, *, earlier: bool = False) -> list[str]:
    """The notification as whoever is on call gets it. `earlier`: it held before what is rehearsed."""
    where = ", ".join(f"{name} {value}" for name, value in sorted(alert.labels.items()) if name not in _HIDDEN)
    links = [f"  {_called(name)}: {url}" for name, url in sorted(alert.annotations.items()) if name.endswith("_url")]
    if "dashboard_url" not in alert.annotations:
        links.append(f"  dashboard: headway sandbox dashboards {dashboard(alert.labels)}")
    more = alert.annotations.get("description")
    since = f"{alert.since.astimezone(UTC):%H:%M:%SZ}{', before this was broken' if earlier else ''}"
    return [
        _headline(alert),
        *([f"  {more}"] if more else []),
        *([f"  {where}"] if where else []),
        *links,
        f"  holds since {since}; people are told at {alert.told_at.astimezone(UTC):%H:%M:%SZ}"
        + ("" if alert.firing else ", if it holds until then"),
    ]


def joined(alert: RaisedAlert, *, earlier: bool = False) -> str:
    """One that comes in a notification that people have already, in a line."""
    runbook = alert.annotations.get("runbook_url", "")
    when = f"told at {alert.told_at.astimezone(UTC):%H:%M:%SZ}{', held before this was broken' if earlier else ''}"
    return f"  with it, {when}: {_headline(alert)}" + (f" ({runbook})" if runbook else "")


def _headline(alert: RaisedAlert) -> str:
    return f"{alert.severity.upper()} {alert.name}: {alert.annotations.get('summary', '')}"


def dashboard(labels: Mapping[str, str]) -> str:
    """Which dashboard the alert's link opens in Grafana: the model's own for what its contract says, else that of the layer."""
    if {"receiver", "tenant", "model"} <= labels.keys():
        return f"{labels['tenant']}/{labels['model']}"
    layer = labels.get("layer", FailureLayer.PLATFORM)
    return "overview" if layer == FailureLayer.PLATFORM else layer


def _called(annotation: str) -> str:
    return annotation.removesuffix("_url").replace("_", " ")
