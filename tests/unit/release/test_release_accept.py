"""`headway release accept` and what `verify` says of the witness: in the sandbox, whose witness is a folder of its state."""

import json
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner, Result

from headway.cli import release
from headway.environment.selection import environment
from headway.ledger.chain import Ledger
from headway.ledger.events import ACCEPTED
from headway.ledger.store import FolderStore
from headway.ledger.witness import LedgerWitness, SilentWitnessError
from headway.problem import Exit, UserError
from tests.unit.release_world import CHAIN

PROJECT = Path(__file__).parents[3]


def command(*words: str) -> Result:
    return CliRunner().invoke(release.app, [*words, CHAIN, "--project", str(PROJECT)])


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HEADWAY_SANDBOX_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("HEADWAY_ENVIRONMENT", "sandbox")
    monkeypatch.delenv("HEADWAY_SANDBOX_LEDGER", raising=False)
    monkeypatch.delenv("HEADWAY_LEDGER", raising=False)
    return tmp_path / "state" / "ledger"


def witness() -> LedgerWitness:
    found = environment("sandbox", PROJECT).ledger_witness
    assert found is not None
    return found


def ledger(folder: Path) -> Ledger:
    return Ledger(FolderStore(folder), CHAIN, "sandbox", "ci", lambda: datetime(2026, 11, 25, tzinfo=UTC), witness())


def restored(folder: Path) -> None:
    """Three events of which the newest is gone."""
    made = ledger(folder)
    for count in range(3):
        made.append("asked", {"count": count})
    made.attest()
    (folder / CHAIN / "events" / "00000003.json").unlink()


def refusal(result: Result) -> UserError:
    assert isinstance(result.exception, UserError), result.output
    return result.exception


def test_what_a_restore_brought_back_is_read_once_somebody_has_accepted_it(folder: Path) -> None:
    restored(folder)
    assert "is not the one that was witnessed" in refusal(command("history")).fact
    said = command("accept", "--reason", "restored from the copy").stdout
    assert said == f"{CHAIN}: accepted with 3 events, although its witness names event 3, and it ends with event 2.\n"
    assert [event.kind for event in ledger(folder).read()][-1] == ACCEPTED
    assert command("history").exit_code == 0


def test_without_a_reason_nothing_is_accepted(folder: Path) -> None:
    restored(folder)
    assert refusal(command("accept", "--reason", " ")).exit is Exit.USAGE
    assert not (folder / CHAIN / "events" / "00000003.json").exists()


def test_where_nothing_is_contradicted_nothing_is_written(folder: Path) -> None:
    ledger(folder).append("asked", {})
    said = command("accept", "--reason", "why not").stdout
    assert said == f"{CHAIN}: no witness says anything against its ledger; nothing was done.\n"
    assert len(ledger(folder).read()) == 1


def test_whoever_resumes_is_told_that_the_witness_is_silent(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(*_: object) -> str:
        raise SilentWitnessError("AccessDeniedException")

    ledger(folder).append("asked", {})
    under_way = SimpleNamespace(frozen="", outcome=None)

    def running(_: object, read: Ledger) -> SimpleNamespace:
        assert read.read()
        return under_way

    monkeypatch.setattr("headway.ledger.witness_place.FolderWitness.said", silent)
    monkeypatch.setattr(release, "running", running)
    monkeypatch.setattr(release, "drive", lambda *_: under_way)
    said = command("resume").stdout
    assert f"{CHAIN}: the witness of its ledger does not answer (AccessDeniedException)." in said


def test_a_witness_that_does_not_answer_is_no_acceptance(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    restored(folder)

    def silent(*_: object) -> str:
        raise SilentWitnessError("AccessDeniedException")

    monkeypatch.setattr("headway.ledger.witness_place.FolderWitness.said", silent)
    assert "does not answer (AccessDeniedException)" in refusal(command("accept", "--reason", "restored")).fact


def test_verify_says_how_much_of_a_sound_chain_is_witnessed(folder: Path) -> None:
    made = ledger(folder)
    made.append("asked", {})
    assert "! another whole chain would pass for it: nobody has witnessed it yet" in command("verify").output
    made.attest()
    assert "✓ its witness agrees up to event 1" in command("verify").output
    assert json.loads(command("verify", "--output", "json").output)["witnessed"] == 1


def test_verify_says_that_the_witness_does_not_answer(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger(folder).append("asked", {})

    def silent(*_: object) -> str:
        raise SilentWitnessError("AccessDeniedException")

    monkeypatch.setattr("headway.ledger.witness_place.FolderWitness.said", silent)
    assert "! another whole chain would pass for it: the witness does not answer (AccessDeniedException)" in command("verify").output


def test_verify_refuses_a_chain_that_its_witness_contradicts(folder: Path) -> None:
    restored(folder)
    found = command("verify")
    assert found.exit_code == Exit.REFUSED
    assert "✗ its witness names event 3, and it ends with event 2" in found.output


def test_another_ledger_of_the_sandbox_has_another_witness(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    restored(folder)
    monkeypatch.setenv("HEADWAY_SANDBOX_LEDGER", (tmp_path / "other").as_uri())
    assert witness().said(CHAIN) is None


@pytest.mark.parametrize("beside", ["evaluation", "drift"])
def test_chains_beside_the_releases_are_verified_and_accepted_by_name(folder: Path, beside: str) -> None:
    chain = f"{CHAIN}/{beside}"
    made = Ledger(FolderStore(folder), chain, "sandbox", "ci", lambda: datetime(2026, 11, 25, tzinfo=UTC), witness())
    for count in range(2):
        made.append("note", {"count": count})
    made.attest()
    (folder / chain / "events" / "00000002.json").unlink()
    assert "its witness names event 2, and it ends with event 1" in command("verify").output
    found = CliRunner().invoke(release.app, ["accept", chain, "--reason", "restored", "--project", str(PROJECT)])
    assert found.stdout == f"{chain}: accepted with 2 events, although its witness names event 2, and it ends with event 1.\n"
    assert command("verify").exit_code == 0


def test_a_chain_that_no_service_has_cannot_be_accepted(folder: Path) -> None:
    found = CliRunner().invoke(release.app, ["accept", f"{CHAIN}/../x", "--reason", "why", "--project", str(PROJECT)])
    assert refusal(found).exit is Exit.USAGE


def test_a_reader_that_cannot_compare_says_so_and_goes_on(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger(folder).append("asked", {"wish": "freeze", "reason": "lunch"})

    def silent(*_: object) -> str:
        raise SilentWitnessError("ThrottlingException")

    monkeypatch.setattr("headway.ledger.witness_place.FolderWitness.said", silent)
    found = command("history")
    assert found.exit_code == 0
    assert found.stderr.startswith(f"! {CHAIN}: the witness of its ledger does not answer (ThrottlingException). Another whole chain")
    assert "Remedy: Let this identity read" in found.stderr
