"""What the endpoint picker says to each message of Envoy's."""

import json
from base64 import b64decode
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.endpoint_picker.exchange import CLUSTER, NONE, PICKED, UNKNOWN, Exchange, PickerCounts
from headway.endpoint_picker.messages import ProcessingRequest
from headway.endpoint_picker.prompts import prompt_of
from headway.endpoint_picker.tracking import EngineFacts, Tracked
from headway.wire import PICKED_HEADER

A, B = "10.0.0.1:8000", "10.0.0.2:8000"
STABLE = "outbound|8000||chat-r1.assist.svc.cluster.local"


def pools() -> Tracked:
    found = Tracked(16)
    found.endpoints({A: EngineFacts("chat-r1.assist"), B: EngineFacts("chat-r2.assist")})
    return found


def message(part: str, body: bytes = b"", *, last: bool = False, cluster: str | None = None) -> Any:
    made = ProcessingRequest()
    getattr(made, part).SetInParent()
    if part.endswith("body"):
        getattr(made, part).body = body
    if not part.endswith("trailers"):
        getattr(made, part).end_of_stream = last
    if cluster is not None:
        made.attributes.add(key="envoy.filters.http.ext_proc").value.fields[CLUSTER].string_value = cluster
    return ProcessingRequest.FromString(made.SerializeToString())


def destination(answer: Any) -> str | None:
    options = list(answer.request_body.response.header_mutation.set_headers)
    assert [each.header.key for each in options] == [PICKED_HEADER] * len(options)
    return b64decode(options[0].header.raw_value).decode() if options else None


@pytest.mark.parametrize(
    ("cluster", "picked"),
    [(STABLE, A), (STABLE.replace("r1", "r2"), B), (STABLE.replace("assist", "other"), None), ("", None), ("|||", None)],
)
def test_an_endpoint_is_named_of_the_version_that_the_route_chose(cluster: str, picked: str | None) -> None:
    one = Exchange(pools(), 1, PickerCounts())
    (headers,) = one.hear(0, message("request_headers", cluster=cluster))
    assert headers.HasField("request_headers"), "Envoy then sends the body"
    (body,) = one.hear(0, message("request_body", b'{"prompt": "a"}', last=True))
    assert destination(body) == picked


def test_a_request_without_a_body_is_left_to_the_proxy() -> None:
    tracked = pools()
    (only,) = Exchange(tracked, 1, PickerCounts()).hear(0, message("request_headers", last=True, cluster=STABLE))
    assert only.HasField("request_headers")
    assert tracked.idle()


@pytest.mark.parametrize(("body", "outcome"), [(b'{"prompt": "a"}', PICKED), (b'{"prompt": "a', UNKNOWN), (b"", UNKNOWN)])
def test_a_body_of_which_the_end_is_missing_goes_by_load(body: bytes, outcome: str) -> None:
    counts = PickerCounts()
    (answer,) = Exchange(pools(), 1, counts).hear(0, message("request_body", body, cluster=STABLE))
    assert destination(answer) == A
    assert counts.outcomes == {outcome: 1}


def test_where_nothing_can_be_picked_it_is_counted() -> None:
    counts = PickerCounts()
    list(Exchange(Tracked(16), 1, counts).hear(0, message("request_body", b"{}", cluster=STABLE)))
    assert counts.outcomes == {NONE: 1}


def test_a_request_counts_until_its_stream_ends() -> None:
    tracked = pools()
    one = Exchange(tracked, 1, PickerCounts())
    list(one.hear(0, message("request_headers", cluster=STABLE)))
    list(one.hear(0, message("request_body", b"{}")))
    (trailers,) = one.hear(1, message("response_trailers"))
    assert trailers.HasField("response_trailers")
    assert not tracked.idle()
    one.close(2)
    assert tracked.idle()


@given(st.lists(st.sampled_from(["request_headers", "request_body", "response_trailers"]), max_size=6))
def test_whatever_is_said_twice_nothing_is_left_of_a_request(parts: list[str]) -> None:
    tracked = pools()
    one = Exchange(tracked, 1, PickerCounts())
    for part in parts:
        assert len(list(one.hear(0, message(part, cluster=STABLE)))) == 1
    one.close(1)
    assert tracked.idle()


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"model": "m", "prompt": "a b"}, {"model": "m", "prompt": "a b c", "temperature": 1}),
        ({"model": "m", "prompt": [1, 2]}, {"model": "m", "prompt": [1, 2, 3]}),
        ({"messages": [{"role": "user", "content": "a"}]}, {"messages": [{"role": "user", "content": "a"}, {"role": "assistant"}]}),
        ({"instructions": "i", "input": "a"}, {"input": "ab", "instructions": "i"}),
    ],
)
def test_a_prompt_begins_as_the_one_that_it_goes_on_from(one: object, other: object) -> None:
    first, second = (prompt_of(json.dumps(each).encode()) for each in (one, other))
    assert first
    assert second.startswith(first)


def test_adapters_of_one_engine_share_nothing() -> None:
    first, second = (prompt_of(json.dumps({"model": each, "prompt": "a"}).encode()) for each in "xy")
    assert first[:1] != second[:1]


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"model": "m"}', b"\xff", b'{"prompt": null}'])
def test_what_cannot_be_read_has_no_prompt(body: bytes) -> None:
    assert prompt_of(body) == b""
