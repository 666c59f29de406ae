"""`headway artifact push`: what is wrong is told before anything is read or sent; the division into parts."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from headway.artifact_upload.plan import MIB, part_bytes, planned
from headway.cli.main import app
from headway.environment.stacks import StackRunner
from headway.problem import Exit, UserError

PROJECT = Path(__file__).parents[3]


def refused(*arguments: str) -> UserError:
    error = CliRunner().invoke(app, ["artifact", "push", *arguments, "--project", str(PROJECT)]).exception
    assert isinstance(error, UserError)
    return error


@pytest.mark.parametrize(
    ("version", "environment", "said"),
    [
        ("vision/defects", "sandbox", "names no version"),
        ("vision/defects/latest", "sandbox", "names no version"),
        ("../defects/1", "sandbox", "names no version"),
        ("vision/defects/1/2", "sandbox", "names no version"),
        ("vision/defects/1", "dev", "Environment dev has no tenant vision"),
        ("vision/defects/1", "moon", "There is no environment moon"),
    ],
)
def test_what_names_no_version_of_a_tenant_is_wrong_use(tmp_path: Path, version: str, environment: str, said: str) -> None:
    error = refused(str(tmp_path), version, "-e", environment)
    assert said in str(error)
    assert error.exit == Exit.USAGE


def test_a_folder_that_no_contract_takes_is_refused_before_the_bucket_is_asked(tmp_path: Path) -> None:
    (tmp_path / "my model").write_bytes(b"1")
    assert "no files with these names" in str(refused(str(tmp_path), "vision/defects/1", "--bucket", "nowhere", "-e", "sandbox"))


def test_a_sandbox_that_was_never_brought_up_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWAY_SANDBOX_HOME", str(tmp_path / "home"))
    (tmp_path / "model").write_bytes(b"1")
    error = refused(str(tmp_path), "vision/defects/1", "-e", "sandbox")
    assert error.fact == "The sandbox has no bucket for artifacts."
    assert "make up" in error.remedy


def test_a_stack_that_the_engine_does_not_read_is_not_one_that_was_never_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(_: StackRunner, stack: str) -> None:
        raise UserError(f"Pulumi does not read stack {stack}: incorrect passphrase", "Nobody can say what it deploys.", "Put it right.")

    monkeypatch.setattr(StackRunner, "outputs", unreadable)
    (tmp_path / "model").write_bytes(b"1")
    assert "incorrect passphrase" in refused(str(tmp_path), "vision/defects/1", "-e", "sandbox").fact


def test_both_forms_of_the_command_describe_a_folder(tmp_path: Path) -> None:
    (tmp_path / "model").write_bytes(b"1")
    short, long = (CliRunner().invoke(app, ["artifact", *words, str(tmp_path)]).output for words in ((), ("describe",)))
    assert short == long and "{path: model" in short


def test_parts_follow_from_the_size_and_are_never_too_many() -> None:
    assert part_bytes(1) == part_bytes(10_000 * 16 * MIB) == 16 * MIB
    largest = 5 * 2**40
    assert -(-largest // part_bytes(largest)) <= 10_000
    assert part_bytes(largest) % MIB == 0


def test_a_file_that_changes_while_it_is_uploaded_is_not_completed(tmp_path: Path) -> None:
    file = tmp_path / "model"
    file.write_bytes(b"one")
    upload = planned(file, "model")
    assert upload.read(1) == b"one"
    file.write_bytes(b"two")
    with pytest.raises(UserError, match="has changed while it was uploaded"):
        upload.read(1)


def test_the_checksum_is_the_one_that_s3_reports(tmp_path: Path) -> None:
    (tmp_path / "model").write_bytes(b"model")
    # `printf model | openssl dgst -sha256 -binary | base64`
    assert planned(tmp_path / "model", "model").checksum == "k3LEcO6t1ezZw8dMKzy2M/ji8vrXmSUKD3DWUra4JeQ="
