"""The objects by which the platform watches itself and a tenant's models: rules, routes, dashboards.

A ConfigMap holds at most 1 MiB, so each dashboard of the platform has its own, and a tenant's models share one.
"""

from collections.abc import Sequence
from typing import Any

from components import rbac
from components.addons.prometheus import DASHBOARD_LABEL, DASHBOARDS_READER, NAMESPACE
from components.labels import labels
from components.manifests import Manifest, object_
from components.observability import alerts, recording, routes, trail
from components.observability.layers import LAYERS
from components.observability.overview import OVERVIEW
from components.observability.service import service_dashboard
from headway.contract.model import Model


def rights() -> tuple[Manifest, ...]:
    """What Grafana may read to find dashboards; before the chart, which binds it."""
    role = rbac.role(DASHBOARDS_READER, rbac.rules(("", ("configmaps",), ("get", "list", "watch"))), labels("dashboard"))
    return (Manifest(role="dashboards-reader", body=role),)


def platform_manifests(runbooks: str, grafana: str | None = None, *, environment: str, diagnosed: bool = False) -> tuple[Manifest, ...]:
    """Recorded signals, alerts with `runbooks` as the place of their runbooks and `grafana` as that of dashboards, routes,
    and the dashboards: of all layers, and of requests. `diagnosed`: whether a loop runs that is asked why a page fires.
    """
    pages = (OVERVIEW, *LAYERS, trail.PAGE)
    return (
        Manifest(role="signals", body=_rules("headway-signals", recording.groups())),
        Manifest(role="alerts", body=_rules("headway-alerts", alerts.groups(runbooks, grafana, environment=environment))),
        Manifest(role="routes", body=routes.platform_routes(diagnosed=diagnosed)),
        *(Manifest(role=page.uid, body=_dashboards(page.uid, NAMESPACE, None, {page.uid: page.json()})) for page in pages),
    )


def tenant_manifests(tenant: str, models: Sequence[Model]) -> list[tuple[str, dict[str, Any]]]:
    """A dashboard for each model and the routes of the tenant's alerts, by role; nothing without models."""
    found = routes.tenant_routes(tenant, models)
    if found is None:
        return []
    pages = [service_dashboard(tenant, model) for model in models]
    # Grafana keeps them all in one folder, by the names that they have here: a model's own would be another tenant's too.
    return [("dashboards", _dashboards("dashboards", tenant, tenant, {page.uid: page.json() for page in pages})), ("alert-routes", found)]


def _rules(name: str, groups: list[dict[str, Any]]) -> dict[str, Any]:
    return object_("monitoring.coreos.com/v1", "PrometheusRule", name, namespace=NAMESPACE, labels=labels("rules"), spec={"groups": groups})


def _dashboards(name: str, namespace: str, tenant: str | None, pages: dict[str, str]) -> dict[str, Any]:
    data = {f"{page}.json": text for page, text in sorted(pages.items())}
    return object_(
        "v1", "ConfigMap", name, namespace=namespace, labels={**labels("dashboard", tenant=tenant), **DASHBOARD_LABEL}, data=data
    )
