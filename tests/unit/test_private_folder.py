"""Folders of state: their owner alone may enter."""

import os
import stat
from pathlib import Path

import pytest
from rich.console import Console

from headway.cli.main import main
from headway.private_folder import private_folder
from headway.problem import UserError
from sandbox.cli.show import say_whose
from sandbox.cluster.toolchain import trusted
from sandbox.layout import Layout
from sandbox.session import held, prepare


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture(autouse=True)
def anybodys_umask() -> object:
    before = os.umask(0)
    yield
    os.umask(before)


def test_a_new_folder_is_closed_to_others(tmp_path: Path) -> None:
    assert mode(private_folder(tmp_path / "a/b")) == 0o700


@pytest.mark.parametrize("open_to", [0o750, 0o705, 0o710, 0o701, 0o777], ids=oct)
def test_a_folder_that_others_may_enter_is_closed(tmp_path: Path, open_to: int) -> None:
    (tmp_path / "state").mkdir(mode=open_to)
    assert mode(private_folder(tmp_path / "state")) == 0o700


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: tmp_path.stat().st_uid + 4711)
    with pytest.raises(UserError, match="belongs to user") as refused:
        private_folder(tmp_path, "THE_VARIABLE")
    assert "THE_VARIABLE" in str(refused.value)


def test_a_place_where_no_folder_can_be_is_told_with_its_variable(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for place in ("file", "file/state"):
        with pytest.raises(UserError, match=f"No folder {tmp_path}/{place} can be made") as refused:
            private_folder(tmp_path / place, "THE_VARIABLE")
        assert "THE_VARIABLE" in refused.value.remedy


def test_each_command_of_the_sandbox_closes_its_state(tmp_path: Path) -> None:
    layout = Layout(project=tmp_path, state=tmp_path / "state", cache=tmp_path / "cache")
    layout.state.mkdir(mode=0o755)
    with held(layout, "up"):
        assert mode(layout.state) == 0o700


def test_a_shell_is_pointed_at_a_closed_folder(tmp_path: Path) -> None:
    layout = Layout(project=tmp_path, state=tmp_path / "state", cache=tmp_path / "cache")
    prepare(layout)
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


def test_the_programs_that_the_sandbox_runs_are_written_by_nobody_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "toolchain").mkdir(mode=0o777)
    (tools := tmp_path / "toolchain" / "control-plane").mkdir(mode=0o777)
    trusted(tools)
    assert (mode(tools), mode(tools.parent)) == (0o755, 0o755)
    monkeypatch.setattr("os.geteuid", lambda: 4711)
    if tools.stat().st_uid:
        with pytest.raises(UserError, match="belongs to user"):
            trusted(tools)

    class Foreign(type(tmp_path)):
        def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
            return os.stat_result((0, 0, 0, 0, 1234, 0, 0, 0, 0, 0))

    with pytest.raises(UserError, match="belongs to user 1234"):
        trusted(Foreign(tools))


def test_every_command_tells_root_whose_files_it_would_make(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("headway.private_folder.told_to_root", lambda _: "you are root")
    monkeypatch.setattr("sys.argv", ["headway", "schema", "model"])
    with pytest.raises(SystemExit):
        main()
    assert "warning: you are root" in capsys.readouterr().err
