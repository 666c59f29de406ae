"""Where an alert leads in Grafana, as annotations: the dashboard to look at, and the logs of what it is about. Pure.

Nothing without Grafana's address, which an environment's stack file has: how people reach it is the environment's own.
"""

from collections.abc import Mapping
from urllib.parse import urlencode

from components.naming import distinct
from headway.wire import TRAIL

UID_LIMIT = 40
"""Of Grafana."""


def service_uid(tenant: str, model: str) -> str:
    """Names the dashboard of one model service."""
    return distinct(f"headway-{tenant}", model, limit=UID_LIMIT)


def leads(grafana: str | None, dashboard: str, about: Mapping[str, str] | None = None) -> dict[str, str]:
    """`dashboard`: its uid. `about`: variables of the page of requests and logs; without them no logs are linked."""
    if grafana is None:
        return {}
    logs = {"logs_url": f"{grafana}/d/{TRAIL}?{urlencode({f'var-{name}': value for name, value in about.items()})}"} if about else {}
    return {"dashboard_url": f"{grafana}/d/{dashboard}", **logs}
