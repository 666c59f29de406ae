"""The gateway's overload control: who sets `x-degrade`, on what sign, and for how long. Pure.

The sign is a full replica's own answer: its proxy marks what it turns away (`x-envoy-overloaded`). From then on the gateway proxy sends the
priorities that the contract names to the fallback, for as long as the contract tells callers to wait; then they try the model again.
No controller, no rights, nothing that may be away. The trap: every worker of every proxy learns for itself, from an answer that its
caller still gets; so at the start of an overload each lets one request through to a 503.
"""

from typing import Any

from components.labels import labels
from components.model_service.routing import DEGRADE_HEADER, PRIORITY_HEADER, public_hosts
from components.tenant.gateway_filters import gateway_filters, lua_set
from components.tenant.surroundings import Surroundings
from headway.contract.model import Model

_STATE = "headway.overload"

_CODE = """
local hosts, moved, full_until = {%(hosts)s}, {%(moved)s}, 0

function envoy_on_request(handle)
  local headers = handle:headers()
  local host = (headers:get(":authority") or ""):lower():gsub(":%%d+$", "")
  if not hosts[host] then return end
  handle:streamInfo():dynamicMetadata():set("%(state)s", "model", "%(key)s")
  if os.time() < full_until and moved[headers:get("%(priority)s") or ""] then
    headers:replace("%(degrade)s", "%(model)s")
    handle:clearRouteCache()
  end
end

function envoy_on_response(handle)
  local asked = handle:streamInfo():dynamicMetadata():get("%(state)s")
  if not asked or asked["model"] ~= "%(key)s" then return end
  local headers = handle:headers()
  if headers:get("x-envoy-overloaded") and not headers:get("x-degraded") then full_until = os.time() + %(hold)d end
end
"""


def control(tenant: str, model: Model, surroundings: Surroundings) -> dict[str, Any] | None:
    """The filter of a model with a fallback in each proxy of the gateway; None for a model without."""
    if model.degradation.fallback is None:
        return None
    code = _CODE % {
        "hosts": lua_set(public_hosts(tenant, model.name, surroundings)),
        "moved": lua_set(sorted(priority.value for priority in model.degradation.fallback.priorities)),
        "state": _STATE,
        "key": f"{tenant}/{model.name}",
        "priority": PRIORITY_HEADER,
        "degrade": DEGRADE_HEADER,
        "model": model.name,
        "hold": model.degradation.retry_after.whole_seconds,
    }
    typed = {"@type": "type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua", "default_source_code": {"inline_string": code}}
    name = f"overload.{tenant}.{model.name}"
    return gateway_filters(name, [(f"headway.{name}", typed)], surroundings, labels("limit", tenant=tenant, model=model.name))
