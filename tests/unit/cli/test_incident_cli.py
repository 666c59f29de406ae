"""`headway incident` on the played series of a diagnosis: what is kept, how, and whether it is whole."""

import json
import re
import stat
from collections.abc import Sequence
from dataclasses import replace
from math import nan
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from headway.cli.main import app
from headway.contract.reading.loader import load_tenant
from headway.diagnosis.incident import redacted
from headway.diagnosis.incident_page import html
from headway.diagnosis.reasoning import diagnoses
from headway.ledger.chain import Ledger
from headway.ledger.events import Event
from headway.ledger.store import FolderStore, UnreachableError
from headway.problem import Exit, UserError
from headway.release.driver.event_kinds import OperatorRequest
from headway.release.driver.requests import ask
from tests.unit.cli.test_diagnose_cli import SINCE, WHEN, Command, Played, command, world
from tests.unit.cli.test_status_cli import PROJECT
from tests.unit.diagnosis.played import played
from tests.unit.release_world import Scene

__all__ = ["command", "world"]


def capture(folder: Path, *more: str) -> Result:
    words = ["incident", "capture", "vision/defects", "-e", "sandbox", "--at", WHEN, "--since", SINCE, "--out", str(folder), *more]
    return CliRunner().invoke(app, [*words, "--project", str(PROJECT)])


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """A release under way, in the ledger that the command reads."""
    (found,) = load_tenant(PROJECT / "tenants/vision").contracts
    scene = Scene.of(FolderStore(tmp_path / "ledger"), next(model for model in found.models if model.name == "defects"))
    scene.begin()
    return scene


def frozen(scene: Scene) -> str | None:
    running = scene.service().running
    assert running is not None
    return running.frozen


def verify(folder: Path) -> Result:
    return CliRunner().invoke(app, ["incident", "verify", str(folder)])


def test_a_captured_folder_is_whole_and_for_its_owner_alone(world: type[Played], command: Command, tmp_path: Path) -> None:
    world.observed = played({"compute": 0.060})
    (tmp_path / "state/logs/pods/vision/defects-r0123456789-7d-a").mkdir(parents=True)
    (tmp_path / "state/logs/pods/vision/defects-r0123456789-7d-a/server.log").write_text("it starts\n")
    folder = tmp_path / "incident"
    answer = capture(folder)
    assert answer.exit_code == Exit.OK, answer.output
    assert {"series.json", "diagnosis.json", "index.html", "ledger.json", "logs.txt"} <= {each.name for each in folder.iterdir()}
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(each.stat().st_mode) for each in folder.iterdir()} == {0o600}
    assert json.loads((folder / "diagnosis.json").read_text())[0]["cause"] == "model-slower"
    assert verify(folder).exit_code == Exit.OK


def test_without_freeze_a_capture_writes_nothing_to_the_ledger(command: Command, scene: Scene, tmp_path: Path) -> None:
    before = len(scene.ledger().read())
    capture(tmp_path / "incident")
    assert len(scene.ledger().read()) == before


def test_a_capture_that_freezes_holds_the_release_and_says_how_that_ends(command: Command, scene: Scene, tmp_path: Path) -> None:
    answer = capture(tmp_path / "incident", "--freeze")
    assert frozen(scene) == "an incident is captured"
    said = f"release {scene.release} is frozen; `headway release resume vision/defects -e sandbox` lets it go on"
    assert answer.output.index(said) < answer.output.index("files of vision/defects")
    assert json.loads((tmp_path / "incident/manifest.json").read_text())["frozen"] == scene.release
    assert "an incident is captured" in (tmp_path / "incident/ledger.json").read_text(), "the freeze is a part of what is kept"


def test_a_release_that_is_held_already_is_not_held_twice(command: Command, scene: Scene, tmp_path: Path) -> None:
    ask(scene.ledger(), OperatorRequest.FREEZE, "lunch")
    before = len(scene.ledger().read())
    assert "is frozen already (lunch)" in capture(tmp_path / "incident", "--freeze").output
    assert len(scene.ledger().read()) == before


def test_without_a_release_under_way_there_is_nothing_to_freeze(command: Command, tmp_path: Path) -> None:
    answer = capture(tmp_path / "incident", "--freeze")
    assert "vision/defects: nothing to freeze: no release is under way" in answer.output
    assert (tmp_path / "incident/manifest.json").exists()


def test_a_release_on_its_way_back_is_not_held(command: Command, scene: Scene, tmp_path: Path) -> None:
    ask(scene.ledger(), OperatorRequest.ROLLBACK, "wrong answers")
    assert "nothing to freeze: its release goes back already" in capture(tmp_path / "incident", "--freeze").output
    assert frozen(scene) is None


@pytest.mark.parametrize(
    "refusal", [UserError("S3 refuses: AccessDenied.", "", ""), PermissionError(13, "Permission denied"), UnreachableError("timeout")]
)
def test_who_may_not_freeze_captures_nothing_and_is_told_who_may(
    command: Command, scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: Exception
) -> None:
    def create(store: FolderStore, key: str, body: bytes) -> None:
        raise refusal

    monkeypatch.setattr(FolderStore, "create", create)
    failure = capture(tmp_path / "incident", "--freeze").exception
    assert isinstance(failure, UserError) and failure.exit is Exit.REFUSED
    assert failure.fact.startswith("The release of vision/defects could not be frozen: ")
    assert "nothing was captured" in failure.consequence and "Capture without --freeze" in failure.remedy
    assert not (tmp_path / "incident").exists()


def test_a_folder_that_exists_freezes_nothing(command: Command, scene: Scene, tmp_path: Path) -> None:
    capture(tmp_path, "--freeze")
    assert frozen(scene) is None


def test_a_capture_reads_the_chain_of_releases_once(
    world: type[Played], command: Command, scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.objects["deployments"] = []  # so that no route is missed
    looks: list[str] = []
    look = Ledger.look

    def counted(ledger: Ledger) -> Sequence[Event]:
        looks.append(ledger.chain)
        return look(ledger)

    monkeypatch.setattr(Ledger, "look", counted)
    capture(tmp_path / "incident")
    assert looks == ["vision/defects"]


def test_a_changed_file_of_a_folder_is_found(command: Command, tmp_path: Path) -> None:
    folder = tmp_path / "incident"
    capture(folder)
    (folder / "series.json").write_text("{}")
    answer = verify(folder)
    assert (answer.exit_code, answer.output) == (Exit.REFUSED, "✗ series.json: it was changed\n")


def test_no_file_of_a_folder_orders_the_terminal_of_who_checks_it(command: Command, tmp_path: Path) -> None:
    folder = tmp_path / "incident"
    capture(folder)
    (folder / "\x1b]52;c;eA==\x07").write_text("")
    assert verify(folder).output == "✗ \\x1b]52;c;eA==\\x07: the manifest does not name it\n"


def test_without_prometheus_the_other_parts_are_kept(world: type[Played], command: Command, tmp_path: Path) -> None:
    world.observed = None
    folder = tmp_path / "incident"
    assert capture(folder).exit_code == Exit.ENVIRONMENT
    assert "metrics" in {each["what"] for each in json.loads((folder / "manifest.json").read_text())["missing"]}
    assert verify(folder).exit_code == Exit.OK


def test_a_folder_that_exists_is_not_written_to(command: Command, tmp_path: Path) -> None:
    refusal = capture(tmp_path).exception
    assert isinstance(refusal, UserError) and refusal.exit is Exit.USAGE


def test_a_folder_in_no_folder_is_refused_before_anything_is_read(world: type[Played], command: Command, tmp_path: Path) -> None:
    refusal = capture(tmp_path / "none" / "incident").exception
    assert isinstance(refusal, UserError) and refusal.exit is Exit.USAGE
    assert world.questions == []


def test_what_is_no_number_is_kept_as_null(world: type[Played], command: Command, tmp_path: Path) -> None:
    calm = played()
    broken = {"": [(moment, nan) for moment, _ in calm.of("errors")]}
    world.observed = replace(calm, series={**calm.series, "errors": broken})
    capture(tmp_path / "incident")
    kept = {each["measure"]: each["samples"] for each in json.loads((tmp_path / "incident/series.json").read_text())["series"]}
    assert {value for _, value in kept["errors"]} == {None}


def test_a_page_begins_with_what_hurts_and_its_cause() -> None:
    slow = played({"compute": 0.060})
    page = html(slow, diagnoses(slow), "prod", [])
    assert "<h2>Answers take longer</h2><p>Cause: the version that serves takes longer for the same work" in page


def test_a_page_draws_the_replica_that_is_to_blame_among_its_siblings() -> None:
    apart = {"compute_by_pod": {"a": (0.018, 0.018), "b": (0.018, 0.018), "c": (0.018, 0.042)}}
    slow = played({"compute": 0.026}, apart=apart)
    page = html(slow, diagnoses(slow), "prod", [])
    (drawn,) = re.findall(r"<h3>Mean time of the model itself of c and 2 others</h3>.*?</svg>", page)
    assert re.findall(r'<polyline class="(\w+)"', drawn) == ["copies", "copies", "against"]


def test_a_page_draws_first_what_is_another_since_it_began() -> None:
    refused = played({"limited": 0.4})
    titles = re.findall(r"<h3>([^<]+)</h3><svg", html(refused, diagnoses(refused), "prod", []))
    assert titles[0] == "Requests refused as too many (429)"


def test_a_page_marks_the_part_of_an_answer_that_grew_most() -> None:
    slow = played({"compute": 0.060})
    assert set(re.findall(r'<i class="most"[^>]* title="([^"]+)"', html(slow, diagnoses(slow), "prod", []))) == {"compute"}


def test_a_page_escapes_what_others_wrote() -> None:
    page = html(played(), (), "<b>prod", ["<script>alert(1)</script> Bearer abcdefgh12345678"])
    assert "<script" not in page and "<b>prod" not in page and "abcdefgh12345678" not in page


@pytest.mark.parametrize("value", [{"password": "x1"}, {"a": ["https://u:x1@h"]}])
def test_a_kept_record_holds_no_secret(value: object) -> None:
    assert "x1" not in json.dumps(redacted(value))
