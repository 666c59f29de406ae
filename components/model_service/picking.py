"""A language model whose gateway asks the platform's endpoint picker which engine answers a prompt. Pure.

The route chooses the version, by its weights; the picker then names an endpoint of that version. So weights, retries, fallback, experiments,
copies and evidence are those of any service, and a host's data do not change with a release.
"""

from typing import Any

from components.labels import labels
from components.platform.gateway_filters import picks
from components.tenant.gateway_filters import gateway_data, host_config
from components.tenant.surroundings import Surroundings
from headway.contract.model import Model
from headway.contract.routing import Routing


def asking(tenant: str, model: Model, surroundings: Surroundings) -> dict[str, Any] | None:
    """What makes the gateway ask for a service; None for a service that does not want it."""
    if model.routing is not Routing.ENDPOINT_PICKER:
        return None
    patches = host_config(surroundings.public_hosts(tenant, model.name), picks())
    return gateway_data(f"pick.{tenant}.{model.name}", patches, surroundings, labels("route", tenant=tenant, model=model.name))
