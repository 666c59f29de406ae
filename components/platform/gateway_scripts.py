"""The Lua that the gateway's proxies run, each script once for all hosts. Pure text.

What a script must know of the host stands in its filter context, which Envoy takes from the virtual host that it has
found anyway (`LuaPerRoute.filter_context`, read by `get`; of a host without one every `get` is nil). The trap: a
worker keeps one Lua state for a script, so what a script remembers it has to remember by model.
"""

from components.platform.activator import CLUSTER
from headway.contract.assignment import BUCKETS
from headway.wire import ACTIVATOR_NAMESPACE, DEGRADE_HEADER, DEGRADED_HEADER, EXPERIMENT_HEADER, FIRST_TOKEN, PRIORITY_HEADER

TENANT_STATE = "headway.tenant"
"""Namespace of dynamic metadata: `name`, `model`, and `requests` and `tokens` as the limiter takes a limit; `counted`
says that tokens are.
"""
TOKENS_STATE = "headway.tokens"
"""Namespace of dynamic metadata: `spent`, the tokens of a request and its answer; `estimate`, those of a prompt that
nobody has counted; `began`, and of a stream `FIRST` and `BETWEEN`, in milliseconds.
"""
FIRST, BETWEEN = FIRST_TOKEN, "token_milliseconds"
"""From the request to the first token; on the average from each token to the next."""
EXPERIMENT_STATE = "headway.experiment"
"""Namespace of dynamic metadata: `experiment`, `arm`, `bucket`."""

TENANT = f"""
local function ends(text, endings)
  for _, ending in ipairs(endings) do
    if text:sub(-#ending) == ending then return true end
  end
end

local function refuse(handle, status, why)
  handle:respond({{[":status"] = status, ["content-type"] = "text/plain"}}, why .. "\\n")
end

function envoy_on_request(handle)
  local host, headers = handle:filterContext(), handle:headers()
  local tenant, tokens = host:get("tenant"), host:get("tokens")
  if not tenant or not ends((headers:get(":authority") or ""):lower(), host:get("guarded")) then
    return refuse(handle, "404", "no model answers at this host")
  end
  local body, message = headers:get("content-encoding") or "identity", headers:get("grpc-encoding") or "identity"
  if not (body == "identity" or body == "gzip") or message ~= "identity" then
    return refuse(handle, "415", "no request is compressed here but by gzip over HTTP")
  end
  if headers:get("upgrade") then return refuse(handle, "403", "connections are not upgraded here: ask one request at a time") end
  local told = handle:streamInfo():dynamicMetadata()
  told:set("{TENANT_STATE}", "name", tenant)
  told:set("{TENANT_STATE}", "model", host:get("model"))
  told:set("{TENANT_STATE}", "requests", host:get("requests"))
  if tokens then
    told:set("{TENANT_STATE}", "tokens", tokens)
    told:set("{TENANT_STATE}", "counted", "tokens")
    told:set("{TOKENS_STATE}", "spent", 0)
  end
end
"""
"""Says whose host it is and what its tenant is granted, for the limits behind. A host that no contract has is served by
nobody: else its requests would meet no limit. An answer in which nothing is counted is charged nothing.

`guarded` is how hosts end that the tenant's AuthorizationPolicy judges. Envoy finds a virtual host by a text that is
not quite what policies read (it looks away from a port, and from what only looks like one); what they have not
judged must not pass. Nor may a WebSocket, which istiod lets through: it is one request to every limit, whatever is
asked in it. Nor what is compressed so that a replica's proxy cannot unpack it before it judges its size: servers unpack
it, a thousandfold.
"""

BYTES_OF_A_TOKEN = 4
"""Of a prompt that nobody has counted: what English text has, of which most requests are more than that."""

USAGE = """
local kinds = {completion_tokens = "generated", output_tokens = "generated", input_tokens = "prompt", prompt_tokens = "prompt"}

local function choice_in(text, choice)
  for index in text:gmatch('"choices":%s*%[{?"?%l*"?:?%s*(%d*)') do choice = index end
  return choice
end

local function usage(text, said, choice)
  local past, open
  for start, name, number, after in text:gmatch('()"(%l+_tokens)":%s*(%d+)()') do
    if kinds[name] then
      choice = choice_in(text:sub(past or 1, start), choice)
      if choice == "" then said[kinds[name]] = {} end
      said[kinds[name]][choice] = tonumber(number)
      past, open = after, after > #text and start
    end
  end
  return choice_in(text:sub(past or 1), choice), past, open
end

local function sum(numbers)
  local found = 0
  for _, number in pairs(numbers) do found = found + number end
  return found
end

local function speaks(text)
  return text:find('"choices":%s*%[{') or text:find('"delta":', 1, true)
end
"""
"""How many tokens an answer has, by what it says of itself; and whether a piece of a stream holds a choice, or a part of one."""

TOKENS = f"""{USAGE}
local function events(text)
  local _, found = text:gsub("data: {{", "")
  return found
end

function envoy_on_request(handle)
  local headers, most = handle:headers(), handle:filterContext():get("context") or 0
  local bytes = headers:get("content-encoding") ~= "gzip" and tonumber(headers:get("content-length") or "")
  local estimate = bytes and math.min(math.ceil(bytes / {BYTES_OF_A_TOKEN}), most) or most
  handle:streamInfo():dynamicMetadata():set("{TOKENS_STATE}", "estimate", estimate)
  handle:streamInfo():dynamicMetadata():set("{TOKENS_STATE}", "began", handle:timestamp())
end

function envoy_on_response(handle)
  local kind, told = handle:headers():get("content-type") or "", handle:streamInfo():dynamicMetadata()
  local streamed = kind:find("text/event-stream", 1, true)
  if not (streamed or kind:find("application/json", 1, true)) then return end
  local known = told:get("{TOKENS_STATE}") or {{}}
  local estimate, began = known["estimate"] or 0, known["began"]
  local rest, since, said, choice = "", 0, {{generated = {{}}, prompt = {{}}}}, ""
  local charged, several, first, last = 0, false, nil, nil
  if streamed then told:set("{TOKENS_STATE}", "spent", estimate) end
  for chunk in handle:bodyChunks() do
    local length = chunk:length()
    if length > 0 then
      local text, past, open = rest .. chunk:getBytes(0, length), nil, nil
      choice, past, open = usage(text, said, choice)
      since = past and events(text:sub(past)) or since + events(text) - events(rest)
      rest = text:sub(math.max(open or past or 1, #text - 63))
      local unsaid = streamed and since or 0
      local spent = sum(said.generated) + unsaid + math.max(sum(said.prompt), unsaid > 0 and estimate or 0)
      if spent > 0 then handle:streamInfo():dynamicMetadata():set("{TOKENS_STATE}", "spent", spent) end
      if streamed and not first and speaks(text) then
        first = handle:timestamp()
        handle:streamInfo():dynamicMetadata():set("{TOKENS_STATE}", "{FIRST}", first - began)
      end
      if spent ~= charged then charged, last = spent, handle:timestamp() end
      several = several or (choice ~= "" and choice ~= "0")
    end
  end
  local further = sum(said.generated) - 1
  if first and further > 0 and not several then
    handle:streamInfo():dynamicMetadata():set("{TOKENS_STATE}", "{BETWEEN}", (last - first) / further)
  end
end
"""
"""Counts while the answer passes, and holds none of it back.

Servers of the OpenAI API say `usage` at the end of an answer: `prompt_tokens` and `completion_tokens`, or `input_tokens` and
`output_tokens` (responses, messages). vLLM, which is told to (`--enable-force-include-usage`), says it with each event of completions and
chats too, of one choice and its prompt; they are added up until the last event says them of all, under no choice. What a stream that is
left has not said is estimated: each event after the last usage is one token at least, for its first events may repeat whatever its caller
wrote; the prompt, computed first, is a part of the request's bytes, or, where nobody knows their number, all that the model's context holds,
and never more.
A number inside a generated text does not match: there its quotation marks are escaped.

It also looks at the clock: what is first is the first choice, or the first piece of one, not the event by which a server says that it has
begun. The mean between tokens is that of whole streams of one choice.

Sources: vllm/entrypoints/openai of 0.32 (`should_include_usage`; completion, chat_completion and responses `serving.py`).
"""

ACTIVATE = f"""
function envoy_on_request(handle)
  local held, said = handle:filterContext(), tonumber(handle:headers():get("content-length") or "")
  local kept = string.format("%.0f", math.min(said or held:get("bytes"), held:get("bytes")))
  local asked = {{[":method"] = "GET", [":path"] = held:get("path") .. "/" .. kept, [":authority"] = "{ACTIVATOR_NAMESPACE}"}}
  handle:httpCall("{CLUSTER}", asked, nil, held:get("milliseconds"))
end
"""
"""Waits for an answer, and passes the request on whatever it is: Envoy keeps the request meanwhile, as much of it as its buffers take."""

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

EXPERIMENT = f"""{BUCKET}
local function user_of(claim)
  if type(claim) == "number" and claim % 1 == 0 and math.abs(claim) < 2 ^ 53 then return string.format("%.0f", claim) end
  if type(claim) == "string" and claim ~= "" then return claim end
end

function envoy_on_request(handle)
  local running, told = handle:filterContext(), handle:streamInfo():dynamicMetadata()
  local token, experiment = told:get("envoy.filters.http.jwt_authn"), running:get("experiment")
  local user = token and token["payload"] and user_of(token["payload"][running:get("claim")])
  if not user then return end
  local found, arm = bucket(experiment, user), "stable"
  if found < running:get("below") then
    arm = "canary"
    handle:headers():replace("{EXPERIMENT_HEADER}", experiment)
    handle:clearRouteCache()
  end
  told:set("{EXPERIMENT_STATE}", "experiment", experiment)
  told:set("{EXPERIMENT_STATE}", "arm", arm)
  told:set("{EXPERIMENT_STATE}", "bucket", found)
end
"""
"""Istio keeps a verified token's claims where this looks for them (EnvoyJwtFilterPayload in istiod's filters)."""

OVERLOAD = f"""
local full_until = {{}}

function envoy_on_request(handle)
  local model, headers = handle:filterContext(), handle:headers()
  if os.time() >= (full_until[model:get("service")] or 0) then return end
  if model:get("moved")[headers:get("{PRIORITY_HEADER}") or ""] then
    headers:replace("{DEGRADE_HEADER}", model:get("model"))
    handle:clearRouteCache()
  end
end

function envoy_on_response(handle)
  local model, headers = handle:filterContext(), handle:headers()
  if headers:get("x-envoy-overloaded") and not headers:get("{DEGRADED_HEADER}") then
    full_until[model:get("service")] = os.time() + model:get("hold")
  end
end
"""
"""The sign of an overload is a full replica's own answer: its proxy marks what it turns away."""
