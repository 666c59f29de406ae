"""The gateway's overload control: who is sent to the fallback, and for how long. Pure.

The script is the platform's (`components/platform/gateway_scripts.py`, OVERLOAD). From a full replica's answer on,
the gateway proxy sends the priorities that the contract names to the fallback, for as long as the contract tells
callers to wait; then they try the model again. No controller, no rights, nothing that may be away. Every worker of
every proxy learns for itself, from an answer that its caller still gets; so at the start of an overload each lets
one request through to a 503.
"""

from typing import Any

from components.labels import labels
from components.platform.gateway_filters import OVERLOAD
from components.tenant.gateway_filters import gateway_data, host_data
from components.tenant.surroundings import Surroundings
from headway.contract.model import Model


def control(tenant: str, model: Model, surroundings: Surroundings) -> dict[str, Any] | None:
    """What the gateway knows of a model with a fallback; None for a model without."""
    if model.degradation.fallback is None:
        return None
    ladder = {
        "service": f"{tenant}/{model.name}",
        "model": model.name,
        "moved": {priority.value: True for priority in sorted(model.degradation.fallback.priorities)},
        "hold": model.degradation.retry_after.whole_seconds,
    }
    patches = host_data(surroundings.public_hosts(tenant, model.name), {OVERLOAD: ladder})
    found = labels("limit", tenant=tenant, model=model.name)
    return gateway_data(f"overload.{tenant}.{model.name}", patches, surroundings, found)
