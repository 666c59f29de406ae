"""Exemptions: who may not be held to a rule, and until when."""

from datetime import date

import pytest

from policies.guardrails.exemptions import parse

RULES = ["image-by-digest"]
GOOD = {
    "rule": "image-by-digest",
    "resource": "*::canary-*",
    "owner": "ml-platform",
    "reason": "mirror is late",
    "expires": date(2027, 1, 31),
}


def test_an_exemption_holds_up_to_and_including_its_last_day() -> None:
    (exemption,) = parse([GOOD], RULES)
    assert exemption.covers("image-by-digest", "urn:x::canary-1", date(2027, 1, 31))
    assert not exemption.covers("image-by-digest", "urn:x::canary-1", date(2027, 2, 1))


def test_an_exemption_covers_its_rule_and_resources_only() -> None:
    (exemption,) = parse([GOOD], RULES)
    assert not exemption.covers("image-by-digest", "urn:x::stable-1", date(2027, 1, 1))
    assert not exemption.covers("no-host-access", "urn:x::canary-1", date(2027, 1, 1))


def test_every_malformed_entry_is_named_at_once() -> None:
    bad = [
        {**GOOD, "rule": "no-such-rule"},
        {k: v for k, v in GOOD.items() if k != "owner"},
        {**GOOD, "expires": "soon", "note": "x"},
        "text",
    ]
    with pytest.raises(ValueError, match="no rule 'no-such-rule'") as refused:
        parse(bad, RULES)
    text = str(refused.value)
    assert "[1]: owner missing" in text
    assert "[2].expires: 'soon' is not a date" in text
    assert "[2]: unknown note" in text
    assert "[3]: must be a map" in text


def test_an_empty_file_exempts_nothing() -> None:
    assert parse(None, RULES) == ()


def test_anything_but_a_list_is_refused() -> None:
    with pytest.raises(ValueError, match="must be a list"):
        parse({"rule": "x"}, RULES)
