"""Samples of a model's requests, taken by each replica's own proxy: which, which fields of them, and where they go.
Pure.

What is kept and in which form is said in `headway.contract.sampling`. A filter behind the one that limits bodies
prunes the JSON of request and answer to the fields that the contract names, and leaves one line where only the
samples' log looks. Whatever the filter cannot read it must not keep, and whatever it does must not hold a request
up: answers are copied as they pass, and an error of the filter costs the sample. What Envoy hands to a filter is
gone once the filter has waited for a body: strings are taken first.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from components.addons.istio import ACCESS_LOG, SAMPLES_STATE
from components.envoy_filter import lua
from headway.contract.model import Model
from headway.contract.sampling import BODY_BYTES, place, threshold
from headway.wire import SAMPLES_PROVIDER

FILTER = "headway.sample"
KEPT = f"'{SAMPLES_STATE}' in metadata.filter_metadata && 'record' in metadata.filter_metadata['{SAMPLES_STATE}']"
"""Which requests the samples' log is written for: those of which the filter left a record."""
_LISTS_DEEP = 32

_CODE = """\
local allowed = {request = %(request)s, response = %(response)s}
local most, below = %(most)d, %(below)d

local function after(text, at)
  return text:find("[^ \\t\\r\\n]", at) or error("ends early")
end

local function closing(text, at)
  repeat
    at = text:find('["\\\\]', at + 1) or error("ends early")
    local escape = text:byte(at) == 92
    if escape then at = at + 1 end
  until not escape
  return at
end

local function skip(text, at)
  local depth = 0
  repeat
    local first = text:byte(at)
    if first == 34 then
      at = closing(text, at)
    elseif first == 123 or first == 91 then
      depth = depth + 1
    elseif first == 125 or first == 93 then
      depth = depth - 1
    elseif depth == 0 then
      local _, last = text:find("^[%%w+.-]+", at)
      return (last or error("no value")) + 1
    end
    at = depth == 0 and at + 1 or (text:find('["%%[%%]{}]', at + 1) or error("ends early"))
  until depth == 0
  return at
end

local function pruned(text, at, names, deep)
  at = after(text, at)
  local first = text:sub(at, at)
  if names == true or not names or not (first == "{" or first == "[") or deep > %(deep)d then
    local past = skip(text, at)
    return past, names == true and text:sub(at, past - 1) or nil
  end
  local object, kept = first == "{", {}
  local last = object and "}" or "]"
  at = after(text, at + 1)
  while text:sub(at, at) ~= last do
    local key, value = "", nil
    if object then
      local stop = closing(text, at)
      key = text:sub(at, stop)
      at = after(text, stop + 1) + 1
    end
    at, value = pruned(text, at, object and names[key:sub(2, -2)] or not object and names, deep + 1)
    if value then kept[#kept + 1] = object and key .. ":" .. value or value end
    at = after(text, at)
    if text:sub(at, at) == "," then at = after(text, at + 1) end
  end
  return at + 1, #kept > 0 and first .. table.concat(kept, ",") .. last or nil
end

local function document(kind, text, names)
  if not (kind or ""):find("^application/json") or not text or #text > most then return "null" end
  local good, _, kept = pcall(pruned, text, 1, names, 0)
  return good and kept and kept:gsub("%%c", " ") or "null"
end

local function said(text)
  return '"' .. (text or ""):gsub('[%%c"\\\\]', "") .. '"'
end

function envoy_on_request(handle)
  local headers = handle:headers()
  local id = headers:get("x-request-id") or ""
  local digits = id:match("%%x%%x%%x%%x%%x%%x%%x%%x$")
  if not digits or tonumber(digits, 16) >= below then return end
  if tonumber(headers:get("content-length") or 0) > most then return end
  local kind, mirrored = headers:get("content-type"), (headers:get(":authority") or ""):find("%%-shadow:?%%d*$") ~= nil
  local body = handle:body()
  local text = body and body:length() > 0 and body:getBytes(0, body:length()) or nil
  handle:streamInfo():dynamicMetadata():set("%(state)s", "asked", '"request_id":' .. said(id)
    .. ',"mirrored":' .. tostring(mirrored) .. ',"request":' .. document(kind, text, allowed.request))
end

function envoy_on_response(handle)
  local found = handle:streamInfo():dynamicMetadata():get("%(state)s")
  if not found or not found["asked"] then return end
  local asked, headers, parts, length = found["asked"], handle:headers(), {}, 0
  local status, kind, encoded = headers:get(":status"), headers:get("content-type"), headers:get("content-encoding")
  for chunk in handle:bodyChunks() do
    length = length + chunk:length()
    if length > most then parts = {} elseif chunk:length() > 0 then parts[#parts + 1] = chunk:getBytes(0, chunk:length()) end
  end
  local text = length <= most and not encoded and table.concat(parts) or nil
  local state = handle:streamInfo():dynamicMetadata()
  state:set("%(state)s", "place", "%(place)s")
  state:set("%(state)s", "record", asked .. ',"status":' .. tonumber(status) .. ',"response":' .. document(kind, text, allowed.response))
end
"""


def keeper(tenant: str, model: Model) -> dict[str, Any] | None:
    """The filter of a replica's proxy; None for a model whose contract lets nothing be kept."""
    if not model.data.sampled:
        return None
    names = _tree(model.data.log_fields)
    code = _CODE % {
        "request": _table(names.get("request", {})),
        "response": _table(names.get("response", {})),
        "most": BODY_BYTES,
        "below": threshold(model.data.sample),
        "deep": _LISTS_DEEP,
        "state": SAMPLES_STATE,
        "place": place(tenant, model.name, model.data.retention),
    }
    return lua(FILTER, code)


def access_logging(model: Model) -> list[dict[str, Any]]:
    """What replicas' proxies write: a line of every request, and the samples where there are any. Naming one
    provider unnames the mesh's.
    """
    if not model.data.sampled:
        return []
    return [{"providers": [{"name": ACCESS_LOG}]}, {"providers": [{"name": SAMPLES_PROVIDER}], "filter": {"expression": KEPT}}]


def _tree(fields: Iterable[str]) -> dict[str, Any]:
    """Names by their paths; True for a field that is kept whole."""
    tree: dict[str, Any] = {}
    for field in sorted(fields):
        *way, last = field.split(".")
        node = tree
        for name in way:
            node = node.setdefault(name, {})
            if node is True:
                break
        if node is not True:
            node[last] = True
    return tree


def _table(names: Mapping[str, Any] | bool) -> str:
    if not isinstance(names, Mapping):
        return "true"
    return "{" + ", ".join(f"[{json.dumps(name)}] = {_table(below)}" for name, below in sorted(names.items())) + "}"
