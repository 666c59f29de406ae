"""Requests to a service that may have no replica: the gateway holds them until one serves. Pure.

The script is the platform's (`components/platform/gateway_scripts.py`, ACTIVATE), and so is what it asks
(`components/platform/activator.py`); where an environment runs none of its loops, requests pass at once, and get 503.
"""

from typing import Any

from components.labels import labels
from components.model_service.workload import progress_seconds
from components.platform import activator
from components.platform.gateway_filters import ACTIVATE
from components.platform.mesh import SILENT_SECONDS
from components.tenant.gateway_filters import gateway_data, host_data
from components.tenant.surroundings import Surroundings
from headway.contract.model import Model
from headway.contract.pool import Pool

_MARGIN_SECONDS = 10
"""A stream in which nobody says anything for `SILENT_SECONDS` is ended by the gateway."""
HELD_BYTES = 8 * 2**20
"""Of one body, as far as the contract allows it. Envoy's own is 1 MiB, and of what is longer it reads no more meanwhile: the request never
arrives whole and is answered with 408 after `REQUEST_SECONDS`, as one without any body is with 504 (`FilterManager::decodeHeaders` and
`decodeData` in its source/common/http/filter_manager.cc, `disarmRequestTimeout`). It is what Envoy keeps for a retry too.
"""


def holding(tenant: str, model: Model, pool: Pool, surroundings: Surroundings) -> dict[str, Any] | None:
    """What the gateway knows of a service that may be scaled to zero; None for any other. A request waits as long as a replica's longest
    start, through a new node."""
    if model.scaling.min_replicas:
        return None
    seconds = min(progress_seconds(model, pool), SILENT_SECONDS - _MARGIN_SECONDS)
    kept = min(int(model.envelope.largest_request.body), HELD_BYTES)
    asked = {"path": activator.path(tenant, model.name, seconds), "milliseconds": seconds * 1000, "bytes": kept}
    patches = host_data(surroundings.public_hosts(tenant, model.name), {ACTIVATE: asked}, request_body_buffer_limit=kept)
    return gateway_data(f"activate.{tenant}.{model.name}", patches, surroundings, labels("limit", tenant=tenant, model=model.name))
