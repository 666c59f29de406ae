"""Folders of state: their owner alone may enter."""

import os
import stat
from pathlib import Path

import pytest
from rich.console import Console

from headway.private_folder import private_folder
from headway.problem import UserError
from sandbox.cli.show import say_whose
from sandbox.layout import Layout
from sandbox.session import held


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(autouse=True)
def anybodys_umask() -> object:
    before = os.umask(0)
    yield
    os.umask(before)


def test_a_new_folder_is_closed_to_others(tmp_path: Path) -> None:
    assert mode(private_folder(tmp_path / "a/b")) == 0o700


def test_a_folder_that_others_may_enter_is_closed(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o755)
    assert mode(private_folder(tmp_path / "state")) == 0o700


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: tmp_path.stat().st_uid + 4711)
    with pytest.raises(UserError, match="belongs to user") as refused:
        private_folder(tmp_path, "THE_VARIABLE")
    assert "THE_VARIABLE" in str(refused.value)


def test_each_command_of_the_sandbox_closes_its_state(tmp_path: Path) -> None:
    layout = Layout(project=tmp_path, state=tmp_path / "state", cache=tmp_path / "cache")
    layout.state.mkdir(mode=0o755)
    with held(layout, "up"):
        assert mode(layout.state) == 0o700


@pytest.mark.parametrize(("user", "owner", "says"), [(0, 1000, "you are root"), (0, 0, ""), (1000, 1000, ""), (1000, 0, "")])
def test_root_in_a_checkout_of_another_user_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, user: int, owner: int, says: str
) -> None:
    class Checkout(type(tmp_path)):
        def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
            return os.stat_result((0, 0, 0, 0, owner, 0, 0, 0, 0, 0))

    monkeypatch.setattr("os.geteuid", lambda: user)
    console = Console(record=True, width=200)
    say_whose(console, Checkout(tmp_path))
    said = console.export_text()
    assert (says in said) if says else said == ""
