"""JSON that an attacker wrote: read, or refused by one error."""

import json
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.bounded_json import DEEPEST, MOST_VALUES, bounded_json

ODD = [
    "1e999",
    "[-1e999]",
    "NaN",
    "9" * 100_000,
    '"\\ud800"',
    '{"\\uDFFF":1}',
    "[" * 100_000,
    '{"a":' * (DEEPEST + 1) + "1" + "}" * (DEEPEST + 1),
    "[" * (DEEPEST + 1) + "]" * (DEEPEST + 1),
    "",
    '"' + "x" * 2_000_000 + '"',
    b"\xff",
    b'"\xed\xa0\x80"',
    '"x"'.encode("utf-16"),
]


@pytest.mark.parametrize("said", ODD, ids=lambda said: repr(said)[:20])
def test_what_is_too_large_too_deep_or_no_text_is_refused(said: str | bytes) -> None:
    with pytest.raises(ValueError):
        bounded_json(said)


def test_more_small_values_than_memory_holds_are_refused_of_any_size() -> None:
    with pytest.raises(ValueError, match="more than 3000000 values"):
        bounded_json("[" + "1," * MOST_VALUES + "[]]", largest=1 << 26)


def test_what_others_may_say_is_read_as_it_stands() -> None:
    assert bounded_json('{"a": [1, 2.5, "\\ud83d\\ude00", null]}') == {"a": [1, 2.5, "\U0001f600", None]}
    assert bounded_json("[" * DEEPEST + "]" * DEEPEST)


@given(st.binary() | st.text() | st.text(alphabet='[]{}:,"\\\\ud8e9-.0'))
def test_nothing_but_a_value_error_comes_of_any_text(said: str | bytes) -> None:
    with suppress(ValueError):
        json.dumps(bounded_json(said), allow_nan=False, ensure_ascii=False).encode()
