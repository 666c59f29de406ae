"""What the endpoint picker says to each message of Envoy's."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.endpoint_picker import exchange
from headway.endpoint_picker.exchange import DESTINATION, PIECE, SUBSET, SUBSET_NAMESPACE, Exchange, PickerCounts
from headway.endpoint_picker.messages import ProcessingRequest
from headway.endpoint_picker.prompts import prompt_of
from headway.endpoint_picker.tracking import EngineFacts, Tracked

A, B = "10.0.0.1:8000", "10.0.0.2:8000"


def pool(*addresses: str) -> Tracked:
    found = Tracked(16)
    found.endpoints(dict.fromkeys(addresses or (A, B), EngineFacts()))
    return found


def message(part: str, body: bytes = b"", *, last: bool = False, among: list[str] | None = None) -> Any:
    made = ProcessingRequest()
    getattr(made, part).SetInParent()
    if part.endswith("body"):
        getattr(made, part).body = body
    if not part.endswith("trailers"):
        getattr(made, part).end_of_stream = last
    if among is not None:
        entry = made.metadata_context.filter_metadata.add(key=SUBSET_NAMESPACE)
        entry.value.fields[SUBSET].list_value.SetInParent()
        for each in among:
            entry.value.fields[SUBSET].list_value.values.add(string_value=each)
    return ProcessingRequest.FromString(made.SerializeToString())


def destination(answer: Any) -> str:
    """Of the header and of the metadata, which must not differ."""
    (option,) = answer.request_headers.response.header_mutation.set_headers
    assert option.header.key == DESTINATION
    assert answer.dynamic_metadata.fields["envoy.lb"].struct_value.fields[DESTINATION].string_value == option.header.raw_value.decode()
    return option.header.raw_value.decode()


def passed(answers: list[Any]) -> tuple[bytes, list[bool]]:
    pieces = [each.request_body.response.body_mutation.streamed_response for each in answers]
    return b"".join(each.body for each in pieces), [each.end_of_stream for each in pieces]


def test_headers_are_answered_when_the_body_is_whole() -> None:
    one = Exchange(pool(), 1, PickerCounts())
    assert list(one.hear(0, message("request_headers"))) == []
    assert list(one.hear(0, message("request_body", b'{"prompt": '))) == []
    first, *rest = one.hear(0, message("request_body", b'"a"}', last=True))
    assert destination(first) in {A, B}
    assert passed(rest) == (b'{"prompt": "a"}', [True])


def test_a_request_without_a_body_is_answered_at_once() -> None:
    (only,) = Exchange(pool(), 1, PickerCounts()).hear(0, message("request_headers", last=True))
    assert destination(only) in {A, B}


def test_trailers_end_a_body() -> None:
    one = Exchange(pool(), 1, PickerCounts())
    one.hear(0, message("request_body", b"{}"))
    first, body, trailers = one.hear(0, message("request_trailers"))
    assert destination(first) in {A, B}
    assert passed([body]) == (b"{}", [False])
    assert trailers.HasField("request_trailers")


def test_only_the_endpoints_that_the_proxy_names_are_picked() -> None:
    for number in range(4):
        (only,) = Exchange(pool(), number, PickerCounts()).hear(0, message("request_headers", last=True, among=[B]))
        assert destination(only) == B


@pytest.mark.parametrize(("there", "among"), [([], None), ([A, B], []), ([A, B], ["10.0.0.3:8000"])])
def test_without_an_eligible_endpoint_the_answer_is_unavailable(there: list[str], among: list[str] | None) -> None:
    tracked = Tracked(16)
    tracked.endpoints(dict.fromkeys(there, EngineFacts()))
    (only,) = Exchange(tracked, 1, PickerCounts()).hear(0, message("request_headers", last=True, among=among))
    assert only.immediate_response.status.code == 503
    assert tracked.idle()


def test_a_body_above_the_bound_is_sent_by_load_and_passed_on_as_it_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "LARGEST", 10)
    one = Exchange(pool(), 1, PickerCounts())
    assert list(one.hear(0, message("request_body", b"123456789"))) == []
    first, *rest = one.hear(0, message("request_body", b"abc"))
    assert destination(first) in {A, B}
    assert passed(rest) == (b"123456789abc", [False])
    assert passed(list(one.hear(0, message("request_body", b"d", last=True)))) == (b"d", [True])


@given(st.binary(max_size=3 * PIECE), st.integers(1, PIECE * 2))
def test_a_body_is_passed_on_as_it_came(body: bytes, piece: int) -> None:
    one, heard = Exchange(pool(), 1, PickerCounts()), list[Any]()
    for start in range(0, len(body) or 1, piece):
        heard += one.hear(0, message("request_body", body[start : start + piece], last=start + piece >= len(body)))
    whole, ends = passed(heard[1:])
    assert whole == body
    assert ends == [*[False] * (len(ends) - 1), True] if body else ends == []


@pytest.mark.parametrize(
    "end",
    [
        [message("response_headers", last=True)],
        [message("response_headers"), message("response_body", b"a"), message("response_body", last=True)],
        [message("response_headers"), message("response_body", b"a"), message("response_trailers")],
        [],
    ],
)
def test_a_request_counts_until_its_answer_has_ended_or_its_caller_left(end: list[Any]) -> None:
    tracked = pool()
    one = Exchange(tracked, 1, PickerCounts())
    list(one.hear(0, message("request_headers", last=True)))
    assert not tracked.idle()
    for each in end:
        assert len(list(one.hear(1, each))) == 1
    if not end:
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
