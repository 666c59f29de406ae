"""Physical names are legal, short enough, and never equal for different things."""

import re

from hypothesis import given
from hypothesis import strategies as st

from components.naming import BUCKET_LIMIT, LABEL_LIMIT, bucket_name, cluster_name, distinct, label_value, physical

LABEL = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?")
parts = st.lists(st.text(min_size=1, max_size=80), min_size=1, max_size=4).filter(
    lambda found: any(c.isascii() and c.isalnum() for p in found for c in p)
)


def test_a_short_name_is_its_parts() -> None:
    assert physical("headway", "prod", "batch") == "headway-prod-batch"


def test_a_long_name_ends_in_a_digest_of_all_of_it() -> None:
    first, second = physical("a" * 80, "x"), physical("a" * 80, "y")
    assert first != second, "two long names with the same beginning became one"
    assert len(first) == LABEL_LIMIT


def test_replaced_characters_never_make_two_names_one() -> None:
    assert physical("a_b") != physical("a-b"), "an underscore became the hyphen of another name"
    assert physical("a.b") != physical("a_b")


@given(parts, st.integers(min_value=12, max_value=253))
def test_every_name_is_a_dns_label_within_its_limit(found: list[str], limit: int) -> None:
    name = physical(*found, limit=limit)
    assert len(name) <= limit
    assert LABEL.fullmatch(name), f"{name!r} is no DNS label"


@given(parts)
def test_a_name_depends_on_its_parts_only(found: list[str]) -> None:
    assert physical(*found) == physical(*found)


@given(st.lists(st.from_regex(LABEL, fullmatch=True), min_size=2, max_size=2), st.integers(min_value=12, max_value=80))
def test_labels_joined_for_different_owners_never_meet(found: list[str], limit: int) -> None:
    whole = "-".join(found)
    others = [(whole[:at], whole[at + 1 :]) for at in range(1, len(whole) - 1) if whole[at] == "-"]
    names = {distinct(*each, limit=limit) for each in others}
    assert len(names) == len(others), others
    assert all(len(name) <= limit for name in names)


@given(st.text(max_size=200))
def test_every_label_value_is_legal(text: str) -> None:
    try:
        value = label_value(text)
    except ValueError:
        assert not any(c.isascii() and c.isalnum() for c in text), f"{text!r} holds something that a value could be made of"
        return
    assert re.fullmatch(r"([A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?)?", value)
    assert len(value) <= LABEL_LIMIT


def test_a_legal_label_value_is_left_alone() -> None:
    assert label_value("Release_2.1-rc") == "Release_2.1-rc"


def test_a_bucket_name_holds_its_account() -> None:
    assert bucket_name("prod", "artifacts", "123456789012") == "headway-prod-artifacts-123456789012"
    assert len(bucket_name("e" * 40, "access-logs", "123456789012")) <= BUCKET_LIMIT
    assert cluster_name("prod") == "headway-prod"
