"""Where alerts go: a tenant's to its own people, all of them to the platform's, each receiver a webhook that stands in
a secret.

A receiver `vision-oncall` reads the key `url` of the secret `alerts-vision-oncall` in the namespace of its routes.
The trap: the operator drops an AlertmanagerConfig whose secret is missing, whole; that tenant's alerts then reach
the platform's people only.

What explains an alert is an alert too (`headway/diagnosis/cause_alert.py`): it goes to whoever got the alert, and all of one cause in one place
is one notification.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from components.addons.prometheus import NAMESPACE
from components.labels import labels
from components.manifests import object_
from components.naming import physical
from headway.contract.model import Model
from headway.wire import CAUSE_GROUP, CAUSE_SEVERITY, CAUSE_URGENCY, DIAGNOSIS_NAMESPACE, DIAGNOSIS_PORT

PAGE_REPEAT, TICKET_REPEAT, HEARTBEAT_REPEAT = "1h", "1d", "5m"
PAGE_INTERVAL, TICKET_INTERVAL = "1m", "5m"
"""How long whatever joins a notification waits to be told. A page may join because of another cause, so it hardly waits."""
DIAGNOSIS_REPEAT, DIAGNOSIS_TICKET_REPEAT = "5m", "1h"
"""How often the loop is asked again why a page or a ticket fires: what it said lasts twice as long."""
CAUSE_WAIT, DIAGNOSIS_WAIT = "10s", "5s"
"""For what else a cause explains, and for what else one service's pages are. People hear of a cause within the first minute."""
PLATFORM_PAGE, PLATFORM_TICKET, HEARTBEAT = "platform-oncall", "platform-tickets", "heartbeat"
_GROUP = ["alertname", "namespace", "model"]
_SERVICE = ["namespace", "model"]
"""All pages of one service are one notification: a fault of its server breaks its promises, restarts its pods and leaves
replicas missing. They are not inhibited by one another, because each may have a cause of its own."""
_URGENT = ["severity", *_SERVICE]
"""For a receiver that gets tickets too: a page does not hide in one."""

DIAGNOSIS = "diagnosis"
_CAUSE = {"name": "severity", "value": CAUSE_SEVERITY, "matchType": "="}
_EXPLAINS: Mapping[str, Any] = {"groupBy": [*CAUSE_GROUP, CAUSE_URGENCY], "groupWait": CAUSE_WAIT}
_OF_TENANT: Sequence[Mapping[str, Any]] = [
    {"matchers": [_CAUSE, {"name": CAUSE_URGENCY, "value": "ticket", "matchType": "="}], "repeatInterval": TICKET_REPEAT, **_EXPLAINS},
    {"matchers": [_CAUSE], **_EXPLAINS},
    {"matchers": [{"name": "severity", "value": "ticket", "matchType": "="}], "repeatInterval": TICKET_REPEAT},
]
"""What one receiver of a tenant is told otherwise than a page: by what explains, and less often of what can wait."""
_DIAGNOSIS_URL = f"http://{DIAGNOSIS_NAMESPACE}.{DIAGNOSIS_NAMESPACE}.svc.cluster.local:{DIAGNOSIS_PORT}/alerts"

_INHIBIT = [
    # A page that says that it burns makes the ticket that says that it smoulders superfluous.
    {
        "sourceMatch": [{"name": "severity", "value": "page"}],
        "targetMatch": [{"name": "severity", "value": "ticket"}],
        "equal": ["alertname", "namespace", "model", "objective"],
    },
]
# Nothing on a node that is not ready can be asked. Telemetry that stays away once it is ready again is told then.
_INHIBIT_OF_NODES = [
    {
        "sourceMatch": [{"name": "alertname", "value": "NodeNotReady"}],
        "targetMatch": [{"name": "alertname", "value": "GpuTelemetrySilent"}],
        "equal": ["node"],
    },
]


def secret_name(receiver: str) -> str:
    """The secret whose key `url` is the receiver's webhook."""
    return physical("alerts", receiver)


def platform_routes(*, diagnosed: bool = False) -> dict[str, Any]:
    """Every alert, by urgency; the heartbeat apart. `diagnosed`: whether a loop runs that is asked why a page or a ticket fires."""
    of_service = [{"name": "namespace", "value": "", "matchType": "!="}]
    asks = [
        _route(DIAGNOSIS, {"severity": severity}, group_by=_SERVICE, repeat=repeat, goes_on=True, groupWait=DIAGNOSIS_WAIT)
        for severity, repeat in (("page", DIAGNOSIS_REPEAT), ("ticket", DIAGNOSIS_TICKET_REPEAT))
    ]
    explains: dict[str, Any] = {"group_by": CAUSE_GROUP, "groupWait": CAUSE_WAIT}
    of_ticket = {"severity": CAUSE_SEVERITY, CAUSE_URGENCY: "ticket"}
    routes = [
        *(asks if diagnosed else []),
        _route(HEARTBEAT, {"severity": "heartbeat"}, group_by=["alertname"], repeat=HEARTBEAT_REPEAT, interval=TICKET_INTERVAL),
        _route(PLATFORM_PAGE, {"severity": "page"}, group_by=_SERVICE, repeat=PAGE_REPEAT, more=of_service),
        _route(PLATFORM_PAGE, {"severity": "page"}, group_by=["layer", "alertname"], repeat=PAGE_REPEAT),
        _route(PLATFORM_TICKET, of_ticket, repeat=TICKET_REPEAT, **explains),
        _route(PLATFORM_PAGE, {"severity": CAUSE_SEVERITY}, repeat=PAGE_REPEAT, **explains),
    ]
    return _config(
        "platform",
        NAMESPACE,
        labels("alert-routes"),
        {"receiver": PLATFORM_TICKET, "groupBy": ["layer", *_GROUP], "groupWait": "30s", "repeatInterval": TICKET_REPEAT, "routes": routes},
        (PLATFORM_PAGE, PLATFORM_TICKET, HEARTBEAT),
        asked=_DIAGNOSIS_URL if diagnosed else None,
        inhibits=[*_INHIBIT, *_INHIBIT_OF_NODES],
    )


def tenant_routes(tenant: str, models: Sequence[Model]) -> dict[str, Any] | None:
    """A tenant's alerts, to the receiver that the model's contract names; those of no model to all of them. None
    without models.
    """
    receivers = sorted({model.observability.receiver for model in models})
    if not receivers:
        return None
    routes = list(_OF_TENANT)
    of_models = [_route(name, {"receiver": name}, group_by=_URGENT, repeat=PAGE_REPEAT, routes=routes) for name in receivers]
    of_none = [_route(name, {"receiver": ""}, group_by=_URGENT, repeat=PAGE_REPEAT, goes_on=True, routes=routes) for name in receivers]
    root = {
        "receiver": receivers[0],
        "groupBy": _URGENT,
        "groupWait": "30s",
        "repeatInterval": PAGE_REPEAT,
        "routes": [*of_models, *of_none],
    }
    return _config("alerts", tenant, labels("alert-routes", tenant=tenant), root, receivers)


def _route(
    receiver: str,
    matches: Mapping[str, str],
    *,
    group_by: Sequence[str],
    repeat: str,
    interval: str = PAGE_INTERVAL,
    more: Sequence[Mapping[str, str]] = (),
    goes_on: bool = False,
    **special: Any,
) -> dict[str, Any]:
    return {
        "receiver": receiver,
        "groupBy": list(group_by),
        "groupWait": "30s",
        "groupInterval": interval,
        "repeatInterval": repeat,
        "matchers": [*({"name": name, "value": value, "matchType": "="} for name, value in sorted(matches.items())), *more],
        **({"continue": True} if goes_on else {}),
        **special,
    }


def _config(
    name: str,
    namespace: str,
    marks: Mapping[str, str],
    route: Mapping[str, Any],
    receivers: Sequence[str],
    inhibits: Sequence[Mapping[str, Any]] = _INHIBIT,
    asked: str | None = None,
) -> dict[str, Any]:
    return object_(
        "monitoring.coreos.com/v1alpha1",
        "AlertmanagerConfig",
        name,
        namespace=namespace,
        labels=marks,
        spec={
            "inhibitRules": list(inhibits),
            "receivers": [
                {
                    "name": receiver,
                    "webhookConfigs": [{"urlSecret": {"name": secret_name(receiver), "key": "url"}, "sendResolved": True}],
                }
                for receiver in receivers
            ]
            + ([{"name": DIAGNOSIS, "webhookConfigs": [{"url": asked, "sendResolved": True}]}] if asked else []),
            "route": dict(route),
        },
    )
