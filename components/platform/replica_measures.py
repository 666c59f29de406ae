"""What the proxies of replicas measure for those who judge a release: by which edges they count, and of streams of tokens when the first came
and how long each further one took. Pure.

Istio's own durations are those of whole answers, by which a version that says more is a slower one. The times of tokens know nothing of an
answer's length; they are found as at the gateway (`gateway_measures.py`, with the same limits), and told by copies and classes, as Istio's
are. Three traps. Istio's proxies take edges, and what they may emit, from annotations of their own pod and from nowhere else
(pkg/bootstrap/config.go of istio/istio): without them they count by Envoy's edges, between which a service may become twice as slow unseen.
Whoever waits for a first token in vain must count too, or a version that hangs would look fast: an answer of which nothing came counts with
all its time. And what a caller writes is never a tag.

A stream that fails has status 200, which was said before. vLLM then says an error as an event and ends the stream in order
(`create_streaming_error_response` of vllm/entrypoints/openai of 0.32), so such streams are counted here; one whose connection breaks has
Envoy's flags.
"""

import json
from collections.abc import Mapping
from itertools import accumulate, repeat
from typing import Any

from components.addons.istio import BUCKETS_ANNOTATION, EMITTED_ANNOTATION
from components.platform import stats_log
from components.platform.gateway_scripts import USAGE
from headway.signals.buckets import latency_edges_milliseconds
from headway.wire import BROKEN_STREAMS, CLASS_HEADER, CLASS_TAG, FIRST_TOKEN, NEXT_TOKEN, STREAM_TIMES

DURATIONS = "istiocustom"
"""How the names of Istio's own histograms begin."""
FIRST_EDGES_MS = latency_edges_milliseconds()
NEXT_EDGES_US = tuple(accumulate(repeat(1.25, 44), lambda edge, by: round(edge * by), initial=500))
"""From half a millisecond to nine seconds; Envoy records whole numbers."""
_EDGES: Mapping[str, tuple[int, ...]] = {FIRST_TOKEN: FIRST_EDGES_MS, NEXT_TOKEN: NEXT_EDGES_US}
_UNITS: Mapping[str, str] = {FIRST_TOKEN: "Milliseconds", NEXT_TOKEN: "Microseconds"}

STATE = "headway.replica"
"""Namespace of dynamic metadata: `began`; `mirrored`, `class`; `settled`, where no first token is waited for any more; `BROKEN_STREAMS`; and
both times."""
_SURE_TOKENS = 8
"""A stream that is left counts with what it had, from so many tokens on: by then it is known whether it has one choice."""


def edges() -> dict[str, list[int]]:
    """By how a statistic's name begins."""
    return {f"{STREAM_TIMES}.{name}": list(found) for name, found in _EDGES.items()}


def annotations() -> dict[str, str]:
    """Of the pod of each replica."""
    told = {DURATIONS: list(latency_edges_milliseconds()), **edges()}
    return {BUCKETS_ANNOTATION: json.dumps(told, separators=(",", ":")), EMITTED_ANNOTATION: STREAM_TIMES}


def script(*, classes: bool) -> str:
    """The Lua of a replica's proxy, behind the filter that writes classes where there are `classes`."""
    of_class = f'  told:set("{STATE}", "class", handle:headers():get("{CLASS_HEADER}") or "")\n' if classes else ""
    return f"""{USAGE}
function envoy_on_request(handle)
  local host, told = handle:headers():get(":authority") or "", handle:streamInfo():dynamicMetadata()
  told:set("{STATE}", "mirrored", (host:find("%-shadow$") or host:find("-shadow:", 1, true)) and "true" or "false")
{of_class}  told:set("{STATE}", "began", handle:timestamp())
end

function envoy_on_response(handle)
  local headers, told = handle:headers(), handle:streamInfo():dynamicMetadata()
  local began = (told:get("{STATE}") or {{}})["began"]
  if not began or headers:get(":status") ~= "200" or not (headers:get("content-type") or ""):find("text/event-stream", 1, true) then
    return told:set("{STATE}", "settled", 1)
  end
  local rest, said, choice, several, first, last, known = "", {{generated = {{}}, prompt = {{}}}}, "", false, nil, nil, 0
  for chunk in handle:bodyChunks() do
    local length = chunk:length()
    if length > 0 then
      local text, past, open = rest .. chunk:getBytes(0, length), nil, nil
      choice, past, open = usage(text, said, choice)
      rest = text:sub(math.max(open or past or 1, #text - 63))
      if text:find('data: {{"error":', 1, true) then
        handle:streamInfo():dynamicMetadata():set("{STATE}", "{BROKEN_STREAMS}", 1)
      end
      several = several or (choice ~= "" and choice ~= "0")
      if not first and speaks(text) then
        first = handle:timestamp()
        handle:streamInfo():dynamicMetadata():set("{STATE}", "{FIRST_TOKEN}", first - began)
      end
      local tokens = sum(said.generated)
      if first and tokens > known and not several then
        known, last = tokens, handle:timestamp()
        if tokens >= {_SURE_TOKENS} then
          handle:streamInfo():dynamicMetadata():set("{STATE}", "{NEXT_TOKEN}", (last - first) * 1000 / (tokens - 1))
        end
      end
    end
  end
  if first and known > 1 and known < {_SURE_TOKENS} and not several then
    handle:streamInfo():dynamicMetadata():set("{STATE}", "{NEXT_TOKEN}", (last - first) * 1000 / (known - 1))
  end
end
"""


def access_log(*, classes: bool) -> list[dict[str, Any]]:
    """A logger for each time, one for who waited in vain, and one for streams that failed."""
    of_classes = [(CLASS_TAG, "class")] if classes else []
    tags = [stats_log.tag(name, STATE, key) for name, key in [("mirrored", "mirrored"), *of_classes]]
    in_vain = {"and_filter": {"filters": [_present("began"), stats_log.absent(STATE, FIRST_TOKEN), stats_log.absent(STATE, "settled")]}}
    return [
        *(_histogram(name, stats_log.written(STATE, name), tags, _present(name)) for name in _EDGES),
        _histogram(FIRST_TOKEN, "%DURATION%", tags, in_vain),
        stats_log.logger(
            STREAM_TIMES, _present(BROKEN_STREAMS), counters=[{"stat": {"name": BROKEN_STREAMS, "tags": tags}, "value_fixed": 1}]
        ),
    ]


def _histogram(name: str, value: str, tags: list[dict[str, str]], which: dict[str, Any]) -> dict[str, Any]:
    return stats_log.histogram(STREAM_TIMES, which, name, _UNITS[name], value, tags)


def _present(key: str) -> dict[str, Any]:
    return stats_log.present(STATE, key)
