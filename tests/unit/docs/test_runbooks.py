"""What runbooks let people type at night: reasons that say which alert it was, and words that the alert has."""

import re
import shlex
from functools import cache
from pathlib import Path

import pytest

from tests import day_two_page
from tests.unit.docs.test_commands import commands, text

ROOT = Path(__file__).parents[3]
PAGES = sorted(f"docs/runbooks/{path.name}" for path in (ROOT / "docs/runbooks").glob("*.md") if path.name != "README.md")
ROOMS = ("components", "headway", "policies", "sandbox")
OF_PROMETHEUS = "scrape_samples_"
"""Series that Prometheus writes of each scrape itself."""
KNOWN = {"ENV", "TENANT", "MODEL", "NODE", "POD", "NAME", "USER", "WHY", "HASH", "N"}
"""Words in capitals that stand for something: labels of the alert, names that a step before shows, and what only a person knows."""


def typed(page: str) -> list[str]:
    return [line for line in commands(page) if line.startswith(("headway ", "kubectl ", "pulumi "))]


@pytest.mark.parametrize("page", [page for page in PAGES if any("--reason" in line for line in typed(page))])
def test_a_reason_is_the_alerts_name_or_what_a_person_knows(page: str) -> None:
    heading = text(page).partition("\n")[0].removeprefix("# ")
    words = [shlex.split(line) for line in typed(page) if "--reason" in line]
    assert {each[each.index("--reason") + 1] for each in words} <= {heading, "WHY", "slow"}


@pytest.mark.parametrize("page", [page for page in PAGES if typed(page)])
def test_words_that_stand_for_something_are_the_same_on_every_page(page: str) -> None:
    found = {word for line in typed(page) for word in re.findall(r"(?<![\w.-])[A-Z][A-Z]+(?![\w.])", line)}
    assert found <= KNOWN
    assert [line for line in typed(page) if re.search(r"<(tenant|model|pod|node|env|name)>", line)] == []


@pytest.mark.parametrize("page", [page for page in PAGES if "kubectl" in text(page)])
def test_what_containers_of_models_say_is_read_by_headway(page: str) -> None:
    """Production keeps it where an ended pod's lines are too."""
    assert [line for line in commands(page) if re.match(r"kubectl -n TENANT logs", line)] == []


@pytest.mark.parametrize("page", [page for page in PAGES if re.search("by\\s+hand|renders it", text(page)) and "pulumi up" in text(page)])
def test_what_was_changed_by_hand_is_restored_by_day_twos_command(page: str) -> None:
    """The state says that nothing changed, and whoever set a field owns it: `up` alone does nothing."""
    (repair,) = [line for line in day_two_page.sections()["Drift, every night"] if "FORCE" in line]
    found = [line for line in commands(page) if "pulumi up" in line]
    assert found == [repair.replace("dev-hello", "ENV-TENANT")]


@cache
def written() -> frozenset[str]:
    """Every word of the program."""
    return frozenset(word for room in ROOMS for path in (ROOT / room).rglob("*.py") for word in re.findall(r"\w+", path.read_text("utf-8")))


@pytest.mark.parametrize("page", PAGES)
def test_fields_and_series_that_a_runbook_names_are_there(page: str) -> None:
    named = {word for span in re.findall(r"`([^`\n]+)`", text(page)) for word in re.findall(r"[a-z]+(?:_[a-z0-9]+)+", span)}
    assert {word for word in named - written() if not word.startswith(OF_PROMETHEUS)} == set()
