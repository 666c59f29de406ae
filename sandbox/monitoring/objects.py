"""The cluster's monitoring objects as what Prometheus and Alertmanager read: the part of the Prometheus operator that
the sandbox needs.

Pure. It knows the fields that the platform writes and refuses every other by name, so that nothing is silently not
scraped. Only pods behind which processes stand have an address that answers (`sandbox/traffic/pod_addresses.py`); all
others are dropped, not shown as down.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# 10.128.0.0/10 and the loopback address of the process behind it, as sandbox/traffic/pod_addresses.py pairs them.
SERVED = r"10\.(12[89]|1[3-8]\d|19[01])\.(\d+\.\d+:\d+)"
LOOPBACK = "127.$1.$2"

_OF_PAGES = {
    "bodySizeLimit": "body_size_limit",
    "fallbackScrapeProtocol": "fallback_scrape_protocol",
    "labelLimit": "label_limit",
    "labelNameLengthLimit": "label_name_length_limit",
    "labelValueLengthLimit": "label_value_length_limit",
    "sampleLimit": "sample_limit",
}
"""By the names of the operator and of Prometheus."""
_POD_MONITOR = {"selector", "podTargetLabels", "podMetricsEndpoints", *_OF_PAGES}
_ENDPOINT = {"port", "path", "interval", "metricRelabelings", "scrapeTimeout"}
_RELABELLING = {"action": "action", "regex": "regex", "sourceLabels": "source_labels"}
"""Of series, by the names of the operator and of Prometheus."""
_ALERTING = {"route", "receivers", "inhibitRules"}
_ROUTE = {"receiver", "groupBy", "groupWait", "groupInterval", "repeatInterval", "matchers", "continue", "routes"}


@dataclass(frozen=True, kw_only=True)
class UnsupportedObject:
    """An object that cannot be modelled here, and why."""

    object: str
    reason: str


def scrape_configs(monitor: Mapping[str, Any], kubeconfig: Path, interval: str) -> list[dict[str, Any]]:
    """One job for each endpoint of a PodMonitor, labelled as the operator labels it. ValueError names a field that is
    not modelled.

    `interval` replaces the monitor's own: the sandbox scrapes more often than production.
    """
    meta, spec = monitor["metadata"], monitor["spec"]
    _only("spec", spec, _POD_MONITOR)
    _only("spec.selector", spec["selector"], {"matchExpressions", "matchLabels"})
    return [
        _scrape_config(meta, spec, number, endpoint, kubeconfig, interval) for number, endpoint in enumerate(spec["podMetricsEndpoints"])
    ]


def _requirements(selector: Mapping[str, Any]) -> list[str]:
    """A label selector in the words of the API's query parameter."""
    found = [f"{key}={value}" for key, value in sorted(selector.get("matchLabels", {}).items())]
    for each in selector.get("matchExpressions", ()):
        key, values = each["key"], ",".join(sorted(each.get("values", ())))
        words = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": key, "DoesNotExist": f"!{key}"}
        found.append(words[each["operator"]])
    return found


def _scrape_config(
    meta: Mapping[str, Any], spec: Mapping[str, Any], number: int, endpoint: Mapping[str, Any], kubeconfig: Path, interval: str
) -> dict[str, Any]:
    _only(f"spec.podMetricsEndpoints[{number}]", endpoint, _ENDPOINT)
    namespace, name = meta["namespace"], meta["name"]
    picks = ",".join(_requirements(spec["selector"]))
    copied = [
        {"action": "replace", "source_labels": [f"__meta_kubernetes_{source}"], "target_label": target}
        for target, source in (
            ("container", "pod_container_name"),
            ("namespace", "namespace"),
            ("pod", "pod_name"),
        )
    ]
    wanted = [
        {"action": "replace", "source_labels": [f"__meta_kubernetes_pod_label_{_plain(label)}"], "target_label": _plain(label)}
        for label in spec.get("podTargetLabels", ())
    ]
    return {
        "job_name": f"podMonitor/{namespace}/{name}/{number}",
        "metrics_path": endpoint.get("path", "/metrics"),
        "scrape_interval": interval,
        "scrape_timeout": interval,
        **{name: spec[key] for key, name in _OF_PAGES.items() if key in spec},
        "kubernetes_sd_configs": [
            {
                "role": "pod",
                "kubeconfig_file": str(kubeconfig),
                "namespaces": {"names": [namespace]},
                "selectors": [{"role": "pod", "label": picks}],
            }
        ],
        "relabel_configs": [
            {"action": "drop", "source_labels": ["__meta_kubernetes_pod_phase"], "regex": "(Failed|Succeeded)"},
            {"action": "keep", "source_labels": ["__meta_kubernetes_pod_container_port_name"], "regex": endpoint["port"]},
            {"action": "keep", "source_labels": ["__address__"], "regex": SERVED},
            {
                "action": "replace",
                "source_labels": ["__address__"],
                "regex": SERVED,
                "replacement": LOOPBACK,
                "target_label": "__address__",
            },
            *copied,
            *wanted,
            {"action": "replace", "replacement": f"{namespace}/{name}", "target_label": "job"},
            {"action": "replace", "replacement": endpoint["port"], "target_label": "endpoint"},
        ],
        "metric_relabel_configs": [
            _relabelling(rule, f"spec.podMetricsEndpoints[{number}].metricRelabelings[{place}]")
            for place, rule in enumerate(endpoint.get("metricRelabelings", ()))
        ],
    }


def _relabelling(rule: Mapping[str, Any], path: str) -> dict[str, Any]:
    _only(path, rule, set(_RELABELLING))
    return {_RELABELLING[key]: value for key, value in rule.items()}


def rule_file(rule: Mapping[str, Any]) -> dict[str, Any]:
    """A PrometheusRule as Prometheus' own file: the same groups, with names that are unique in the cluster."""
    meta = rule["metadata"]
    return {"groups": [{**group, "name": f"{meta['namespace']}/{meta['name']}/{group['name']}"} for group in rule["spec"]["groups"]]}


def alerting(
    configs: Sequence[Mapping[str, Any]], everywhere: str, inbox: str, diagnosis: str | None = None
) -> tuple[dict[str, Any], list[UnsupportedObject]]:
    """AlertmanagerConfigs as one configuration, and those that are not modelled.

    An object's routes see alerts of its own namespace alone, those of namespace `everywhere` see all, as the operator's
    OnNamespaceExceptForAlertmanagerNamespace has it. Receivers become paths of the webhook `inbox`: nothing leaves the
    machine. One that is no secret is the platform's loop, which is `diagnosis` here.
    """
    routes: list[dict[str, Any]] = []
    inhibits: list[dict[str, Any]] = []
    names: dict[str, bool] = {}
    refused: list[UnsupportedObject] = []
    # Tenants' own routes first: the platform's catch everything.
    for config in sorted(configs, key=lambda each: (each["metadata"]["namespace"] == everywhere, _key(each))):
        try:
            route, rules, receivers = _alerting(config, everywhere)
        except ValueError as unknown:
            refused.append(UnsupportedObject(object=_key(config), reason=str(unknown)))
            continue
        routes.append(route)
        inhibits.extend(rules)
        names.update(receivers)
    receivers = [
        {"name": name, "webhook_configs": [{"url": diagnosis if ours and diagnosis else f"{inbox}/{name}", "send_resolved": True}]}
        for name, ours in sorted(names.items())
    ]
    whole = {
        "route": {"receiver": "nobody", "group_by": ["alertname"], "routes": routes},
        "receivers": [{"name": "nobody"}, *receivers],
        "inhibit_rules": inhibits,
    }
    return whole, refused


def _alerting(config: Mapping[str, Any], everywhere: str) -> tuple[dict[str, Any], list[dict[str, Any]], dict[str, bool]]:
    spec, prefix = config["spec"], _key(config)
    _only("spec", spec, _ALERTING)
    own = [] if config["metadata"]["namespace"] == everywhere else [f'namespace="{config["metadata"]["namespace"]}"']
    route = _route(spec["route"], prefix)
    route["matchers"] = [*own, *route.get("matchers", [])]
    route["continue"] = True
    inhibits = [
        {
            "source_matchers": [*own, *map(_matcher, rule["sourceMatch"])],
            "target_matchers": [*own, *map(_matcher, rule["targetMatch"])],
            "equal": list(rule.get("equal", ())),
        }
        for rule in spec.get("inhibitRules", ())
    ]
    return (
        route,
        inhibits,
        {
            f"{prefix}/{receiver['name']}": any("url" in each for each in receiver.get("webhookConfigs", ()))
            for receiver in spec.get("receivers", ())
        },
    )


def _route(route: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    _only("spec.route", route, _ROUTE)
    found: dict[str, Any] = {"receiver": f"{prefix}/{route['receiver']}"} if "receiver" in route else {}
    for theirs, ours in (("groupWait", "group_wait"), ("groupInterval", "group_interval"), ("repeatInterval", "repeat_interval")):
        if theirs in route:
            found[ours] = route[theirs]
    if "groupBy" in route:
        found["group_by"] = list(route["groupBy"])
    if "matchers" in route:
        found["matchers"] = [_matcher(matcher) for matcher in route["matchers"]]
    if "continue" in route:
        found["continue"] = route["continue"]
    if "routes" in route:
        found["routes"] = [_route(child, prefix) for child in route["routes"]]
    return found


def _matcher(matcher: Mapping[str, Any]) -> str:
    return f'{matcher["name"]}{matcher.get("matchType", "=")}"{matcher["value"]}"'


def _key(thing: Mapping[str, Any]) -> str:
    return f"{thing['metadata']['namespace']}/{thing['metadata']['name']}"


def _only(path: str, found: Mapping[str, Any], known: set[str]) -> None:
    unknown = sorted(set(found) - known)
    if unknown:
        raise ValueError(f"the sandbox does not model {', '.join(f'{path}.{name}' for name in unknown)}")


def _plain(label: str) -> str:
    return re.sub(r"[^A-Za-z0-9_]", "_", label)
