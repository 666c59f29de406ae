"""Who interrupts a release is told what becomes of it: Ctrl-C ends the command, and no release."""

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from headway.cli import release_drive
from headway.cli.main import app
from headway.problem import Exit, UserError

LEASED: Any = SimpleNamespace(lease=lambda: SimpleNamespace(kept=lambda _: True))
HERE: Any = SimpleNamespace(
    chain="vision/defects",
    environment="prod",
    store=None,
    ledger=lambda: LEASED,
    world=lambda _: None,  # the parts that nobody asks here
)
VIEW: Any = SimpleNamespace(follows=lambda _: None, say=lambda _: None)
ROLLOUT: Any = SimpleNamespace(number=1, digest="")


def interrupted(*_: object, **__: object) -> Any:
    raise KeyboardInterrupt


@pytest.fixture(autouse=True)
def played(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.ledger.serving.released", lambda *_: None)
    monkeypatch.setattr("headway.release.driver.leased_run.LeasedRun", lambda *_, **__: None)
    monkeypatch.setattr(release_drive, "_kept", lambda _: nullcontext())


def test_who_drove_is_told_that_nobody_does_now_and_how_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.release.driver.driver.ReleaseDriver", lambda *_, **__: SimpleNamespace(run=interrupted))
    with pytest.raises(release_drive.ReleaseLeft, match="the release of vision/defects, and nobody drives it now") as left:
        release_drive.drive(HERE, VIEW, ROLLOUT)
    assert left.value.told.exit == Exit.INTERRUPTED
    assert "headway release resume vision/defects -e prod" in left.value.told.remedy
    assert "a guard, where one watches," in left.value.told.consequence


def test_who_only_followed_another_runner_is_told_that_it_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def busy() -> Any:
        raise UserError("Another runner drives it.", "", "", Exit.BUSY)

    monkeypatch.setattr("headway.release.driver.driver.ReleaseDriver", lambda *_, **__: SimpleNamespace(run=busy))
    monkeypatch.setattr(release_drive, "_followed", interrupted)
    for leave in (release_drive.drive, release_drive.follow):
        with pytest.raises(release_drive.ReleaseLeft) as left:
            leave(HERE, VIEW, ROLLOUT)
        assert left.value.told.consequence == "It goes on where it is driven."


@pytest.mark.parametrize(("holder", "said"), [(None, "nobody drives it now"), ("another", "You have left the release")])
def test_who_followed_a_runner_that_is_gone_is_told_whether_another_drives_it(
    monkeypatch: pytest.MonkeyPatch, holder: str | None, said: str
) -> None:
    looks = iter((lambda: None, interrupted))
    monkeypatch.setattr(release_drive, "_followed", lambda *_: next(looks)())
    here: Any = SimpleNamespace(**{**vars(HERE), "ledger": lambda: LEASED if holder else SimpleNamespace(lease=lambda: None)})
    with pytest.raises(release_drive.ReleaseLeft, match=said):
        release_drive.follow(here, VIEW, ROLLOUT)


def test_the_command_says_what_becomes_of_the_release_that_was_left(monkeypatch: pytest.MonkeyPatch) -> None:
    def left(*_: object) -> None:
        raise release_drive.ReleaseLeft(UserError("You have left it.", "It goes on.", "Watch it.", Exit.INTERRUPTED))

    monkeypatch.setattr("headway.release.service_place.place", left)
    told = CliRunner().invoke(app, ["release", "watch", "vision/defects", "-e", "sandbox"]).exception
    assert isinstance(told, UserError)
    assert (told.fact, told.exit) == ("You have left it.", Exit.INTERRUPTED)
