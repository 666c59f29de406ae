"""One request and its answer, as Envoy shows them to the endpoint picker: what it hears, and what it says. No input, output or clock.

The endpoint picker protocol (gateway-api-inference-extension, docs/proposals/004-endpoint-picker-protocol) over external processing with bodies
in FULL_DUPLEX_STREAMED, as Istio 1.31 configures it for an InferencePool: headers are answered once the body is whole, for only then is the
prompt known; the answer's pieces are passed on as they come.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from headway.endpoint_picker.messages import ProcessingResponse
from headway.endpoint_picker.prefixes import BLOCK, keys_of
from headway.endpoint_picker.prompts import LARGEST, TOKEN, prompt_of
from headway.endpoint_picker.tracking import Tracked

DESTINATION = "x-gateway-destination-endpoint"
SERVED = "x-gateway-destination-endpoint-served"
NAMESPACE = "envoy.lb"
SUBSET, SUBSET_NAMESPACE = "x-gateway-destination-endpoint-subset", "envoy.lb.subset_hint"
OVERWRITE = 2
"""`OVERWRITE_IF_EXISTS_OR_ADD` of HeaderAppendAction."""
UNAVAILABLE = 503
TOKENS_A_BLOCK = BLOCK // TOKEN
PIECE = 1 << 16
"""Bytes of a body that are passed on at once."""


MOST_KEPT = 256 << 20
"""Bytes of bodies that wait for their ends, of all requests together; what comes then is sent by load alone."""
PICKED, UNKNOWN, NONE, ELSEWHERE = "by_prompt", "by_load", "no_endpoint", "elsewhere"


@dataclass
class PickerCounts:
    """What became of requests, and the bytes of bodies that are kept."""

    outcomes: Counter[str] = field(default_factory=Counter[str])
    kept: int = 0


def subset(metadata: Any) -> list[str] | None:
    """The endpoints that the proxy asks to pick from, as a list or as text with commas; None if it does not say."""
    value = _told(metadata, SUBSET_NAMESPACE, SUBSET)
    if value is None:
        return None
    texts = [each.string_value for each in value.list_value.values] if value.HasField("list_value") else [value.string_value]
    return [found for text in texts for each in text.split(",") if (found := each.strip())]


def _told(metadata: Any, namespace: str, key: str) -> Any:
    return next((each.value.fields[key] for each in metadata.filter_metadata if each.key == namespace and key in each.value.fields), None)


class Exchange:
    def __init__(self, pool: Tracked, name: Hashable, counts: PickerCounts) -> None:
        self._pool, self._name, self._counts = pool, name, counts
        self._body = bytearray()
        self._sent = False
        self._among: list[str] | None = None

    def hear(self, now: float, asked: Any) -> Iterable[Any]:
        """What is said to one message of Envoy's."""
        if asked.HasField("metadata_context") and (found := subset(asked.metadata_context)) is not None:
            self._among = found
        match next((field.name for field, _ in asked.ListFields() if field.name != "metadata_context"), None):
            case "request_headers":
                return self._picked(now) if asked.request_headers.end_of_stream and not self._sent else ()
            case "request_body":
                piece = asked.request_body
                if self._sent:
                    return [_passed("request_body", piece.body, last=piece.end_of_stream)]
                self._body += piece.body
                self._counts.kept += len(piece.body)
                whole = piece.end_of_stream
                full = len(self._body) > LARGEST or self._counts.kept > MOST_KEPT
                return self._picked(now, whole=whole) if whole or full else ()
            case "request_trailers":
                return [*(() if self._sent else self._picked(now, whole=False)), _said("request_trailers")]
            case "response_headers":
                self._served(now, asked.metadata_context)
                if asked.response_headers.end_of_stream:
                    self._pool.ended(now, self._name)
                return [_said("response_headers")]
            case "response_body":
                piece = asked.response_body
                if piece.body:
                    self._pool.answering(now, self._name)
                if piece.end_of_stream:
                    self._pool.ended(now, self._name)
                return [_passed("response_body", piece.body, last=piece.end_of_stream)]
            case "response_trailers":
                self._pool.ended(now, self._name)
                return [_said("response_trailers")]
            case _:
                return ()

    def _served(self, now: float, metadata: Any) -> None:
        if (by := _told(metadata, NAMESPACE, SERVED)) is not None and not self._pool.served(now, self._name, by.string_value):
            self._counts.outcomes[ELSEWHERE] += 1

    def close(self, now: float) -> None:
        """Whoever asked has left, or was answered."""
        self._counts.kept -= len(self._body)
        self._body.clear()
        self._pool.ended(now, self._name)

    def _picked(self, now: float, *, whole: bool = True) -> Iterator[Any]:
        body, self._sent = bytes(self._body), True
        self._counts.kept -= len(body)
        self._body.clear()
        prompt = prompt_of(body) if len(body) <= LARGEST else b""
        keys = keys_of(prompt)
        tokens = max(len(prompt or body) // TOKEN, len(keys) * TOKENS_A_BLOCK, 1)
        chosen = ",".join(self._pool.send(now, self._name, tokens, keys, self._among))
        self._counts.outcomes[(PICKED if prompt else UNKNOWN) if chosen else NONE] += 1
        answer = ProcessingResponse()
        if not chosen:
            answer.immediate_response.status.code = UNAVAILABLE
            answer.immediate_response.body = b"no endpoint of the pool is ready\n"
            answer.immediate_response.details = "no_endpoint"
            yield answer
            return
        option = answer.request_headers.response.header_mutation.set_headers.add(append_action=OVERWRITE)
        option.header.key, option.header.raw_value = DESTINATION, chosen.encode()
        answer.dynamic_metadata.fields[NAMESPACE].struct_value.fields[DESTINATION].string_value = chosen
        yield answer
        for start in range(0, len(body), PIECE):
            yield _passed("request_body", body[start : start + PIECE], last=whole and start + PIECE >= len(body))


def _said(part: str) -> Any:
    answer = ProcessingResponse()
    getattr(answer, part).SetInParent()
    return answer


def _passed(part: str, body: bytes, *, last: bool) -> Any:
    answer = ProcessingResponse()
    streamed = getattr(answer, part).response.body_mutation.streamed_response
    streamed.body, streamed.end_of_stream = body, last
    return answer
