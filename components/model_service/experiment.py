"""The gateway's part of an A/B release: which users meet the new version, decided by a bucket of their id. Pure.

The filter reads the verified token's claim, computes the bucket as `headway.contract.assignment` does, marks requests of the new version's
users with `x-experiment` for the route's `split` rule, and leaves experiment, arm and bucket for the access log; the user goes nowhere. Istio
keeps a verified token's claims where it looks for them (EnvoyJwtFilterPayload in istiod's filters). The trap: a bucket that comes out
otherwise here than in Python divides users that nobody can find again; so the real proxy is asked the same vectors.
"""

from typing import Any

from components.labels import labels
from components.model_service.routing import EXPERIMENT_HEADER, public_hosts
from components.model_service.traffic import Split
from components.tenant.gateway_filters import gateway_filters, lua_set
from components.tenant.surroundings import Surroundings
from headway.contract.assignment import BUCKETS, buckets_of
from headway.contract.model import Model

STATE = "headway.experiment"
"""Namespace of dynamic metadata: `experiment`, `arm`, `bucket`."""

BUCKET = f"""
local function times(word, by)
  return bit.tobit(bit.band(word, 0xffff) * by + bit.lshift(bit.rshift(word, 16) * by, 16))
end

local function scrambled(word)
  return times(bit.rol(times(word, 0xcc9e2d51), 15), 0x1b873593)
end

local function bucket(experiment, user)
  local key = experiment .. "\\n" .. user
  local mixed, length = 0, #key
  local whole = length - length % 4
  for at = 1, whole, 4 do
    local a, b, c, d = key:byte(at, at + 3)
    local word = bit.bor(a, bit.lshift(b, 8), bit.lshift(c, 16), bit.lshift(d, 24))
    mixed = bit.tobit(bit.rol(bit.bxor(mixed, scrambled(word)), 13) * 5 + 0xe6546b64)
  end
  local a, b, c = key:byte(whole + 1, length)
  if a then mixed = bit.bxor(mixed, scrambled(bit.bor(a, bit.lshift(b or 0, 8), bit.lshift(c or 0, 16)))) end
  mixed = bit.bxor(mixed, length)
  mixed = times(bit.bxor(mixed, bit.rshift(mixed, 16)), 0x85ebca6b)
  mixed = times(bit.bxor(mixed, bit.rshift(mixed, 13)), 0xc2b2ae35)
  return bit.bxor(mixed, bit.rshift(mixed, 16)) % 4294967296 % {BUCKETS}
end
"""
"""`headway.contract.assignment.bucket` in the Lua of Envoy (LuaJIT: numbers are doubles, `bit` has 32 bits)."""

_FILTER = """
local hosts = {%(hosts)s}

local function user_of(claim)
  if type(claim) == "number" and claim %% 1 == 0 and math.abs(claim) < 2 ^ 53 then return string.format("%%.0f", claim) end
  if type(claim) == "string" and claim ~= "" then return claim end
end

function envoy_on_request(handle)
  local headers = handle:headers()
  local host = (headers:get(":authority") or ""):lower():gsub(":%%d+$", "")
  if not hosts[host] then return end
  local told = handle:streamInfo():dynamicMetadata()
  local token = told:get("envoy.filters.http.jwt_authn")
  local user = token and token["payload"] and user_of(token["payload"]["%(claim)s"])
  if not user then return end
  local found, arm = bucket("%(experiment)s", user), "stable"
  if found < %(below)d then
    arm = "canary"
    headers:replace("%(header)s", "%(experiment)s")
    handle:clearRouteCache()
  end
  told:set("%(state)s", "experiment", "%(experiment)s")
  told:set("%(state)s", "arm", arm)
  told:set("%(state)s", "bucket", found)
end
"""


def division(tenant: str, model: Model, split: Split, surroundings: Surroundings) -> dict[str, Any]:
    """The filter of a running experiment in each proxy of the gateway."""
    code = BUCKET + _FILTER % {
        "hosts": lua_set(public_hosts(tenant, model.name, surroundings)),
        "claim": split.user_claim,
        "experiment": split.experiment,
        "below": buckets_of(split.percent),
        "header": EXPERIMENT_HEADER,
        "state": STATE,
    }
    typed = {"@type": "type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua", "default_source_code": {"inline_string": code}}
    return gateway_filters(
        f"experiment.{tenant}.{model.name}",
        [(f"headway.experiment.{tenant}.{model.name}", typed)],
        surroundings,
        labels("route", tenant=tenant, model=model.name),
    )
