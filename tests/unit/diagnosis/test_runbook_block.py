"""The block at the top of a runbook: current, true of what the command prints, and typed as the page's alert knows its service."""

from pathlib import Path

import pytest
from rich.console import Console

from components.observability.alerts import ALERTS
from headway.cli.diagnosis_view import drawn
from headway.diagnosis.hypotheses import HYPOTHESES
from headway.diagnosis.reasoning import DiagnosisVerdict, diagnoses
from headway.diagnosis.runbook_block import FOLDER, SERVICE, WITHOUT_SERVICE, block, pages_of, renewed
from headway.diagnosis.runbook_block import write as written_anew
from tests.unit.diagnosis.played import played

PAGES = sorted(FOLDER.glob("*.md"))
BY_ALERT = {alert.runbook.removesuffix(".md"): alert for alert in ALERTS}
BLOCKS = [page.stem for page in PAGES if block(page.stem)]
REMEDY = "run: python -m headway.diagnosis.runbook_block"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_block_of_a_runbook_is_current(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert renewed(page.stem, text) == text, REMEDY


def test_every_runbook_that_a_hypothesis_names_is_there_and_has_its_sentence() -> None:
    for each in HYPOTHESES:
        if each.runbook:
            assert each.says in (FOLDER / f"{each.runbook}.md").read_text(encoding="utf-8"), REMEDY


@pytest.mark.parametrize("since", [{"limited": 0.4}, {"compute": 0.060}, {"unproven": 0.3}])
def test_what_the_command_prints_stands_on_the_page_that_it_names(since: dict[str, float]) -> None:
    (found,) = diagnoses(played(since))
    assert found.verdict is DiagnosisVerdict.CAUSE
    console = Console(width=400, no_color=True)
    with console.capture() as shown:
        console.print(drawn((found,), "prod", alone=True))
    (cause,) = [line.strip() for line in shown.get().splitlines() if line.startswith("Cause: ")]
    assert f"  {cause}\n" in block(found.runbook)


@pytest.mark.parametrize("page", [page for page in BLOCKS if page in BY_ALERT])
def test_the_command_names_a_service_where_the_alert_does(page: str) -> None:
    assert (SERVICE in block(page).split("\n")[2]) is BY_ALERT[page].of_one_service


def test_pages_without_a_service_are_pages_with_a_block() -> None:
    assert set(BLOCKS) >= WITHOUT_SERVICE


def test_a_cause_without_a_runbook_is_said_where_its_chain_leads() -> None:
    lowered = next(each for each in HYPOTHESES if each.name == "quota-lowered")
    assert pages_of(lowered) == {"replicas-missing"}


def test_a_page_is_the_same_when_it_is_written_again(tmp_path: Path) -> None:
    (tmp_path / "gpu-xid.md").write_text("# GpuXid\n\nText.\n", encoding="utf-8")
    written_anew(tmp_path)
    once = (tmp_path / "gpu-xid.md").read_text(encoding="utf-8")
    written_anew(tmp_path)
    assert once == (tmp_path / "gpu-xid.md").read_text(encoding="utf-8")
    assert once.startswith("# GpuXid\n\n```diagnosis\n") and once.endswith("\n```\n\nText.\n")
