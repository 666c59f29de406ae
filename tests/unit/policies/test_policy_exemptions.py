"""Exemptions: who may not be held to a rule, and until when."""

from datetime import date, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headway.cli.main import app
from headway.cli.policies import standing
from policies.guardrails import exemptions
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
        {**GOOD, "expires": datetime(2027, 1, 31, 10)},
        {key: GOOD[key] for key in ("rule", "resource", "reason")},
    ]
    with pytest.raises(ValueError, match="no rule 'no-such-rule'") as refused:
        parse(bad, RULES)
    text = str(refused.value)
    assert "[1]: owner missing" in text
    assert "[2].expires: 'soon' is not a date" in text
    assert "[2]: unknown note" in text
    assert "[3]: must be a map" in text
    assert "[4].expires: datetime.datetime(2027, 1, 31, 10, 0) is not a date" in text
    assert "[5]: owner, expires missing; " in text


def test_an_empty_file_exempts_nothing() -> None:
    assert parse(None, RULES) == ()


def test_anything_but_a_list_is_refused() -> None:
    with pytest.raises(ValueError, match="must be a list"):
        parse({"rule": "x"}, RULES)


@pytest.mark.parametrize(
    ("today", "said"),
    [
        (date(2026, 11, 1), "until 2027-01-31"),
        (date(2027, 1, 21), "until 2027-01-31, 10 days left"),
        (date(2027, 1, 31), "until 2027-01-31, 0 days left"),
        (date(2027, 2, 1), "EXPIRED on 2027-01-31: every run fails"),
    ],
)
def test_an_exemption_says_how_long_it_still_holds(today: date, said: str) -> None:
    (exemption,) = parse([GOOD], RULES)
    assert standing(exemption, today) == said


@pytest.mark.parametrize(("expires", "status"), [("2999-01-31", 0), ("2020-01-31", 1)])
def test_the_list_of_rules_shows_exemptions_and_fails_on_an_expired_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expires: str, status: int
) -> None:
    entry = f'- {{rule: image-by-digest, resource: "*::canary-*", owner: ml-platform, reason: mirror is late, expires: {expires}}}'
    (tmp_path / "exemptions.yaml").write_text(entry + "\n")
    monkeypatch.setattr(exemptions, "EXEMPTIONS_FILE", tmp_path / "exemptions.yaml")
    done = CliRunner().invoke(app, ["policies"])
    assert done.exit_code == status
    assert "*::canary-*" in done.output
    assert ("EXPIRED on 2020-01-31" in done.output) is (status == 1)
    assert "ml-platform: mirror is late" in done.output
