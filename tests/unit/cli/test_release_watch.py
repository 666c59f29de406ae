"""Joining a release from another terminal: what is seen at once, and that its end is always said."""

import json
import re
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from headway.cli import release
from headway.cli.release_status import standing
from headway.contract.reading.loader import load_tenant
from headway.ledger.store import FolderStore
from headway.problem import Exit
from headway.release.driver.event_kinds import EventKind, OperatorRequest
from headway.release.driver.requests import ask
from tests.unit.release_world import BAD, CHAIN, Scene

PROJECT = Path(__file__).parents[3]
Command = Callable[..., Result]


class LeftError(Exception):
    """The runner is gone in the middle of a release."""


def scene_in(folder: Path) -> Scene:
    (found,) = load_tenant(PROJECT / "tenants" / "vision").contracts
    scene = Scene.of(FolderStore(folder), next(model for model in found.models if model.name == "defects"))
    scene.begin()
    return scene


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ledger of a release that was taken back."""
    folder = tmp_path_factory.mktemp("ended")
    scene = scene_in(folder)
    scene.world.shares = BAD
    scene.driver().run()
    return folder


@pytest.fixture
def under_way(tmp_path: Path) -> Scene:
    """A release in the folder `ledger` whose runner left it at its first weight, after some ticks."""
    scene = scene_in(tmp_path / "ledger")

    def leave_at_a_weight(_: str) -> None:
        rollout = scene.service().running
        if rollout and rollout.ticks > 3 and rollout.split.percentages.get(scene.release):
            raise LeftError

    scene.world.refuse = leave_at_a_weight
    with pytest.raises(LeftError):
        scene.driver("ci@elsewhere/7/9").run()
    return scene


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    monkeypatch.setenv("HEADWAY_SANDBOX_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("COLUMNS", "160")

    def run(*words: str, ledger: Path = tmp_path / "ledger") -> Result:
        monkeypatch.setenv("HEADWAY_SANDBOX_LEDGER", ledger.as_uri())
        return CliRunner().invoke(release.app, [*words, CHAIN, "--project", str(PROJECT)])

    return run


def test_who_joins_after_the_end_is_told_how_it_ended(ended: Path, command: Command) -> None:
    answer = command("watch", ledger=ended)
    assert answer.exit_code == Exit.ROLLED_BACK
    assert answer.output.splitlines()[-1] == "Rolled back. Requests are slower than the policy tolerates."


def test_a_program_that_joins_after_the_end_gets_every_event_and_the_end(ended: Path, command: Command) -> None:
    read = [json.loads(line) for line in command("watch", "-o", "json", ledger=ended).output.splitlines()]
    assert read[-1]["end"]["outcome"] == "rolled back"
    assert [one["event"] for one in read[:-1]][:2] == [EventKind.STARTED, EventKind.CHECKED]
    assert [one["event"] for one in read[:-1]][-1] == EventKind.ENDED


def test_who_joins_in_the_middle_sees_at_once_what_has_happened(
    under_way: Scene, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", interrupted)
    said = command("watch").output
    assert f"Release {under_way.release} begins" in said
    assert "CONTINUE on copies of " in said


def test_who_follows_to_the_end_is_told_it(under_way: Scene, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def meanwhile(_: float) -> None:
        under_way.world.refuse = lambda _: None
        ask(under_way.ledger(), OperatorRequest.ROLLBACK, "enough seen")
        under_way.driver("ci@elsewhere/7/9").run()

    monkeypatch.setattr("time.sleep", meanwhile)
    answer = command("watch")
    assert answer.exit_code == Exit.ROLLED_BACK
    assert answer.output.splitlines()[-1] == "Rolled back. Enough seen."


def test_nothing_of_an_earlier_release_is_told_of_this_one(under_way: Scene, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    under_way.world.refuse = lambda _: None
    under_way.world.shares = BAD
    under_way.driver("ci@elsewhere/7/9").run()
    under_way.begin()
    ask(under_way.ledger(), OperatorRequest.ROLLBACK, "the second one")
    under_way.driver("ci@elsewhere/7/9").run()
    said = command("watch").output
    assert said.count(" begins.") == 1
    assert said.splitlines()[-1] == "Refused. The second one."


def test_the_status_of_one_service_says_weight_step_age_and_runner(under_way: Scene, command: Command) -> None:
    answer = command("status")
    assert answer.exit_code == Exit.UNDER_WAY
    said = " ".join(answer.output.split())
    assert f"{under_way.release} against {under_way.stable}" in said
    assert "1 % of requests, step 2 of 7" in said
    assert "by ci" in said
    assert "ci@elsewhere" in said


def test_ages_are_counted_from_the_first_event_and_from_the_last_step(under_way: Scene) -> None:
    rollout = under_way.service().running
    assert rollout
    now = datetime.fromisoformat(rollout.changed) + timedelta(minutes=3)
    said = {row.name: row.text for row in standing(CHAIN, under_way.service(), None, now)}
    assert re.fullmatch(r".* began \d+ min ago, by ci.*", said["release"])
    assert said["step"].endswith(", for 3 min")


def test_a_release_that_a_person_holds_is_said_to_be_held(under_way: Scene, command: Command) -> None:
    ask(under_way.ledger(), OperatorRequest.FREEZE, "the launch is on Monday")
    said = command("status").output
    assert "held: the launch is on Monday" in said
    assert "active" not in said
    document = json.loads(command("status", "-o", "json").output)[CHAIN]
    assert document["release"]["status"] == "held"


def test_a_release_that_nobody_drives_names_what_takes_it_over(under_way: Scene, command: Command) -> None:
    ledger = under_way.ledger("ci@elsewhere/7/9")
    ledger.read()
    ledger.release("ci@elsewhere/7/9")
    assert f"nobody drives it; `headway release resume {CHAIN} -e sandbox` takes it over" in " ".join(command("status").output.split())
