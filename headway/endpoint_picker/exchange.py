"""One request, as Envoy shows it to the endpoint picker: what it hears, and what it says. No input, output or clock.

External processing with the request's body in BUFFERED_PARTIAL: Envoy keeps the body, says which cluster the route chose, and waits for the name
of an endpoint. Of the answer nothing comes here. The stream stays open as long as the request lasts, for trailers would be asked about
(`closeGrpcStreamIfLastRespReceived` in Envoy's ext_proc.cc), so its end is the request's.
"""

from base64 import b64encode
from collections import Counter
from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any

from headway.endpoint_picker.messages import ProcessingResponse
from headway.endpoint_picker.prefixes import BLOCK, keys_of
from headway.endpoint_picker.prompts import TOKEN, prompt_of
from headway.endpoint_picker.tracking import Tracked
from headway.wire import PICKED_HEADER

CLUSTER = "xds.cluster_name"
"""Envoy's attribute, of which the gateway's filter tells (`components/platform/gateway_filters.py`)."""
OVERWRITE = 2
"""`OVERWRITE_IF_EXISTS_OR_ADD` of HeaderAppendAction."""
TOKENS_A_BLOCK = BLOCK // TOKEN
PICKED, UNKNOWN, NONE = "by_prompt", "by_load", "no_endpoint"


@dataclass
class PickerCounts:
    """What became of requests."""

    outcomes: Counter[str] = field(default_factory=Counter[str])


def pool_of(asked: Any) -> str:
    """The Service that the route chose, as `name.namespace`: istiod calls its cluster `outbound|port|subset|name.namespace.svc.domain`."""
    told = (each.value.fields[CLUSTER].string_value for each in asked.attributes if CLUSTER in each.value.fields)
    return ".".join(next(told, "").rpartition("|")[2].split(".")[:2])


class Exchange:
    def __init__(self, pools: Tracked, name: Hashable, counts: PickerCounts) -> None:
        self._pools, self._name, self._counts = pools, name, counts
        self._pool, self._asked = "", False

    def hear(self, now: float, asked: Any) -> Iterator[Any]:
        """What is said to one message of Envoy's."""
        self._pool = pool_of(asked) or self._pool
        answer = ProcessingResponse()
        match next((field.name for field, _ in asked.ListFields() if field.name != "attributes"), None):
            case "request_headers":
                answer.request_headers.SetInParent()
            case "request_body":
                answer.request_body.SetInParent()
                if not self._asked and (chosen := self._picked(now, asked.request_body.body)) is not None:
                    option = answer.request_body.response.header_mutation.set_headers.add(append_action=OVERWRITE)
                    option.header.key, option.header.raw_value = PICKED_HEADER, b64encode(chosen.encode())
            case "response_trailers":
                answer.response_trailers.SetInParent()
            case _:
                return
        yield answer

    def close(self, now: float) -> None:
        """It was answered, or whoever asked has left."""
        self._pools.ended(now, self._name)

    def _picked(self, now: float, body: bytes) -> str | None:
        """None leaves the choice to Envoy's balancer. A body of which only the beginning has come is no JSON, and goes by load."""
        self._asked = True
        prompt = prompt_of(body)
        keys = keys_of(prompt)
        tokens = max(len(prompt or body) // TOKEN, len(keys) * TOKENS_A_BLOCK, 1)
        chosen = self._pools.send(now, self._name, self._pool, tokens, keys)
        self._counts.outcomes[NONE if chosen is None else PICKED if prompt else UNKNOWN] += 1
        return chosen
