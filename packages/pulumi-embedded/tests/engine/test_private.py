"""Folders of state and passphrases: their owner alone may enter, whoever made them."""

from pathlib import Path

import pytest

from pulumi_embedded import standalone
from pulumi_embedded.engine.backend import FileBackend
from pulumi_embedded.engine.errors import EngineError


def test_a_backend_that_others_may_enter_is_closed(tmp_path: Path) -> None:
    (tmp_path / ".pulumi").mkdir(mode=0o755)
    FileBackend(tmp_path).mark()
    assert (tmp_path / ".pulumi").stat().st_mode & 0o777 == 0o700


def test_a_backend_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: tmp_path.stat().st_uid + 4711)
    with pytest.raises(EngineError, match="belongs to user"):
        FileBackend(tmp_path).mark()


def test_the_folder_of_the_passphrase_is_closed_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (standalone.BACKEND_VARIABLE, standalone.VALUE_VARIABLE, standalone.FILE_VARIABLE):
        monkeypatch.setenv(name, "")
    (tmp_path / "own").mkdir(mode=0o755)
    standalone.prepare(tmp_path / "own")
    assert (tmp_path / "own").stat().st_mode & 0o777 == 0o700
    monkeypatch.setattr("os.geteuid", lambda: tmp_path.stat().st_uid + 4711)
    with pytest.raises(EngineError, match="belongs to user"):
        standalone.prepare(tmp_path / "own")
