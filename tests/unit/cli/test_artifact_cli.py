"""`headway artifact` prints what a contract takes as it stands, or says which file is in the way."""

import os
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from headway.cli.artifact import described
from headway.cli.main import app
from headway.problem import Exit, UserError
from tests.contract_samples import DEFECTS, changed, findings


def test_the_files_of_a_folder_are_printed_as_a_contract_takes_them(tmp_path: Path) -> None:
    for name, content in (("defects/1/model.onnx", b"model"), ("golden/scratch.json", b"{}"), ("golden/clean.json", b"{}")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    done = CliRunner().invoke(app, ["artifact", str(tmp_path)])
    assert done.exit_code == 0
    files = yaml.safe_load(done.output)["files"]
    assert [file["path"] for file in files] == ["defects/1/model.onnx", "golden/clean.json", "golden/scratch.json"]
    # `printf model | sha256sum`
    assert files[0]["sha256"] == "9372c470eeadd5ecd9c3c74c2b3cb633f8e2f2fad799250a0f70d652b6b825e4"
    assert files[0]["size"] == "5B"
    assert findings(changed(DEFECTS, {"artifact/files": files})) == {}


def test_md5_is_added_where_triton_may_compare_it(tmp_path: Path) -> None:
    (tmp_path / "m" / "1").mkdir(parents=True)
    (tmp_path / "m" / "1" / "model.onnx").write_bytes(b"model")
    (tmp_path / "note.txt").write_bytes(b"")
    files = {file["path"]: file for file in yaml.safe_load("\n".join(described(tmp_path, md5=True)))["files"]}
    # `printf model | md5sum`
    assert files["m/1/model.onnx"]["md5"] == "20f35e630daf44dbfa4c3f68f5399d8c"
    assert "md5" not in files["note.txt"]


@pytest.mark.parametrize(("name", "said"), [("my model.onnx", "no files with these names: my model.onnx"), (None, "holds no file")])
def test_what_no_contract_takes_is_refused(tmp_path: Path, name: str | None, said: str) -> None:
    if name:
        (tmp_path / name).write_bytes(b"x")
    with pytest.raises(UserError) as refused:
        described(tmp_path, md5=False)
    assert said in refused.value.fact


def test_a_refusal_of_many_names_stays_short(tmp_path: Path) -> None:
    for number in range(400):
        (tmp_path / f".{number}").touch()
    with pytest.raises(UserError, match="and 395 more") as refused:
        described(tmp_path, md5=False)
    assert len(refused.value.fact) < 120


def test_what_a_link_leads_to_is_a_file_of_the_artifact(tmp_path: Path) -> None:
    (tmp_path / "blob").write_bytes(b"model")
    (folder := tmp_path / "labels").mkdir()
    (folder / "model.onnx").symlink_to(tmp_path / "blob")
    assert "path: model.onnx" in described(folder, md5=False)[1]


@pytest.mark.parametrize("target", ["nowhere", "other"])
def test_what_an_artifact_would_leave_out_is_refused(tmp_path: Path, target: str) -> None:
    (tmp_path / "other").mkdir()
    (folder := tmp_path / "labels").mkdir()
    (folder / "model.onnx").touch()
    (folder / "link").symlink_to(tmp_path / target)
    with pytest.raises(UserError, match="labels/link is neither file nor folder") as refused:
        described(folder, md5=False)
    assert refused.value.exit == Exit.REFUSED


def test_a_folder_within_that_cannot_be_read_is_no_empty_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "labels").mkdir()
    (tmp_path / "note").touch()
    real = os.scandir

    def scanned(path: Path) -> object:
        if Path(path) == tmp_path / "labels":
            raise PermissionError(13, "Permission denied", str(path))
        return real(path)

    monkeypatch.setattr("os.scandir", scanned)
    with pytest.raises(UserError, match="labels cannot be read: Permission denied"):
        described(tmp_path, md5=False)


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError) as refused:
        described(tmp_path / "gone", md5=False)
    assert "There is no folder" in refused.value.fact
